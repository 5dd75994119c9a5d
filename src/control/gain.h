#pragma once

#include <map>
#include <optional>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/plan.h"
#include "routing/routes.h"

namespace monkeytree {

/// What the estimate of a plan's gain assumes.
struct GainRules {
  double communication = 0.3;     ///< share of an iteration that a job communicates, alone
  double pause_s = 10;            ///< a job stands still for each round that moves its workers
  double assumed_left_s = 14400;  ///< of a job that does not say when it ends
};

/// What sharing uplinks costs a job: with k flows on the fullest link that one of its flows takes,
/// communication takes k times as long and the iteration 1 + c·(k − 1) times.
struct JobGain {
  JobId job;
  int sharing_before = 1, sharing_after = 1;  ///< k
  double left_s = 0;                          ///< until it ends, as far as is known
  double gpus = 0;
  double regained_gpu_h = 0;  ///< negative where the plan makes it share more
  double paused_gpu_h = 0;
  int moves = 0;
};

struct Gain {
  double regained_gpu_h = 0;
  double paused_gpu_h = 0;
  std::vector<JobGain> jobs;  ///< that gain, lose or move; by job
};

/// GPUs of all workers of a job; slots where the snapshot does not tell GPUs.
double gpus_of(const Snapshot& snapshot, JobId job);

/// Which uplinks flows take before a plan and after it; nullopt where there are more flows than any
/// real cluster has.
struct PlanRoutes {
  std::optional<Routes> before, after;
};

/// O(flows · length of a chain), the price of routes(), which is paid once for all that asks.
PlanRoutes routes_of(const Snapshot& before, const Plan& plan);

/// The jobs' fullest links, by job; those not listed have all links for themselves. Empty where the
/// routes are not known.
std::map<JobId, int> sharing(const Snapshot& snapshot, const std::optional<Routes>& routed);

/// `routed` are the plan's. Without a time nobody knows when a job ends.
Gain estimate_gain(const Snapshot& before, const Plan& plan, const PlanRoutes& routed,
                   const GainRules& rules, std::optional<double> now_s);

}  // namespace monkeytree
