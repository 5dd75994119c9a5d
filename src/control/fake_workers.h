#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/snapshot.h"
#include "control/executor.h"
#include "inventory/emulated_scheduler.h"

namespace monkeytree {

/// Which call a fault is for.
enum class ExecutorCall : uint8_t {
  kPrepare,
  kPause,
  kTransfer,
  kRestore,
  kResume,
  kRelease,
  kRollBack,
};
std::string_view name_of(ExecutorCall call);  ///< "prepare", …, "roll_back"

enum class ExecutorFault : uint8_t {
  kRefuse,          ///< FailedPrecondition, nothing was done
  kUnavailable,     ///< Unavailable, nothing was done
  kHang,            ///< waits until the deadline, nothing was done
  kFailAfterDoing,  ///< DeadlineExceeded, though it was done
  kFailHalfway,     ///< DeadlineExceeded; some workers, or some of the bytes, were done
  kDataLoss,        ///< DataLoss: a checksum does not hold
};

/// Worker processes, agents and a staging server that exist in memory only, for tests. A worker's
/// state is a number that only its job, its name and its iteration give, so whatever is lost, mixed
/// or done twice shows. After every call the invariants of the live system are checked:
///
/// - the state of every worker exists, complete, in at least one known place;
/// - no worker runs as two processes, no successor runs before resume(), and what was replaced
///   never runs again;
/// - all workers of a job have done the same iterations when they go on;
/// - nobody lets go of a state before the successor has done a good step, unless the job is paused
///   because a worker of it is staged.
///
/// A job goes on by one iteration with every call, if all its workers run. Thread-safe.
class FakeWorkers final : public Executor {
 public:
  /// For EmulatedScheduler. This must outlive it.
  EmulatedWorkers callbacks();
  /// The jobs of the snapshot run where they are.
  void adopt(const Snapshot& snapshot);

  // What happens besides moves.

  void job_ends(const std::string& job);  ///< before EmulatedScheduler::end() of it
  void agent_down(const std::string& node);
  void agent_up(const std::string& node);
  void all_agents_up();
  /// The processes of the node end and its agent is down. A job that ran there, or that has lost a
  /// state with it, is broken: it no longer counts.
  void node_dies(const std::string& node);
  /// One process ends, with the same consequence.
  void kill(const WorkerName& worker, const std::string& node);
  /// Every job goes on by an iteration, if all its workers run.
  void step();

  // Faults.

  /// The next `times` calls of the kind meet the fault, after `skip` that do not.
  void inject(ExecutorCall call, ExecutorFault fault, int times = 1, int skip = 0);
  /// Hanging calls go on, as if refused; faults not yet met are forgotten.
  void heal();

  // What tests look at.

  std::vector<std::string> violations() const;
  /// Node by worker, of those that run.
  std::map<WorkerName, std::string> running(const std::string& job) const;
  int64_t iteration(const std::string& job) const;
  bool broken(const std::string& job) const;
  /// Successors, copies and staged states that are still there, a sentence each.
  std::vector<std::string> leftovers() const;
  int calls(ExecutorCall call) const;

  std::vector<AgentReport> agents() override;
  absl::Status prepare(const std::string& migration, const WorkerName& worker,
                       const std::string& node, int64_t state_bytes, Deadline deadline) override;
  absl::StatusOr<int64_t> pause(const std::string& migration, const std::string& job,
                                const std::map<WorkerName, std::string>& nodes,
                                Deadline deadline) override;
  absl::Status transfer(const std::string& migration, const WorkerName& worker,
                        const std::string& from, const std::string& to, Deadline deadline) override;
  absl::Status restore(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override;
  absl::Status resume(const std::string& migration, const std::string& job,
                      const std::map<WorkerName, std::string>& nodes, Deadline deadline) override;
  absl::Status release(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override;
  absl::Status roll_back(const std::string& migration, const std::string& job,
                         const std::map<WorkerName, std::string>& nodes, bool go_on,
                         Deadline deadline) override;
  void apply_routes(const std::vector<PreviousRoute>& routes) override;

 private:
  struct State {
    int64_t iteration = 0;
    uint64_t content = 0;
    friend bool operator==(const State&, const State&) = default;
  };
  enum class Phase : uint8_t { kRunning, kPaused, kWaiting, kRestored, kReplaced };
  struct Process {
    Phase phase = Phase::kRunning;
    std::string migration;       ///< that started it as a successor, until it is resumed
    std::optional<State> state;  ///< complete in its memory
    bool warm = false;           ///< memory stands ready
  };
  struct Staged {
    std::string migration;  ///< that brought it
    std::optional<State> state;
  };
  struct JobKnown {
    std::set<WorkerName> workers;
    int64_t iteration = 0;
    bool ended = false, broken = false;
  };
  struct Fault {
    ExecutorCall call;
    ExecutorFault fault;
    int times, skip;
  };
  using Place = std::pair<WorkerName, std::string>;
  using Lock = std::unique_lock<std::mutex>;

  static State state_of(const WorkerName& worker, int64_t iteration);

  // With mutex_ held.
  void violated(std::string what);
  void check();
  void check_job(const JobKnown& job);
  /// The worker's state after its job's iteration is somewhere, complete.
  bool exists(const WorkerName& worker) const;
  void step_all();
  bool step_job(const std::string& id, JobKnown& job);
  std::optional<ExecutorFault> meet(ExecutorCall call);
  /// What the fault answers without doing anything, or OK.
  absl::Status fail_before(Lock& lock, ExecutorCall call, std::optional<ExecutorFault> fault,
                           Deadline deadline);
  absl::Status after(ExecutorCall call, std::optional<ExecutorFault> fault, absl::Status done);
  absl::Status reach(const std::string& node) const;
  Process* find(const WorkerName& worker, const std::string& node);
  bool counts(const WorkerName& worker) const;
  bool staged_job(const std::string& job) const;

  absl::Status do_pause(const std::map<WorkerName, std::string>& nodes, bool half);
  absl::Status do_transfer(const std::string& migration, const WorkerName& worker,
                           const std::string& from, const std::string& to, bool half);
  absl::Status do_resume(const std::string& migration, const std::string& job,
                         const std::map<WorkerName, std::string>& nodes, bool half);
  absl::Status do_release(const WorkerName& worker, const std::string& node);
  absl::Status do_roll_back(const std::string& migration, const std::string& job,
                            const std::map<WorkerName, std::string>& nodes, bool go_on, bool half);
  void drop(const std::string& migration);
  absl::Status start(const WorkerName& worker, const std::string& node,
                     const WorkerCommand& command, bool successor);
  void end(const std::string& job, const std::string& node);

  mutable std::mutex mutex_;
  std::condition_variable healed_;
  uint64_t heals_ = 0;
  std::map<std::string, JobKnown> jobs_;
  std::map<Place, Process> processes_;
  std::map<WorkerName, Staged> staging_;
  std::set<std::string> down_;      ///< nodes whose agents are
  std::set<WorkerName> unnoticed_;  ///< lost a restored state, and nobody could know yet
  std::set<std::string> dropped_;   ///< migrations rolled back: agents that were down hear of it
  std::vector<Fault> faults_;
  std::map<ExecutorCall, int> calls_;
  std::vector<std::string> violations_;
  std::vector<PreviousRoute> routes_;
};

}  // namespace monkeytree
