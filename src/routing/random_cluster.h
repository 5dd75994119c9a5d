#pragma once

#include <random>

#include "cluster/snapshot.h"

namespace monkeytree {

/// What a random cluster for the tests of routing looks like.
struct RandomCluster {
  int racks = 6;
  int nodes_per_rack = 4;
  int uplinks = 4;
  double fill = 0.9;     ///< share of the nodes that hold a worker
  int most_workers = 8;  ///< of a job
  int most_rings = 1;
  bool different_spines = false;  ///< uplinks vary, and some have failed
};

/// Jobs of one group each, workers strewn over the racks. Each node holds one worker at most.
Snapshot random_cluster(std::mt19937& random, const RandomCluster& shape);

/// Moves up to `moves` random workers to free nodes.
void move_workers(std::mt19937& random, Snapshot& snapshot, int moves);

}  // namespace monkeytree
