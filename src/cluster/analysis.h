#pragma once

#include <cstdint>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// A fragmented job: one with a group whose workers sit in more than one rack.
struct FragmentedJob {
  JobId job;
  int racks = 0;             ///< that its fragmented groups touch, each once
  int groups = 0;            ///< fragmented ones
  int rings = 0;             ///< Σ rings of those
  int workers = 0;           ///< of the whole job
  int64_t gpus = 0;          ///< of the whole job; see gpus_of()
  std::vector<RackId> over;  ///< racks above their bound that its fragmented groups touch
};

/// What `monkeytree analyze` tells about a snapshot.
struct Analysis {
  IdVector<RackId, int> degrees, bounds;
  int excess = 0;
  std::vector<RackId> over;               ///< racks above their bound, ascending
  std::vector<FragmentedJob> fragmented;  ///< by job
  int64_t gpus = 0;                       ///< held by all jobs
  int64_t gpus_fragmented = 0;            ///< held by fragmented jobs
  bool gpus_known = true;                 ///< false: gpus counts slots, as a node tells no GPUs
};

/// GPUs that one worker of a group holds on its node: its share of the node's GPUs by slots;
/// the slots themselves where the snapshot does not tell the GPUs.
int64_t gpus_of(const Snapshot& snapshot, GroupId group, NodeId node);

/// O(workers · log workers of a group).
Analysis analyze(const Snapshot& snapshot);

}  // namespace monkeytree
