#pragma once

#include <map>
#include <string>
#include <vector>

#include "control/gain.h"
#include "control/journal.h"
#include "planning/plan.h"

namespace monkeytree {

/// What was known when a plan was made, as JSON: racks above their bound with the groups that count
/// there, the links that flows share, gain and cost by job, jobs held back and why, and objections.
/// Deterministic.
std::string decision_json(const Snapshot& snapshot, const Plan& plan, const PlanRoutes& routed,
                          const Gain& gain, const std::map<std::string, std::string>& held_back,
                          const std::vector<std::string>& objections);

/// The plan for people, from what the journal holds: why these moves, which flows shared which
/// uplink, what is gained and what it costs, what was considered, how it went. Lines of at most 80
/// columns.
std::string explain(const PlanEntry& plan, const std::vector<Migration>& migrations,
                    const std::vector<StepEntry>& steps);

}  // namespace monkeytree
