#include "planning/make_plan.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/fill.h"
#include "planning/order.h"
#include "planning/solver.h"

namespace monkeytree {
namespace {

/// Degrees once the changes have happened, from those before. O(entries of the changed groups).
void update_degrees(const Counts& counts, std::span<const CountChange> changes,
                    IdVector<RackId, int>& degrees) {
  for (size_t i = 0; i < changes.size();) {
    const GroupId g = changes[i].group;
    const Counts::GroupCounts& group = counts.group(g);
    std::vector<std::pair<RackId, int>> after;  // workers of the group by rack
    const auto add = [&](RackId rack, int count) {
      const auto at = std::find_if(after.begin(), after.end(),
                                   [&](const auto& entry) { return entry.first == rack; });
      if (at == after.end()) {
        after.emplace_back(rack, count);
      } else {
        at->second += count;
      }
    };
    for (const Counts::Entry& entry : group.entries) add(entry.rack, entry.total());
    for (const auto& [rack, count] : after) {
      if (count < group.size) degrees[rack] -= group.weight;
    }
    for (; i < changes.size() && changes[i].group == g; ++i) add(changes[i].rack, changes[i].delta);
    for (const auto& [rack, count] : after) {
      if (count > 0 && count < group.size) degrees[rack] += group.weight;
    }
  }
}

/// Theorem 1's fill as a plan, where it meets every bound: many moves, but a plan when the limits
/// came before any other was found.
std::vector<CountChange> fill_changes(const Snapshot& snapshot,
                                      const IdVector<RackId, int>& bounds) {
  const std::optional<Fill> filled = fill(snapshot);
  if (!filled || excess(filled->degrees, bounds) > 0) return {};
  return count_changes(snapshot, filled->placement);
}

}  // namespace

Plan make_plan(const PlannerState& state, const PlanOptions& options) {
  const auto& [snapshot, counts, occupancy, with_holds] = state;
  Plan plan;
  plan.excess_before = counts.excess();
  plan.bounds.reserve(counts.rack_count());
  plan.before.reserve(counts.rack_count());
  for (RackId r : snapshot.racks.keys()) {
    plan.bounds.push_back(counts.rack(r).bound);
    plan.before.push_back(counts.rack(r).degree);
  }
  plan.best_effort = options.best_effort;
  if (options.mend) {
    for (RackId r : counts.over()) {
      if (std::find(options.mend->begin(), options.mend->end(), r) == options.mend->end()) {
        plan.bounds[r] = plan.before[r];
      }
    }
    plan.excess_before = excess(plan.before, plan.bounds);
  }
  const auto accept = [&](std::span<const CountChange> changes) {
    return order_moves(snapshot, changes, occupancy).has_value();
  };
  Solution solution = solve(counts, options, accept);
  if (solution.status == PlanStatus::kUnknown) {
    std::vector<CountChange> changes =
        fill_changes(with_holds ? with_holds() : snapshot, plan.bounds);
    if (!changes.empty() && accept(changes)) {
      solution.changes = std::move(changes);
      const bool least = solution.moves() <= solution.lower_bound;
      solution.status = least ? PlanStatus::kOptimal : PlanStatus::kFeasible;
    }
  }
  plan.status = solution.status;
  plan.limited = solution.limited && solution.status != PlanStatus::kOptimal;
  plan.after = plan.before;
  plan.conflict = solution.conflict;
  std::optional<std::vector<Round>> rounds;
  if (plan.status != PlanStatus::kInfeasible && plan.status != PlanStatus::kUnknown) {
    rounds = order_moves(snapshot, solution.changes, occupancy);
    if (!rounds) plan.status = PlanStatus::kUnknown;  // no node takes them
  }
  if (rounds) {
    plan.lower_bound = solution.lower_bound;
    plan.moves = solution.moves();
    update_degrees(counts, solution.changes, plan.after);
    plan.rounds = *std::move(rounds);
  }
  plan.excess_after = excess(plan.after, plan.bounds);
  if (options.best_effort && plan.status == PlanStatus::kFeasible) {
    plan.excess_lower_bound = solution.excess_lower_bound;
  }
  return plan;
}

}  // namespace monkeytree
