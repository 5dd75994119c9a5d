#include "cli/simulate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "cli/common.h"
#include "cli/result_folder.h"
#include "simulation/scenario_yaml.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree simulate examples/scenario.yaml      the jobs' slowdown, a table\n"
    "  monkeytree simulate scenario.yaml -o run        also every job and event:\n"
    "                                                  run/jobs.csv, events.jsonl,\n"
    "                                                  summary.json, run.json\n"
    "  monkeytree simulate scenario.yaml --system ecmp    another system, same jobs\n"
    "  monkeytree simulate scenario.yaml --trace jobs.csv --json\n"
    "\n"
    "The same scenario and seed give the same bytes, run.json apart. Ctrl-C ends the\n"
    "run with what it has.\n"
    "Exit code: 0 done, 1 results could not be written, 4 stopped.";

struct SimulateArguments {
  std::string scenario;
  std::string folder;
  std::optional<std::string> trace;
  std::optional<std::string> system;
  std::optional<int64_t> seed;
  std::string engine = "fast";
  bool json = false;
};

volatile std::sig_atomic_t interrupted = 0;

/// The first Ctrl-C ends the run, the second the program.
extern "C" void on_stop_signal(int signal) {
  interrupted = 1;
  std::signal(signal, SIG_DFL);
}

/// Listens to Ctrl-C while it lives, and tells a person at a terminal how far the run is.
class RunWatch {
 public:
  using Clock = std::chrono::steady_clock;

  RunWatch() : start_(Clock::now()), terminal_(isatty(STDERR_FILENO) == 1) {
    interrupted = 0;
    std::signal(SIGINT, on_stop_signal);
    std::signal(SIGTERM, on_stop_signal);
  }
  ~RunWatch() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    if (shown_s_ > 0) std::fputs("\r\x1b[K", stderr);
  }
  RunWatch(const RunWatch&) = delete;
  RunWatch& operator=(const RunWatch&) = delete;

  double elapsed_s() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

  bool must_stop(double done) {
    const int whole_s = static_cast<int>(elapsed_s());
    if (terminal_ && whole_s >= 2 && whole_s > shown_s_) {
      shown_s_ = whole_s;
      std::fputs(fmt::format("\r{}\x1b[K", simulation_progress(whole_s, done)).c_str(), stderr);
    }
    return interrupted != 0;
  }

 private:
  Clock::time_point start_;
  bool terminal_;
  int shown_s_ = 0;
};

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

/// How much of the machine this program has used so far.
void measure(RunRecord& run) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  run.cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
  run.peak_memory_bytes = int64_t{usage.ru_maxrss} * 1024;
}

struct Input {
  Scenario scenario;
  Workload workload;
};

/// nullopt after a message.
std::optional<Input> read_scenario(const SimulateArguments& arguments) {
  if (arguments.scenario == "-" && arguments.trace == "-") {
    print_error("SCENARIO and --trace cannot both be standard input");
    return std::nullopt;
  }
  const std::optional<std::string> text = read_input(arguments.scenario);
  if (!text) return std::nullopt;
  ScenarioOverrides overrides;
  overrides.trace = arguments.trace;
  if (arguments.system) overrides.system = *arguments.system;
  if (arguments.seed) overrides.seed = static_cast<uint64_t>(*arguments.seed);
  Diagnostics diagnostics;
  std::optional<Input> input;
  const std::optional<ScenarioFile> file =
      parse_scenario(*text, printable(arguments.scenario), overrides, diagnostics);
  if (file) {
    std::optional<Workload> workload = read_workload(
        *file, [](const std::string& name) { return read_file(name); }, diagnostics);
    if (workload) input = Input{file->scenario, *std::move(workload)};
  }
  print_findings(diagnostics);
  return input;
}

/// Writes what the run has; false after a message.
bool write_results(ResultFolder& folder, const Trace& trace, const SimulationResult& result,
                   const Summary& summary, const RunRecord& run) {
  bool good = true;
  const auto check = [&](const absl::Status& status) {
    if (!status.ok()) print_error(std::string(status.message()));
    good = good && status.ok();
  };
  check(folder.close_log());
  check(folder.write("jobs.csv", jobs_csv(trace, result)));
  check(folder.write("summary.json", summary_json(summary)));
  check(folder.write("run.json", run_json(run)));
  return good;
}

int run_simulate(const SimulateArguments& arguments) {
  const std::optional<Input> input = read_scenario(arguments);
  if (!input) return kExitBadInput;
  std::optional<ResultFolder> folder;
  if (!arguments.folder.empty()) {
    absl::StatusOr<ResultFolder> opened = ResultFolder::open(arguments.folder, "events.jsonl");
    if (!opened.ok()) {
      print_error(std::string(opened.status().message()));
      return kExitFailed;
    }
    folder.emplace(*std::move(opened));
  }
  RunRecord run;
  run.version = MONKEYTREE_VERSION;
  run.plain_engine = arguments.engine == "plain";
  SimulationOptions options;
  options.plain_engine = run.plain_engine;
  std::string last_sample;
  if (folder) {
    options.on_event = [&](const SimulationEvent& event) { folder->append(event_line(event)); };
    options.on_sample = [&](const FragmentationSample& sample) {
      FragmentationSample timeless = sample;
      timeless.time = 0;
      std::string line = sample_line(timeless);
      if (line == last_sample) return;
      last_sample = std::move(line);
      folder->append(sample_line(sample));
    };
  }
  SimulationResult result;
  {
    RunWatch watch;
    options.stop = [&](double done) {
      return watch.must_stop(done) || (folder && !folder->status().ok());
    };
    result = simulate(input->scenario, input->workload.catalogue, input->workload.trace, options);
    run.wall_s = watch.elapsed_s();
  }
  run.counters = result.counters;
  measure(run);
  const Summary summary = summarize(input->scenario, input->workload.trace, result);
  const bool written =
      !folder || write_results(*folder, input->workload.trace, result, summary, run);
  std::string text = summary_json(summary);
  if (!arguments.json) {
    text = simulation_text(summary, colors_wanted());
    if (folder && written) {
      text += fmt::format("\nWrote {}/: jobs.csv, events.jsonl, summary.json, run.json\n",
                          printable(arguments.folder));
    }
  }
  const int exit_code = !written ? kExitFailed : result.stopped ? kExitLimit : kExitDone;
  return print_result(text, exit_code);
}

}  // namespace

std::string simulation_progress(int elapsed_s, double done) {
  const double share = std::isfinite(done) ? done : 0;
  std::string line = fmt::format("{} s: {:.0f} % of the jobs have ended", elapsed_s, share * 100);
  if (share > 0) {
    line += fmt::format(", about {:.0f} s left", std::ceil(elapsed_s * (1 - share) / share));
  }
  return fit(line + "; Ctrl-C ends here", kColumns - 1);
}

std::string simulation_text(const Summary& summary, bool colors) {
  const Paint paint(colors);
  std::string out = fmt::format(
      "{} on {} in {} with {} each, seed {}{}\n{} of {} ended in {:.1f} simulated seconds\n\n",
      paint.bold(summary.system), counted(summary.gpus, "GPU"), counted(summary.racks, "rack"),
      counted(summary.spines, "uplink"), summary.seed, summary.paper_rules ? ", paper rules" : "",
      summary.ended, counted(summary.jobs, "job"), static_cast<double>(summary.simulated) / 1e6);
  Table table({"", "value"});
  const auto decimal = [&](const char* name, std::optional<double> value, int digits) {
    if (value) table.add({name, fmt::format("{:.{}f}", *value, digits)});
  };
  decimal("slowdown, average", summary.slowdown_avg, 4);
  decimal("slowdown, median", summary.slowdown_p50, 4);
  decimal("slowdown, 90th percentile", summary.slowdown_p90, 4);
  decimal("slowdown, 99th percentile", summary.slowdown_p99, 4);
  decimal("slowdown, worst", summary.slowdown_max, 4);
  decimal("wait in the queue, average, s", summary.wait_avg_s, 1);
  decimal("GPU hours", summary.gpu_hours, 1);
  decimal("GPU hours lost to congestion and moves", summary.gpu_hours_lost, 1);
  const auto count = [&](const char* name, int64_t value) {
    table.add({name, fmt::format("{}", value)});
  };
  count("highest fragmentation degree of a rack", summary.max_fragmentation);
  if (summary.plans + summary.plans_failed > 0) {
    count("plans carried out", summary.plans);
    count("plans that found nothing", summary.plans_failed);
    count("workers moved", summary.moves);
    count("  of these by way of a third machine", summary.moves_staged);
    count("  given up since a job ended", summary.moves_given_up);
    count("jobs moved", summary.jobs_moved);
  }
  out += table.text(paint);
  if (!summary.used_network && summary.jobs > 0) {
    out += "\nThe network was never exercised: every job ran inside one rack.\n";
  }
  if (summary.stopped) out += "\n" + paint.bad("Stopped before all jobs had ended.") + "\n";
  return out;
}

void add_simulate(CLI::App& app, int& exit_code) {
  const auto arguments = std::make_shared<SimulateArguments>();
  CLI::App& command = add_command(
      app, "simulate", "one simulated run of a cluster: what congestion costs its jobs", kExamples);
  command.add_option("SCENARIO", arguments->scenario, "a scenario file; - is standard input")
      ->required()
      ->type_name("");
  command.add_option("-o,--output", arguments->folder, "folder for the results")->type_name("DIR");
  command.add_option("--trace", arguments->trace, "jobs, in place of the scenario's")
      ->type_name("FILE");
  std::vector<std::string> names;
  for (const System& system : System::all()) names.emplace_back(system.name);
  command
      .add_option("--system", arguments->system,
                  fmt::format("in place of the scenario's: {}", fmt::join(names, ", ")))
      ->check(CLI::IsMember(names).description(""))
      ->type_name("NAME");
  command.add_option("--seed", arguments->seed, "in place of the scenario's")
      ->check(CLI::Range(int64_t{0}, int64_t{999'999'999'999'999'999}).description(""))
      ->type_name("N");
  command
      .add_option("--engine", arguments->engine,
                  "fast, or plain: every flow of every iteration, slow; the same results")
      ->check(CLI::IsMember({"fast", "plain"}).description(""))
      ->type_name("NAME");
  command.add_flag("--json", arguments->json, "print summary.json instead of a table");
  command.callback([arguments, &exit_code] { exit_code = run_simulate(*arguments); });
}

}  // namespace monkeytree
