#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// What the search decides: how many movable workers of a group, on nodes of one class, a rack
/// gains (delta > 0) or loses (delta < 0). The deltas of a group and class sum to zero within an
/// island.
struct CountChange {
  GroupId group;
  ClassId node_class;
  RackId rack;
  int delta = 0;
  friend auto operator<=>(const CountChange&, const CountChange&) = default;
};

/// Turns counts into moves in rounds. Chooses which worker leaves a rack (the one at the end of the
/// rack's run in ring order, facing the destination; a worker on an up node before one on a node
/// that cannot be refilled, since only the former frees a slot), pairs losses with gains, and
/// orders the moves so that every destination is free when its round starts, staging a worker only
/// where a component could not start otherwise. Fewest rounds: exact up to 8 moves, list scheduling
/// by longest chain above. nullopt where the nodes cannot take the counts (mixed slot sizes only).
/// Deterministic.
std::optional<std::vector<Round>> order_moves(const Snapshot& snapshot,
                                              std::span<const CountChange> changes);

/// The snapshot after the plan's rounds.
Snapshot apply_rounds(const Snapshot& snapshot, std::span<const Round> rounds);

}  // namespace monkeytree
