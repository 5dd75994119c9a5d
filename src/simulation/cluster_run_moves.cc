#include <algorithm>
#include <map>
#include <tuple>

#include "planning/fill.h"
#include "planning/order.h"
#include "simulation/cluster_run.h"

/// How plans are made and carried out (docs/simulator.md, "Migration").
namespace monkeytree {
namespace {

/// Worker of a plan's move by where it goes at last, from where it was at first.
std::vector<Move> whole_moves(const std::vector<Round>& rounds) {
  std::map<std::pair<GroupId, int>, Move> moves;
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      const auto [at, fresh] = moves.insert({{move.group, move.worker}, move});
      if (!fresh) at->second.to = move.to;
    }
  }
  std::vector<Move> list;
  for (const auto& [worker, move] : moves) list.push_back(move);
  return list;
}

}  // namespace

// -- Plans --------------------------------------------------------------------------------------

void ClusterRun::replan() {
  replan_ = false;
  if (scenario_.system->care == PlacementCare::kNone || planner_.over().empty()) return;
  const bool one_at_a_time =
      scenario_.paper_rules || scenario_.system->care == PlacementCare::kRepack;
  if (one_at_a_time && !plans_.empty()) return;
  if (scenario_.system->care == PlacementCare::kRepack) {
    repack();
    return;
  }
  if (plan_once({})) return;
  ++result_.failed_plans;
  if (scenario_.paper_rules) return;
  for (const RackId rack : std::vector<RackId>(planner_.over())) {
    if (planner_.degree(rack) <= scenario_.bound()) continue;
    PlanOptions options;
    options.mend = {rack};
    plan_once(options);
  }
}

bool ClusterRun::plan_once(PlanOptions options) {
  options.work_limit = scenario_.plan_work_limit;
  std::vector<JobId> frozen;
  if (scenario_.freeze_unfragmented) {
    for (const Job& it : jobs_) {
      if (it.state == State::kQueued || it.state == State::kEnded || planner_.moving(it.id))
        continue;
      const auto inside = [&](const std::vector<NodeId>& group) {
        return std::all_of(group.begin(), group.end(), [&](NodeId node) {
          return free_.rack_of(node) == free_.rack_of(group.front());
        });
      };
      if (std::all_of(it.nodes.begin(), it.nodes.end(), inside)) frozen.push_back(it.id);
    }
  }
  for (const JobId id : frozen) planner_.set_movable(id, false);
  Plan plan = scenario_.paper_rules ? planner_.plan(options) : gentle_plan(options);
  for (const JobId id : frozen) planner_.set_movable(id, true);
  if (plan.rounds.empty()) return false;
  begin_plan(std::move(plan));
  return true;
}

/// What the moves cost their jobs at least, as a share of their run times: the pause, and the time
/// that state is on its way in each round.
double ClusterRun::cost(const Plan& plan, int* dearest) {
  std::map<int, std::set<size_t>> rounds;
  for (size_t r = 0; r < plan.rounds.size(); ++r) {
    for (const Move& move : plan.rounds[r]) rounds[index_of(move.group)].insert(r);
  }
  double sum = 0, most = 0;
  for (const auto& [index, its] : rounds) {
    const std::vector<int64_t>& state = job(index).kind->state_bytes;
    const double on_its_way = static_cast<double>(*std::max_element(state.begin(), state.end())) /
                              scenario_.fabric.link_bytes_per_us * static_cast<double>(its.size());
    const double cost = (static_cast<double>(scenario_.pause_us) + on_its_way) /
                        static_cast<double>(result_.jobs[static_cast<size_t>(index)].ideal);
    sum += cost;
    if (cost <= most) continue;
    most = cost;
    *dearest = index;
  }
  return sum;
}

/// Among plans that mend the same, fewest moves is not yet least harm: ten seconds are much for a
/// job of two minutes. So the job that a plan hurts most is kept where it is, as long as some other
/// plan hurts less in all.
Plan ClusterRun::gentle_plan(const PlanOptions& options) {
  Plan best = planner_.plan(options);
  std::vector<JobId> kept;
  int dearest = -1;
  double least = cost(best, &dearest);
  while (!best.rounds.empty() && least > 0) {
    kept.push_back(job(dearest).id);
    planner_.set_movable(kept.back(), false);
    Plan plan = planner_.plan(options);
    const double its = cost(plan, &dearest);
    if (plan.rounds.empty() || its >= least) break;
    best = std::move(plan);
    least = its;
  }
  for (const JobId id : kept) planner_.set_movable(id, true);
  return best;
}

void ClusterRun::repack() {
  const Snapshot& snapshot = planner_.snapshot();
  const std::optional<Fill> filled = fill(snapshot);
  if (!filled) {
    ++result_.failed_plans;
    return;
  }
  Plan plan;
  plan.status = PlanStatus::kFeasible;
  const std::vector<CountChange> changes = count_changes(snapshot, filled->placement);
  std::optional<std::vector<Round>> rounds = order_moves(snapshot, changes);
  if (!rounds || rounds->empty()) {
    ++result_.failed_plans;
    return;
  }
  plan.rounds = std::move(*rounds);
  begin_plan(std::move(plan));
}

void ClusterRun::begin_plan(Plan plan) {
  const int number = next_plan_++;
  Running& running = plans_[number];
  running.rounds = std::move(plan.rounds);
  const std::vector<Move> moves = whole_moves(running.rounds);
  if (scenario_.paper_rules) running.rounds = {moves};
  for (const Move& move : moves) {
    const int index = index_of(move.group);
    running.members.insert(index);
    job(index).plan = number;
    free_.hold(move.to);
  }
  ++result_.plans;
  result_.moves += static_cast<int64_t>(moves.size());
  for (const Round& round : running.rounds) {
    for (const Move& move : round) result_.staged += move.to == kStaging;
  }
  if (options_.on_event) {
    SimulationEvent event;
    event.kind = SimulationEvent::kPlan;
    event.time = now_;
    event.status = plan.status;
    event.moves = static_cast<int>(moves.size());
    event.jobs = static_cast<int>(running.members.size());
    event.excess = plan.excess_before;
    options_.on_event(event);
  }
  planner_.begin(running.rounds);
  begin_round(number);
}

void ClusterRun::begin_round(int number) {
  Running& running = plans_.at(number);
  running.waiting.clear();
  for (const Move& move : running.rounds[running.round]) {
    const int index = index_of(move.group);
    if (running.members.contains(index)) running.waiting.insert(index);
  }
  for (const int index : std::vector<int>(running.waiting.begin(), running.waiting.end())) {
    Job& it = job(index);
    if (it.state == State::kRunning) {
      it.state = State::kStopping;
      stopping_.push_back(index);
    } else if (it.state == State::kPaused) {  // at its barrier already
      pauses_.set(index, kNever);
      it.state = State::kStopped;
    }
  }
  start_moves(number);
  end_round_if_done(number);
}

/// Jobs of the round that have stopped send their state off. The authors' program waits until all
/// that hold one of the job's destinations have stopped as well, since it has no rounds.
void ClusterRun::start_moves(int number) {
  Running& running = plans_.at(number);
  for (const int index : running.waiting) {
    Job& it = job(index);
    if (it.state != State::kStopped || it.transfers > 0) continue;
    if (scenario_.paper_rules && !destinations_stopped(running, index)) continue;
    for (const Move& move : running.rounds[running.round]) {
      if (index_of(move.group) == index) start_move(index, move);
    }
  }
}

bool ClusterRun::destinations_stopped(const Running& running, int index) {
  for (const Move& move : running.rounds[running.round]) {
    if (index_of(move.group) != index) continue;
    for (const Move& other : running.rounds[running.round]) {
      const int holder = index_of(other.group);
      if (other.from == move.to && holder != index && job(holder).state == State::kStopping) {
        return false;
      }
    }
  }
  return true;
}

/// One flow per rank. A staged worker's state waits in the memory of a machine of its old rack, so
/// its first half leaves its own NICs and no uplink.
void ClusterRun::start_move(int index, const Move& move) {
  Job& it = job(index);
  const auto group = static_cast<size_t>(planner_.snapshot().group_index(move.group));
  std::vector<NodeId> nodes = it.nodes[group];
  const NodeId old = nodes[static_cast<size_t>(move.worker)];
  const NodeId to = move.to == kStaging ? old : move.to;
  std::sort(nodes.begin(), nodes.end());
  const int position =
      static_cast<int>(std::lower_bound(nodes.begin(), nodes.end(), old) - nodes.begin());
  const int per_node = scenario_.fabric.gpus_per_node;
  const RankGroup& ranks = it.kind->groups[group];
  for (int i = 0; i < std::min(per_node, ranks.ranks - position * per_node); ++i) {
    const int rank = ranks.first_rank + position * per_node + i;
    Transfer transfer;
    transfer.job = index;
    transfer.from_host = old.value * per_node + i;
    transfer.to_host = to.value * per_node + i;
    transfer.bytes = it.kind->state_bytes[static_cast<size_t>(rank)];
    departing_.push_back(transfer);
    ++it.transfers;
  }
  tell(SimulationEvent::kMove, index, {old.value, move.to.value});
}

// -- What follows -------------------------------------------------------------------------------

void ClusterRun::stopped(int index) {
  Job& it = job(index);
  it.state = State::kStopped;
  it.stopped_at = now_;
  start_moves(it.plan);
}

void ClusterRun::transferred(int number) {
  const Transfer& it = flights_[static_cast<size_t>(number)];
  router_->end_transfer(it.from_host, it.to_host, it.spine);
  if (--job(it.job).transfers == 0) moves_done(it.job);
}

/// The job's moves of this round are done.
void ClusterRun::moves_done(int index) {
  Job& it = job(index);
  const int number = it.plan;
  Running& running = plans_.at(number);
  std::vector<Move> done;
  for (const Move& move : running.rounds[running.round]) {
    if (index_of(move.group) != index) continue;
    done.push_back(move);
    NodeId& node = it.nodes[static_cast<size_t>(planner_.snapshot().group_index(move.group))]
                           [static_cast<size_t>(move.worker)];
    if (move.from != kStaging) {
      free_node(node);
      tell(SimulationEvent::kLeave, index, {node.value});
    }
    if (move.to == kStaging) continue;
    node = move.to;
    free_.release(node);
    hold_node(node);
    tell(SimulationEvent::kArrive, index, {node.value});
    ++result_.jobs[static_cast<size_t>(index)].moves;
  }
  planner_.finish(done);
  running.waiting.erase(index);
  bool again = false;
  for (size_t r = running.round + 1; r < running.rounds.size(); ++r) {
    for (const Move& move : running.rounds[r]) again = again || index_of(move.group) == index;
  }
  if (!again) pause(index);  // else it waits for its next round where it is
  end_round_if_done(number);
  try_queue_ = replan_ = true;
}

void ClusterRun::end_round_if_done(int number) {
  Running& running = plans_.at(number);
  if (!running.waiting.empty()) return;
  if (++running.round < running.rounds.size()) {
    begin_round(number);
    return;
  }
  plans_.erase(number);
  try_queue_ = replan_ = true;
}

void ClusterRun::pause(int index) {
  Job& it = job(index);
  plans_.at(it.plan).members.erase(index);
  it.plan = -1;
  it.state = State::kPaused;
  pauses_.set(index, now_ + scenario_.pause_us);
}

void ClusterRun::resume(int index) {
  Job& it = job(index);
  pauses_.set(index, kNever);
  it.state = State::kRunning;
  result_.jobs[static_cast<size_t>(index)].paused += now_ - it.stopped_at;
  go(index);
  resuming_.push_back(index);
  note_degrees(index);
  tell(SimulationEvent::kResume, index, {});
}

/// A job of a plan has ended. Its slots may make the rest of the plan needless, so what has not
/// begun is given up and planned anew, unless some state waits in a third machine.
void ClusterRun::drop_member(int index) {
  const int number = job(index).plan;
  Running& running = plans_.at(number);
  for (size_t r = running.round; r < running.rounds.size(); ++r) {
    for (const Move& move : running.rounds[r]) {
      if (index_of(move.group) != index || move.to == kStaging) continue;
      free_.release(move.to);
      ++result_.given_up;
    }
  }
  running.members.erase(index);
  running.waiting.erase(index);
  job(index).plan = -1;
  if (std::none_of(running.rounds.begin(), running.rounds.end(), [](const Round& round) {
        return std::any_of(round.begin(), round.end(),
                           [](const Move& move) { return move.to == kStaging; });
      })) {
    drop_rest(number);
  }
  start_moves(number);
  end_round_if_done(number);
}

void ClusterRun::drop_rest(int number) {
  Running& running = plans_.at(number);
  std::vector<Move> given_up;
  for (size_t r = running.round + 1; r < running.rounds.size(); ++r) {
    for (const Move& move : running.rounds[r]) {
      if (!running.members.contains(index_of(move.group))) continue;
      free_.release(move.to);
      given_up.push_back(move);
    }
  }
  running.rounds.resize(running.round + 1);
  planner_.cancel(given_up);
  result_.given_up += static_cast<int64_t>(given_up.size());
  for (const int index : std::vector<int>(running.members.begin(), running.members.end())) {
    if (running.waiting.contains(index)) continue;
    if (job(index).state == State::kStopped) {
      pause(index);
    } else {
      running.members.erase(index);
      job(index).plan = -1;
    }
  }
}

}  // namespace monkeytree
