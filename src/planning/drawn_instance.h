#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/plan.h"

/// Instances that a planner finds hard or has features in: what tests of the planner, and its
/// fuzzer, agree on.
namespace monkeytree {

/// What is asked of a planner: a cluster and what to do with it.
struct DrawnInstance {
  Snapshot snapshot;
  bool best_effort = false;
  std::optional<std::vector<RackId>> mend;

  PlanOptions options() const;
  std::string describe() const;  ///< one line, for a failed test
};

enum class DrawnSize {
  kTiny,   ///< 3 or 4 racks of at most 3 nodes
  kSmall,  ///< 6 to 8 racks of 4 slots
  kTight,  ///< 8 to 12 racks of 4 slots, full or one slot from it, small bounds
  kLarge,  ///< 12 to 16 racks of 4 slots
};

/// The same seed gives the same instance on every machine. Each feature (bounds by rack, pinned
/// workers, immovable jobs, drained nodes, classes, islands, uneven racks, several slots a node,
/// jobs of several groups, best effort, `mend`) is there in one instance of three to six, and all
/// combinations occur.
DrawnInstance draw_instance(uint64_t seed, DrawnSize size);

/// Makes one job of some neighbouring jobs, so that jobs have several groups; groups keep their
/// ids.
Snapshot with_merged_jobs(Snapshot snapshot, uint64_t seed);

/// Lets some racks stay above their bound, as PlanOptions::mend does: the bound becomes the degree.
Snapshot with_raised_bounds(Snapshot snapshot, uint64_t seed);

}  // namespace monkeytree
