#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "routing/port_search.h"

namespace monkeytree {

/// Source ports that were found, by flow and uplink. A port holds as long as the routers choose
/// among the same uplinks: that of the source's rack, which hashes, and the destination's, whose
/// failed uplinks leave the choice of all racks that send to it.
class PortCache {
 public:
  /// The source port of `flow` means nothing.
  std::optional<uint16_t> find(const PacketHeader& flow, int uplink) const;
  void keep(const PacketHeader& flow, int uplink, uint16_t port, std::string_view from_rack,
            std::string_view to_rack);

  /// An uplink of the rack failed, or came back: forgets all ports of flows from or to the rack.
  /// Returns how many.
  size_t forget(std::string_view rack);

  /// Forgets the ports of all flows but these; their source ports mean nothing.
  void keep_only(const std::set<PacketHeader>& flows);

  /// The fabric changed in a way that is not known: asks again about every port and forgets those
  /// that lead elsewhere now, or nowhere that could be told. Ports in use of which nothing can be
  /// told stay. Returns how many; errors of the source leave all as it was.
  absl::StatusOr<size_t> verify(PathSource& source);

  size_t size() const { return ports_.size(); }

 private:
  struct Key {
    PacketHeader flow;
    int uplink = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Port {
    uint16_t port = 0;
    std::string from_rack, to_rack;
  };
  std::map<Key, Port> ports_;
};

}  // namespace monkeytree
