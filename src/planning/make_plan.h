#pragma once

#include <functional>

#include "cluster/snapshot.h"
#include "planning/counts.h"
#include "planning/occupancy.h"
#include "planning/plan.h"

namespace monkeytree {

/// What a plan is made from: a placement, and the same counted in two ways.
struct PlannerState {
  const Snapshot& snapshot;
  Counts& counts;        ///< changed while the search runs, and restored
  Occupancy& occupancy;  ///< the same
  /// The snapshot with what moves under way hold; empty where nothing is held.
  std::function<Snapshot()> with_holds{};
};

Plan make_plan(const PlannerState& state, const PlanOptions& options);

}  // namespace monkeytree
