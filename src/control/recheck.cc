#include "control/recheck.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json.h"
#include "cluster/fragmentation.h"
#include "planning/check.h"
#include "planning/order.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

/// The rounds as a plan for the cluster as it is: right in all that is counted, so that what
/// check_plan() finds is about the moves.
Plan plan_for(const Snapshot& now, const std::vector<Round>& rounds) {
  Plan plan;
  plan.status = PlanStatus::kFeasible;
  plan.best_effort = true;
  plan.lower_bound = 0;
  plan.excess_lower_bound = 0;
  plan.bounds = bounds(now);
  plan.before = fragmentation(now);
  plan.after = fragmentation(apply_rounds(now, rounds));
  plan.excess_before = excess(plan.before, plan.bounds);
  plan.excess_after = excess(plan.after, plan.bounds);
  plan.rounds = rounds;
  std::set<std::pair<GroupId, int>> workers;
  for (const Round& round : rounds) {
    for (const Move& move : round) workers.insert({move.group, move.worker});
  }
  plan.moves = static_cast<int>(workers.size());
  return plan;
}

bool in_range(const Snapshot& now, const Move& move) {
  return now.groups.contains(move.group) && move.worker >= 0 &&
         static_cast<size_t>(move.worker) < now.groups[move.group].workers.size();
}

}  // namespace

std::vector<std::string> recheck(const Snapshot& now, const std::vector<Round>& rounds) {
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      if (!in_range(now, move)) return {"a worker of it is gone"};
    }
  }
  const Plan plan = plan_for(now, rounds);
  std::vector<std::string> reasons = check_plan(now, record_of(now, plan, ""));
  for (size_t r = 0; r < now.racks.size(); ++r) {
    const RackId rack(r);
    if (plan.after[rack] <= std::max(plan.bounds[rack], plan.before[rack] - 1)) continue;
    if (plan.after[rack] == plan.before[rack]) continue;  // it does nothing there
    reasons.push_back(fmt::format("rack {} would have degree {}, above its bound {}",
                                  quote(now.racks[rack].name), plan.after[rack],
                                  plan.bounds[rack]));
  }
  if (plan.excess_after >= plan.excess_before) {
    reasons.push_back(fmt::format("it would leave the excess at {}, which is {} now",
                                  plan.excess_after, plan.excess_before));
  }
  return reasons;
}

}  // namespace monkeytree
