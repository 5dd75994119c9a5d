#include "study/kept_placement.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

constexpr size_t kMostEnded = 4096;

double seconds(int64_t us) { return static_cast<double>(us) / 1e6; }

}  // namespace

KeptPlacement::KeptPlacement(const Snapshot& fabric, const std::vector<RecordedJob>& jobs,
                             double pause_s, int64_t work_limit)
    : fabric_(fabric),
      jobs_(jobs),
      pause_s_(pause_s),
      work_limit_(work_limit),
      planner_(fabric),
      uplinks_(bounds(fabric)),
      planned_(jobs.size()),
      seats_(fabric.nodes.size()) {}

void KeptPlacement::start(int job) {
  counters_.workers += static_cast<int64_t>(record(job).nodes.size());
  if (record(job).nodes.size() == 1) {
    start_small(job);
  } else {
    start_wide(job);
  }
}

void KeptPlacement::start_small(int job) {
  Seat& seat = seats_[record(job).nodes[0]];
  if (seat.jobs > 0) {
    ++seat.jobs;
    if (seat.planned.valid()) planner_.set_movable(seat.planned, false);
    return;
  }
  bool conflict = false;
  const std::optional<NodeId> node = place_for(record(job).nodes[0], {}, conflict);
  if (!node) {
    ++counters_.left_as_recorded;
    seat = {JobId(), 1};
    return;
  }
  counters_.replaced += !conflict && *node != record(job).nodes[0];
  counters_.conflicts += conflict;
  counters_.conflict_jobs += conflict;
  seat = {add({*node}, job), 1};
}

void KeptPlacement::start_wide(int job) {
  const RecordedJob& recorded = record(job);
  std::vector<NodeId> nodes;
  int conflicts = 0, replaced = 0;
  std::vector<NodeId> kept;  // recorded nodes that are free come first: none takes another's place
  for (NodeId node : recorded.nodes) {
    if (planner_.free_slots(node) > 0) kept.push_back(node);
  }
  std::vector<NodeId> taken = kept;
  for (NodeId node : recorded.nodes) {
    if (planner_.free_slots(node) > 0) {
      nodes.push_back(node);
      continue;
    }
    bool conflict = false;
    const std::optional<NodeId> other = place_for(node, taken, conflict);
    if (!other) {
      ++counters_.left_as_recorded;
      uplinks_.add(job, rings_of(fabric_, recorded.nodes, recorded.stages, recorded.rings));
      return;
    }
    (conflict ? conflicts : replaced) += 1;
    nodes.push_back(*other);
    taken.push_back(*other);
  }
  counters_.replaced += replaced;
  counters_.conflicts += conflicts;
  counters_.conflict_jobs += conflicts > 0;
  add(std::move(nodes), job);
  show_on_uplinks(job);
}

std::optional<NodeId> KeptPlacement::free_in(RackId rack, const std::vector<NodeId>& taken) const {
  for (NodeId node : fabric_.racks[rack].nodes) {
    if (planner_.free_slots(node) > 0 &&
        std::find(taken.begin(), taken.end(), node) == taken.end()) {
      return node;
    }
  }
  return std::nullopt;
}

std::optional<NodeId> KeptPlacement::place_for(NodeId recorded, const std::vector<NodeId>& taken,
                                               bool& conflict) const {
  if (planner_.free_slots(recorded) > 0 &&
      std::find(taken.begin(), taken.end(), recorded) == taken.end()) {
    return recorded;
  }
  const RackId home = fabric_.nodes[recorded].rack;
  if (const std::optional<NodeId> node = free_in(home, taken)) return node;
  conflict = true;
  std::map<RackId, int> used;  // racks of the job, and its workers there
  for (NodeId node : taken) ++used[fabric_.nodes[node].rack];
  std::optional<NodeId> best;
  std::pair<int, int> best_key = {-1, -1};
  for (RackId rack : fabric_.racks.keys()) {
    if (fabric_.racks[rack].island != fabric_.racks[home].island) continue;
    const auto at = used.find(rack);
    const std::pair<int, int> key = {at == used.end() ? 0 : at->second,
                                     planner_.counts().free(rack, ClassId(0))};
    if (key <= best_key) continue;
    if (const std::optional<NodeId> node = free_in(rack, taken)) {
      best = node;
      best_key = key;
    }
  }
  return best;
}

JobId KeptPlacement::add(std::vector<NodeId> nodes, int number) {
  const RecordedJob& job = record(number);
  std::vector<Group> groups(static_cast<size_t>(job.stages));
  const size_t each = nodes.size() / groups.size();
  for (size_t g = 0; g < groups.size(); ++g) {
    groups[g].rings = job.rings;
    groups[g].workers.assign(nodes.begin() + static_cast<std::ptrdiff_t>(g * each),
                             nodes.begin() + static_cast<std::ptrdiff_t>((g + 1) * each));
  }
  Job planned_job;
  planned_job.movable = job.movable && (nodes.size() > 1 || job.whole);
  const JobId id = planner_.add_job(std::move(planned_job), std::move(groups));
  recorded_.push_back(number);
  planned(number) = id;
  ++live_;
  return id;
}

void KeptPlacement::show_on_uplinks(int job) {
  const Snapshot& now = planner_.snapshot();
  const Job& planned_job = now.jobs[planned(job)];
  std::vector<NodeId> nodes;
  for (int g = 0; g < planned_job.group_count; ++g) {
    const Group& group = now.groups[GroupId(planned_job.first_group.value + g)];
    nodes.insert(nodes.end(), group.workers.begin(), group.workers.end());
  }
  uplinks_.remove(job);
  uplinks_.add(job, rings_of(fabric_, nodes, record(job).stages, record(job).rings));
}

void KeptPlacement::end(int job) {
  JobId ended = planned(job);
  if (record(job).nodes.size() == 1) {
    Seat& seat = seats_[record(job).nodes[0]];
    if (--seat.jobs > 0) return;
    ended = std::exchange(seat, {}).planned;
  } else {
    uplinks_.remove(job);
  }
  if (!ended.valid()) return;
  planner_.remove_job(ended);
  planned(recorded_[ended]) = JobId();
  --live_;
  if (recorded_.size() > 2 * live_ + kMostEnded) forget_ended();
}

/// The planner keeps a place for every job that it ever had.
void KeptPlacement::forget_ended() {
  const Snapshot& now = planner_.snapshot();
  Snapshot next = fabric_;
  IdVector<JobId, int> recorded;
  IdVector<JobId, JobId> renamed(now.jobs.size());
  for (JobId id : now.jobs.keys()) {
    const Job& job = now.jobs[id];
    if (now.groups[job.first_group].workers.empty()) continue;
    Job kept = job;
    kept.first_group = GroupId(next.groups.size());
    renamed[id] = next.jobs.push_back(std::move(kept));
    recorded.push_back(recorded_[id]);
    for (int g = 0; g < job.group_count; ++g) {
      Group group = now.groups[GroupId(job.first_group.value + g)];
      group.job = renamed[id];
      next.groups.push_back(std::move(group));
    }
    planned(recorded_[id]) = renamed[id];
  }
  for (Seat& seat : seats_) {
    if (seat.planned.valid()) seat.planned = renamed[seat.planned];
  }
  recorded_ = std::move(recorded);
  planner_ = Planner(std::move(next));
}

double KeptPlacement::settle(int64_t now_us) {
  if (planner_.over().empty()) return 0;
  if (bounds_held_since_us_) {
    counters_.held_s.push_back(seconds(now_us - *bounds_held_since_us_));
    bounds_held_since_us_.reset();
  }
  PlanOptions options;
  options.best_effort = true;
  options.work_limit = work_limit_;
  const Plan plan = planner_.plan(options);
  double paused = 0;
  std::set<int> moved;
  for (const Round& round : plan.rounds) {
    std::set<int> in_round;
    for (const Move& move : round) {
      in_round.insert(recorded_[planner_.snapshot().groups[move.group].job]);
    }
    for (int job : in_round) paused += pause_s_ * static_cast<double>(record(job).gpus);
    moved.merge(in_round);
  }
  planner_.apply(plan.rounds);
  for (int job : moved) show_on_uplinks(job);
  counters_.plans += plan.moves > 0;
  counters_.moves += plan.moves;
  counters_.paused_gpu_s += paused;
  if (planner_.over().empty()) {
    bounds_held_since_us_ = now_us;
  } else {
    ++counters_.short_plans;
  }
  return paused;
}

void KeptPlacement::close(int64_t now_us) {
  if (bounds_held_since_us_) counters_.held_s.push_back(seconds(now_us - *bounds_held_since_us_));
  bounds_held_since_us_.reset();
}

}  // namespace monkeytree
