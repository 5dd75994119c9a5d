#include "control/mirror.h"

#include <algorithm>
#include <utility>

namespace monkeytree {
namespace {

/// Places of removed jobs that are put up with before the planner is made anew.
constexpr size_t kMostRemoved = 1000;

/// So many jobs that have ended are passed over before one is searched by its name.
constexpr size_t kGap = 4;

GroupId group_of(const Snapshot& snapshot, JobId job, int index) {
  return GroupId{snapshot.jobs[job].first_group.value + index};
}

}  // namespace

bool Mirror::same_fabric(const Snapshot& observed) const {
  const Snapshot& known = planner_->snapshot();
  if (observed.racks.size() != known.racks.size() || observed.nodes.size() != known.nodes.size() ||
      observed.classes != known.classes || observed.islands != known.islands) {
    return false;
  }
  for (size_t r = 0; r < observed.racks.size(); ++r) {
    const Rack& a = observed.racks[RackId(r)];
    const Rack& b = known.racks[RackId(r)];
    if (a.name != b.name || a.island != b.island || a.nodes != b.nodes) return false;
  }
  for (size_t n = 0; n < observed.nodes.size(); ++n) {
    const Node& a = observed.nodes[NodeId(n)];
    const Node& b = known.nodes[NodeId(n)];
    if (a.name != b.name || a.rack != b.rack || a.node_class != b.node_class ||
        a.slots != b.slots || a.gpus != b.gpus) {
      return false;
    }
  }
  return true;
}

void Mirror::rebuild(const Snapshot& observed) {
  planner_.emplace(observed);
  jobs_.clear();
  nodes_.clear();
  places_ = {};
  order_.clear();
  waiting_.clear();
  removed_ = 0;
  states_ = IdVector<NodeId, NodeState>(observed.nodes.size());
  for (size_t n = 0; n < observed.nodes.size(); ++n) {
    nodes_[observed.nodes[NodeId(n)].name] = NodeId(n);
    states_[NodeId(n)] = observed.nodes[NodeId(n)].state;
  }
  for (size_t j = 0; j < observed.jobs.size(); ++j) {
    jobs_[observed.jobs[JobId(j)].id] = JobId(j);
    places_.push_back({true, observed.jobs[JobId(j)].movable});
    order_.push_back(JobId(j));
  }
  avoid(std::exchange(avoided_, {}));
}

std::vector<JobId> Mirror::match(const Snapshot& observed) const {
  std::vector<JobId> known(observed.jobs.size());
  size_t next = 0;
  for (size_t j = 0; j < known.size(); ++j) {
    const std::string& id = observed.jobs[JobId(j)].id;
    const size_t end = std::min(order_.size(), next + kGap);
    size_t at = next;
    while (at < end && !(present(order_[at]) && planner_->snapshot().jobs[order_[at]].id == id)) {
      ++at;
    }
    if (at < end) {
      known[j] = order_[at];
      next = at + 1;
    } else if (const auto found = jobs_.find(id); found != jobs_.end()) {
      known[j] = found->second;
    }
  }
  return known;
}

bool Mirror::follow(const Snapshot& observed, const std::set<std::string>& keep) {
  const bool under_way = planner_ && std::any_of(jobs_.begin(), jobs_.end(), [&](const auto& job) {
                           return planner_->moving(job.second);
                         });
  // A planner made anew would know nothing of moves under way.
  const bool tidy = planner_ && removed_ > kMostRemoved + 2 * jobs_.size();
  if (!planner_ || (!under_way && (tidy || !same_fabric(observed)))) {
    rebuild(observed);
    return true;
  }
  if (under_way && !same_fabric(observed)) return false;  // until they have ended

  bool changed = follow_nodes(observed);
  std::vector<JobId> known = match(observed);
  // First what has gone, since others may have its slots.
  IdVector<JobId, char> stays(places_.size());
  for (size_t j = 0; j < known.size(); ++j) {
    if (!known[j].valid()) continue;
    const JobId job = known[j];
    stays[job] = static_cast<char>(planner_->moving(job) || same_job(observed, JobId(j), job));
  }
  std::vector<std::string> gone;
  for (size_t p = 0; p < places_.size(); ++p) {
    const JobId job(p);
    if (!places_[job].present || stays[job] != 0) continue;
    const std::string& id = planner_->snapshot().jobs[job].id;
    if (!keep.contains(id)) gone.push_back(id);
  }
  for (const std::string& id : gone) remove(id);
  bool come = false;
  waiting_.clear();
  for (size_t j = 0; j < known.size(); ++j) {
    const std::string& id = observed.jobs[JobId(j)].id;
    if (present(known[j]) || keep.contains(id)) continue;
    known[j] = JobId();
    if (fits(observed, JobId(j))) {
      known[j] = add(observed, JobId(j));
      come = true;
    } else {
      waiting_.insert(id);
    }
  }
  order_ = std::move(known);
  return changed || !gone.empty() || come;
}

bool Mirror::follow_nodes(const Snapshot& observed) {
  bool changed = false;
  for (size_t r = 0; r < observed.racks.size(); ++r) {
    const RackId rack(r);
    if (observed.racks[rack].spines == planner_->snapshot().racks[rack].spines) continue;
    planner_->set_spines(rack, observed.racks[rack].spines);
    changed = true;
  }
  for (size_t n = 0; n < observed.nodes.size(); ++n) {
    const NodeId node(n);
    states_[node] = observed.nodes[node].state;
    const bool avoided = avoided_.contains(observed.nodes[node].name);
    const NodeState state =
        avoided && states_[node] == NodeState::kUp ? NodeState::kReserved : states_[node];
    if (state == planner_->snapshot().nodes[node].state) continue;
    planner_->set_node_state(node, state);
    changed = true;
  }
  return changed;
}

bool Mirror::same_job(const Snapshot& observed, JobId seen, JobId known) const {
  const Snapshot& mine = planner_->snapshot();
  const Job& a = observed.jobs[seen];
  const Job& b = mine.jobs[known];
  if (a.group_count != b.group_count || a.state_bytes != b.state_bytes || a.start_s != b.start_s ||
      a.end_s != b.end_s || a.comment != b.comment || places_[known].movable != a.movable) {
    return false;
  }
  for (int g = 0; g < a.group_count; ++g) {
    const Group& x = observed.groups[group_of(observed, seen, g)];
    const Group& y = mine.groups[group_of(mine, known, g)];
    // Nodes have the same ids: same_fabric() holds.
    if (x.rings != y.rings || x.slots != y.slots || x.pinned != y.pinned ||
        x.workers != y.workers) {
      return false;
    }
  }
  return true;
}

bool Mirror::fits(const Snapshot& observed, JobId seen) const {
  std::map<NodeId, int> wanted;
  for (int g = 0; g < observed.jobs[seen].group_count; ++g) {
    const Group& group = observed.groups[group_of(observed, seen, g)];
    for (const NodeId node : group.workers) wanted[node] += group.slots;
  }
  return std::all_of(wanted.begin(), wanted.end(), [&](const auto& entry) {
    return planner_->free_slots(entry.first) >= entry.second;
  });
}

JobId Mirror::add(const Snapshot& observed, JobId seen) {
  // Nodes have the same ids: same_fabric() holds.
  std::vector<Group> groups;
  for (int g = 0; g < observed.jobs[seen].group_count; ++g) {
    groups.push_back(observed.groups[group_of(observed, seen, g)]);
  }
  const Job& job = observed.jobs[seen];
  const JobId place = planner_->add_job(job, std::move(groups));
  while (places_.size() <= static_cast<size_t>(place.value)) places_.push_back({});
  jobs_[job.id] = place;
  places_[place] = {true, job.movable};
  return place;
}

void Mirror::remove(const std::string& id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  planner_->remove_job(found->second);
  places_[found->second].present = false;
  jobs_.erase(found);
  ++removed_;
}

void Mirror::forget(const std::vector<std::string>& jobs) {
  for (const std::string& id : jobs) remove(id);
}

void Mirror::hold_back(const std::map<std::string, std::string>& jobs) {
  for (const auto& [id, job] : jobs_) {
    if (planner_->moving(job)) continue;
    const bool may = places_[job].movable && !jobs.contains(id);
    if (planner_->snapshot().jobs[job].movable != may) planner_->set_movable(job, may);
  }
}

void Mirror::avoid(const std::set<std::string>& nodes) {
  avoided_ = nodes;
  if (!planner_) return;
  for (size_t n = 0; n < states_.size(); ++n) {
    const NodeId node(n);
    const bool avoided = avoided_.contains(planner_->snapshot().nodes[node].name);
    const NodeState state =
        avoided && states_[node] == NodeState::kUp ? NodeState::kReserved : states_[node];
    if (state != planner_->snapshot().nodes[node].state) planner_->set_node_state(node, state);
  }
}

std::optional<JobId> Mirror::job(std::string_view id) const {
  const auto found = jobs_.find(id);
  return found == jobs_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<NodeId> Mirror::node(std::string_view name) const {
  const auto found = nodes_.find(name);
  return found == nodes_.end() ? std::nullopt : std::optional(found->second);
}

std::optional<std::pair<GroupId, int>> Mirror::worker(const WorkerName& name) const {
  const std::optional<JobId> id = job(name.job);
  if (!id) return std::nullopt;
  const Snapshot& mine = planner_->snapshot();
  if (name.group < 0 || name.group >= mine.jobs[*id].group_count) return std::nullopt;
  const GroupId group = group_of(mine, *id, name.group);
  if (name.worker < 0 || static_cast<size_t>(name.worker) >= mine.groups[group].workers.size()) {
    return std::nullopt;
  }
  return std::pair(group, name.worker);
}

std::optional<std::vector<Round>> Mirror::rounds_of(const PlanRecord& plan) const {
  std::vector<Round> rounds;
  for (const std::vector<PlanRecord::Step>& steps : plan.rounds) {
    Round& round = rounds.emplace_back();
    for (const PlanRecord::Step& step : steps) {
      const auto who = worker({step.job, step.group, step.worker});
      const std::optional<NodeId> from =
          step.from == kStagingName ? std::optional(kStaging) : node(step.from);
      const std::optional<NodeId> to =
          step.to == kStagingName ? std::optional(kStaging) : node(step.to);
      if (!who || !from || !to) return std::nullopt;
      round.push_back({who->first, who->second, *from, *to});
    }
  }
  return rounds;
}

}  // namespace monkeytree
