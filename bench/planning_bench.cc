/// What planning costs, in CPU time of one core.
/// Usage: planning_bench [--smoke] [--gpus N] [repairs|cold|events]; docs/performance.md says what
/// each shows.

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/churn.h"
#include "bench/measure.h"
#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"
#include "planning/plan.h"
#include "planning/planner.h"

namespace monkeytree::bench {
namespace {

/// Churn watched by a planner that keeps its state: each arrival that puts a rack over its bound is
/// repaired at once.
class WatchedCluster {
 public:
  explicit WatchedCluster(const ChurnOptions& options)
      : churn_(options), planner_(churn_.snapshot()) {}

  /// The next arrival. True where a rack is over; event_ms() is then what telling the planner took.
  bool arrive() {
    const ChurnEvent event = churn_.arrive();
    const Snapshot& now = churn_.snapshot();
    const GroupId group = churn_.find(event.arrived);
    Job job = now.jobs[now.groups[group].job];
    std::vector<Group> groups = {now.groups[group]};
    std::vector<JobId> departed;
    for (const std::string& id : event.departed) {
      departed.push_back(jobs_.at(id));
      jobs_.erase(id);
    }
    const double start = cpu_ms();
    for (JobId id : departed) planner_.remove_job(id);
    const JobId id = planner_.add_job(std::move(job), std::move(groups));
    event_ms_ = cpu_ms() - start;
    jobs_[event.arrived] = id;
    return churn_.over();
  }

  const Snapshot& snapshot() const { return churn_.snapshot(); }
  double event_ms() const { return event_ms_; }

  Plan plan(double limit_ms, double& ms) {
    const double start = cpu_ms();
    PlanOptions options;
    options.stop = [=] { return cpu_ms() - start > limit_ms; };
    Plan result = planner_.plan(options);
    ms = cpu_ms() - start;
    return result;
  }

  /// Carries out one of the planner's plans.
  void repair(const Plan& plan) {
    std::vector<Round> rounds = plan.rounds;
    const Snapshot& kept = planner_.snapshot();
    for (Round& round : rounds) {
      for (Move& move : round) move.group = churn_.find(kept.jobs[kept.groups[move.group].job].id);
    }
    churn_.apply(rounds);
    planner_.apply(plan.rounds);
  }

 private:
  Churn churn_;
  Planner planner_;
  std::unordered_map<std::string, JobId> jobs_;  ///< the planner's number of a running job
  double event_ms_ = 0;
};

class Events {
 public:
  explicit Events(const ChurnOptions& options) : churn_(options), planner_(churn_.snapshot()) {}

  void run(int jobs) {
    for (auto* us : {&start_, &end_, &compliant_, &plan_, &begin_, &finish_}) {
      us->reserve(static_cast<size_t>(2 * jobs));
    }
    const size_t before = heap_bytes();
    for (int i = 0; i < jobs; ++i) step();
    const size_t ended = planner_.snapshot().jobs.size() - churn_.snapshot().jobs.size();
    bytes_ = static_cast<double>(heap_bytes() - before) / static_cast<double>(ended);
  }

  void print(std::string_view label) const {
    fmt::print("{:<10}", label);
    for (const std::vector<double>* us : {&start_, &end_, &compliant_, &plan_, &begin_, &finish_}) {
      fmt::print(" {:>6.1f}/{:<6.1f}", quantile(*us, 0.5), quantile(*us, 0.99));
    }
    fmt::print(" {:>6.0f}\n", bytes_);
  }

 private:
  static size_t heap_bytes() { return mallinfo2().uordblks; }

  template <class Call>
  void timed(std::vector<double>& us, Call call) {
    const double start = cpu_ms();
    call();
    us.push_back((cpu_ms() - start) * 1e3);
  }

  void step() {
    const ChurnEvent event = churn_.arrive();
    for (const std::string& id : event.departed) {
      const JobId job = jobs_.at(id);
      jobs_.erase(id);
      timed(end_, [&] { planner_.remove_job(job); });
    }
    const Snapshot& now = churn_.snapshot();
    const GroupId group = churn_.find(event.arrived);
    Job job = now.jobs[now.groups[group].job];
    std::vector<Group> groups = {now.groups[group]};
    timed(start_,
          [&] { jobs_[event.arrived] = planner_.add_job(std::move(job), std::move(groups)); });
    PlanOptions options;
    const double begin = cpu_ms();
    options.stop = [=] { return cpu_ms() - begin > 1000; };
    Plan plan;
    timed(planner_.over().empty() ? compliant_ : plan_, [&] { plan = planner_.plan(options); });
    if (plan.rounds.empty()) return;
    timed(begin_, [&] { planner_.begin(plan.rounds); });
    std::vector<Round> rounds = plan.rounds;
    const Snapshot& kept = planner_.snapshot();
    for (Round& round : rounds) {
      for (Move& move : round) move.group = churn_.find(kept.jobs[kept.groups[move.group].job].id);
    }
    churn_.apply(rounds);
    timed(finish_, [&] {
      for (const Round& round : plan.rounds) planner_.finish(round);
    });
  }

  Churn churn_;
  Planner planner_;
  std::unordered_map<std::string, JobId> jobs_;
  std::vector<double> start_, end_, compliant_, plan_, begin_, finish_;
  double bytes_ = 0;
};

struct Repairs {
  std::vector<double> fresh_ms, kept_ms, moves;
  int unproved = 0;   ///< within the limit
  int without = 0;    ///< no plan at all
  int different = 0;  ///< both planners proved, with different counts: a mistake
};

Repairs run_repairs(const ChurnOptions& options, int violations) {
  WatchedCluster cluster(options);
  Repairs out;
  double ms = 0;
  for (int i = 2 * options.racks * options.nodes_per_rack; i > 0; --i) {
    if (cluster.arrive()) cluster.repair(cluster.plan(1000, ms));
  }
  for (int i = 400 * violations; i > 0 && static_cast<int>(out.moves.size()) < violations; --i) {
    if (!cluster.arrive()) continue;
    const Plan fresh = timed_plan(cluster.snapshot(), 1000, ms);
    out.fresh_ms.push_back(ms);
    const Plan kept = cluster.plan(1000, ms);
    out.kept_ms.push_back(cluster.event_ms() + ms);
    out.moves.push_back(fresh.moves);
    const bool proved = fresh.status == PlanStatus::kOptimal;
    out.unproved += !proved;
    out.without += fresh.rounds.empty();
    if (proved && kept.status == PlanStatus::kOptimal && fresh.moves != kept.moves) {
      ++out.different;
      std::ofstream("planning_bench_difference.json") << write_snapshot(cluster.snapshot());
      fmt::print(stderr, "planning_bench_difference.json: {} moves from the snapshot, {} kept\n",
                 fresh.moves, kept.moves);
    }
    cluster.repair(kept);
  }
  return out;
}

void print_times(const std::vector<double>& ms) {
  fmt::print(" {:>8.3f} {:>7.3f} {:>7.3f} {:>7.2f}", quantile(ms, 0.5), quantile(ms, 0.9),
             quantile(ms, 0.99), quantile(ms, 1));
}

struct Stream {
  std::string_view label;
  JobMix mix;
  bool full;
};
constexpr Stream kStreams[] = {{"load 1.0", JobMix::kCatalogue, false},
                               {"full", JobMix::kCatalogue, true},
                               {"full, broad", JobMix::kBroad, true}};

bool repairs_row(const Fabric& fabric, const Stream& stream, int gpus, int violations) {
  ChurnOptions options = churn_of(fabric, gpus);
  options.mix = stream.mix;
  options.full = stream.full;
  const Repairs row = run_repairs(options, violations);
  fmt::print("{:>6} {:<10} {:<11} {:>4} {:>3.0f} {:>3.0f}", gpus, fabric.label, stream.label,
             row.moves.size(), quantile(row.moves, 0.5), quantile(row.moves, 1));
  print_times(row.fresh_ms);
  print_times(row.kept_ms);
  fmt::print(" {:>5} {:>5}\n", row.unproved, row.without);
  std::fflush(stdout);
  return row.different == 0;
}

/// False where two planners disagreed.
bool print_repairs(const std::vector<int>& sizes, int violations) {
  fmt::print("repairs after an arrival, racks of 8 nodes, CPU ms\n{:<42}{:^33}{:^33}\n", "",
             "plan() from the snapshot", "state kept between events");
  fmt::print("{:>6} {:<10} {:<11} {:>4} {:>7}", "GPUs", "bound", "jobs", "evts", "moves");
  for (int i = 0; i < 2; ++i) fmt::print(" {:>8} {:>7} {:>7} {:>7}", "p50", "p90", "p99", "max");
  fmt::print(" {:>5} {:>5}\n", "unpr.", "none");
  bool agreed = true;
  for (const Fabric& fabric : {kUnit3, kWeighted16, kUnit2}) {
    for (const Stream& stream : kStreams) {
      for (int gpus : sizes) agreed &= repairs_row(fabric, stream, gpus, violations);
    }
  }
  return agreed;
}

/// Nobody repaired for a long time: hundreds of racks are over at once.
void print_cold(bool smoke) {
  const int gpus = smoke ? 8192 : 131072;
  const int over = smoke ? 20 : 500;
  const double limit_ms = smoke ? 300 : 5000;
  fmt::print(
      "\ncold start, {} GPUs, {} racks over, half of the jobs scattered, limit {} ms\n"
      "{:<10} {:>5} {:>6} {:>7} {:>7} {:>7} {:>6} {:>9} {:<10}\n",
      gpus, over, limit_ms, "bound", "fill", "racks", "excess", "moves", "lower", "gap %", "CPU ms",
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
      const Plan result = timed_plan(snapshot, limit_ms, ms);
      const int bound = result.lower_bound.value_or(0);
      fmt::print("{:<10} {:>5.2f} {:>6} {:>7} {:>7} {:>7} {:>6.1f} {:>9.1f} {:<10}\n", fabric.label,
                 fill, racks, result.excess_before, result.moves, bound,
                 bound > 0 ? 100.0 * (result.moves - bound) / bound : 0.0, ms,
                 name_of(result.status));
    }
  }
}

/// Events of a long simulation, as its caller tells them: what each costs at the median, and what
/// is kept of jobs that have ended.
void print_events(int gpus, int jobs) {
  fmt::print("\nevents told to a planner that keeps its state, {} GPUs, {} jobs, CPU us\n", gpus,
             jobs);
  fmt::print("{:<10} {:>13} {:>13} {:>13} {:>13} {:>13} {:>13} {:>6}\n", "bound", "start", "end",
             "compliant", "plan", "begin", "finish", "bytes");
  for (const Fabric& fabric : {kUnit3, kWeighted16}) {
    ChurnOptions options = churn_of(fabric, gpus);
    Events events(options);
    events.run(jobs);
    events.print(fabric.label);
  }
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  bool smoke = false, repairs = true, cold = true, events = true;
  std::vector<int> sizes = {1024, 2048, 8192, 32768, 131072};
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      smoke = true;
      sizes = {1024};
    } else if (argument == "--gpus" && i + 1 < argc) {
      sizes = {std::atoi(argv[++i])};
    } else if (argument == "repairs") {
      cold = events = false;
    } else if (argument == "cold") {
      repairs = events = false;
    } else if (argument == "events") {
      repairs = cold = false;
    } else {
      fmt::print(stderr, "usage: planning_bench [--smoke] [--gpus N] [repairs|cold|events]\n");
      return 2;
    }
  }
  bool good = true;
  if (repairs) good = monkeytree::bench::print_repairs(sizes, smoke ? 20 : 500);
  if (events) monkeytree::bench::print_events(smoke ? 1024 : sizes.back(), smoke ? 1000 : 100'000);
  if (cold) monkeytree::bench::print_cold(smoke);
  return good ? 0 : 1;
}
