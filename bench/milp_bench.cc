/// The planner against the paper's integer program over CBC, on the same instances in the same run,
/// in CPU time of one core. Usage: milp_bench [--smoke] [INSTANCES]

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "bench/churn.h"
#include "bench/measure.h"
#include "planning/milp.h"
#include "planning/planner.h"

namespace monkeytree::bench {
namespace {

/// Median of a few runs: one is too short for the clock.
Plan settled_plan(const Snapshot& snapshot, double& ms) {
  std::array<double, 5> runs{};
  Plan result;
  for (double& run : runs) result = timed_plan(snapshot, 1000, run);
  ms = quantile({runs.begin(), runs.end()}, 0.5);
  return result;
}

/// The same by a planner that has the state already.
double kept_plan_ms(const Snapshot& snapshot) {
  Planner planner(snapshot);
  std::array<double, 5> runs{};
  for (double& run : runs) {
    const double start = cpu_ms();
    planner.plan();
    run = cpu_ms() - start;
  }
  return quantile({runs.begin(), runs.end()}, 0.5);
}

/// False where the two disagreed.
bool row(const Fabric& fabric, int gpus, int instances) {
  Churn churn(churn_of(fabric, gpus));
  std::vector<double> milp_ms, plan_ms, kept_ms, ratios, kept_ratios, moves;
  int unproved = 0;
  bool agreed = true;
  // Every seventh violation, so that instances differ.
  for (int violation = 0; static_cast<int>(ratios.size()) < instances;) {
    churn.arrive();
    if (!churn.over()) continue;
    double ms = 0;
    const Plan fewest = settled_plan(churn.snapshot(), ms);
    if (violation++ % 7 == 6) {
      const double start = cpu_ms();
      const MilpAnswer answer = milp_answer(churn.snapshot(), {}, 60);
      milp_ms.push_back(cpu_ms() - start);
      plan_ms.push_back(ms);
      kept_ms.push_back(kept_plan_ms(churn.snapshot()));
      ratios.push_back(milp_ms.back() / ms);
      kept_ratios.push_back(milp_ms.back() / kept_ms.back());
      moves.push_back(fewest.moves);
      const bool proved = answer.status == PlanStatus::kOptimal;
      unproved += !proved;
      if (proved && fewest.status == PlanStatus::kOptimal && answer.moves != fewest.moves) {
        fmt::print(stderr, "{} GPUs, bound {}: {} moves by CBC, {} by the planner\n", gpus,
                   fabric.label, answer.moves, fewest.moves);
        agreed = false;
      }
    }
    churn.apply(fewest.rounds);
  }
  fmt::print("{:>6} {:<10} {:>4} {:>3.0f} {:>3.0f} {:>8.0f} {:>8.0f} {:>8.3f} {:>8.3f} {:>8.3f}",
             gpus, fabric.label, instances, quantile(moves, 0.5), quantile(moves, 1),
             quantile(milp_ms, 0.5), quantile(milp_ms, 1), quantile(plan_ms, 0.5),
             quantile(plan_ms, 1), quantile(kept_ms, 0.5));
  fmt::print(" {:>8.0f} {:>8.0f} {:>5}\n", quantile(ratios, 0.5), quantile(kept_ratios, 0.5),
             unproved);
  std::fflush(stdout);
  return agreed;
}

bool all(bool smoke, int instances) {
  fmt::print(
      "the integer program over CBC and plan() on the same snapshots, CPU ms\n"
      "{:>6} {:<10} {:>4} {:>7} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>5}\n",
      "GPUs", "bound", "evts", "moves", "CBC p50", "max", "plan p50", "max", "kept p50", "ratio",
      "of kept", "unpr.");
  if (smoke) return row(kUnit3, 256, 2);
  bool agreed = true;
  for (int gpus : {1024, 2048}) {
    for (const Fabric& fabric : {kUnit2, kUnit3, kWeighted16}) {
      agreed &= row(fabric, gpus, instances);
    }
  }
  return agreed;
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  bool smoke = false;
  int instances = 15;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--smoke") {
      smoke = true;
    } else {
      instances = std::atoi(argv[i]);
    }
  }
  return monkeytree::bench::all(smoke, instances) ? 0 : 1;
}
