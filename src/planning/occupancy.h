#pragma once

#include <cstdint>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Who sits on which node and how many slots are left there. A caller that plans again and again
/// keeps one beside its snapshot, so that ordering a few moves costs nothing for the rest of the
/// cluster.
class Occupancy {
 public:
  /// One worker on its node.
  struct Seat {
    GroupId group;
    int worker = 0;  ///< index in Group::workers
    friend auto operator<=>(const Seat&, const Seat&) = default;
  };

  Occupancy() = default;
  /// O(nodes + workers).
  explicit Occupancy(const Snapshot& snapshot);

  /// Slots of the node that nobody holds.
  int free_slots(NodeId node) const { return free_[node]; }

  /// Calls `visit(Seat)` for each worker on the node, in no particular order.
  template <class Visit>
  void for_each(NodeId node, Visit visit) const {
    for (int32_t at = head_[node]; at >= 0; at = entries_[static_cast<size_t>(at)].next) {
      visit(entries_[static_cast<size_t>(at)].seat);
    }
  }

  /// Workers on the node, ascending.
  std::vector<Seat> seats(NodeId node) const;

  /// O(1). `slots` is what the worker takes.
  void add(NodeId node, Seat seat, int slots);
  /// O(workers on the node). The worker must sit there.
  void remove(NodeId node, Seat seat, int slots);
  void move(NodeId from, NodeId to, Seat seat, int slots) {
    remove(from, seat, slots);
    add(to, seat, slots);
  }
  /// Takes slots of a node away from all workers, or gives them back (negative). O(1).
  void hold(NodeId node, int slots) { free_[node] -= slots; }
  /// A node joins the cluster, empty; ids are given in order.
  NodeId add_node(int slots);

 private:
  struct Entry {
    Seat seat;
    int32_t next = -1;
  };

  IdVector<NodeId, int> free_;
  IdVector<NodeId, int32_t> head_;  ///< first entry of each node, or -1
  std::vector<Entry> entries_;
  int32_t unused_ = -1;  ///< first entry of the list of given-back entries
};

}  // namespace monkeytree
