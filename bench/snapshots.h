#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cluster/snapshot.h"

/// Clusters made up for benchmarks, deterministic by their seed.
namespace monkeytree::bench {

/// Whole numbers from a seed, the same with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  /// Uniform in 0 … n−1; n ≥ 1.
  int below(int n) { return static_cast<int>(engine_() % static_cast<uint64_t>(n)); }

 private:
  std::mt19937_64 engine_;
};

/// Racks r0001 … with nodes r0001n1 …, one slot and 8 GPUs each, no jobs.
Snapshot empty_cluster(int racks, int nodes_per_rack, int uplinks);

/// Appends a job of one group whose workers sit on the given nodes.
GroupId add_job(Snapshot& snapshot, std::string id, int rings, std::vector<NodeId> workers);

}  // namespace monkeytree::bench
