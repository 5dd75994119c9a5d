#include "planning/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "base/json.h"
#include "cluster/ended.h"

namespace monkeytree {
namespace {

size_t at(int i) { return static_cast<size_t>(i); }

class Checker {
 public:
  Checker(const Snapshot& snapshot, const PlanRecord& plan, const CheckOptions& options)
      : s_(snapshot), plan_(plan), options_(options) {
    for (RackId id : s_.racks.keys()) rack_ids_.emplace(s_.racks[id].name, id);
    for (NodeId id : s_.nodes.keys()) node_ids_.emplace(s_.nodes[id].name, id);
    for (JobId id : s_.jobs.keys()) {
      if (!has_ended(s_, s_.jobs[id])) job_ids_.emplace(s_.jobs[id].id, id);
    }
  }

  std::vector<std::string> run() {
    check_digest();
    bounds_ = by_rack(plan_.bounds, "bounds");
    place();
    check_degrees(plan_.before, "before", degrees());
    before_ = degrees();
    play();
    check_degrees(plan_.after, "after", degrees());
    check_counts();
    check_status();
    if (dropped_ > 0) violations_.push_back(fmt::format("and {} more violations", dropped_));
    return std::move(violations_);
  }

 private:
  using Degrees = IdVector<RackId, int64_t>;

  /// Where a worker is while the rounds are played.
  struct Whereabouts {
    NodeId node;          ///< where it sits, or sat before it went to staging
    bool staged = false;  ///< in staging now
    int moves = 0;        ///< times it has arrived on a node
    int last_round = -1;  ///< in which it was last moved
  };

  template <class... Args>
  void say(fmt::format_string<Args...> format, Args&&... args) {
    if (violations_.size() >= kMaxViolations) {
      ++dropped_;
      return;
    }
    violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& name(RackId rack) const { return s_.racks[rack].name; }
  const std::string& name(NodeId node) const { return s_.nodes[node].name; }

  void check_digest() {
    if (!options_.snapshot_sha256 || *options_.snapshot_sha256 == plan_.snapshot_sha256) return;
    say("the plan was made for another snapshot: it records the SHA-256 {}, this one has {}",
        quote(plan_.snapshot_sha256), *options_.snapshot_sha256);
  }

  /// The numbers of a `{rack: number}` object, -1 where a rack is missing.
  IdVector<RackId, int64_t> by_rack(const PlanRecord::ByRack& values, std::string_view what) {
    IdVector<RackId, int64_t> out(s_.racks.size(), -1);
    for (const auto& [rack, value] : values) {
      const auto found = rack_ids_.find(rack);
      if (found == rack_ids_.end()) {
        say("{} names rack {}, which the snapshot does not have", what, quote(rack));
      } else {
        out[found->second] = value;
      }
    }
    for (RackId id : out.keys()) {
      if (out[id] < 0) say("{} leaves out rack {}", what, quote(name(id)));
    }
    return out;
  }

  /// Seats every worker as the snapshot says.
  void place() {
    used_.assign(s_.nodes.size(), 0);
    workers_.resize(s_.groups.size());
    for (GroupId id : s_.groups.keys()) {
      for (NodeId node : s_.groups[id].workers) {
        workers_[id].push_back({node});
        used_[node] += s_.groups[id].slots;
      }
    }
  }

  /// Fragmentation degrees of the present placement, a worker in staging counted where it was.
  Degrees degrees() const {
    Degrees out(s_.racks.size(), 0);
    for (GroupId id : s_.groups.keys()) {
      std::set<RackId> racks;
      for (const Whereabouts& worker : workers_[id]) racks.insert(s_.nodes[worker.node].rack);
      if (racks.size() == 1) continue;
      for (RackId rack : racks) out[rack] += s_.groups[id].rings;
    }
    return out;
  }

  static int64_t excess(const Degrees& degrees, const IdVector<RackId, int64_t>& bounds) {
    int64_t sum = 0;
    for (RackId id : degrees.keys()) {
      if (bounds[id] >= 0 && degrees[id] > bounds[id]) sum += degrees[id] - bounds[id];
    }
    return sum;
  }

  void check_degrees(const PlanRecord::ByRack& recorded, std::string_view what,
                     const Degrees& counted) {
    const IdVector<RackId, int64_t> values =
        by_rack(recorded, fmt::format("fragmentation {}", what));
    for (RackId id : counted.keys()) {
      if (values[id] < 0 || values[id] == counted[id]) continue;
      say("rack {} has degree {} {} the moves, the plan says {}", quote(name(id)), counted[id],
          what, values[id]);
    }
  }

  void play() {
    for (size_t r = 0; r < plan_.rounds.size(); ++r) {
      round_ = static_cast<int>(r);
      if (plan_.rounds[r].empty()) say("round {} is empty", r + 1);
      arriving_.clear();
      std::vector<std::pair<NodeId, int>> leaving;
      for (const PlanRecord::Step& step : plan_.rounds[r]) play(step, leaving);
      for (const auto& [node, slots] : arriving_) used_[node] += slots;
      for (const auto& [node, slots] : leaving) used_[node] -= slots;
    }
    for (GroupId id : s_.groups.keys()) {
      for (size_t w = 0; w < workers_[id].size(); ++w) {
        const Whereabouts& worker = workers_[id][w];
        if (worker.staged) say("{} is left in staging", title(id, static_cast<int>(w)));
        if (worker.last_round < 0) continue;
        ++moved_;
        if (!worker.staged && worker.node == s_.groups[id].workers[w]) {
          say("{} ends on node {}, where it started", title(id, static_cast<int>(w)),
              quote(name(worker.node)));
        }
      }
    }
  }

  std::string title(GroupId group, int worker) const {
    return fmt::format("worker {} of group {} of job {}", worker, s_.group_index(group),
                       quote(s_.jobs[s_.groups[group].job].id));
  }

  /// One move. What is wrong with it is said; it is played as far as it makes sense.
  void play(const PlanRecord::Step& step, std::vector<std::pair<NodeId, int>>& leaving) {
    const auto job = job_ids_.find(step.job);
    if (job == job_ids_.end()) {
      return say("round {} moves job {}, which the snapshot does not have", round_ + 1,
                 quote(step.job));
    }
    const Job& owner = s_.jobs[job->second];
    if (step.group < 0 || step.group >= owner.group_count) {
      return say("round {} moves group {} of job {}, which has {} groups", round_ + 1, step.group,
                 quote(step.job), owner.group_count);
    }
    const GroupId id(owner.first_group.value + step.group);
    if (step.worker < 0 || at(step.worker) >= s_.groups[id].workers.size()) {
      return say("round {} moves worker {} of group {} of job {}, which has {} workers", round_ + 1,
                 step.worker, step.group, quote(step.job), s_.groups[id].workers.size());
    }
    Whereabouts& worker = workers_[id][at(step.worker)];
    const std::string who = fmt::format("round {}: {}", round_ + 1, title(id, step.worker));
    if (worker.last_round == round_) return say("{} moves twice in this round", who);
    worker.last_round = round_;
    const std::vector<int>& pinned = s_.groups[id].pinned;
    if (!owner.movable || std::find(pinned.begin(), pinned.end(), step.worker) != pinned.end()) {
      say("{} must not move", who);
    }
    check_source(step, worker, who);
    if (!worker.staged) leaving.emplace_back(worker.node, s_.groups[id].slots);
    if (step.to == kStagingName) {
      if (worker.staged) return say("{} goes to staging, where it already is", who);
      if (worker.moves > 0) say("{} moves again after it has arrived", who);
      worker.staged = true;
      return;
    }
    arrive(step, id, worker, who);
  }

  void check_source(const PlanRecord::Step& step, const Whereabouts& worker,
                    const std::string& who) {
    const std::string_view where = worker.staged ? kStagingName : name(worker.node);
    if (step.from != where) {
      say("{} leaves {}, but it is on {}", who, quote(step.from), quote(where));
    }
  }

  void arrive(const PlanRecord::Step& step, GroupId group, Whereabouts& worker,
              const std::string& who) {
    const auto found = node_ids_.find(step.to);
    if (found == node_ids_.end()) {
      return say("{} goes to node {}, which the snapshot does not have", who, quote(step.to));
    }
    const NodeId node = found->second;
    const Node& to = s_.nodes[node];
    const Node& from = s_.nodes[worker.node];
    const std::string target = quote(to.name);
    if (worker.moves > 0) say("{} moves again after it has arrived", who);
    if (to.state != NodeState::kUp) {
      say("{} goes to node {}, which is not up but {}", who, target, name_of(to.state));
    }
    if (to.node_class != from.node_class) {
      say("{} goes to node {} of class {}, but belongs on class {}", who, target,
          quote(s_.classes[to.node_class]), quote(s_.classes[from.node_class]));
    }
    if (s_.racks[to.rack].island != s_.racks[from.rack].island) {
      say("{} goes to node {} in another island", who, target);
    }
    const int slots = s_.groups[group].slots;
    const int64_t free = int64_t{to.slots} - used_[node] - arriving_[node];
    if (free < slots) {
      say("{} needs {} {} on node {}, where {} {} free when the round starts", who, slots,
          slots == 1 ? "slot" : "slots", target, std::max<int64_t>(free, 0),
          free == 1 ? "is" : "are");
    }
    arriving_[node] += slots;
    worker.node = node;
    worker.staged = false;
    ++worker.moves;
  }

  void check_counts() {
    if (plan_.moves != moved_) {
      say("the rounds move {} workers, the plan says {} moves", moved_, plan_.moves);
    }
    const int64_t before = excess(before_, bounds_), after = excess(degrees(), bounds_);
    if (plan_.excess_before != before) {
      say("the excess before the moves is {}, the plan says {}", before, plan_.excess_before);
    }
    if (plan_.excess_after != after) {
      say("the excess after the moves is {}, the plan says {}", after, plan_.excess_after);
    }
  }

  /// The bounds that the plan has to meet.
  IdVector<RackId, int64_t> bounds_asked() const {
    if (!options_.uplinks) return bounds_;
    return IdVector<RackId, int64_t>(s_.racks.size(), *options_.uplinks);
  }

  void check_status() {
    const std::string_view status = name_of(plan_.status);
    if (plan_.status != PlanStatus::kInfeasible && !plan_.conflict.empty()) {
      say("the plan is {}, yet it names racks in conflict", status);
    }
    if (!plan_.best_effort && plan_.excess_lower_bound) {
      say("the plan gives a lower bound on the excess, which only best effort leaves open");
    }
    if (plan_.lower_bound && *plan_.lower_bound > plan_.moves) {
      say("the lower bound {} is above the {} moves", *plan_.lower_bound, plan_.moves);
    }
    switch (plan_.status) {
      case PlanStatus::kCompliant:
        check_bounds_met();
        if (!plan_.rounds.empty() || plan_.moves != 0) say("the plan is compliant, yet it moves");
        if (plan_.lower_bound != 0) say("the plan is compliant, yet its lower bound is not 0");
        break;
      case PlanStatus::kOptimal:
        check_achieved();
        if (plan_.lower_bound != plan_.moves) {
          say("the plan is optimal, yet its lower bound is not the number of moves");
        }
        if (plan_.excess_lower_bound && *plan_.excess_lower_bound != plan_.excess_after) {
          say("the plan is optimal, yet its excess is not proved to be the least");
        }
        break;
      case PlanStatus::kFeasible:
        check_achieved();
        if (!plan_.best_effort && (!plan_.lower_bound || *plan_.lower_bound >= plan_.moves)) {
          say("the plan is feasible, so its lower bound must be below the number of moves");
        }
        break;
      case PlanStatus::kInfeasible:
      case PlanStatus::kUnknown:
        if (!plan_.rounds.empty() || plan_.moves != 0) say("the plan is {}, yet it moves", status);
        if (plan_.lower_bound) say("the plan is {}, yet it has a lower bound", status);
        if (excess(before_, bounds_asked()) == 0) {
          say("the plan is {}, yet every rack is within its bound already", status);
        }
        if (plan_.status == PlanStatus::kInfeasible) check_conflict();
        break;
    }
  }

  /// Optimal and feasible plans: there was something to do, and it is done.
  void check_achieved() {
    if (excess(before_, bounds_) == 0) {
      say("every rack is within its bound before the moves, so the plan should be compliant");
    }
    if (!plan_.best_effort) return check_bounds_met();
    if (excess(degrees(), bounds_) > excess(before_, bounds_)) {
      say("the moves make the excess larger");
    }
    if (plan_.excess_lower_bound && *plan_.excess_lower_bound > plan_.excess_after) {
      say("the lower bound {} on the excess is above the excess {}", *plan_.excess_lower_bound,
          plan_.excess_after);
    }
  }

  void check_bounds_met() {
    const IdVector<RackId, int64_t> bounds = bounds_asked();
    const Degrees now = degrees();
    for (RackId id : now.keys()) {
      if (bounds[id] < 0 || now[id] <= bounds[id]) continue;
      say("rack {} has degree {} in the end, above its bound {}", quote(name(id)), now[id],
          bounds[id]);
    }
  }

  void check_conflict() {
    if (plan_.best_effort) say("the plan is best effort, so it cannot be infeasible");
    if (plan_.conflict.empty()) say("the plan is infeasible, yet names no rack in conflict");
    std::set<std::string_view> named;
    bool within = true;
    for (const std::string& rack : plan_.conflict) {
      if (!named.insert(rack).second) say("conflict names rack {} twice", quote(rack));
      const auto found = rack_ids_.find(rack);
      if (found == rack_ids_.end()) {
        say("conflict names rack {}, which the snapshot does not have", quote(rack));
      }
      within &= found != rack_ids_.end() && before_[found->second] <= bounds_[found->second];
    }
    if (within && !plan_.conflict.empty()) {
      say("every rack in conflict is within its bound as the cluster stands, so the bounds of "
          "these "
          "racks can hold together");
    }
  }

  const Snapshot& s_;
  const PlanRecord& plan_;
  const CheckOptions& options_;
  std::unordered_map<std::string, RackId> rack_ids_;
  std::unordered_map<std::string, NodeId> node_ids_;
  std::unordered_map<std::string, JobId> job_ids_;
  IdVector<RackId, int64_t> bounds_;    ///< as recorded, -1 where missing
  IdVector<NodeId, int64_t> used_;      ///< slots held on each node when the round starts
  std::map<NodeId, int64_t> arriving_;  ///< slots taken by arrivals of this round
  IdVector<GroupId, std::vector<Whereabouts>> workers_;
  Degrees before_;
  int round_ = 0;
  int moved_ = 0;
  size_t dropped_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace

std::vector<std::string> check_plan(const Snapshot& snapshot, const PlanRecord& plan,
                                    const CheckOptions& options) {
  return Checker(snapshot, plan, options).run();
}

}  // namespace monkeytree
