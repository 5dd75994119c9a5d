#pragma once

#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Fragmentation degree of each rack: the sum of `rings` over the groups with a worker in the rack
/// and a worker outside it (paper §3). O(workers).
IdVector<RackId, int> fragmentation(const Snapshot& snapshot);

/// λ of each rack.
IdVector<RackId, int> bounds(const Snapshot& snapshot);

/// Σ over racks of max(0, degree − bound).
int excess(const IdVector<RackId, int>& degrees, const IdVector<RackId, int>& bounds);

/// Racks that a group touches, ascending, each once.
std::vector<RackId> racks_of(const Snapshot& snapshot, GroupId group);

}  // namespace monkeytree
