#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cluster/worker_name.h"
#include "inventory/scheduler.h"
#include "planning/plan_json.h"
#include "routing/routes.h"

/// What the controller asks of the agents. The service carries it over gRPC; tests put a fake
/// cluster of workers behind it.
namespace monkeytree {

/// Where a worker's state is or goes: a node, or the memory of the staging server.
inline constexpr const char* kStagingNode = kStagingName.data();
inline bool is_staging(const std::string& node) { return node == kStagingNode; }

/// A worker as its agent knows it.
struct WorkerReport {
  WorkerName name;
  std::string node;
  std::string migration;   ///< under way, or ""
  bool successor = false;  ///< started for a migration and not yet resumed
  bool paused = false;
  int64_t iteration = 0;  ///< done
  int64_t state_bytes = 0;
  WorkerCommand command;  ///< that starts a successor
};

struct AgentReport {
  std::string node;
  bool connected = false;
  double last_heard_s = 0;            ///< seconds ago
  std::string address;                ///< that reaches the fabric
  std::vector<WorkerReport> workers;  ///< that carry the hook
};

/// Every call ends by its deadline and may be repeated: agents know a migration by its id, and what
/// is already done is OK. Thread-safe; calls for different migrations run at once.
///
/// Errors: Unavailable (agent not connected), DeadlineExceeded, NotFound (worker or its process is
/// gone), FailedPrecondition (refused, with the reason), DataLoss (a checksum does not hold).
class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::vector<AgentReport> agents() = 0;

  /// Waits until the successor of a worker, which Scheduler::start() has started on `node`, has
  /// come to its agent and its memory stands ready; for kStagingNode: `state_bytes` are granted.
  virtual absl::Status prepare(const std::string& migration, const WorkerName& worker,
                               const std::string& node, int64_t state_bytes, Deadline deadline) = 0;
  /// Every worker of the job stands still after the same iteration, which is returned, with its
  /// state committed and checksummed. `nodes`: of the job's workers as they are.
  virtual absl::StatusOr<int64_t> pause(const std::string& migration, const std::string& job,
                                        const std::map<WorkerName, std::string>& nodes,
                                        Deadline deadline) = 0;
  /// The state of the worker, as of the pause, is at `to` as well, complete; the checksums were
  /// compared there. `from` or `to` may be kStagingNode.
  virtual absl::Status transfer(const std::string& migration, const WorkerName& worker,
                                const std::string& from, const std::string& to,
                                Deadline deadline) = 0;
  /// The successor has taken up the state and says so. Asked again it says so again, NotFound where
  /// it is gone.
  virtual absl::Status restore(const std::string& migration, const WorkerName& worker,
                               const std::string& node, Deadline deadline) = 0;
  /// Every worker of the job goes on from where `nodes` says it is; OK once each has done one good
  /// iteration there. From the first call on, the workers at the old places never run again.
  virtual absl::Status resume(const std::string& migration, const std::string& job,
                              const std::map<WorkerName, std::string>& nodes,
                              Deadline deadline) = 0;
  /// What is left of the worker at `node` ends and its memory is let go: after resume(), or, where
  /// the job stays paused, after transfer() to the staging server or restore().
  virtual absl::Status release(const std::string& migration, const WorkerName& worker,
                               const std::string& node, Deadline deadline) = 0;
  /// Before resume(): successors of the migration end and the copies of state it has made are
  /// dropped, those granted in prepare() with the staging server too; state that lay there before
  /// the migration stays. With `go_on` the job's workers, which are on `nodes`, go on as if nothing
  /// had been asked; without, they stay paused (a worker of the job is staged) or the job has
  /// ended, after resume() too.
  ///
  /// A destination that does not answer keeps nobody from going on: its agent is told when it comes
  /// back. Unavailable only where a worker on `nodes` could not be told to go on.
  virtual absl::Status roll_back(const std::string& migration, const std::string& job,
                                 const std::map<WorkerName, std::string>& nodes, bool go_on,
                                 Deadline deadline) = 0;
  /// The uplink of each flow, for the agents to apply; those of agents not connected are sent when
  /// they come back.
  virtual void apply_routes(const std::vector<PreviousRoute>& routes) = 0;
};

}  // namespace monkeytree
