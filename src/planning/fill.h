#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// A placement made by Theorem 1's construction.
struct Fill {
  Snapshot placement;             ///< the snapshot with its movable workers seated anew
  IdVector<RackId, int> degrees;  ///< fragmentation degrees of the placement
  int moves = 0;                  ///< ½ Σ |w − w₀| over groups, classes and racks
};

/// Largest group first, ties by lowest id: Theorem 1's default order.
std::vector<GroupId> largest_first(const Snapshot& snapshot);

/// Fills the racks from first to last, group after group in the given order, as the proof of
/// Theorem 1 (paper §5.1) does: each rack then holds the tail of one group, whole groups, and the
/// head of one group, and only tail and head span racks. So every degree is at most twice the
/// largest `rings` where there is one node class, workers take equal slots and none is pinned; with
/// k classes and every group on one class, 2k times (each class, and each island, is filled for
/// itself). Workers that cannot move stay; only up nodes are filled. Groups that `order` leaves out
/// follow in the default order. nullopt where the up nodes cannot seat every movable worker in this
/// way: those on drained nodes may lack a place. O(workers + nodes).
std::optional<Fill> fill(const Snapshot& snapshot, std::span<const GroupId> order);
std::optional<Fill> fill(const Snapshot& snapshot);

}  // namespace monkeytree
