#pragma once

#include <optional>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/order.h"
#include "planning/plan.h"

/// The paper's integer program (§5.2) over CBC, the plain reference that the exact search is
/// compared with, generalised to what the product knows: node classes, islands, uneven racks,
/// drained nodes, immovable workers, weights, bounds by rack.
///
/// Unknowns are w(g,k,r), the movable workers of group g on class k in rack r; P(g,r) of its
/// workers there are immovable, and W(g,r) = P(g,r) + Σₖ w(g,k,r) out of N(g) in all.
///
///     min  Σ z(g,k,r)                                 workers that leave
///     z(g,k,r) ≥ w₀(g,k,r) − w(g,k,r),  z ≥ 0
///     Σ w(g,k,r) over the racks of an island = what it is now
///     Σ over g of a(g,k,r) ≤ capacity(k,r)            places on up nodes
///     a(g,k,r) ≥ w(g,k,r) − d(g,k,r),  a ≥ 0          d: workers on nodes that are not refilled
///     W(g,r) ≤ N(g)·v(g,r) + (N(g)−1)·y(g,r)          y = 1: part of g in r
///     W(g,r) ≥ N(g)·v(g,r) + y(g,r)                   v = 1: all of g in r
///     Σ v(g,r) over r = 1 − q(g),  y(g,r) ≤ q(g),  Σ y(g,r) over r ≥ 2·q(g)
///     Σ over g of rings(g)·y(g,r) ≤ bound(r) + e(r),  e = 0 but for best effort
///
/// Best effort minimises Σ e first and then Σ z with Σ e held. Where movable groups of a class take
/// different slots, capacity is counted in slots: a relaxation, so that counts that no node can
/// take may be answered (`exact` is then false; bounds and infeasibility still hold).
namespace monkeytree {

struct MilpAnswer {
  PlanStatus status = PlanStatus::kUnknown;
  int moves = 0;
  std::optional<int> lower_bound;  ///< as in Plan
  int excess_before = 0, excess_after = 0;
  std::optional<int> excess_lower_bound;  ///< best effort, where the least excess is unproved
  bool exact = true;                      ///< capacities are exact: equal slots within each class
  std::vector<CountChange> changes;       ///< ascending
};

/// Counts only. CBC runs on one thread, silent, for at most `time_limit_s` of CPU time in all. Its
/// solutions are verified in integers, and its claims of infeasibility are asked for twice, the
/// second time without preprocessing and cuts. `options.work_limit` is not used.
MilpAnswer milp_answer(const Snapshot& snapshot, const PlanOptions& options, double time_limit_s);

/// The same as a plan: moves in rounds, and for an infeasible snapshot the racks in conflict, a set
/// from which no rack can be left out (as far as the time allows). Where mixed slots cannot be
/// seated, the plan is `unknown`.
Plan plan_milp(const Snapshot& snapshot, const PlanOptions& options, double time_limit_s);

/// The bounds that a plan must meet: λ, or for a rack that is not to be mended its degree where
/// that is larger.
IdVector<RackId, int> effective_bounds(const Snapshot& snapshot, const PlanOptions& options);

}  // namespace monkeytree
