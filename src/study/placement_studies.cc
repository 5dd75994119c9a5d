#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "study/built_in.h"
#include "study/churn.h"
#include "study/study_report.h"

namespace monkeytree {
namespace {

// -- abundance ----------------------------------------------------------------------------------

constexpr int kMostBound = 64;
constexpr int kMostEvents = 200;  ///< compliance that lasts longer is counted with these

PlacementRule rule_of(const std::string& name) {
  if (name == "random") return PlacementRule::kRandom;
  return name == "first-fit" ? PlacementRule::kFirstFit : PlacementRule::kBestFit;
}

/// How many of `draws` placements have no degree above λ, by λ from 1.
std::vector<double> complying(const StudyCell& cell, double share, int draws,
                              const StopPredicate& stop) {
  std::vector<double> complies(kMostBound, 0);
  RandomSequence seeds(cell.seed());
  for (int d = 0; d < draws && !(stop && stop()); ++d) {
    Churn cluster({}, rule_of(cell.text("scheduler")), seeds.next());
    cluster.fill_to(share);
    const int highest = std::max(1, cluster.highest_degree());
    for (int bound = highest; bound <= kMostBound; ++bound) {
      complies[static_cast<size_t>(bound - 1)] += 1.0 / draws;
    }
  }
  return complies;
}

/// Departures after which a placement made by Theorem 1's construction first breaks λ, by λ; the
/// mean over `draws`.
std::vector<double> lasting(const StudyCell& cell, double share, int draws,
                            const StopPredicate& stop) {
  std::vector<double> lasts(kMostBound, 0);
  RandomSequence seeds(cell.seed() + 1'000'003);
  for (int d = 0; d < draws && !(stop && stop()); ++d) {
    Churn cluster({}, rule_of(cell.text("scheduler")), seeds.next());
    cluster.fill_to(share);
    cluster.repack();
    int highest = cluster.highest_degree();
    for (int event = 0; event < kMostEvents; ++event) {
      for (int bound = std::max(1, highest); bound <= kMostBound; ++bound) {
        lasts[static_cast<size_t>(bound - 1)] += 1.0 / draws;
      }
      cluster.step(share);
      highest = std::max(highest, cluster.highest_degree());
    }
  }
  return lasts;
}

absl::StatusOr<Measurements> measure_abundance(const StudyCell& cell, const StopPredicate& stop) {
  const double share = cell.number("fill") / 100;
  // As many draws as a run of this size has jobs, so that --jobs and --quick mean something here.
  const int jobs = std::stoi(cell.settings().at("workload.generate.jobs").text);
  Measurements out;
  out.lists = {{"complying", complying(cell, share, std::max(1, jobs / 4), stop)},
               {"lasting", lasting(cell, share, std::max(1, jobs / 60), stop)}};
  if (stop && stop()) return absl::CancelledError("stopped");
  for (const int bound : {8, 16, 24, 32}) {
    const auto at = static_cast<size_t>(bound - 1);
    out.values.emplace_back(fmt::format("complying_{}", bound), out.lists[0].second[at]);
    out.values.emplace_back(fmt::format("lasting_{}", bound), out.lists[1].second[at]);
  }
  return out;
}

/// A line by λ for each share of nodes taken.
Figure by_bound(const StudyResults& results, const std::string& list, const std::string& scheduler,
                LineChart chart) {
  chart.x = {.label = "Bound λ"};
  for (const std::string& fill : results.axis("fill")->values) {
    LineSeries line{.name = fill + " % taken"};
    const std::vector<std::vector<double>> seeds =
        results.lists(list, {{"fill", fill}, {"scheduler", scheduler}});
    for (int bound = 1; bound <= kMostBound; ++bound) {
      std::vector<double> values;
      for (const std::vector<double>& seed : seeds) {
        if (seed.size() == kMostBound) values.push_back(seed[static_cast<size_t>(bound - 1)]);
      }
      const Estimate y = estimate(values);
      // An interval may reach beyond what is possible; the picture does not.
      line.points.push_back({static_cast<double>(bound), y.mean, std::max(y.low, 0.0),
                             std::min(y.high, chart.y.high.value_or(kMostEvents))});
    }
    chart.series.push_back(std::move(line));
  }
  return draw(chart);
}

Study abundance() {
  return {
      .name = "abundance",
      .title = "How many placements comply, and for how long",
      .question =
          "The mix of jobs of the catalogue on 1,024 GPUs, 64 to a rack. A placement complies "
          "with λ where no rack's degree is above it: how many do, if jobs are placed one "
          "after another on an empty cluster? And if the cluster is filled by Theorem 1's "
          "construction and jobs then end at random and others take their place, after how "
          "many departures does it first break λ? Nothing is moved. A job with tensor "
          "parallelism counts 8, so degrees come in steps of 8.",
      .axes = {{"scheduler", {"best-fit", "first-fit", "random"}},
               {"fill", {"50", "70", "80", "90", "95"}}},
      .quick = {{"fill", {"50", "80", "95"}}},
      .size = {.jobs = 4000},
      .quick_size = {.jobs = 1600, .seeds = 3},
      .metrics = {"complying_8", "complying_16", "complying_32", "lasting_16", "lasting_32"},
      .measure = measure_abundance,
      .draw = [](const StudyResults& results, StudyReport& report) {
        for (const std::string& scheduler : results.axis("scheduler")->values) {
          report.add(by_bound(results, "complying", scheduler,
                              {.title = scheduler + ": placements that comply with λ",
                               .y = {.label = "Share of placements", .low = 0, .high = 1}}));
          report.add(by_bound(results, "lasting", scheduler,
                              {.title = scheduler + ": how long compliance lasts",
                               .caption = fmt::format("Watched for {} departures.", kMostEvents),
                               .y = {.label = "Departures until λ is broken", .low = 0}}));
        }
      }};
}

// -- planner-time -------------------------------------------------------------------------------

constexpr size_t kMostMoves = 12;  ///< larger plans are counted with these
constexpr double kShare = 0.97;
constexpr int64_t kWorkLimit = 200'000;  ///< as in a scenario

/// CPU time of this thread.
double cpu_ms() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
}

absl::StatusOr<Measurements> measure_planner(const StudyCell& cell, const StopPredicate& stop) {
  const int jobs = std::stoi(cell.settings().at("workload.generate.jobs").text);
  FabricShape fabric;
  fabric.gpus = static_cast<int>(cell.number("gpus"));
  Churn cluster(fabric, PlacementRule::kBestFit, cell.seed());
  cluster.fill_to(kShare);
  std::vector<double> times, count(kMostMoves, 0), sum(kMostMoves, 0);
  int unsolved = 0, events = 0;
  const int wanted = std::max(10, jobs / 10);
  for (; static_cast<int>(times.size()) < wanted && events < 20 * wanted; ++events) {
    if (stop && stop()) return absl::CancelledError("stopped");
    cluster.step(kShare);
    if (cluster.planner().over().empty()) continue;
    PlanOptions options;
    options.work_limit = kWorkLimit;
    const double start = cpu_ms();
    const Plan plan = cluster.planner().plan(options);
    const double took = cpu_ms() - start;
    times.push_back(took);
    if (plan.status != PlanStatus::kOptimal && plan.status != PlanStatus::kFeasible) {
      ++unsolved;
      cluster.repack();
      continue;
    }
    const size_t at = std::min(static_cast<size_t>(std::max(plan.moves, 1)), kMostMoves) - 1;
    ++count[at];
    sum[at] += took;
    cluster.planner().apply(plan.rounds);
    cluster.refresh();
  }
  Measurements out;
  out.values = {{"events", events},
                {"planned", static_cast<double>(times.size())},
                {"unsolved", unsolved},
                {"plan_ms_avg", mean_of(times)},
                {"plan_ms_p50", quantile_of(times, 0.5)},
                {"plan_ms_p90", quantile_of(times, 0.9)},
                {"plan_ms_p99", quantile_of(times, 0.99)},
                {"plan_ms_max", quantile_of(times, 1)}};
  out.lists = {{"plans_by_moves", std::move(count)}, {"ms_by_moves", std::move(sum)}};
  return out;
}

void draw_planner(const StudyResults& results, StudyReport& report) {
  LineChart by_size{.title = "CPU time of a plan, by the size of the cluster",
                    .x = {.label = "GPUs", .kind = AxisKind::kLog},
                    .y = {.label = "CPU time of a plan", .unit = "ms", .kind = AxisKind::kLog}};
  const std::vector<std::string>& sizes = results.axis("gpus")->values;
  for (const auto& [metric, name] :
       {std::pair{"plan_ms_avg", "average"}, {"plan_ms_p90", "p90"}, {"plan_ms_p99", "p99"}}) {
    LineSeries line{.name = name, .strong = std::string_view(name) == "average"};
    for (const std::string& gpus : sizes) {
      const Estimate y = results.estimate(metric, {{"gpus", gpus}});
      line.points.push_back({std::stod(gpus), y.mean, std::max(y.low, y.mean / 100), y.high});
    }
    by_size.series.push_back(std::move(line));
  }
  by_size.series.push_back(
      {.name = "the paper's integer program, average",
       .points = {{128, 19.84}, {256, 43.01}, {512, 127.08}, {1024, 439.73}, {2048, 2393.94}}});
  by_size.caption =
      "The paper's times are those that it prints, of CBC on a machine that it does not name.";
  report.add(draw(by_size));

  LineChart by_moves{
      .title = "CPU time of a plan, by its number of moves",
      .caption = fmt::format("All seeds together; {} stands for larger plans too.", kMostMoves),
      .x = {.label = "Workers moved"},
      .y = {.label = "CPU time of a plan", .unit = "ms", .kind = AxisKind::kLog}};
  DataTable table{.title = "Plans by size and by number of moves",
                  .columns = {{"GPUs"}, {"moves"}, {"plans"}, {"average CPU time", "ms"}}};
  for (const std::string& gpus : sizes) {
    LineSeries line{.name = gpus + " GPUs"};
    const std::vector<double> plans = results.summed("plans_by_moves", {{"gpus", gpus}});
    const std::vector<double> times = results.summed("ms_by_moves", {{"gpus", gpus}});
    for (size_t i = 0; i < plans.size(); ++i) {
      if (plans[i] == 0) continue;
      const double average = times[i] / plans[i];
      line.points.push_back({static_cast<double>(i + 1), average});
      table.rows.push_back({std::stoi(gpus), static_cast<int64_t>(i + 1),
                            static_cast<int64_t>(plans[i]), DataCell(average, 3)});
    }
    by_moves.series.push_back(std::move(line));
  }
  report.add(draw(by_moves));
  report.add(table, "moves");
}

Study planner_time() {
  return {.name = "planner-time",
          .title = "How long a plan takes",
          .question = fmt::format(
              "Best-fit keeps {:.0f} % of the nodes taken while jobs end at random and others "
              "start; whenever a rack is above its 16 uplinks the planner is asked for the fewest "
              "moves, and they are made. CPU time of one core, first plan to last; a plan is "
              "given up after 200,000 search nodes, and such a cluster is filled anew.",
              100 * kShare),
          .axes = {{"gpus", {"128", "256", "512", "1024", "2048", "4096", "8192"}}},
          .quick = {{"gpus", {"256", "512", "1024", "2048"}}},
          .size = {.jobs = 10'000},
          .quick_size = {.jobs = 2000, .seeds = 3},
          .metrics = {"plan_ms_avg", "plan_ms_p50", "plan_ms_p90", "plan_ms_p99", "plan_ms_max",
                      "planned", "unsolved"},
          .measure = measure_planner,
          .draw = draw_planner,
          .timed = true};
}

}  // namespace

std::vector<Study> placement_studies() { return {abundance(), planner_time()}; }

}  // namespace monkeytree
