#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "cluster/snapshot.h"
#include "inventory/scheduler.h"
#include "scheduling/placement.h"

/// A cluster that exists in memory only: nodes, jobs, and books that follow moves as Slurm's do.
/// For tests and for `demo --live`.
namespace monkeytree {

/// Racks "r0", "r1", … of nodes "r0n0", "r0n1", …, without jobs.
Snapshot uniform_cluster(int racks, int nodes_per_rack, int slots_per_node, int uplinks);

/// A job for the emulated cluster. Each worker takes a whole node.
struct EmulatedJob {
  std::string id;  ///< "": the next number, from 1
  std::string name, user = "user", partition = "train", comment;
  std::vector<int> groups;         ///< workers of each
  std::vector<std::string> nodes;  ///< of all workers in order; empty: the scheduler chooses
  int rings = 1;
  int64_t state_bytes = 0;
  bool movable = true;
  std::optional<double> limit_s;  ///< its end is told as start + limit; nothing ends it then
  WorkerCommand command;          ///< handed to EmulatedWorkers::start; none: nothing is started
};

/// How the emulated cluster runs processes; tests put fakes here. Called without any lock, by the
/// thread whose call asks for it.
struct EmulatedWorkers {
  /// A worker of a new job, or (`successor`) one that is about to take over.
  std::function<absl::Status(const WorkerName&, const std::string& node, const WorkerCommand&,
                             bool successor)>
      start;
  /// Whatever runs for the job on the node ends at once.
  std::function<void(const std::string& job, const std::string& node)> end;
};

/// Which call a fault is for.
enum class SchedulerCall : uint8_t {
  kObserve,
  kHold,
  kStart,
  kGiveBack,
  kCancel,
  kReserve,
  kUnreserve,
  kBooked,
};

enum class SchedulerFault : uint8_t {
  kRefuse,          ///< FailedPrecondition, nothing was done
  kUnavailable,     ///< Unavailable, nothing was done
  kHang,            ///< waits until the deadline, nothing was done
  kFailAfterDoing,  ///< DeadlineExceeded, though it was done
};

std::string_view name_of(SchedulerCall call);

/// Thread-safe. Observations are deterministic: they depend on the calls made and on nothing else,
/// apart from the clock.
class EmulatedScheduler final : public Scheduler {
 public:
  /// Seconds since 1970; without it, the system's clock.
  using Clock = std::function<double()>;

  /// Racks and nodes as `cluster` has them; its jobs run.
  explicit EmulatedScheduler(Snapshot cluster, EmulatedWorkers workers = {}, Clock clock = {});

  // What happens in the cluster besides moves.

  /// Places and starts a job; returns its id. ResourceExhausted where it does not fit now,
  /// InvalidArgument where it never will or a given node is not free.
  absl::StatusOr<std::string> submit(const EmulatedJob& job,
                                     PlacementRule rule = PlacementRule::kBestFit,
                                     RandomSequence* random = nullptr);
  /// The job ends by itself, or is cancelled by its user. Its holds stay, as orphans.
  absl::Status end(const std::string& job);
  absl::Status set_node_state(const std::string& node, NodeState state);
  std::vector<std::string> running() const;  ///< ids of jobs, in the order they came
  int free_nodes() const;

  // Faults.

  /// The next `times` calls of the kind meet the fault, after `skip` that do not.
  void inject(SchedulerCall call, SchedulerFault fault, int times = 1, int skip = 0);
  /// Hanging calls go on, as if refused; faults not yet met are forgotten.
  void heal();
  void set_read_only(std::string why);
  /// Before it is used: as Kubernetes does. Jobs of one worker then cannot move.
  void set_replaces_workers(bool replaces) { replaces_workers_ = replaces; }

  // What tests look at.

  int calls(SchedulerCall call) const;
  /// What give_back() was last told; empty before.
  std::vector<std::string> order(const std::string& job) const;
  /// Empty where no node is given away beyond its slots, otherwise a sentence.
  std::string inconsistency() const;

  std::string describe() const override;
  std::string why_read_only() const override;
  bool replaces_workers() const override { return replaces_workers_; }
  absl::StatusOr<Observation> observe(Deadline deadline) override;
  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) override;
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) override;
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) override;
  absl::Status cancel(const Hold& hold, Deadline deadline) override;
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) override;
  absl::Status unreserve(const std::string& name, Deadline deadline) override;
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                  Deadline deadline) override;

 private:
  /// A worker in the books: the node of the job's own that it has not given back, or none.
  struct BookedWorker {
    NodeId own;  ///< not valid: given back
    bool pinned = false;
  };
  struct BookedGroup {
    int rings = 1, slots = 1;
    std::vector<BookedWorker> workers;
  };
  struct BookedJob {
    Job job;
    std::vector<BookedGroup> groups;
    std::vector<std::string> order;
  };
  struct BookedHold {
    Hold hold;
    NodeId node;
    int slots = 1;
    bool started = false;
  };
  struct Fault {
    SchedulerCall call;
    SchedulerFault fault;
    int times, skip;
  };

  /// The fault that this call meets; counts it.
  std::optional<SchedulerFault> meet(SchedulerCall call);
  /// Runs `act` as the fault lets it; the answer is the call's.
  absl::Status with_faults(SchedulerCall call, Deadline deadline,
                           const std::function<absl::Status()>& act);

  // With mutex_ held.
  BookedJob* find_job(const std::string& id);
  const BookedJob* find_job(const std::string& id) const;
  BookedWorker* find_worker(const WorkerName& name);
  BookedHold* find_hold(const WorkerName& worker, const std::string& node);
  int used(NodeId node) const;
  bool reserved(NodeId node) const;
  std::set<NodeId> free() const;  ///< nodes that a job may get
  absl::StatusOr<std::vector<NodeId>> choose(const EmulatedJob& job, PlacementRule rule,
                                             RandomSequence* random) const;
  /// Where the worker is counted: its own node, else that of its oldest hold; else nowhere.
  NodeId place_of(const WorkerName& name, const BookedWorker& worker) const;
  void add_job(const BookedJob& booked, Observation& out) const;
  Observation look() const;
  absl::StatusOr<Hold> take(const WorkerName& worker, const std::string& node,
                            const std::string& reservation);
  absl::Status let_go(const WorkerName& worker, const std::string& node,
                      const std::vector<std::string>& order);

  mutable std::mutex mutex_;
  std::condition_variable healed_;
  Snapshot cluster_;  ///< without jobs
  std::map<std::string, NodeId> node_ids_;
  EmulatedWorkers workers_;
  Clock clock_;
  std::list<BookedJob> jobs_;    ///< in the order they came
  std::list<BookedHold> holds_;  ///< in the order they were made
  std::map<std::string, std::set<NodeId>> reservations_;
  std::vector<Fault> faults_;
  std::map<SchedulerCall, int> calls_;
  std::string read_only_;
  bool replaces_workers_ = false;
  int64_t next_job_ = 1, next_hold_ = 1;
  uint64_t heals_ = 0;
};

/// Jobs that come and go, drawn from a seed: a busy cluster in which racks get over their bound.
class EmulatedChurn {
 public:
  struct Settings {
    double load = 0.9;                                  ///< share of nodes in use that is aimed at
    std::vector<int> sizes = {2, 2, 3, 4, 4, 5, 6, 8};  ///< workers of a job, drawn equally often
    PlacementRule rule = PlacementRule::kBestFit;
    EmulatedJob pattern;  ///< all but id, groups and nodes
  };

  EmulatedChurn(EmulatedScheduler& cluster, uint64_t seed, Settings settings);

  /// One job comes or one goes. Returns a line for people: "job 7 comes, 4 nodes".
  std::string step();

 private:
  std::string end_one(const std::vector<std::string>& running);

  EmulatedScheduler& cluster_;
  RandomSequence random_;
  Settings settings_;
  int nodes_;
};

}  // namespace monkeytree
