// What an event costs the controller once the scheduler has answered: the mirror follows the
// observation and plans, against a planner made afresh each time. The same events for both.
//
//     control_bench            1,024 and 16,384 nodes
//     control_bench --smoke    a small cluster
//
// A column is the mean; p99 stands beside it.

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "control/mirror.h"
#include "inventory/emulated_scheduler.h"
#include "planning/planner.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

class Times {
 public:
  template <class Act>
  void time(Act act) {
    const Clock::time_point start = Clock::now();
    act();
    ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  }
  double mean() const {
    double sum = 0;
    for (const double one : ms_) sum += one;
    return ms_.empty() ? 0 : sum / static_cast<double>(ms_.size());
  }
  double p99() const {
    if (ms_.empty()) return 0;
    std::vector<double> sorted = ms_;
    std::sort(sorted.begin(), sorted.end());
    return sorted[std::min(sorted.size() - 1, sorted.size() * 99 / 100)];
  }

 private:
  std::vector<double> ms_;
};

/// The books follow the plan at once; jobs that it would stage end instead.
void carry_out(EmulatedScheduler& cluster, const Snapshot& snapshot, const Plan& plan) {
  std::set<std::string> ended;
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) {
      const std::string& job = snapshot.jobs[snapshot.groups[move.group].job].id;
      if (ended.contains(job)) continue;
      const WorkerName worker{job, snapshot.group_index(move.group), move.worker};
      const bool staged = move.from == kStaging || move.to == kStaging;
      if (staged || !cluster.hold(worker, snapshot.nodes[move.to].name, "", Deadline::max()).ok()) {
        if (cluster.end(job).ok()) ended.insert(job);
        continue;
      }
      cluster.give_back(worker, snapshot.nodes[move.from].name, {}, Deadline::max()).IgnoreError();
    }
  }
}

void measure(int racks, int nodes_per_rack, int uplinks, int events) {
  EmulatedScheduler cluster(uniform_cluster(racks, nodes_per_rack, 1, uplinks), {},
                            [] { return 1e9; });
  EmulatedChurn::Settings settings;
  settings.load = 0.95;
  settings.sizes = {1, 2, 3, 5, 6, 7, 9, 11, 13, 20};
  EmulatedChurn churn(cluster, 1, settings);
  const int nodes = racks * nodes_per_rack;
  for (int i = 0; i < nodes / 3; ++i) churn.step();  // a full cluster, and some turnover
  Mirror mirror;
  Times follow, kept, fresh, read;
  PlanOptions options;
  options.work_limit = 20'000;
  int moves = 0;
  for (int i = -5; i < events; ++i) {
    churn.step();
    Observation seen;
    read.time([&] { seen = *cluster.observe(Deadline::max()); });
    follow.time([&] { mirror.follow(seen.snapshot, {}); });
    if (i < 0) follow = {};  // the first observations make the planner and mend the worst
    if (mirror.planner().over().empty()) continue;
    Plan plan;
    kept.time([&] { plan = mirror.planner().plan(options); });
    if (i % 8 == 0) fresh.time([&] { Planner(seen.snapshot).plan(options); });
    carry_out(cluster, mirror.snapshot(), plan);
    if (i < 0) {
      kept = fresh = {};
      continue;
    }
    moves += plan.moves;
  }
  fmt::print(
      "{:>6} nodes {:>5} events  follow {:7.3f} ms (p99 {:7.3f})  plan {:7.3f} (p99 {:7.3f})"
      "  afresh {:8.3f}  moves/event {:.2f}\n",
      nodes, events, follow.mean(), follow.p99(), kept.mean(), kept.p99(), fresh.mean(),
      static_cast<double>(moves) / events);
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--smoke") == 0) {
    monkeytree::measure(8, 8, 1, 50);
    return 0;
  }
  monkeytree::measure(128, 8, 2, 300);
  monkeytree::measure(2048, 8, 2, 100);
  return 0;
}
