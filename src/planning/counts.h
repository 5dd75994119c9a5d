#pragma once

#include <absl/container/inlined_vector.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/order.h"

namespace monkeytree {

/// The placement as the planner sees it: how many workers of each group stand in each rack, which
/// degree that gives a rack, and how much room is left. Nodes inside racks do not appear: capacity
/// is counted per rack and node class (docs/formats.md, "Snapshot"), in workers where all movable
/// groups of a class take equal slots and in slots otherwise.
///
/// Kept up to date by O(workers) per added or removed group and O(1) per node, so that a live
/// controller pays for the change and not for the cluster. Only where the unit of a class or the
/// greatest weight changes is room counted anew, O(nodes + groups).
class Counts {
 public:
  /// Workers of one group on nodes of one class in one rack.
  struct Entry {
    RackId rack;
    ClassId node_class;
    int up = 0;     ///< movable, on nodes that may be refilled
    int stay = 0;   ///< movable, on nodes that are never a destination: leaving frees nothing
    int fixed = 0;  ///< immovable
    // Marks of a running search; zero between searches.
    int taken = 0;      ///< workers taken out; such an entry receives none
    uint8_t marks = 0;  ///< see search.h; those of (group, rack) stand on its first entry

    int movable() const { return up + stay; }
    int total() const { return up + stay + fixed; }
  };

  /// What reach.cc notes of a group; of the latest question where the epoch is.
  struct ReachMark {
    static constexpr int kFar = 1 << 20;
    uint64_t epoch = 0;
    int level = kFar;
    int other = kFar;  ///< through any other rack
    RackId rack;
  };

  /// Most groups stand in few racks; what the search reads most lies side by side.
  using Entries = absl::InlinedVector<Entry, 3>;

  struct GroupCounts {
    int weight = 1;  ///< parallel rings
    int slots = 1;   ///< per worker
    int size = 0;    ///< workers, immovable ones included; 0 after removal
    JobId job;
    int64_t state_bytes = 0;  ///< of one worker
    Entries entries;          ///< by (rack, class)
    ReachMark reach;
  };

  struct RackCounts {
    int bound = 0;
    int degree = 0;
    IslandId island;
    absl::InlinedVector<GroupId, 8> groups;  ///< with a worker here, ascending
    int touched = 0;                         ///< mark of a running search; zero between searches
    uint64_t reach_epoch = 0;                ///< see ReachMark
  };

  /// Racks alike in all that matters to a worker that comes from outside: island, room and slack.
  struct Kind {
    IslandId island;
    int slack = 0;          ///< bound − degree, at most what the room could ever use
    std::vector<int> free;  ///< by class
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };
  using Kinds = std::map<Kind, std::vector<RackId>>;  ///< only racks with room; ascending

  /// Groups of at most kSmall − 1 workers can be listed by their size.
  static constexpr int kSmall = 9;

  explicit Counts(const Snapshot& snapshot);

  // -- Changes. A group is added as the snapshot shows it and must still look so when it is
  // removed;
  // -- what changes about it (places, whether it may move) changes in between. A node changes its
  // -- state between remove_node() and add_node(), while no group is counted on it.
  void add_group(const Snapshot& snapshot, GroupId group);
  void remove_group(const Snapshot& snapshot, GroupId group);
  void add_node(const Snapshot& snapshot, NodeId node) { count_node(snapshot, node, +1); }
  void remove_node(const Snapshot& snapshot, NodeId node) { count_node(snapshot, node, -1); }
  /// Takes slots of a node away from all workers, or gives them back (negative). O(1).
  void hold(const Snapshot& snapshot, NodeId node, int slots);
  void set_bound(RackId rack, int bound);
  /// What a change did to an entry.
  struct Shift {
    GroupId group;
    ClassId node_class;
    RackId rack;
    int up = 0, stay = 0;  ///< added
  };
  /// Moves workers as the changes say, up nodes first on both sides. O(changes + entries of their
  /// groups). unshift() takes back what the last shift() returned.
  std::vector<Shift> shift(std::span<const CountChange> changes);
  void unshift(std::span<const Shift> shifts);

  // -- Reading.
  size_t rack_count() const { return racks_.size(); }
  size_t class_count() const { return class_count_; }
  const RackCounts& rack(RackId id) const { return racks_[id]; }
  RackCounts& rack(RackId id) { return racks_[id]; }
  const GroupCounts& group(GroupId id) const { return groups_[id]; }
  GroupCounts& group(GroupId id) { return groups_[id]; }
  size_t group_count() const { return groups_.size(); }
  int free(RackId rack, ClassId c) const { return free_[slot(rack, c)]; }
  int& free(RackId rack, ClassId c) { return free_[slot(rack, c)]; }
  int capacity(RackId rack, ClassId c) const { return capacity_[slot(rack, c)]; }
  /// Units of capacity that a worker of the group takes on nodes of the class.
  int need(GroupId group, ClassId c) const { return unit_[c] > 0 ? 1 : groups_[group].slots; }
  /// The groups of this class take different numbers of slots: counts alone do not promise a
  /// packing.
  bool mixed(ClassId c) const { return unit_[c] == 0; }
  const Kinds& kinds() const { return kinds_; }
  /// Groups of so many workers (below kSmall), ascending; none beyond.
  const std::vector<GroupId>& groups_of_size(int size) const {
    return small_[static_cast<size_t>(std::min(size, kSmall)) - 1];
  }
  /// Racks whose degree is above their bound, ascending.
  const std::vector<RackId>& over() const { return over_; }
  int excess() const { return excess_; }
  /// One more for each question to the marks of reach.cc, so that nothing needs to be cleared.
  uint64_t next_reach_epoch() { return ++reach_epoch_; }

  /// Workers of the group in the rack, all classes.
  int total(GroupId group, RackId rack) const;
  /// Index of the first entry of the group in the rack, or -1.
  int find(GroupId group, RackId rack) const;
  int find(GroupId group, RackId rack, ClassId c) const;

  /// Could all of the group stand in the rack, if nothing movable stood in its way?
  bool fits_whole(GroupId group, RackId rack) const;

  /// Adds to a degree and keeps over() and excess() true; kinds are left alone, so a caller that
  /// leaves the degree changed between searches calls rekind().
  void add_degree(RackId rack, int delta);

 private:
  size_t slot(RackId rack, ClassId c) const {
    return static_cast<size_t>(rack.value) * class_count_ + static_cast<size_t>(c.value);
  }
  int node_capacity(const Snapshot& snapshot, NodeId node) const;
  void count_node(const Snapshot& snapshot, NodeId node, int sign);
  void fix_slots(const Snapshot& snapshot, NodeId node, int slots);
  void count_room(const Snapshot& snapshot);
  void sort_into_kinds();
  void count_group(const Snapshot& snapshot, GroupId group);
  static void list_entries(const Snapshot& snapshot, GroupId group, Entries& entries);
  void fix_workers(const Snapshot& snapshot, GroupId group, int sign);
  void count_degree(GroupId group, int sign);
  Entry& entry_of(GroupId group, RackId rack, ClassId c);
  void drop_if_empty(GroupId group, RackId rack, ClassId c);
  void add_shifts(std::span<const Shift> shifts, int sign);
  int max_weight() const { return weights_.empty() ? 1 : weights_.rbegin()->first; }
  int unit_of(ClassId c) const;
  void note_slots(GroupId group, int sign);
  void note_weight(int weight, int sign);
  void follow_units(const Snapshot& snapshot, int heaviest_before);
  Kind kind_of(RackId rack) const;
  bool has_room(RackId rack) const;
  void leave_kind(RackId rack);
  void enter_kind(RackId rack);

  size_t class_count_ = 1;
  std::map<int, int> weights_;  // rings → groups
  IdVector<RackId, RackCounts> racks_;
  IdVector<GroupId, GroupCounts> groups_;
  std::vector<int> free_, capacity_;                // by rack and class
  IdVector<NodeId, int> fixed_slots_;               // held by immovable workers or hold()
  IdVector<ClassId, std::map<int, int>> sizes_;     // slots of movable workers → how many
  IdVector<ClassId, int> unit_;                     // slots of a worker; 0 where they differ
  std::array<std::vector<GroupId>, kSmall> small_;  // by size − 1; the last is empty
  std::vector<RackId> over_;
  int excess_ = 0;
  uint64_t reach_epoch_ = 0;
  Kinds kinds_;
};

}  // namespace monkeytree
