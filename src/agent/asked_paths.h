#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "routing/port_search.h"

namespace monkeytree {

/// The router's own answer, where the router of the rack runs Linux: `ip route get` with the ports,
/// one run of `ip -batch` for all headers between two addresses.
class AskedPaths : public PathSource {
 public:
  struct Options {
    /// Program and arguments that run what follows them on the router: {"ssh", "tor3"} or
    /// {"nsenter", "--net=…"}; empty: this machine is the router.
    std::vector<std::string> command;
    std::string interface;  ///< of the router, by which the packets come in; "": sent by itself
    /// By what stands in an answer: the outgoing interface, or the address of the spine.
    std::map<std::string, int> uplinks;
    std::chrono::milliseconds patience{10000};
  };
  explicit AskedPaths(Options options) : options_(std::move(options)) {}

  /// Unavailable: the router did not answer, or knows no way for any of the headers; the message
  /// says what it said.
  absl::StatusOr<std::vector<int>> uplinks(std::span<const PacketHeader> headers) override;

 private:
  absl::Status ask(std::span<const PacketHeader> headers, const std::vector<size_t>& which,
                   std::vector<int>& uplinks) const;

  Options options_;
};

/// The lines for `ip -json -batch -`.
std::string questions_for_router(std::span<const PacketHeader> headers,
                                 const std::vector<size_t>& which, std::string_view interface);

/// What the router answered: the uplink of each line, -1 where neither interface nor gateway is in
/// `uplinks`. InvalidArgument: not `count` answers.
absl::StatusOr<std::vector<int>> read_router_answers(std::string_view text, size_t count,
                                                     const std::map<std::string, int>& uplinks);

}  // namespace monkeytree
