/// What a simulated run costs: CPU seconds, per iteration and per flow, against the plain engine
/// that looks at every flow of every iteration, and how the cost grows with the iterations. Usage:
/// simulation_bench [--smoke] [--gpus N] [--jobs N] [--seed N]

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/measure.h"
#include "simulation/simulation.h"

namespace monkeytree::bench {
namespace {

struct Options {
  int gpus = 1024;
  int jobs = 600;
  uint64_t seed = 1;
  bool smoke = false;
};

struct Run {
  double cpu_s = 0;
  SimulationResult result;
};

Trace trace_of(const Scenario& scenario, int jobs, uint64_t seed, double load, int64_t scale) {
  GenerateOptions options;
  options.load = load;
  options.jobs = jobs;
  options.seed = seed;
  options.cluster_gpus = scenario.fabric.gpus;
  std::map<std::pair<std::string, int>, int64_t> times;
  Trace trace = generate_trace(Catalogue::standard(), options, [&](const Model& model, int gpus) {
    int64_t& time = times[{model.name, gpus}];
    if (time == 0) time = ideal_iteration(scenario, model, gpus);
    return time;
  });
  for (TraceJob& job : trace) {
    job.submit_us *= scale;
    job.iterations *= scale;
  }
  return trace;
}

Run run(const Scenario& scenario, const Trace& trace, bool plain) {
  SimulationOptions options;
  options.plain_engine = plain;
  Run out;
  const double start = cpu_ms();
  out.result = simulate(scenario, Catalogue::standard(), trace, options);
  out.cpu_s = (cpu_ms() - start) / 1e3;
  return out;
}

double peak_mb() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

void systems(const Options& options) {
  fmt::print("{} GPUs, {} jobs of 100-1000 iterations, load 1.0, seed {}\n", options.gpus,
             options.jobs, options.seed);
  fmt::print("{:<11} {:>8} {:>9} {:>8} {:>10} {:>9} {:>8} {:>8}\n", "system", "CPU s", "skipped",
             "flows M", "ns a flow", "us an it.", "average", "p99");
  for (const std::string_view name : {"monkeytree", "perfect", "crux", "sglb", "ecmp"}) {
    Scenario scenario;
    scenario.fabric.gpus = options.gpus;
    scenario.system = System::find(name);
    scenario.seed = options.seed;
    const Trace trace = trace_of(scenario, options.jobs, options.seed, 1.0, 1);
    const Run it = run(scenario, trace, false);
    const EngineCounters& counts = it.result.counters;
    std::vector<double> slowdowns;
    double sum = 0;
    for (const JobResult& job : it.result.jobs) {
      slowdowns.push_back(job.slowdown());
      sum += job.slowdown();
    }
    fmt::print("{:<11} {:>8.2f} {:>8.1f}% {:>8.1f} {:>10.0f} {:>9.2f} {:>8.4f} {:>8.4f}\n", name,
               it.cpu_s,
               100 * static_cast<double>(counts.skipped) / static_cast<double>(counts.iterations),
               static_cast<double>(counts.flows) / 1e6,
               it.cpu_s * 1e9 / static_cast<double>(std::max<int64_t>(1, counts.flows)),
               it.cpu_s * 1e6 / static_cast<double>(counts.iterations),
               sum / static_cast<double>(slowdowns.size()), quantile(slowdowns, 0.99));
  }
  fmt::print("peak memory {:.0f} MB\n\n", peak_mb());
}

void against_plain(const Options& options) {
  const int jobs = options.smoke ? 12 : 40;
  fmt::print("Against the plain engine, 256 GPUs, {} jobs, load 3\n", jobs);
  fmt::print("{:<11} {:>9} {:>9} {:>7}\n", "system", "plain s", "fast s", "ratio");
  for (const std::string_view name : {"monkeytree", "perfect", "ecmp"}) {
    Scenario scenario;
    scenario.fabric.gpus = 256;
    scenario.system = System::find(name);
    Trace trace = trace_of(scenario, jobs, options.seed, 3.0, 1);
    for (TraceJob& job : trace) job.iterations = 1 + job.iterations / (options.smoke ? 100 : 10);
    const Run fast = run(scenario, trace, false);
    const Run plain = run(scenario, trace, true);
    for (size_t i = 0; i < trace.size(); ++i) {
      if (fast.result.jobs[i].end != plain.result.jobs[i].end) {
        fmt::print("the engines differ on job {}\n", i);
        std::exit(1);
      }
    }
    fmt::print("{:<11} {:>9.2f} {:>9.4f} {:>7.0f}\n", name, plain.cpu_s, fast.cpu_s,
               plain.cpu_s / fast.cpu_s);
  }
  fmt::print("\n");
}

void ten_times_the_iterations(const Options& options) {
  const int jobs = options.smoke ? 40 : 300;
  fmt::print("Ten times the iterations, submit times scaled by ten, {} jobs\n", jobs);
  fmt::print("{:<11} {:>6} {:>9} {:>9} {:>7}\n", "system", "load", "once s", "ten s", "ratio");
  for (const auto& [name, load] :
       {std::pair<std::string_view, double>{"full-bisection", 0.9}, {"ecmp", 1.0}}) {
    Scenario scenario;
    scenario.system = System::find(name);
    if (name == "full-bisection") scenario.fabric.spines = scenario.fabric.gpus_per_rack;
    const Run once = run(scenario, trace_of(scenario, jobs, options.seed, load, 1), false);
    if (options.smoke && name == "ecmp") continue;
    const Run ten = run(scenario, trace_of(scenario, jobs, options.seed, load, 10), false);
    fmt::print("{:<11} {:>6.1f} {:>9.4f} {:>9.4f} {:>7.2f}\n",
               name == "ecmp" ? name : "uncontended", load, once.cpu_s, ten.cpu_s,
               ten.cpu_s / once.cpu_s);
  }
}

int main_with(const Options& options) {
  systems(options);
  against_plain(options);
  ten_times_the_iterations(options);
  return 0;
}

}  // namespace
}  // namespace monkeytree::bench

int main(int argc, char** argv) {
  monkeytree::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--smoke") {
      options.smoke = true;
      options.jobs = 40;
    } else if (word == "--gpus" && i + 1 < argc) {
      options.gpus = std::atoi(argv[++i]);
    } else if (word == "--jobs" && i + 1 < argc) {
      options.jobs = std::atoi(argv[++i]);
    } else if (word == "--seed" && i + 1 < argc) {
      options.seed = static_cast<uint64_t>(std::atoll(argv[++i]));
    } else {
      fmt::print(stderr, "usage: simulation_bench [--smoke] [--gpus N] [--jobs N] [--seed N]\n");
      return 2;
    }
  }
  return monkeytree::bench::main_with(options);
}
