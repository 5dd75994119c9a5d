#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <vector>

#include "cluster/snapshot.h"
#include "control/mover.h"
#include "planning/plan.h"

namespace monkeytree {

/// What a plan needs to know of each worker that it moves.
using WorkerReports = std::map<WorkerName, WorkerReport>;

/// The same moves, each by the staging server: a round in which workers leave, then one in which
/// they come, a worker of a job at a time.
std::vector<Round> staged_rounds(const Snapshot& snapshot, const std::vector<Round>& rounds);

/// The rounds of a plan as migrations: one for each job that moves in a round, in the order of
/// rounds, then of jobs. `plan` is its number in the journal.
std::vector<Migration> migrations_of(int64_t plan, const Snapshot& snapshot,
                                     const std::vector<Round>& rounds,
                                     const WorkerReports& reports);

/// The nodes whose workers change, ascending, each once; without staging.
std::vector<std::string> nodes_of(const std::vector<Migration>& migrations);

/// A plan on its way: its rounds one after the other, the migrations of a round side by side.
///
/// A plan of more than one round stands under a reservation of its nodes: nobody else gets a node
/// that one worker has left for another. When a migration is undone the rounds after it do not
/// begin, and a worker whose state is staged goes back to a node: the one it came from, the one it
/// was to go to, or any other that `find_nodes` offers, whichever takes it first. Where none does,
/// the moves that took its node are undone.
class PlanRun {
 public:
  enum class End : uint8_t { kDone, kFailed, kStopped };
  struct Hooks {
    /// Free nodes for a worker that has lost both its places, best first.
    std::function<std::vector<std::string>(const WorkerName&, const std::string& from)> find_nodes;
    /// A migration has ended; called from any of the run's threads.
    std::function<void(const Migration&)> ended;
    /// Something that a person should know.
    std::function<void(const std::string&)> trouble;
  };

  /// `migrations`: all of the plan, as the journal knows them; those that have ended stay as they
  /// are.
  PlanRun(int64_t plan, std::vector<Migration> migrations, Mover& mover, Scheduler& scheduler,
          Journal& journal, std::function<double()> wall_s, Hooks hooks);

  /// Blocks. kStopped: by `stop`, and the journal knows where to go on.
  End run(const std::stop_token& stop);

  /// Undoes what is not past its point of no return, and begins nothing more.
  void give_up() { give_up_ = true; }

  /// The name of the reservation of a plan.
  static std::string reservation_of(int64_t plan);

 private:
  struct Reservation {
    std::string name;  ///< "" where the plan needs none
    std::vector<std::string> nodes;
  };
  Reservation reservation() const;
  absl::Status try_to_reserve();
  /// False when stopped.
  bool reserve(const std::stop_token& stop);
  bool unreserve(const std::stop_token& stop);
  /// Runs those of one round; false when stopped.
  bool run_round(int round, const std::stop_token& stop);
  /// Those not begun will not be.
  bool drop_later(const std::stop_token& stop);
  bool return_staged(const std::stop_token& stop);
  bool return_worker(const WorkerName& worker, const std::stop_token& stop);

  /// A worker that the plan has moved.
  struct Whereabouts {
    std::string home;  ///< before the plan
    std::string now;   ///< or kStagingNode
  };
  /// Without those that were found to have ended with their job.
  std::map<WorkerName, Whereabouts> moved() const;
  std::set<WorkerName> staged() const;
  std::vector<std::string> places_for(const WorkerName& worker) const;
  /// The next move of a worker that the plan has moved before.
  Migration further(const WorkerName& worker, const std::string& to) const;
  enum class Went : uint8_t { kWell, kNot, kStopped };
  Went move_further(const WorkerName& worker, const std::string& to, const std::stop_token& stop);
  /// Workers that took the node, and nodes of those, go home. kNot: there are none, or they cannot.
  Went clear(const std::string& node, const std::stop_token& stop);

  int64_t plan_;
  std::vector<Migration> migrations_;
  Mover& mover_;
  Scheduler& scheduler_;
  Journal& journal_;
  std::function<double()> wall_s_;
  Hooks hooks_;
  std::atomic<bool> give_up_ = false;
  std::string dropped_why_;  ///< why moves not begun will not be; "" while they may
  bool reserved_ = false;
};

}  // namespace monkeytree
