#pragma once

#include <optional>
#include <span>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/occupancy.h"
#include "planning/order.h"

namespace monkeytree {

/// A worker chosen to leave its rack, and the rack it goes to. Departures with the same `kind` (one
/// group, class and island) may exchange their destinations without changing any count.
struct Departure {
  GroupId group;
  int worker = 0;
  NodeId from;
  ClassId node_class;
  RackId to;
  int kind = 0;
};

/// Which workers leave, and where to, for the given counts. Within a rack, workers on up nodes
/// leave before others (only they free a slot), and among those the one whose departure tears the
/// group's ring least, counting neighbours in logical order that stand in different racks: that is
/// the end of the rack's run that faces the destination. Pairs of losing and gaining racks are
/// taken in the same order of preference. Immovable workers never leave. nullopt where the counts
/// do not add up.
std::optional<std::vector<Departure>> choose_departures(const Snapshot& snapshot,
                                                        const Occupancy& occupancy,
                                                        std::span<const CountChange> changes);

}  // namespace monkeytree
