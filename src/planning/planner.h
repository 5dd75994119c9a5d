#pragma once

#include <span>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/counts.h"
#include "planning/occupancy.h"
#include "planning/plan.h"

namespace monkeytree {

/// Plans again and again for a cluster that changes a little between plans, and answers each time
/// as plan(snapshot()) would. A change costs what it touches, a plan what it has to mend.
///
/// Ids of nodes, racks, jobs and groups stay valid: a removed job keeps its place, with no workers.
class Planner {
 public:
  explicit Planner(Snapshot snapshot);

  const Snapshot& snapshot() const { return snapshot_; }
  /// Fragmentation degree of a rack now.
  int degree(RackId rack) const { return counts_.rack(rack).degree; }
  /// Racks above their bound, ascending.
  const std::vector<RackId>& over() const { return counts_.over(); }

  /// The job starts; `groups` come in the order of the job's stages, Job's and Group's own ids are
  /// filled in. Workers must stand on free slots. O(workers).
  JobId add_job(Job job, std::vector<Group> groups);
  /// The job ends. O(workers).
  void remove_job(JobId job);
  /// The moves have happened. O(workers of the groups that moved).
  void apply(std::span<const Round> rounds);
  /// O(cluster): rare.
  void set_node_state(NodeId node, NodeState state);
  /// The working uplinks of a rack changed; `spines` ascending. O(1).
  void set_spines(RackId rack, std::vector<int> spines);

  Plan plan(const PlanOptions& options = {});

 private:
  Snapshot snapshot_;
  Counts counts_;
  Occupancy occupancy_;
};

}  // namespace monkeytree
