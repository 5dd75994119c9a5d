#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/occupancy.h"
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

/// What another placement of the same workers changes, by (group, class, rack). O(workers · log).
std::vector<CountChange> count_changes(const Snapshot& before, const Snapshot& after);

/// Turns counts into moves in rounds. Chooses which worker leaves a rack (the one at the end of the
/// rack's run in ring order, facing the destination; a worker on an up node before one on a node
/// that cannot be refilled, since only the former frees a slot), pairs losses with gains, and
/// orders the moves so that every destination is free when its round starts, staging a worker only
/// where a component could not start otherwise (the pairing is chosen so that as few as possible
/// cannot). A worker goes to a node that hosts none of its job where there is one, else none of its
/// group; lowest id first. Fewest rounds: exact up to 8 moves, list scheduling by longest chain
/// above. nullopt where the nodes cannot take the counts (mixed slot sizes, or counts that do not
/// fit). Deterministic.
///
/// Touches only the racks and groups of the changes: O(changes + nodes of their racks). `occupancy`
/// must describe the snapshot; it is played on and left as it was found.
std::optional<std::vector<Round>> order_moves(const Snapshot& snapshot,
                                              std::span<const CountChange> changes,
                                              Occupancy& occupancy);

/// The same for callers that keep no occupancy: O(workers) besides.
std::optional<std::vector<Round>> order_moves(const Snapshot& snapshot,
                                              std::span<const CountChange> changes);

/// The snapshot after the plan's rounds. A worker left in staging stays where it was.
Snapshot apply_rounds(const Snapshot& snapshot, std::span<const Round> rounds);

/// The snapshot that new plans are made on while `in_flight`, the moves of running plans not yet
/// finished, are under way. Workers count where they will be (a staged one at its final node);
/// their jobs are frozen there (`movable` false), so their rings count in the degrees and their
/// destination slots are held. Source slots are held too, by one immovable worker per node of a job
/// named "@in-flight" that is appended (ids of everything else stay as they are, and a single
/// worker adds to no degree): as many slots as departing workers give back, but no more than the
/// node has, since where a node is full before and after, the arriving worker already holds them.
/// Sources that are not up need no hold: they are never refilled.
Snapshot reserve(const Snapshot& snapshot, std::span<const Move> in_flight);

}  // namespace monkeytree
