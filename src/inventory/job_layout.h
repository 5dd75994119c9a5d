#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "inventory/parallelism.h"
#include "inventory/squeue.h"

namespace monkeytree {

/// A running job with its companions: its nodes in logical order, and how its ranks form groups.
struct JobLayout {
  struct Member {
    std::string node;
    int gpus = 0;  ///< that the job holds there; 0 where unknown or none
  };

  const SlurmJob* job = nullptr;
  bool movable = true;
  bool staged = false;  ///< a worker is on no node, its state is staged; not among the members
  bool names_parallelism = false;  ///< the comment gave dp, tp or pp, and they fit
  int rings = 1;                   ///< of each of its groups
  std::vector<Member> members;     ///< in logical order
  std::vector<Stage> stages;       ///< one group each; shares count positions in `members`
};

struct QueueLayout {
  std::vector<JobLayout> jobs;  ///< in the order of the queue
  /// Nodes that Slurm has given away though no worker is counted there: of companions on which a
  /// move is under way, and of jobs that are suspended, completing or starting.
  std::vector<std::string> held;
};

/// Workers that all jobs may have together.
inline constexpr size_t kMaxWorkers = size_t{1} << 22;

/// Sorts out companions, the order of workers, and groups. What cannot be true is a warning and
/// one group (docs/slurm.md lists them). The result looks into `queue`, which must outlive it.
/// O(nodes · log nodes).
QueueLayout lay_out_jobs(const SlurmQueue& queue, std::string_view file, Diagnostics& diagnostics);

}  // namespace monkeytree
