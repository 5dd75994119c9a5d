#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"

namespace monkeytree {

/// A node as Slurm tells of it.
struct SlurmNode {
  std::string name;
  NodeState state = NodeState::kUp;
  bool allocated = false;  ///< wholly: Slurm would place nothing more there
  int gpus = 0;
  std::string gpu_type;  ///< "gpu:h200"; "" where there are none or they have no type
};

/// Reads the output of `scontrol show nodes --json`, `sinfo --json` (any version, also the one that
/// groups nodes), or `scontrol show node`, with `-o` or without. Nodes stand in file order, each
/// once; of several states the worst counts. nullopt exactly when there was an error. O(bytes).
std::optional<std::vector<SlurmNode>> read_slurm_nodes(std::string_view text, std::string_view file,
                                                       Diagnostics& diagnostics);

/// What Slurm's states and flags come to. Down: DOWN, NOT_RESPONDING, a power state, FUTURE, ERROR,
/// UNKNOWN and the like. Drain: DRAIN, FAIL, MAINTENANCE, a pending reboot. Reserved: RESERVED,
/// COMPLETING, BLOCKED. Up: IDLE, ALLOCATED, MIXED, also when PLANNED for a waiting job, as nearly
/// every free node of a busy cluster is. The worst of them counts; words that are unknown are put
/// into `unknown` and count as reserved.
NodeState node_state(const std::vector<std::string>& words, std::vector<std::string>& unknown);

}  // namespace monkeytree
