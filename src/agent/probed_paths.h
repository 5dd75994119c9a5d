#pragma once

#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "routing/port_search.h"
#include "state/fd.h"

namespace monkeytree {

/// The address of this machine that packets to `destination` carry; nullopt where there is no way.
std::optional<uint32_t> own_address_towards(uint32_t destination);

/// What probing finds out: a packet of the data's own protocol, with a time to live that ends at
/// the spine, makes that spine answer, and its answer names it. For TCP the packet is the SYN of a
/// connection that never comes to be, for UDP a datagram of one byte. Sockets of this machine send
/// them, so headers must have one of its addresses as source; no privilege is needed. Of a TCP port
/// that a connection uses only raw sockets can tell (CAP_NET_RAW): their packet is no part of it.
class ProbedPaths : public PathSource {
 public:
  struct Options {
    std::map<uint32_t, int> spines;  ///< the uplink by the address that answers
    int hops = 2;  ///< the spine's place on the path; the rack's router is the first
    std::chrono::milliseconds patience{500};  ///< for one answer
    int tries = 3;                            ///< probes of one port, since answers get lost
    int at_once = 32;                         ///< probes on their way
  };
  explicit ProbedPaths(Options options) : options_(std::move(options)) {}

  /// kUnknownPath: nobody answered, or the answer came from an address that is not in `spines` (see
  /// strangers()). kPortInUse: here, and raw sockets are not permitted. Unavailable: no probe could
  /// be sent, with the reason.
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override;

  /// Addresses that answered and are not in `spines`.
  const std::map<uint32_t, int>& strangers() const { return strangers_; }
  int sent() const { return sent_; }  ///< probes, those sent again included

 private:
  /// One packet on its way.
  struct Probe {
    size_t header = 0;
    Fd socket;
    bool raw = false;  ///< hears of all packets between the two hosts
    std::chrono::steady_clock::time_point until;
  };
  /// nullopt: the port is in use here.
  absl::StatusOr<std::optional<Probe>> send_probe(const PacketHeader& header);
  /// The same for a TCP port that is in use; nullopt: not permitted.
  std::optional<Probe> send_raw_probe(const PacketHeader& header);
  /// Waits for something to happen to the probes, and takes away those that are decided.
  void hear(std::span<const PacketHeader> headers, std::vector<Probe>& probes,
            std::vector<int>& uplinks, std::vector<size_t>& unanswered);

  Options options_;
  std::map<uint32_t, int> strangers_;
  int sent_ = 0;
};

}  // namespace monkeytree
