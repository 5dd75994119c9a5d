#pragma once

#include <map>
#include <span>
#include <utility>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/counts.h"
#include "planning/occupancy.h"
#include "planning/plan.h"

namespace monkeytree {

/// Plans again and again for a cluster that changes a little between plans, and answers each time
/// as one made afresh would. A change costs what it touches, a plan what it has to mend.
///
/// Ids of nodes, racks, jobs and groups stay valid: a removed job keeps its place, with no workers.
///
/// While moves are under way, from begin() to finish() or cancel(), plans are made around them
/// exactly as on reserve(cluster, moves under way): snapshot() shows the workers where they will
/// be and their jobs as not movable, and the slots they are about to leave are held.
class Planner {
 public:
  explicit Planner(Snapshot snapshot);

  const Snapshot& snapshot() const { return snapshot_; }
  /// Fragmentation degree of a rack now.
  int degree(RackId rack) const { return counts_.rack(rack).degree; }
  /// Racks above their bound, ascending.
  const std::vector<RackId>& over() const { return counts_.over(); }
  const Counts& counts() const { return counts_; }
  /// Slots of the node that neither a worker nor a move under way holds.
  int free_slots(NodeId node) const { return occupancy_.free_slots(node); }

  // Costs are those of the workers of the jobs named, times the logarithm of the cluster, unless
  // said otherwise. Counts says when room has to be counted anew: O(nodes + groups), rare where the
  // workers of a node class take equal slots.

  /// The job starts; `groups` come in the order of the job's stages, Job's and Group's own ids are
  /// filled in. Workers must stand on free slots.
  JobId add_job(Job job, std::vector<Group> groups);
  /// The job ends, moves under way included.
  void remove_job(JobId job);
  /// From now on the job's workers may move, or may not. Waits for the end of its moves under way.
  void set_movable(JobId job, bool movable);

  /// The moves of a plan have happened, all at once. Their jobs have no moves under way.
  void apply(std::span<const Round> rounds);
  /// The moves of a plan are under way from now on. A worker has at most one move under way (the
  /// halves of a staged move are one).
  void begin(std::span<const Round> rounds);
  /// These moves have been carried out: any part of what is under way, a round for example. A
  /// staged move has when its second half has; first halves and moves not under way are passed
  /// over, those of ended jobs for example.
  void finish(std::span<const Move> moves);
  /// These moves are given up; their workers are where they were before. Slots are the caller's
  /// care: whoever was to move to theirs must be given up as well.
  void cancel(std::span<const Move> moves);
  /// Some of the job's workers have moves under way.
  bool moving(JobId job) const { return frozen_.contains(job); }

  /// O(workers of the groups on the node).
  void set_node_state(NodeId node, NodeState state);
  /// The working uplinks of a rack changed; `spines` ascending. O(1).
  void set_spines(RackId rack, std::vector<int> spines);

  Plan plan(const PlanOptions& options = {});

 private:
  using Worker = std::pair<GroupId, int>;
  struct Frozen {
    int moves = 0;  ///< under way
    bool movable = true;
  };
  struct Source {
    int leaving = 0;  ///< slots of workers that moves under way will take away
    int held = 0;     ///< of these, what no other worker holds already
  };

  std::vector<GroupId> groups_of(JobId job) const;
  template <class Change>
  void recount(std::span<const GroupId> groups, Change change);
  void end_moves(std::span<const Move> moves, bool carried_out);
  void leave(NodeId node, int slots);
  void refresh_hold(NodeId node);
  void place(GroupId group, int worker, NodeId node);
  Snapshot with_holds() const;

  Snapshot snapshot_;
  Counts counts_;
  Occupancy occupancy_;
  std::map<Worker, NodeId> under_way_;  ///< and where each comes from
  std::map<JobId, Frozen> frozen_;
  std::map<NodeId, Source> sources_;
};

}  // namespace monkeytree
