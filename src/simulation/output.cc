#include "simulation/output.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "base/json.h"
#include "base/statistics.h"
#include "planning/plan.h"

namespace monkeytree {
namespace {

constexpr double kHour_us = 3.6e9;
constexpr double kSecond_us = 1e6;

/// A job that takes no time at all is as fast as it can be.
double slowdown_of(const JobResult& job) { return job.ideal > 0 ? job.slowdown() : 1; }

std::string_view name_of(SimulationEvent::Kind kind) {
  switch (kind) {
    case SimulationEvent::kStart:
      return "start";
    case SimulationEvent::kFinish:
      return "finish";
    case SimulationEvent::kPlan:
      return "plan";
    case SimulationEvent::kMove:
      return "move";
    case SimulationEvent::kLeave:
      return "leave";
    case SimulationEvent::kArrive:
      return "arrive";
    case SimulationEvent::kResume:
      return "resume";
  }
  return "";
}

/// Lines `"name": value`, the last without a comma.
class JsonLines {
 public:
  void text(std::string_view name, std::string_view value) { raw(name, quote(value)); }
  void number(std::string_view name, int64_t value) { raw(name, fmt::format("{}", value)); }
  void decimal(std::string_view name, double value) { raw(name, fmt::format("{:.6f}", value)); }
  void decimal(std::string_view name, std::optional<double> value) {
    value ? decimal(name, *value) : raw(name, "null");
  }
  void truth(std::string_view name, bool value) { raw(name, value ? "true" : "false"); }
  std::string object() const { return "{\n" + lines_ + "\n}\n"; }

 private:
  void raw(std::string_view name, std::string_view value) {
    if (!lines_.empty()) lines_ += ",\n";
    lines_ += fmt::format("  \"{}\": {}", name, value);
  }
  std::string lines_;
};

}  // namespace

Summary summarize(const Scenario& scenario, const Trace& trace, const SimulationResult& result) {
  Summary out;
  out.system = scenario.system->name;
  out.seed = scenario.seed;
  out.gpus = scenario.fabric.gpus;
  out.racks = scenario.fabric.racks();
  out.spines = scenario.fabric.spines;
  out.threshold = scenario.bound();
  out.paper_rules = scenario.paper_rules;
  out.stopped = result.stopped;
  out.used_network = result.used_network;
  out.jobs = static_cast<int64_t>(trace.size());
  out.simulated = result.simulated;
  out.iterations = result.counters.iterations;
  out.plans = result.plans;
  out.plans_failed = result.failed_plans;
  out.moves = result.moves;
  out.moves_staged = result.staged;
  out.moves_given_up = result.given_up;
  out.max_fragmentation = result.max_fragmentation;
  std::vector<double> slowdowns, waits_s;
  Time last_end = 0;
  for (size_t i = 0; i < trace.size(); ++i) {
    const JobResult& job = result.jobs[i];
    out.jobs_moved += job.moves > 0;
    if (job.end == kNever) continue;
    last_end = std::max(last_end, job.end);
    slowdowns.push_back(slowdown_of(job));
    waits_s.push_back(static_cast<double>(job.start - job.submit) / kSecond_us);
    const double gpus = trace[i].gpus;
    out.gpu_hours += gpus * (static_cast<double>(job.end - job.start) / kHour_us);
    out.gpu_hours_lost += gpus * (static_cast<double>(job.end - job.start - job.ideal) / kHour_us);
  }
  out.ended = static_cast<int64_t>(slowdowns.size());
  // A system's clock may tick on for a moment after the last job.
  if (out.ended == out.jobs && out.jobs > 0) out.simulated = last_end;
  if (slowdowns.empty()) return out;
  out.wait_avg_s = mean_of(waits_s);
  out.slowdown_avg = mean_of(slowdowns);
  std::sort(slowdowns.begin(), slowdowns.end());
  out.slowdown_p50 = quantile_of_sorted(slowdowns, 0.5);
  out.slowdown_p90 = quantile_of_sorted(slowdowns, 0.9);
  out.slowdown_p99 = quantile_of_sorted(slowdowns, 0.99);
  out.slowdown_max = slowdowns.back();
  return out;
}

std::string summary_json(const Summary& summary) {
  JsonLines json;
  json.text("schema", "monkeytree/summary/v1");
  json.text("system", summary.system);
  json.text("rules", summary.paper_rules ? "paper" : "ours");
  json.number("seed", static_cast<int64_t>(summary.seed));
  json.number("gpus", summary.gpus);
  json.number("racks", summary.racks);
  json.number("spines", summary.spines);
  json.number("threshold", summary.threshold);
  json.truth("stopped", summary.stopped);
  json.number("jobs", summary.jobs);
  json.number("jobs_ended", summary.ended);
  json.decimal("simulated_s", static_cast<double>(summary.simulated) / kSecond_us);
  json.number("iterations", summary.iterations);
  json.text("network", summary.used_network ? "used" : "never exercised");
  json.decimal("slowdown_avg", summary.slowdown_avg);
  json.decimal("slowdown_p50", summary.slowdown_p50);
  json.decimal("slowdown_p90", summary.slowdown_p90);
  json.decimal("slowdown_p99", summary.slowdown_p99);
  json.decimal("slowdown_max", summary.slowdown_max);
  json.decimal("wait_avg_s", summary.wait_avg_s);
  json.number("plans", summary.plans);
  json.number("plans_failed", summary.plans_failed);
  json.number("moves", summary.moves);
  json.number("moves_staged", summary.moves_staged);
  json.number("moves_given_up", summary.moves_given_up);
  json.number("jobs_moved", summary.jobs_moved);
  json.number("max_fragmentation", summary.max_fragmentation);
  json.decimal("gpu_hours", summary.gpu_hours);
  json.decimal("gpu_hours_lost", summary.gpu_hours_lost);
  return json.object();
}

std::string jobs_csv(const Trace& trace, const SimulationResult& result) {
  const auto time = [](Time at) { return at == kNever ? "" : fmt::format("{}", at); };
  std::string out =
      "job,model,gpus,iterations,submit_us,start_us,end_us,moves,pause_us,ideal_us,slowdown\n";
  for (size_t i = 0; i < trace.size(); ++i) {
    const TraceJob& job = trace[i];
    const JobResult& it = result.jobs[i];
    out += fmt::format("{},{},{},{},{},{},{},{},{},{},", i, job.model, job.gpus, job.iterations,
                       it.submit, time(it.start), time(it.end), it.moves, it.paused, it.ideal);
    if (it.end != kNever) out += fmt::format("{:.6f}", slowdown_of(it));
    out += '\n';
  }
  return out;
}

std::string event_line(const SimulationEvent& event) {
  std::string line =
      fmt::format("{{\"time_us\":{},\"event\":\"{}\"", event.time, name_of(event.kind));
  if (event.job >= 0) line += fmt::format(",\"job\":{}", event.job);
  if (event.kind == SimulationEvent::kStart) {
    line += fmt::format(",\"nodes\":[{}]", fmt::join(event.nodes, ","));
  } else if (event.kind == SimulationEvent::kMove) {
    const bool staged = event.nodes[1] == kStaging.value;
    line += fmt::format(",\"from\":{},\"to\":{}", event.nodes[0],
                        staged ? "\"@staging\"" : fmt::format("{}", event.nodes[1]));
  } else if (event.kind == SimulationEvent::kLeave || event.kind == SimulationEvent::kArrive) {
    line += fmt::format(",\"node\":{}", event.nodes[0]);
  } else if (event.kind == SimulationEvent::kPlan) {
    line += fmt::format(",\"status\":\"{}\",\"moves\":{},\"jobs\":{},\"excess_before\":{}",
                        name_of(event.status), event.moves, event.jobs, event.excess);
  }
  return line + "}\n";
}

std::string sample_line(const FragmentationSample& sample) {
  return fmt::format(
      "{{\"time_us\":{},\"event\":\"fragmentation\",\"max_degree\":{},\"excess\":{},"
      "\"racks_over\":{},\"busy_nodes\":{}}}\n",
      sample.time, sample.max_degree, sample.excess, sample.over, sample.busy_nodes);
}

std::string run_json(const RunRecord& run) {
  JsonLines json;
  json.text("schema", "monkeytree/run/v1");
  json.text("version", run.version);
  json.text("engine", run.plain_engine ? "plain" : "fast");
  json.number("threads", run.threads);
  json.decimal("cpu_s", run.cpu_s);
  json.decimal("wall_s", run.wall_s);
  json.number("peak_memory_bytes", run.peak_memory_bytes);
  json.number("iterations", run.counters.iterations);
  json.number("iterations_skipped", run.counters.skipped);
  json.number("flows", run.counters.flows);
  json.number("flows_contended", run.counters.contended_flows);
  return json.object();
}

}  // namespace monkeytree
