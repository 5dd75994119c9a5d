#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "simulation/simulation.h"

/// What a simulated run writes (docs/simulator.md, "Results"). Everything but run.json is the same
/// bytes for the same scenario, trace and seed, on every machine and with both engines.
namespace monkeytree {

/// A run in numbers. Slowdowns, waits and GPU hours are those of the jobs that have ended; nullopt
/// where none has.
struct Summary {
  std::string system;
  uint64_t seed = 0;
  int gpus = 0, racks = 0, spines = 0, threshold = 0;
  bool paper_rules = false;
  bool stopped = false;
  bool used_network = false;  ///< some job ran on more than one rack
  int64_t jobs = 0;           ///< of the trace
  int64_t ended = 0;
  Time simulated = 0;  ///< until the last job ended, or the run was stopped
  int64_t iterations = 0;
  std::optional<double> slowdown_avg, slowdown_p50, slowdown_p90, slowdown_p99, slowdown_max;
  std::optional<double> wait_avg_s;
  int64_t plans = 0, plans_failed = 0;
  int64_t moves = 0, moves_staged = 0, moves_given_up = 0;
  int64_t jobs_moved = 0;
  int max_fragmentation = 0;
  double gpu_hours = 0;       ///< Σ gpus · (end − start)
  double gpu_hours_lost = 0;  ///< Σ gpus · (end − start − ideal)
};

/// O(jobs · log jobs).
Summary summarize(const Scenario& scenario, const Trace& trace, const SimulationResult& result);

/// summary.json.
std::string summary_json(const Summary& summary);

/// jobs.csv: a row for each job of the trace. What did not come to pass is empty.
std::string jobs_csv(const Trace& trace, const SimulationResult& result);

/// A line of events.jsonl.
std::string event_line(const SimulationEvent& event);
std::string sample_line(const FragmentationSample& sample);

/// How a run went on this machine.
struct RunRecord {
  std::string_view version;
  bool plain_engine = false;
  int threads = 1;
  double cpu_s = 0, wall_s = 0;
  int64_t peak_memory_bytes = 0;
  EngineCounters counters;
};

/// run.json.
std::string run_json(const RunRecord& run);

}  // namespace monkeytree
