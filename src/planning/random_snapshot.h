#pragma once

#include <cstdint>
#include <vector>

#include "cluster/snapshot.h"

/// Instances for tests and benchmarks: the same seed gives the same snapshot on every machine.
namespace monkeytree {

/// SplitMix64. The standard library's distributions differ between libraries; this does not.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next();
  int below(int n) { return static_cast<int>(next() % static_cast<uint64_t>(n)); }  ///< [0, n)
  int between(int low, int high) { return low + below(high - low + 1); }            ///< inclusive
  bool chance(double p) { return static_cast<double>(next() >> 11) * 0x1.0p-53 < p; }

 private:
  uint64_t state_;
};

/// What a random cluster is like. The default is what finds mistakes of a planner: small, full and
/// tight.
struct RandomShape {
  int racks_low = 6, racks_high = 8;
  int nodes_per_rack = 4;
  int slots_per_node = 1;             ///< of every node
  bool uneven_racks = false;          ///< 1 … 2 · nodes_per_rack nodes, by the rack
  int bound_low = 1, bound_high = 3;  ///< λ, one for the whole cluster
  bool uneven_bounds = false;         ///< λ drawn for each rack
  std::vector<int> weights{1};       ///< `rings`, drawn for each group; λ is scaled by the largest
  int largest_group = 0;             ///< workers; 0: one and a half racks
  std::vector<int> worker_slots{1};  ///< drawn for each group
  double fill = 1.0;                 ///< of the slots in use, at most
  double scatter = 0.5;       ///< chance that a worker sits anywhere, not beside the last one
  double pinned = 0;          ///< chance that a worker is pinned
  double immovable_jobs = 0;  ///< chance that a whole job is
  double drained = 0;         ///< chance that a node is drained, down or reserved
  int classes = 1;
  int islands = 1;
};

/// A valid snapshot of this shape: node states are drawn after the workers are seated, so that
/// drained nodes hold some. Groups keep to one island and, but for one in eight, to one class.
Snapshot random_snapshot(uint64_t seed, const RandomShape& shape = {});

}  // namespace monkeytree
