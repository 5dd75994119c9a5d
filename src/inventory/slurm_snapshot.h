#pragma once

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "inventory/job_layout.h"
#include "inventory/slurm_nodes.h"
#include "inventory/squeue.h"
#include "inventory/topology.h"
#include "inventory/uplinks.h"

namespace monkeytree {

/// What the files of a Slurm cluster say, and their names for findings.
struct SlurmFacts {
  Topology topology;
  SlurmQueue queue;
  std::optional<std::vector<SlurmNode>> nodes;  ///< nullopt: every node and worker is whole
  Uplinks uplinks;
  std::set<std::string> unmovable;  ///< ids of jobs none of whose workers moves
  std::set<std::pair<std::string, std::string>>
      pinned;  ///< job and node: that worker does not move
  std::string topology_file, queue_file, nodes_file;
};

/// Puts a snapshot together.
///
/// With `nodes`, a node's slots are its GPUs and a worker's the GPUs it holds; nodes that Slurm
/// does not know are dropped, unless a job runs there; a node that Slurm calls allocated although
/// the jobs leave it room is reserved. Without, a node is one slot, or as many as it has workers.
/// Immovable are: workers on a node that another group of their job, or, where shares are not
/// known, any other worker is on; workers smaller than others of their group; a job within a part
/// of one node. A node that jobs use and no leaf holds goes into a rack "unplaced", whose bound is
/// never exceeded and from which and to which nothing moves.
/// nullopt exactly when there was an error. O(nodes + workers).
std::optional<Snapshot> build_snapshot(const SlurmFacts& facts, Diagnostics& diagnostics);

}  // namespace monkeytree
