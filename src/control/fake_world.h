#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "control/fake_workers.h"
#include "control/journal.h"
#include "control/mover.h"
#include "control/plan_run.h"
#include "inventory/emulated_scheduler.h"
#include "planning/plan.h"

namespace monkeytree {

/// Counts all that a controller does to the world: calls to the scheduler, calls to the agents, and
/// writes to its journal. At a chosen one something may happen: the controller is killed, a job
/// ends, a node dies.
class Calls {
 public:
  /// Just before call `number`, from 0, `then` happens, on the caller's thread, without any lock of
  /// the cluster's; it must not use the journal.
  void at(int number, std::function<void()> then);
  /// From call `number` on nothing is done and everything answers Unavailable, as if the controller
  /// had been killed before it; `dead` is told.
  void kill_at(int number, std::function<void()> dead);
  /// A new controller begins; nothing is planned for its calls. Their count goes on.
  void revive();

  int made() const;
  bool killed() const;
  /// False where the call must not be made.
  bool next();

 private:
  mutable std::mutex mutex_;
  int made_ = 0, kill_at_ = -1;
  bool dead_ = false;
  std::multimap<int, std::function<void()>> then_;
  std::function<void()> on_death_;
};

/// Racks "r0", "r1", … of nodes "r0n0", …, as drawn: a letter is a worker of the job of that name,
/// which takes the node, a dot a free node. Workers are numbered in reading order.
Snapshot drawn_cluster(const std::vector<std::string>& racks, int uplinks);

/// An emulated cluster with workers that run in it, a journal in a scratch file, and the part of
/// the controller that carries out plans. For tests.
class FakeWorld {
 public:
  explicit FakeWorld(const Snapshot& snapshot);
  ~FakeWorld();
  FakeWorld(const FakeWorld&) = delete;
  FakeWorld& operator=(const FakeWorld&) = delete;

  EmulatedScheduler& scheduler() { return *scheduler_; }
  FakeWorkers& workers() { return workers_; }
  Calls& calls() { return calls_; }
  const std::string& journal_file() const { return journal_file_; }

  /// Writes the plan and its migrations down, as the controller does before it runs one.
  int64_t add_plan(const std::vector<Round>& rounds);

  struct Outcome {
    PlanRun::End end = PlanRun::End::kStopped;
    std::vector<Migration> migrations;  ///< as the journal has them now
    std::vector<std::string> trouble;
    int refused_writes = 0;
  };
  /// Told of each step, by the thread that does it; set before run().
  std::function<void(const StepNotice&)> on_step;

  /// A controller opens the journal and runs the plan until it ends or is killed (kStopped).
  Outcome run(int64_t plan);

  // For what happens meanwhile; `number` counts calls from now on.

  void at(int number, std::function<void()> then);
  void kill_at(int number);
  /// Another controller is about to run().
  void revive();
  /// The controller that runs the plan gives it up. For use from Calls::at().
  void give_up();
  /// The next `count` writes to the journal are refused; for use from Calls::at().
  void refuse_writes(int count) { refuse_writes_ = count; }
  /// The node is down for the scheduler, and all that runs there ends.
  void node_dies(const std::string& node);
  /// The job ends: its processes, then its books.
  void end_job(const std::string& job);

  /// What is wrong with the world once the plan has ended: violations, and whatever differs from
  /// "every job that lives runs where the journal says, its books agree, nothing is held, reserved,
  /// staged or left over". Gives back holds of jobs that have ended, as the controller does.
  std::vector<std::string> faults(const std::vector<Migration>& migrations);

  /// Short ones, so that what hangs does not hang long.
  static StepLimits limits();

 private:
  std::vector<std::string> free_nodes();
  std::map<WorkerName, std::string> expected(const std::string& job,
                                             const std::vector<Migration>& migrations) const;
  void check_job(const std::string& job, const std::vector<Migration>& migrations,
                 std::vector<std::string>& faults);

  Snapshot snapshot_;
  FakeWorkers workers_;
  std::unique_ptr<EmulatedScheduler> scheduler_;
  Calls calls_;
  std::string folder_, journal_file_;
  std::atomic<int> refuse_writes_ = 0;
  std::stop_source stop_;
  std::mutex mutex_;
  PlanRun* running_ = nullptr;
};

}  // namespace monkeytree
