#include "study/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/sha256.h"
#include "simulation/output.h"

namespace monkeytree {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kHour_us = 3.6e9;
constexpr size_t kMostPlanMoves = 20;  ///< larger plans are counted with these

/// Degrees and busy nodes over time, kept whole until the length of the run is known.
class History {
 public:
  void add(const FragmentationSample& sample) {
    if (!samples_.empty() && samples_.back().time == sample.time) samples_.pop_back();
    if (!samples_.empty() && same(samples_.back(), sample)) return;
    samples_.push_back(sample);
  }

  void measure(Time end, int nodes, Measurements& out) const {
    double degree = 0, over = 0, highest = 0;
    std::vector<double> degrees(kTimeSteps, 0), busy(kTimeSteps, 0);
    for (size_t i = 0; i < samples_.size(); ++i) {
      const FragmentationSample& it = samples_[i];
      const Time until = i + 1 < samples_.size() ? samples_[i + 1].time : end;
      const auto length = static_cast<double>(until - it.time);
      degree += it.max_degree * length;
      over += it.over > 0 ? length : 0;
      highest = std::max(highest, static_cast<double>(it.max_degree));
      spread(it, until, end, nodes, degrees, busy);
    }
    const auto whole = static_cast<double>(end);
    out.values.emplace_back("degree_avg", whole > 0 ? degree / whole : kNaN);
    out.values.emplace_back("degree_max", highest);
    out.values.emplace_back("time_over", whole > 0 ? over / whole : kNaN);
    out.lists.emplace_back("degree_over_time", std::move(degrees));
    out.lists.emplace_back("busy_over_time", std::move(busy));
  }

 private:
  static bool same(const FragmentationSample& a, const FragmentationSample& b) {
    return a.max_degree == b.max_degree && a.over == b.over && a.busy_nodes == b.busy_nodes;
  }

  static void spread(const FragmentationSample& sample, Time until, Time end, int nodes,
                     std::vector<double>& degrees, std::vector<double>& busy) {
    if (end <= 0) return;
    const double step = static_cast<double>(end) / kTimeSteps;
    const auto from = static_cast<double>(sample.time), to = static_cast<double>(until);
    for (auto k = static_cast<size_t>(from / step); k < kTimeSteps; ++k) {
      const double low = std::max(from, static_cast<double>(k) * step);
      const double high = std::min(to, static_cast<double>(k + 1) * step);
      if (high <= low) break;
      degrees[k] = std::max(degrees[k], static_cast<double>(sample.max_degree));
      busy[k] += sample.busy_nodes * (high - low) / step / nodes;
    }
  }

  std::vector<FragmentationSample> samples_;
};

void add_summary(const Summary& summary, Measurements& out) {
  const auto add = [&](const char* name, std::optional<double> value) {
    out.values.emplace_back(name, value.value_or(kNaN));
  };
  const auto count = [&](const char* name, int64_t value) {
    out.values.emplace_back(name, static_cast<double>(value));
  };
  add("slowdown_avg", summary.slowdown_avg);
  add("slowdown_p50", summary.slowdown_p50);
  add("slowdown_p90", summary.slowdown_p90);
  add("slowdown_p99", summary.slowdown_p99);
  add("slowdown_max", summary.slowdown_max);
  add("wait_avg_s", summary.wait_avg_s);
  add("gpu_hours", summary.gpu_hours);
  add("gpu_hours_lost", summary.gpu_hours_lost);
  count("ended", summary.ended);
  add("simulated_h", static_cast<double>(summary.simulated) / kHour_us);
  count("plans", summary.plans);
  count("plans_failed", summary.plans_failed);
  count("moves", summary.moves);
  count("moves_staged", summary.moves_staged);
  count("jobs_moved", summary.jobs_moved);
}

void add_pauses(const SimulationResult& result, Measurements& out) {
  double paused = 0;
  int moved = 0;
  for (const JobResult& job : result.jobs) {
    paused += static_cast<double>(job.paused) / 1e6;
    moved += job.moves > 0;
  }
  out.values.emplace_back("paused_s", moved > 0 ? paused / moved : kNaN);
}

void add_plans(const std::vector<double>& plans, Measurements& out) {
  double all = 0;
  for (const double count : plans) all += count;
  out.values.emplace_back("plans_of_one", all > 0 ? plans[0] / all : kNaN);
  out.values.emplace_back("plans_of_two", all > 0 ? plans[1] / all : kNaN);
  out.lists.emplace_back("plan_moves", plans);
}

absl::StatusOr<Measurements> run(const StudyCell& cell, const FileReader& read,
                                 const StopPredicate& stop) {
  Diagnostics diagnostics;
  const std::optional<ScenarioInput> input =
      read_settings(cell.settings(), "scenario", read, diagnostics);
  if (!input) return absl::InvalidArgumentError(diagnostics.text());
  History history;
  std::vector<double> plans(kMostPlanMoves, 0);
  SimulationOptions options;
  options.stop = [&](double) { return stop && stop(); };
  options.on_sample = [&](const FragmentationSample& sample) { history.add(sample); };
  options.on_event = [&](const SimulationEvent& event) {
    if (event.kind != SimulationEvent::kPlan || event.moves < 1) return;
    ++plans[std::min(static_cast<size_t>(event.moves), kMostPlanMoves) - 1];
  };
  const SimulationResult result =
      simulate(input->scenario, input->workload.catalogue, input->workload.trace, options);
  if (result.stopped) return absl::CancelledError("stopped");
  Measurements out;
  add_summary(summarize(input->scenario, input->workload.trace, result), out);
  add_pauses(result, out);
  add_plans(plans, out);
  const FabricShape& fabric = input->scenario.fabric;
  history.measure(result.simulated, fabric.gpus / fabric.gpus_per_node, out);
  return out;
}

}  // namespace

Measure simulated_run(FileReader read) {
  return [read = std::move(read)](const StudyCell& cell, const StopPredicate& stop) {
    return run(cell, read, stop);
  };
}

std::string files_definition(const Settings& settings, const FileReader& read) {
  Diagnostics ignored;  // the cell itself reports them
  const std::optional<ScenarioFile> scenario =
      parse_scenario(scenario_text(settings), "scenario", {}, ignored);
  std::string out;
  if (!scenario || !read) return out;
  for (const std::optional<NamedFile>& named : {scenario->models, scenario->trace}) {
    if (!named) continue;
    const absl::StatusOr<std::string> text = read(named->name);
    out += fmt::format("{} {}\n", named->name, text.ok() ? sha256(*text) : "unread");
  }
  return out;
}

}  // namespace monkeytree
