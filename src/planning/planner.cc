#include "planning/planner.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <string>
#include <utility>

#include "planning/make_plan.h"

namespace monkeytree {
namespace {

template <class Key>
void sort_out(std::vector<Key>& keys) {
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
}

}  // namespace

Planner::Planner(Snapshot snapshot)
    : snapshot_(std::move(snapshot)), counts_(snapshot_), occupancy_(snapshot_) {}

std::vector<GroupId> Planner::groups_of(JobId id) const {
  const Job& job = snapshot_.jobs[id];
  std::vector<GroupId> groups;
  for (int k = 0; k < job.group_count; ++k) groups.emplace_back(job.first_group.value + k);
  return groups;
}

/// Changes the snapshot in what concerns these groups.
template <class Change>
void Planner::recount(std::span<const GroupId> groups, Change change) {
  for (GroupId g : groups) counts_.remove_group(snapshot_, g);
  change();
  for (GroupId g : groups) counts_.add_group(snapshot_, g);
}

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
    for (NodeId node : added.workers) refresh_hold(node);
  }
  return id;
}

void Planner::remove_job(JobId id) {
  for (GroupId g : groups_of(id)) {
    counts_.remove_group(snapshot_, g);
    Group& group = snapshot_.groups[g];
    const std::vector<NodeId> workers = std::exchange(group.workers, {});
    group.pinned = {};
    for (int i = 0; i < static_cast<int>(workers.size()); ++i) {
      occupancy_.remove(workers[static_cast<size_t>(i)], {g, i}, group.slots);
    }
    for (NodeId node : workers) refresh_hold(node);
    for (auto at = under_way_.lower_bound({g, 0}); at != under_way_.end() && at->first.first == g;
         at = under_way_.erase(at)) {
      leave(at->second, -group.slots);
    }
  }
  Job& job = snapshot_.jobs[id];
  if (const auto frozen = frozen_.extract(id)) job.movable = frozen.mapped().movable;
  // Simulations remove jobs by the hundred thousand.
  for (std::string* text : {&job.name, &job.user, &job.partition, &job.comment}) *text = {};
}

void Planner::set_movable(JobId id, bool movable) {
  if (const auto frozen = frozen_.find(id); frozen != frozen_.end()) {
    frozen->second.movable = movable;
  } else if (Job& job = snapshot_.jobs[id]; job.movable != movable) {
    recount(groups_of(id), [&] { job.movable = movable; });
  }
}

void Planner::place(GroupId g, int worker, NodeId node) {
  Group& group = snapshot_.groups[g];
  NodeId& at = group.workers[static_cast<size_t>(worker)];
  occupancy_.move(at, node, {g, worker}, group.slots);
  at = node;
}

void Planner::apply(std::span<const Round> rounds) {
  std::vector<GroupId> groups;
  for (const Round& round : rounds) {
    for (const Move& move : round) groups.push_back(move.group);
  }
  sort_out(groups);
  recount(groups, [&] {
    for (const Round& round : rounds) {
      for (const Move& move : round) {
        if (move.to != kStaging) place(move.group, move.worker, move.to);
      }
    }
  });
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      for (NodeId node : {move.from, move.to}) refresh_hold(node);
    }
  }
}

void Planner::begin(std::span<const Round> rounds) {
  std::vector<JobId> jobs;
  std::vector<GroupId> groups;
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      if (move.to != kStaging) jobs.push_back(snapshot_.groups[move.group].job);
    }
  }
  sort_out(jobs);
  for (JobId job : jobs) {
    for (GroupId g : groups_of(job)) groups.push_back(g);
  }
  std::vector<std::pair<NodeId, int>> left;
  recount(groups, [&] {
    for (JobId job : jobs) {
      frozen_.try_emplace(job, Frozen{0, snapshot_.jobs[job].movable});
      snapshot_.jobs[job].movable = false;
    }
    for (const Round& round : rounds) {
      for (const Move& move : round) {
        if (move.to == kStaging) continue;
        const Group& group = snapshot_.groups[move.group];
        const NodeId from = group.workers[static_cast<size_t>(move.worker)];
        assert(!under_way_.contains({move.group, move.worker}));
        under_way_[{move.group, move.worker}] = from;
        ++frozen_[group.job].moves;
        left.emplace_back(from, group.slots);
        place(move.group, move.worker, move.to);
      }
    }
  });
  for (const auto& [node, slots] : left) leave(node, slots);
  for (const Round& round : rounds) {
    for (const Move& move : round) refresh_hold(move.to);
  }
}

void Planner::finish(std::span<const Move> moves) { end_moves(moves, true); }
void Planner::cancel(std::span<const Move> moves) { end_moves(moves, false); }

void Planner::end_moves(std::span<const Move> moves, bool carried_out) {
  struct Ended {
    GroupId group;
    int worker;
    NodeId from, to;
  };
  std::vector<Ended> ended;
  std::vector<GroupId> groups;
  std::vector<JobId> thawed;
  for (const Move& move : moves) {
    if (carried_out && move.to == kStaging) continue;
    const auto at = under_way_.find({move.group, move.worker});
    if (at == under_way_.end()) continue;
    const Group& group = snapshot_.groups[move.group];
    ended.push_back(
        {move.group, move.worker, at->second, group.workers[static_cast<size_t>(move.worker)]});
    under_way_.erase(at);
    if (!carried_out) groups.push_back(move.group);
    if (--frozen_[group.job].moves > 0) continue;
    thawed.push_back(group.job);
    for (GroupId g : groups_of(group.job)) groups.push_back(g);
  }
  sort_out(groups);
  recount(groups, [&] {
    for (const Ended& move : ended) {
      if (!carried_out) place(move.group, move.worker, move.from);
    }
    for (JobId job : thawed) {
      snapshot_.jobs[job].movable = frozen_[job].movable;
      frozen_.erase(job);
    }
  });
  for (const Ended& move : ended) {
    leave(move.from, -snapshot_.groups[move.group].slots);
    refresh_hold(move.to);
  }
}

/// Workers with so many slots more (or fewer, negative) are about to leave the node.
void Planner::leave(NodeId node, int slots) {
  sources_[node].leaving += slots;
  refresh_hold(node);
}

/// Holds what departing workers will give back, but not what an arriving one holds already: as
/// reserve() does.
void Planner::refresh_hold(NodeId node) {
  const auto at = sources_.find(node);
  if (at == sources_.end()) return;
  Source& source = at->second;
  const int unused = occupancy_.free_slots(node) + source.held;
  const bool up = snapshot_.nodes[node].state == NodeState::kUp;
  const int held = up ? std::max(0, std::min(source.leaving, unused)) : 0;
  if (held != source.held) {
    counts_.hold(snapshot_, node, held - source.held);
    occupancy_.hold(node, held - source.held);
    source.held = held;
  }
  if (source.leaving == 0) sources_.erase(at);
}

/// The snapshot with an immovable worker on every slot that is held.
Snapshot Planner::with_holds() const {
  Snapshot out = snapshot_;
  const JobId job(out.jobs.size());
  for (const auto& [node, source] : sources_) {
    if (source.held == 0) continue;
    Group group;
    group.job = job;
    group.slots = source.held;
    group.workers = {node};
    out.groups.push_back(std::move(group));
  }
  Job hold;
  hold.movable = false;
  hold.first_group = GroupId(snapshot_.groups.size());
  hold.group_count = static_cast<int>(out.groups.size() - snapshot_.groups.size());
  out.jobs.push_back(std::move(hold));
  return out;
}

void Planner::set_node_state(NodeId id, NodeState state) {
  Node& node = snapshot_.nodes[id];
  if (node.state == state) return;
  std::vector<GroupId> groups;
  occupancy_.for_each(id, [&](Occupancy::Seat seat) { groups.push_back(seat.group); });
  sort_out(groups);
  recount(groups, [&] {
    counts_.remove_node(snapshot_, id);
    node.state = state;
    counts_.add_node(snapshot_, id);
  });
  refresh_hold(id);
}

void Planner::set_spines(RackId rack, std::vector<int> spines) {
  snapshot_.racks[rack].spines = std::move(spines);
  counts_.set_bound(rack, snapshot_.racks[rack].bound());
}

Plan Planner::plan(const PlanOptions& options) {
  if (sources_.empty()) return make_plan({snapshot_, counts_, occupancy_}, options);
  return make_plan({snapshot_, counts_, occupancy_, [this] { return with_holds(); }}, options);
}

}  // namespace monkeytree
