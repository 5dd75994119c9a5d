#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "cluster/snapshot.h"
#include "cluster/worker_name.h"

/// The cluster's scheduler as the live system meets it: what it says is placed where, and the steps
/// by which its books follow a move. Three things stand behind it: a real Slurm, an emulated
/// cluster, and a recording of snapshots.
namespace monkeytree {

using Deadline = std::chrono::steady_clock::time_point;

/// How a worker is started anew: as the one that leaves was.
struct WorkerCommand {
  std::vector<std::string> arguments;              ///< program first
  std::string folder;                              ///< it starts in
  std::map<std::string, std::string> environment;  ///< added to what the scheduler sets
  friend bool operator==(const WorkerCommand&, const WorkerCommand&) = default;
};

/// A node that the scheduler holds for a worker: one that is about to come, or that came by a move.
struct Hold {
  std::string id;  ///< the scheduler's own name for it: with Slurm the companion's job id
  WorkerName worker;
  std::string node;
  friend bool operator==(const Hold&, const Hold&) = default;
};

/// What the scheduler says now.
struct Observation {
  Snapshot snapshot;
  std::map<std::string, std::string> unmovable;  ///< job id → why its books could not follow
  std::vector<Hold> holds;                       ///< of jobs that run
  std::vector<Hold> short_holds;          ///< of `holds`, those that would end before their job
  std::vector<Hold> orphans;              ///< of jobs that have ended: nobody will ever use them
  std::vector<std::string> reservations;  ///< that were made by reserve() and still stand
  std::vector<std::string> findings;      ///< warnings, a line each
};

/// Every call ends by its deadline (DeadlineExceeded; the step may then still have happened).
/// Every changing call may be repeated: what already is as asked for is OK. Calls for different
/// workers may run at once; implementations are thread-safe.
///
/// Errors: Unavailable (does not answer), FailedPrecondition (refused, with the reason), NotFound
/// (the job or the hold is gone), Aborted (somebody else has taken the node).
class Scheduler {
 public:
  virtual ~Scheduler() = default;

  /// One line for people: "Slurm 22.05.8, books follow moves by companion jobs".
  virtual std::string describe() const = 0;
  /// Empty where moves can be booked at all, otherwise why not.
  virtual std::string why_read_only() const = 0;

  /// Where true, a worker's successor comes only once the worker has gone, as pods of Kubernetes
  /// do. Its moves go by the staging server, a worker of a job at a time; its node is given back,
  /// which ends whatever runs there, before its agent is told to let go, and hold() takes a node
  /// for a worker that has left only.
  virtual bool replaces_workers() const = 0;

  virtual absl::StatusOr<Observation> observe(Deadline deadline) = 0;

  /// Takes the node for the worker, so that nobody else gets it. `reservation` is a name given to
  /// reserve(), or "".
  virtual absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                                    const std::string& reservation, Deadline deadline) = 0;
  /// Starts the worker's successor on the held node, as the job's user. Returns once it is started;
  /// it outlives the caller.
  virtual absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) = 0;
  /// The worker has left `node`: the job's books let it go. The node the worker is on now is
  /// `hold`'s, or "" while its state is staged. `order` is the job's nodes by group and worker as
  /// they are from now on, for books that lose the order, "" for a worker that is staged. `node` is
  /// "" where the worker came back from staging: then only the order is new.
  virtual absl::Status give_back(const WorkerName& worker, const std::string& node,
                                 const std::vector<std::string>& order, Deadline deadline) = 0;
  /// The hold ends and whatever runs in it. NotFound is never given: gone is what was asked for.
  /// Where `hold.id` is "" (the answer to hold() was lost) it is found by worker and node.
  virtual absl::Status cancel(const Hold& hold, Deadline deadline) = 0;

  /// The hold lasts as long as its job, whose time limit was raised. For schedulers whose holds end
  /// by themselves.
  virtual absl::Status extend(const Hold& hold, Deadline deadline);

  /// Keeps everybody else off these nodes while their workers change places.
  virtual absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                               Deadline deadline) = 0;
  virtual absl::Status unreserve(const std::string& name, Deadline deadline) = 0;

  /// The nodes that the scheduler's books give to the job now, holds included, ascending: to verify
  /// a step by reading back. Empty when the job has ended; "@staging" where it lives on no node.
  virtual absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                          Deadline deadline) = 0;
};

inline absl::Status Scheduler::extend(const Hold& /*hold*/, Deadline /*deadline*/) {
  return absl::OkStatus();
}

}  // namespace monkeytree
