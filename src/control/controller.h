#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "control/executor.h"
#include "control/journal.h"
#include "control/leadership.h"
#include "control/leased_scheduler.h"
#include "control/mirror.h"
#include "control/mover.h"
#include "control/plan_run.h"
#include "control/policy.h"
#include "inventory/scheduler.h"
#include "planning/plan_json.h"
#include "routing/routes.h"

namespace monkeytree {

/// What the controller may do of its own accord.
enum class Mode : uint8_t {
  kObserve,    ///< looks and says; changes nothing
  kRecommend,  ///< carries out what a person approves
  kEnforce,
};
std::string_view name_of(Mode mode);  ///< "observe", "recommend", "enforce"
std::optional<Mode> mode_named(std::string_view name);

struct ControllerRules {
  Mode mode = Mode::kObserve;
  double poll_s = 30;           ///< the safety net where no event comes
  int coalesce_ms = 200;        ///< events this close together are one
  double observe_limit_s = 20;  ///< for the scheduler to answer
  double plan_limit_s = 2;      ///< for the planner; then racks are mended one at a time
  int plans_at_once = 4;
  int keep_plans = 1000;  ///< with their snapshots
  int keep_events = 100'000;
  PolicyRules policy;
  StepLimits steps;
};

/// What people see of the controller; a copy that stays as it is.
struct ControllerView {
  Mode mode = Mode::kObserve;
  bool paused = false;  ///< the kill switch
  std::string paused_why;
  bool ready = false;       ///< the last observation succeeded, and the journal takes writes
  std::string trouble;      ///< why it is not ready
  std::string scheduler;    ///< Scheduler::describe()
  std::string read_only;    ///< why the scheduler's books could not follow moves, or ""
  double observed_s = 0;    ///< Unix time of the last observation that succeeded
  double reconcile_ms = 0;  ///< that the last reconciliation took
  double plan_ms = 0;       ///< of these, the planner
  std::shared_ptr<const Snapshot> snapshot;      ///< with moves under way done; null at first
  std::map<std::string, std::string> held_back;  ///< job → why it may not move
  std::vector<std::string> findings;             ///< what the scheduler's reader warns of
  std::vector<std::string> orphans;              ///< holds that nobody will use
  std::vector<int64_t> running, waiting;         ///< plans
  std::vector<AgentReport> agents;
  std::shared_ptr<const std::vector<PreviousRoute>> routes;  ///< applied, or that would be
  std::optional<LeadershipView> leadership;  ///< where there are several controllers
};

/// The reconcile loop: observe → fragmentation → plan → policy → execute → verify → route. Woken by
/// notify() and by a slow poll. All public functions are thread-safe.
///
/// Of several controllers only the one that leads does more than observe. When it begins to lead it
/// takes up what all of them know to be under way; when it leads no more it lets go of it.
class Controller {
 public:
  struct Parts {
    Scheduler& scheduler;
    Executor& executor;
    Journal& journal;
    std::function<double()> wall_s;
    std::function<void(const Event&)> on_event;      ///< logs, event stream; may be empty
    std::function<void(const StepNotice&)> on_step;  ///< metrics; may be empty
    Leadership* leadership = nullptr;                ///< null: there is no other controller
  };

  Controller(Parts parts, ControllerRules rules);
  /// stop().
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  /// Takes up what the journal says was under way, then starts the loop.
  absl::Status start();
  /// Returns when the steps under way have ended; the journal knows how to go on.
  void stop();

  /// Something may have changed in the cluster. Never blocks.
  void notify(std::string_view why);

  /// Who leads may have changed. What this controller may do no more it stops at once. Never
  /// blocks.
  void leadership_changed();

  /// One turn of the loop, by the caller's thread; for tests, which do not start().
  void reconcile();
  /// Blocks until no plan is running; for tests.
  void wait_for_plans();

  ControllerView view() const;
  const ControllerRules& rules() const { return rules_; }
  Journal& journal() const { return parts_.journal; }

  // Changing calls, each in the journal with who asked. Errors: NotFound, FailedPrecondition with
  // the reason.

  /// Runs a waiting plan, if it still fits the cluster as it is now.
  absl::Status approve(int64_t plan, std::string_view by);
  /// A waiting plan is dropped; a running one undoes what is not past its point of no return.
  absl::Status cancel(int64_t plan, std::string_view by);
  /// The kill switch: no plan begins; those running come to their end. Outlives restarts.
  absl::Status pause(std::string_view why, std::string_view by);
  absl::Status resume(std::string_view by);

 private:
  struct Running {
    std::vector<std::string> jobs;
    std::set<std::string> nodes;
    std::vector<Round> rounds;  ///< of the mirror; empty for a plan from before a restart
    std::unique_ptr<PlanRun> run;
    std::jthread thread;
    std::optional<PlanRun::End> end;  ///< set when the thread is through
    bool cancelled = false;
  };

  void loop(const std::stop_token& stop);
  /// Takes up what the journal says was under way; `why` what waited waits no more.
  absl::Status recover(std::string_view why);
  void recover_plan(int64_t plan, std::vector<Migration> migrations);

  // The parts of a turn, all on the thread that reconciles.
  /// Takes over or steps back where who leads has changed.
  void follow_leadership();
  absl::Status take_over(const LeadershipView& now);
  absl::Status adopt(const SharedBooks& books);
  void step_back();
  bool leads() const { return parts_.leadership == nullptr || leading_term_ != 0; }
  absl::Status check_leads() const;
  absl::StatusOr<int64_t> add_plan(PlanEntry& entry);
  absl::Status share_running(int64_t plan, std::string_view cancelled_by);
  absl::Status end_plan(int64_t plan, PlanState state, const std::string& reason, double now_s);
  void reap();
  bool look(Observation& seen);
  void tidy(const Observation& seen);
  void decide();
  Plan make_plan();
  /// How many jobs may not move, with an example; "" where all may.
  std::string held_back_text() const;
  void propose(const Plan& plan);
  absl::Status run_plan(int64_t id, const std::vector<Round>& rounds);
  void launch(int64_t id, std::vector<Migration> migrations, std::vector<Round> rounds,
              bool cancelled = false);
  void supersede_waiting(std::string_view why);
  void route();
  void publish(const Observation& seen);
  void set_trouble(std::string trouble);

  void tell(std::string_view kind, std::string text, std::string data = "{}");
  std::vector<std::string> free_nodes_for(const WorkerName& worker, const std::string& from) const;
  /// Jobs of which no agent has reported some worker, with why.
  std::map<std::string, std::string> unhooked(const Snapshot& snapshot,
                                              const std::vector<AgentReport>& agents) const;

  Parts parts_;
  ControllerRules rules_;
  std::optional<LeasedScheduler> leased_;  ///< parts_.scheduler, where there is a leadership
  Scheduler& scheduler_;                   ///< by which it changes things
  Mover mover_;

  // With turn_ held.
  std::mutex turn_;  ///< one turn at a time, the loop's or a person's
  Mirror mirror_;
  std::map<std::string, Deadline> last_moves_;  ///< job → when its last plan ended
  std::vector<Journal::PastMove> past_;
  WorkerReports reports_;
  std::map<std::string, std::string> held_back_;  ///< job → why
  /// The plan proposed last and not begun: no second entry is made for the same.
  struct Proposal {
    int64_t id;
    std::vector<std::vector<PlanRecord::Step>> rounds;
    PlanState state;
  };
  std::optional<Proposal> proposal_;
  std::map<std::string, double> failed_jobs_, failed_nodes_;  ///< → Unix time of the failure
  std::set<std::string> stray_;  ///< ids of holds that were nobody's in the last observation
  std::string no_plan_why_;      ///< told last
  std::vector<PreviousRoute> routes_;
  bool routes_stale_ = true;
  bool was_over_ = false;
  bool recovering_ = false;
  uint64_t leading_term_ = 0;  ///< the term of whose plans running_ has; 0: it stands by
  std::string lead_told_;      ///< what was told last of who leads

  /// Guards what follows; never held while anything is waited for.
  mutable std::mutex mutex_;
  std::condition_variable_any wake_;
  uint64_t notified_ = 0, seen_ = 0;
  bool soon_ = false;  ///< the next turn is not to wait for a word or the poll
  std::string notified_why_;
  ControllerView view_;
  std::map<int64_t, Running> running_;
  std::jthread thread_;
};

}  // namespace monkeytree
