#pragma once

#include <cstdint>
#include <vector>

#include "workload/steps.h"

namespace monkeytree {

/// Two ranks between which a job ever sends.
struct RankPair {
  int from = 0, to = 0;
  bool ring = false;  ///< a hop of a gradient ring, which is what gets an uplink of its own
  int64_t bytes = 0;  ///< sent in one iteration
  friend bool operator==(const RankPair&, const RankPair&) = default;
};

/// One iteration of a job as both engines run it; the same for all jobs of one model and size.
struct Program {
  RankSteps steps;
  std::vector<RankPair> pairs;  ///< each once, by (from, to); a pair that only ever sends no bytes
                                ///< is none
  int gpus = 0;
  int gpus_per_node = 8;
};

/// Finds the pairs; `ring` is left false, for the caller to set. O(steps · log steps).
Program make_program(RankSteps steps, int gpus_per_node);

/// The pair of two ranks; null where the first never sends to the second. O(log pairs).
RankPair* find_pair(Program& program, int from, int to);

}  // namespace monkeytree
