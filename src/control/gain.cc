#include "control/gain.h"

#include <algorithm>
#include <set>

#include "cluster/analysis.h"
#include "planning/order.h"
#include "routing/routes.h"

namespace monkeytree {
namespace {

constexpr double kHour_s = 3600;

double slowdown(int sharing, double communication) { return 1 + communication * (sharing - 1); }

}  // namespace

double gpus_of(const Snapshot& snapshot, JobId job) {
  double gpus = 0;
  for (int g = 0; g < snapshot.jobs[job].group_count; ++g) {
    const GroupId group{snapshot.jobs[job].first_group.value + g};
    for (const NodeId node : snapshot.groups[group].workers) {
      gpus += static_cast<double>(gpus_of(snapshot, group, node));
    }
  }
  return gpus;
}

PlanRoutes routes_of(const Snapshot& before, const Plan& plan) {
  const auto routed = [](const Snapshot& snapshot) -> std::optional<Routes> {
    if (!check_routable(snapshot).ok()) return std::nullopt;
    return routes(snapshot);
  };
  PlanRoutes out;
  out.before = routed(before);
  out.after = plan.rounds.empty() ? out.before : routed(apply_rounds(before, plan.rounds));
  return out;
}

std::map<JobId, int> sharing(const Snapshot& snapshot, const std::optional<Routes>& routed) {
  std::map<JobId, int> fullest;
  if (!routed) return fullest;
  for (const Shared& link : routed->shared) {
    const int flows = static_cast<int>(link.flows.size());
    for (const int flow : link.flows) {
      const GroupId group = routed->flows[static_cast<size_t>(flow)].flow.group;
      int& most = fullest[snapshot.groups[group].job];
      most = std::max(most, flows);
    }
  }
  return fullest;
}

Gain estimate_gain(const Snapshot& before, const Plan& plan, const PlanRoutes& routed,
                   const GainRules& rules, std::optional<double> now_s) {
  const std::map<JobId, int> was = sharing(before, routed.before);
  const std::map<JobId, int> will = sharing(before, routed.after);
  std::map<JobId, JobGain> jobs;
  for (const auto& [job, flows] : was) jobs[job].sharing_before = flows;
  for (const auto& [job, flows] : will) jobs[job].sharing_after = flows;
  std::map<JobId, int> rounds;
  for (const Round& round : plan.rounds) {
    std::set<JobId> pausing;
    for (const Move& move : round) {
      const JobId job = before.groups[move.group].job;
      pausing.insert(job);
      if (move.to != kStaging) ++jobs[job].moves;
    }
    for (const JobId job : pausing) ++rounds[job];
  }
  Gain gain;
  for (auto& [job, one] : jobs) {
    one.job = job;
    one.gpus = gpus_of(before, job);
    const std::optional<double> end_s = before.jobs[job].end_s;
    one.left_s = end_s && now_s ? std::max(0.0, *end_s - *now_s) : rules.assumed_left_s;
    // What runs k times as long regains 1 − after/before of the time it would still have taken.
    const double change = 1 - slowdown(one.sharing_after, rules.communication) /
                                  slowdown(one.sharing_before, rules.communication);
    one.regained_gpu_h = one.gpus * one.left_s / kHour_s * change;
    one.paused_gpu_h = one.gpus * rules.pause_s * rounds[job] / kHour_s;
    gain.regained_gpu_h += one.regained_gpu_h;
    gain.paused_gpu_h += one.paused_gpu_h;
    gain.jobs.push_back(one);
  }
  return gain;
}

}  // namespace monkeytree
