#include "planning/planner.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "cluster/fragmentation.h"
#include "planning/fill.h"
#include "planning/order.h"
#include "planning/solver.h"

namespace monkeytree {
namespace {

/// Degrees once the changes have happened, from those before. O(entries of the changed groups).
void update_degrees(const Counts& counts, std::span<const CountChange> changes,
                    IdVector<RackId, int>& degrees) {
  for (size_t i = 0; i < changes.size();) {
    const GroupId g = changes[i].group;
    const Counts::GroupCounts& group = counts.group(g);
    std::vector<std::pair<RackId, int>> after;  // workers of the group by rack
    const auto add = [&](RackId rack, int count) {
      const auto at = std::find_if(after.begin(), after.end(),
                                   [&](const auto& entry) { return entry.first == rack; });
      if (at == after.end()) {
        after.emplace_back(rack, count);
      } else {
        at->second += count;
      }
    };
    for (const Counts::Entry& entry : group.entries) add(entry.rack, entry.total());
    for (const auto& [rack, count] : after) {
      if (count < group.size) degrees[rack] -= group.weight;
    }
    for (; i < changes.size() && changes[i].group == g; ++i) add(changes[i].rack, changes[i].delta);
    for (const auto& [rack, count] : after) {
      if (count > 0 && count < group.size) degrees[rack] += group.weight;
    }
  }
}

/// What a placement of the same workers changes.
std::vector<CountChange> difference(const Snapshot& before, const Snapshot& after) {
  std::map<std::tuple<GroupId, ClassId, RackId>, int> delta;
  for (GroupId g : before.groups.keys()) {
    const Group& old_group = before.groups[g];
    for (size_t i = 0; i < old_group.workers.size(); ++i) {
      const Node& from = before.nodes[old_group.workers[i]];
      const Node& to = after.nodes[after.groups[g].workers[i]];
      --delta[{g, from.node_class, from.rack}];
      ++delta[{g, to.node_class, to.rack}];
    }
  }
  std::vector<CountChange> changes;
  for (const auto& [place, count] : delta) {
    const auto& [group, node_class, rack] = place;
    if (count != 0) changes.push_back({group, node_class, rack, count});
  }
  return changes;
}

/// Theorem 1's fill as a plan, where it meets every bound: many moves, but a plan when the limits
/// came before any other was found.
std::vector<CountChange> fill_changes(const Snapshot& snapshot,
                                      const IdVector<RackId, int>& bounds) {
  const std::optional<Fill> filled = fill(snapshot);
  if (!filled || excess(filled->degrees, bounds) > 0) return {};
  return difference(snapshot, filled->placement);
}

}  // namespace

Planner::Planner(Snapshot snapshot)
    : snapshot_(std::move(snapshot)), counts_(snapshot_), occupancy_(snapshot_) {}

JobId Planner::add_job(Job job, std::vector<Group> groups) {
  const JobId id(snapshot_.jobs.size());
  job.first_group = GroupId(snapshot_.groups.size());
  job.group_count = static_cast<int>(groups.size());
  snapshot_.jobs.push_back(std::move(job));
  for (Group& group : groups) {
    group.job = id;
    const GroupId g = snapshot_.groups.push_back(std::move(group));
    const Group& added = snapshot_.groups[g];
    for (int i = 0; i < static_cast<int>(added.workers.size()); ++i) {
      occupancy_.add(added.workers[static_cast<size_t>(i)], {g, i}, added.slots);
    }
    counts_.add_group(snapshot_, g);
  }
  return id;
}

void Planner::remove_job(JobId id) {
  const Job& job = snapshot_.jobs[id];
  for (int k = 0; k < job.group_count; ++k) {
    const GroupId g(job.first_group.value + k);
    counts_.remove_group(snapshot_, g);
    Group& group = snapshot_.groups[g];
    for (int i = 0; i < static_cast<int>(group.workers.size()); ++i) {
      occupancy_.remove(group.workers[static_cast<size_t>(i)], {g, i}, group.slots);
    }
    group.workers.clear();
    group.pinned.clear();
  }
}

void Planner::apply(std::span<const Round> rounds) {
  std::vector<GroupId> groups;
  for (const Round& round : rounds) {
    for (const Move& move : round) groups.push_back(move.group);
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  IdVector<GroupId, Group>& now = snapshot_.groups;
  std::vector<std::vector<NodeId>> after;
  for (GroupId g : groups) after.push_back(now[g].workers);
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      if (move.to == kStaging) continue;
      const size_t at = static_cast<size_t>(
          std::lower_bound(groups.begin(), groups.end(), move.group) - groups.begin());
      NodeId& node = after[at][static_cast<size_t>(move.worker)];
      occupancy_.move(node, move.to, {move.group, move.worker}, now[move.group].slots);
      node = move.to;
    }
  }
  // One group after the other: the counts may look at all of the snapshot, which must be theirs.
  for (size_t i = 0; i < groups.size(); ++i) {
    counts_.remove_group(snapshot_, groups[i]);
    now[groups[i]].workers = std::move(after[i]);
    counts_.add_group(snapshot_, groups[i]);
  }
}

void Planner::set_node_state(NodeId node, NodeState state) {
  if (snapshot_.nodes[node].state == state) return;
  snapshot_.nodes[node].state = state;
  counts_ = Counts(snapshot_);
}

void Planner::set_spines(RackId rack, std::vector<int> spines) {
  snapshot_.racks[rack].spines = std::move(spines);
  counts_.set_bound(rack, snapshot_.racks[rack].bound());
}

Plan Planner::plan(const PlanOptions& options) {
  Plan plan;
  plan.excess_before = counts_.excess();
  for (RackId r : snapshot_.racks.keys()) {
    plan.bounds.push_back(counts_.rack(r).bound);
    plan.before.push_back(counts_.rack(r).degree);
  }
  plan.best_effort = options.best_effort;
  if (options.mend) {
    for (RackId r : counts_.over()) {
      if (std::find(options.mend->begin(), options.mend->end(), r) == options.mend->end()) {
        plan.bounds[r] = plan.before[r];
      }
    }
    plan.excess_before = excess(plan.before, plan.bounds);
  }
  const auto accept = [&](std::span<const CountChange> changes) {
    return order_moves(snapshot_, changes, occupancy_).has_value();
  };
  Solution solution = solve(counts_, options, accept);
  if (solution.status == PlanStatus::kUnknown) {
    std::vector<CountChange> changes = fill_changes(snapshot_, plan.bounds);
    if (!changes.empty() && accept(changes)) {
      solution.changes = std::move(changes);
      const bool least = solution.moves() <= solution.lower_bound;
      solution.status = least ? PlanStatus::kOptimal : PlanStatus::kFeasible;
    }
  }
  plan.status = solution.status;
  plan.after = plan.before;
  plan.conflict = solution.conflict;
  std::optional<std::vector<Round>> rounds;
  if (plan.status != PlanStatus::kInfeasible && plan.status != PlanStatus::kUnknown) {
    rounds = order_moves(snapshot_, solution.changes, occupancy_);
    if (!rounds) plan.status = PlanStatus::kUnknown;  // no node takes them
  }
  if (rounds) {
    plan.lower_bound = solution.lower_bound;
    plan.moves = solution.moves();
    update_degrees(counts_, solution.changes, plan.after);
    plan.rounds = *std::move(rounds);
  }
  plan.excess_after = excess(plan.after, plan.bounds);
  if (options.best_effort && plan.status == PlanStatus::kFeasible) {
    plan.excess_lower_bound = solution.excess_lower_bound;
  }
  return plan;
}

}  // namespace monkeytree
