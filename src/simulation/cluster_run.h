#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "simulation/programs.h"
#include "simulation/simulation.h"

namespace monkeytree {

/// One simulated run: jobs arrive, wait, are placed, run, are moved, end. The engine carries flows,
/// the router chooses spines, the planner counts degrees and finds moves; this ties them together.
///
/// What happens at one time: the engine's events, ends of pauses, arrivals; then the queue, plans,
/// routes; then the engine hears of all of it.
class ClusterRun {
 public:
  ClusterRun(const Scenario& scenario, const Catalogue& catalogue, const Trace& trace,
             const SimulationOptions& options);
  SimulationResult run();

 private:
  enum class State : uint8_t { kQueued, kRunning, kStopping, kStopped, kPaused, kEnded };

  struct Job {
    State state = State::kQueued;
    const JobKind* kind = nullptr;
    JobId id;                                ///< in the planner
    std::vector<std::vector<NodeId>> nodes;  ///< by group and worker: where each is
    std::vector<int> hosts;                  ///< by rank
    int plan = -1;                           ///< that it is part of
    int transfers = 0;                       ///< of its state, under way
    Time stopped_at = 0;
  };

  /// A plan being carried out.
  struct Running {
    std::vector<Round> rounds;
    size_t round = 0;       ///< the one under way
    std::set<int> waiting;  ///< jobs whose moves of this round are not done
    std::set<int> members;  ///< jobs with a move that is not done
  };

  Job& job(int index) { return jobs_[static_cast<size_t>(index)]; }
  int index_of(GroupId group) const {
    return job_of_id_[static_cast<size_t>(planner_.snapshot().groups[group].job.value)];
  }

  // cluster_run.cc
  /// For the log.
  void tell(SimulationEvent::Kind kind, int index, std::vector<int> nodes) const {
    if (!options_.on_event) return;
    SimulationEvent event;
    event.kind = kind;
    event.time = now_;
    event.job = index;
    event.nodes = std::move(nodes);
    options_.on_event(event);
  }
  void handle(const Notice& notice);
  void try_queue();
  bool try_place(int index);
  void finish(int index);
  void go(int index);
  void hold_node(NodeId node);
  void free_node(NodeId node);
  void commit();
  void sample();
  void note_degrees(int index);

  // cluster_run_moves.cc
  void replan();
  bool plan_once(PlanOptions options);
  Plan gentle_plan(const PlanOptions& options);
  double cost(const Plan& plan, int* dearest);
  void repack();
  void begin_plan(Plan plan);
  void begin_round(int plan);
  void start_moves(int plan);
  bool destinations_stopped(const Running& running, int index);
  void stopped(int index);
  void start_move(int index, const Move& move);
  void transferred(int number);
  void moves_done(int index);
  void end_round_if_done(int plan);
  void drop_rest(int plan);
  void drop_member(int index);
  void pause(int index);
  void resume(int index);

  const Scenario& scenario_;
  const Trace& trace_;
  const SimulationOptions& options_;
  Programs programs_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Router> router_;
  Planner planner_;
  FreeNodes free_;
  RandomSequence random_;

  Time now_ = 0;
  size_t arrived_ = 0;  // rows of the trace
  size_t ended_ = 0;
  std::vector<Job> jobs_;
  std::vector<int> job_of_id_;
  std::deque<int> queue_;
  EventQueue pauses_;
  std::map<int, Running> plans_;
  int next_plan_ = 0;
  std::vector<Transfer> flights_;  // by number of the engine's transfer
  IdVector<NodeId, int> holders_;
  bool try_queue_ = false, replan_ = false;

  // What the engine hears of in commit().
  std::vector<int> starting_, resuming_, stopping_;
  std::vector<Transfer> departing_;

  SimulationResult result_;
};

}  // namespace monkeytree
