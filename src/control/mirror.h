#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/snapshot.h"
#include "cluster/worker_name.h"
#include "planning/plan_json.h"
#include "planning/planner.h"

namespace monkeytree {

/// A Planner that follows what the scheduler says. An observation costs a comparison of each job
/// and node with what is known of it, without a search where they come in the order of the last
/// time, and what has changed; the plan after it costs what it mends. One thread.
///
/// Jobs whose moves are under way are left as the planner has them: there they are where they will
/// be, whatever the books say halfway.
class Mirror {
 public:
  /// Nothing is known before the first follow().
  bool empty() const { return !planner_; }
  Planner& planner() { return *planner_; }
  const Planner& planner() const { return *planner_; }
  const Snapshot& snapshot() const { return planner_->snapshot(); }

  /// Takes up an observation. `keep`: ids of jobs that are not to be looked at, because the
  /// observation is older than their last move. True where anything changed that a plan or routes
  /// depend on.
  bool follow(const Snapshot& observed, const std::set<std::string>& keep);

  /// Jobs that may not move, and nodes that must not be moved to, whatever the scheduler says.
  void hold_back(const std::map<std::string, std::string>& jobs);
  void avoid(const std::set<std::string>& nodes);

  std::optional<JobId> job(std::string_view id) const;
  std::optional<NodeId> node(std::string_view name) const;
  /// By name; nullopt where the job, group or worker does not exist.
  std::optional<std::pair<GroupId, int>> worker(const WorkerName& name) const;

  /// Moves by name as moves of the planner's snapshot; nullopt where something of them is gone.
  std::optional<std::vector<Round>> rounds_of(const PlanRecord& plan) const;

  /// Forgets the jobs, moves under way included; the next observation brings them back.
  void forget(const std::vector<std::string>& jobs);

  /// Jobs that wait because the slots they run on are still held for a move.
  const std::set<std::string>& waiting() const { return waiting_; }

 private:
  bool same_fabric(const Snapshot& observed) const;
  void rebuild(const Snapshot& observed);
  bool follow_nodes(const Snapshot& observed);
  std::vector<JobId> match(const Snapshot& observed) const;
  bool same_job(const Snapshot& observed, JobId seen, JobId known) const;
  bool present(JobId job) const { return job.valid() && places_[job].present; }
  bool fits(const Snapshot& observed, JobId seen) const;
  JobId add(const Snapshot& observed, JobId seen);
  void remove(const std::string& id);

  std::optional<Planner> planner_;
  std::map<std::string, JobId, std::less<>> jobs_;
  std::map<std::string, NodeId, std::less<>> nodes_;
  /// A job's place in the planner, which keeps it when the job goes.
  struct Place {
    bool present = false, movable = false;  ///< movable: as the scheduler says
  };
  IdVector<JobId, Place> places_;
  std::vector<JobId> order_;  ///< the jobs of the last observation, as they came
  std::set<std::string> waiting_;
  std::set<std::string> avoided_;
  IdVector<NodeId, NodeState> states_;  ///< as the scheduler says
  size_t removed_ = 0;                  ///< jobs that still have a place in the planner
};

}  // namespace monkeytree
