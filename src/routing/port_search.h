#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "routing/hash_model.h"
#include "routing/packet_header.h"

/// Which source port sends a flow up which uplink. Equal-cost routing takes an uplink by a hash of
/// the header, so the one field that is ours to choose, the source port, chooses the uplink. What
/// each port leads to is told by a hash model, by the router itself, or by probes.
namespace monkeytree {

inline constexpr int kUnknownPath = -1, kPortInUse = -2;

/// Who knows which uplink a packet takes.
class PathSource {
 public:
  PathSource() = default;
  PathSource(const PathSource&) = delete;
  PathSource& operator=(const PathSource&) = delete;
  virtual ~PathSource() = default;

  /// The uplink (spine number) by which each packet leaves the rack of its source; kUnknownPath
  /// where that could not be told, kPortInUse where the reason is that the port is in use. Errors:
  /// none could be told, and why.
  virtual absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) = 0;
};

/// A hash model's answer. `uplinks` are those the router chooses among, in the order of its table.
class PredictedPaths : public PathSource {
 public:
  PredictedPaths(HashModel model, std::vector<int> uplinks)
      : model_(std::move(model)), uplinks_(std::move(uplinks)) {}
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override;

 private:
  HashModel model_;
  std::vector<int> uplinks_;
};

struct PortRange {
  uint16_t first = 0, last = 0;
  friend bool operator==(const PortRange&, const PortRange&) = default;
};

/// Below the ports that Linux gives to programs that ask for any.
inline constexpr PortRange kTcpPorts{20480, 32767};
/// What RoCE's flow labels can name (routing/roce_ports.h).
inline constexpr PortRange kRocePorts{49152, 65535};

struct PortSearch {
  PacketHeader flow;  ///< its source port is what is looked for
  PortRange range = kTcpPorts;
  std::set<uint16_t> taken;  ///< not to be used
  int tries = 200;           ///< ports to ask about, at most
};

struct PortsFound {
  std::map<int, uint16_t> ports;  ///< by uplink
  int tried = 0;                  ///< ports asked about
};

/// Looks for a port for each of the uplinks; what was not found within the tries is missing in the
/// answer. Deterministic; asks in small batches. Errors: of the source.
absl::StatusOr<PortsFound> find_ports(PathSource& source, const PortSearch& search,
                                      std::span<const int> uplinks);

/// Looks for one port by which a connection takes `uplink` on its way and `uplink_back` on its way
/// back, for connections that carry data both ways. `back` is asked only about ports that are good
/// for the way there; of n uplinks at each end about n² ports have to be tried.
absl::StatusOr<PortsFound> find_port_both_ways(PathSource& there, int uplink, PathSource& back,
                                               int uplink_back, const PortSearch& search);

}  // namespace monkeytree
