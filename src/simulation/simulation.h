#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "planning/planner.h"
#include "simulation/engine.h"
#include "simulation/event_queue.h"
#include "simulation/router.h"
#include "simulation/scenario.h"
#include "workload/catalogue.h"
#include "workload/trace.h"

namespace monkeytree {

/// What became of one job of the trace.
struct JobResult {
  Time submit = 0, start = kNever, end = kNever;  ///< kNever where it did not come to that
  Time ideal = 0;                                 ///< run time alone on an idle fabric
  Time paused = 0;                                ///< stopped for moves, state on its way included
  int moves = 0;                                  ///< workers moved
  double slowdown() const { return static_cast<double>(end - start) / static_cast<double>(ideal); }
};

/// Something that happened, for the log and for pictures. Fields by kind.
struct SimulationEvent {
  enum Kind : uint8_t { kStart, kFinish, kPlan, kMove, kLeave, kArrive, kResume };
  Kind kind = kStart;
  Time time = 0;
  int job = -1;            ///< all but kPlan
  std::vector<int> nodes;  ///< kStart: where; kMove, when the state leaves: from, to (-2: staging);
                           ///< then kLeave: the node left; kArrive: the node come to
  PlanStatus status = PlanStatus::kUnknown;  ///< kPlan
  int moves = 0, jobs = 0;                   ///< kPlan: workers and jobs that move
  int excess = 0;                            ///< kPlan: before
};

/// The state of the placement after everything at one time.
struct FragmentationSample {
  Time time = 0;
  int max_degree = 0;
  int excess = 0;
  int over = 0;        ///< racks above their bound
  int busy_nodes = 0;  ///< taken by jobs
};

struct SimulationResult {
  std::vector<JobResult> jobs;  ///< by row of the trace
  Time simulated = 0;           ///< the last end
  int64_t plans = 0;            ///< carried out
  int64_t failed_plans = 0;     ///< asked for all racks, without an answer
  int64_t moves = 0;            ///< workers moved
  int64_t staged = 0;           ///< of these, by way of a third machine
  int64_t given_up = 0;         ///< moves given up because a job ended
  int max_fragmentation = 0;
  bool used_network = false;  ///< some flow between racks
  bool stopped = false;       ///< by the caller; jobs still running have no end
  EngineCounters counters;
};

struct SimulationOptions {
  bool plain_engine = false;  ///< the referee: every flow of every iteration
  std::function<void(const SimulationEvent&)> on_event;
  std::function<void(const FragmentationSample&)> on_sample;
  /// Asked now and then with the share of jobs that have ended; true stops the run.
  std::function<bool(double done)> stop;
};

/// Runs a trace. Every job must fit the cluster and its model (parse_trace checks). Deterministic.
SimulationResult simulate(const Scenario& scenario, const Catalogue& catalogue, const Trace& trace,
                          const SimulationOptions& options = {});

/// Run time of one iteration of a job alone on an idle fabric: inside one rack where it fits, else
/// placed by best-fit on the empty cluster and routed by `perfect`.
Time ideal_iteration(const Scenario& scenario, const Model& model, int gpus);

}  // namespace monkeytree
