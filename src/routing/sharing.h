#pragma once

#include <cstdint>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Flows whose racks may use different colours, and who goes where. Bit c of a rack's words in
/// `usable` (as in Coloring) says that it may use colour c.
struct SharingProblem {
  struct Flow {
    RackId from, to;     ///< with at least one usable colour in common
    int preferred = -1;  ///< the colour it had before, or -1
  };
  size_t racks = 0;
  int colors = 0;
  std::vector<uint64_t> usable;
  std::vector<Flow> flows;
};

/// The number of pairs of flows that meet on an uplink or a downlink. O(flows + racks · colours).
int64_t meeting_pairs(const SharingProblem& problem, const std::vector<int>& colors);

/// Chooses colours so that few pairs of flows meet, starting from `colors` (-1: none yet); among
/// equals it prefers flows that keep their preferred colour. List colouring is NP-hard, so this is
/// a local search with a list of forbidden steps, of bounded length, and an exact search on every
/// part of the graph with up to 32 flows, of a bounded number of steps. True where the result is
/// proved to be the fewest pairs. Deterministic.
bool share_least(const SharingProblem& problem, std::vector<int>& colors);

}  // namespace monkeytree
