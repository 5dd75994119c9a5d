#pragma once

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include "bench/churn.h"
#include "planning/plan.h"

/// What the planning benchmarks measure with.
namespace monkeytree::bench {

/// CPU time of this thread.
inline double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// plan() with a limit on CPU time; `ms` becomes what it took.
inline Plan timed_plan(const Snapshot& snapshot, double limit_ms, double& ms) {
  const double start = cpu_ms();
  PlanOptions options;
  options.stop = [=] { return cpu_ms() - start > limit_ms; };
  Plan result = plan(snapshot, options);
  ms = cpu_ms() - start;
  return result;
}

/// The value that a share q of the samples does not exceed; 0 where there are none.
inline double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  return samples[static_cast<size_t>(q * static_cast<double>(samples.size() - 1) + 0.5)];
}

/// Uplinks and weights, with 8 GPUs a node and 8 nodes a rack.
struct Fabric {
  std::string_view label;
  int uplinks;
  bool weighted;
};
inline constexpr Fabric kUnit2 = {"2, unit", 2, false};
inline constexpr Fabric kUnit3 = {"3, unit", 3, false};
inline constexpr Fabric kWeighted16 = {"16, {1,8}", 16, true};

inline ChurnOptions churn_of(const Fabric& fabric, int gpus) {
  ChurnOptions options;
  options.racks = gpus / 64;
  options.uplinks = fabric.uplinks;
  options.weighted = fabric.weighted;
  return options;
}

}  // namespace monkeytree::bench
