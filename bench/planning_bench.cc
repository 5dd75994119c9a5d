/// What planning costs, in CPU time of one core. Usage: planning_bench [--smoke] [TABLE…]
/// Tables: repairs, cold. docs/performance.md says what each shows.

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <vector>

#include "bench/churn.h"
#include "cluster/fragmentation.h"
#include "planning/plan.h"

namespace monkeytree::bench {
namespace {

double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

/// plan() with a limit on CPU time; `ms` becomes what it took.
Plan timed_plan(const Snapshot& snapshot, double limit_ms, double& ms) {
  const double start = cpu_ms();
  PlanOptions options;
  options.stop = [=] { return cpu_ms() - start > limit_ms; };
  Plan result = plan(snapshot, options);
  ms = cpu_ms() - start;
  return result;
}

/// The value that a share q of the samples does not exceed.
double quantile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto index = static_cast<size_t>(q * static_cast<double>(samples.size() - 1) + 0.5);
  return samples[index];
}

struct Fabric {
  std::string_view label;
  int uplinks;
  bool weighted;
};
constexpr Fabric kUnit2 = {"2, unit", 2, false};
constexpr Fabric kUnit3 = {"3, unit", 3, false};
constexpr Fabric kWeighted16 = {"16, {1,8}", 16, true};

ChurnOptions churn_of(const Fabric& fabric, int gpus) {
  ChurnOptions options;
  options.racks = gpus / 64;
  options.uplinks = fabric.uplinks;
  options.weighted = fabric.weighted;
  return options;
}

/// Each arrival that puts a rack over its bound is repaired at once: a cluster that is watched.
void repairs_row(const Fabric& fabric, JobMix mix, int gpus, int violations) {
  ChurnOptions options = churn_of(fabric, gpus);
  options.mix = mix;
  Churn churn(options);
  std::vector<double> times, moves;
  int unproved = 0, without = 0, arrivals = 0;
  const int warm_up = 2 * options.racks * options.nodes_per_rack;
  const int patience = 400 * violations;
  for (; arrivals < warm_up + patience && static_cast<int>(times.size()) < violations; ++arrivals) {
    churn.arrive();
    if (!churn.over()) continue;
    double ms = 0;
    const Plan result = timed_plan(churn.snapshot(), 1000, ms);
    churn.apply(result.rounds);
    if (arrivals < warm_up) continue;
    times.push_back(ms);
    moves.push_back(result.moves);
    unproved += result.status != PlanStatus::kOptimal;
    without += result.status == PlanStatus::kUnknown || result.status == PlanStatus::kInfeasible;
  }
  fmt::print(
      "{:>7} {:<10} {:<9} {:>6} {:>8.3f} {:>8.3f} {:>8.3f} {:>8.3f} {:>6.0f} {:>4.0f} {:>5} "
      "{:>5}\n",
      gpus, fabric.label, mix == JobMix::kBroad ? "broad" : "catalogue", times.size(),
      quantile(times, 0.5), quantile(times, 0.9), quantile(times, 0.99), quantile(times, 1),
      quantile(moves, 0.5), quantile(moves, 1), unproved, without);
}

void print_repairs(bool smoke) {
  fmt::print(
      "repairs after an arrival, racks of 8 nodes, load 1.0, CPU ms of plan() from the snapshot\n"
      "{:>7} {:<10} {:<9} {:>6} {:>8} {:>8} {:>8} {:>8} {:>6} {:>4} {:>5} {:>5}\n",
      "GPUs", "bound", "jobs", "events", "p50", "p90", "p99", "max", "moves", "most", "unpr.",
      "none");
  const std::vector<int> sizes =
      smoke ? std::vector<int>{1024} : std::vector<int>{1024, 2048, 8192, 32768, 131072};
  const int violations = smoke ? 20 : 500;
  for (const Fabric& fabric : {kUnit3, kWeighted16, kUnit2}) {
    for (JobMix mix : {JobMix::kCatalogue, JobMix::kBroad}) {
      for (int gpus : sizes) repairs_row(fabric, mix, gpus, violations);
    }
  }
}

/// Nobody repaired for a long time: hundreds of racks are over at once.
void print_cold(bool smoke) {
  const int gpus = smoke ? 8192 : 131072;
  const int over = smoke ? 20 : 500;
  fmt::print(
      "\ncold start, {} GPUs, {} racks over, half of the jobs scattered, limit 5 s\n"
      "{:<10} {:>5} {:>6} {:>7} {:>7} {:>7} {:>6} {:>9} {:<10}\n",
      gpus, over, "bound", "fill", "racks", "excess", "moves", "bound", "gap %", "CPU ms",
      "status");
  for (const Fabric& fabric : {kUnit2, kWeighted16}) {
    for (double fill : {0.90, 0.97}) {
      ChurnOptions options = churn_of(fabric, gpus);
      options.fill = fill;
      options.scattered = 50;
      const Snapshot snapshot = neglected_cluster(options, over);
      const IdVector<RackId, int> degrees = fragmentation(snapshot);
      int racks = 0;
      for (RackId rack : degrees.keys()) racks += degrees[rack] > snapshot.racks[rack].bound();
      double ms = 0;
      const Plan result = timed_plan(snapshot, 5000, ms);
      const int bound = result.lower_bound.value_or(0);
      fmt::print("{:<10} {:>5.2f} {:>6} {:>7} {:>7} {:>7} {:>6.1f} {:>9.1f} {:<10}\n", fabric.label,
                 fill, racks, result.excess_before, result.moves, bound,
                 bound > 0 ? 100.0 * (result.moves - bound) / bound : 0.0, ms,
                 name_of(result.status));
    }
  }
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  bool smoke = false;
  std::vector<std::string_view> tables;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      smoke = true;
    } else if (argument == "repairs" || argument == "cold") {
      tables.push_back(argument);
    } else {
      fmt::print(stderr, "usage: planning_bench [--smoke] [repairs] [cold]\n");
      return 2;
    }
  }
  const auto wanted = [&](std::string_view table) {
    return tables.empty() || std::find(tables.begin(), tables.end(), table) != tables.end();
  };
  if (wanted("repairs")) monkeytree::bench::print_repairs(smoke);
  if (wanted("cold")) monkeytree::bench::print_cold(smoke);
  return 0;
}
