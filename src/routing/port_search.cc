#include "routing/port_search.h"

#include <utility>

#include "base/random.h"

namespace monkeytree {
namespace {

/// The ports of a search in the order in which they are tried: shuffled, since every bit of the
/// port should vary, whichever the switch hashes, and by the flow, since flows of two nodes should
/// not all begin with one port.
class Candidates {
 public:
  explicit Candidates(const PortSearch& search) : search_(search), left_(search.tries) {
    for (int port = search.range.first; port <= search.range.last; ++port) {
      ports_.push_back(static_cast<uint16_t>(port));
    }
    const PacketHeader& flow = search.flow;
    random_ = RandomSequence(uint64_t{flow.source} << 32 ^ flow.destination ^
                             uint64_t{flow.destination_port} << 16);
  }

  /// Headers from up to `count` more ports; none when the search is at its end.
  std::vector<PacketHeader> take(int count) {
    std::vector<PacketHeader> headers;
    while (next_ < ports_.size() && left_ > 0 && static_cast<int>(headers.size()) < count) {
      std::swap(ports_[next_], ports_[next_ + random_.below(ports_.size() - next_)]);
      const uint16_t port = ports_[next_++];
      if (search_.taken.contains(port)) continue;
      --left_;
      headers.push_back(from_port(search_.flow, port));
    }
    return headers;
  }

 private:
  const PortSearch& search_;
  int left_ = 0;
  std::vector<uint16_t> ports_;
  size_t next_ = 0;  // those before it have been tried
  RandomSequence random_{0};
};

}  // namespace

absl::StatusOr<std::vector<int>> PredictedPaths::uplinks(std::span<const PacketHeader> headers) {
  if (uplinks_.empty()) return absl::FailedPreconditionError("the rack has no uplink that works");
  std::vector<int> taken;
  taken.reserve(headers.size());
  for (const PacketHeader& header : headers) {
    const int index = predicted_uplink(model_, header, static_cast<int>(uplinks_.size()));
    taken.push_back(uplinks_[static_cast<size_t>(index)]);
  }
  return taken;
}

absl::StatusOr<PortsFound> find_ports(PathSource& source, const PortSearch& search,
                                      std::span<const int> uplinks) {
  PortsFound found;
  std::set<int> missing(uplinks.begin(), uplinks.end());
  Candidates candidates(search);
  while (!missing.empty()) {
    const std::vector<PacketHeader> batch = candidates.take(static_cast<int>(4 + missing.size()));
    if (batch.empty()) break;
    const absl::StatusOr<std::vector<int>> taken = source.uplinks(batch);
    if (!taken.ok()) return taken.status();
    found.tried += static_cast<int>(batch.size());
    for (size_t i = 0; i < batch.size(); ++i) {
      if (missing.erase((*taken)[i]) > 0) found.ports[(*taken)[i]] = batch[i].source_port;
    }
  }
  return found;
}

absl::StatusOr<PortsFound> find_port_both_ways(PathSource& there, int uplink, PathSource& back,
                                               int uplink_back, const PortSearch& search) {
  constexpr int kBatch = 16;
  PortsFound found;
  Candidates candidates(search);
  while (true) {
    const std::vector<PacketHeader> batch = candidates.take(kBatch);
    if (batch.empty()) return found;
    const absl::StatusOr<std::vector<int>> taken = there.uplinks(batch);
    if (!taken.ok()) return taken.status();
    found.tried += static_cast<int>(batch.size());
    std::vector<PacketHeader> returning;
    for (size_t i = 0; i < batch.size(); ++i) {
      if ((*taken)[i] == uplink) returning.push_back(reversed(batch[i]));
    }
    if (returning.empty()) continue;
    const absl::StatusOr<std::vector<int>> taken_back = back.uplinks(returning);
    if (!taken_back.ok()) return taken_back.status();
    for (size_t i = 0; i < returning.size(); ++i) {
      if ((*taken_back)[i] != uplink_back) continue;
      found.ports[uplink] = returning[i].destination_port;
      return found;
    }
  }
}

}  // namespace monkeytree
