#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/counted.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cluster/snapshot_json.h"
#include "control/controller.h"
#include "control/controller_common.h"
#include "control/decision.h"

/// From racks above their bound to plans that run, and to their end.
namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<Move> all_moves(const std::vector<Round>& rounds) {
  std::vector<Move> moves;
  for (const Round& round : rounds) moves.insert(moves.end(), round.begin(), round.end());
  return moves;
}

}  // namespace

void Controller::decide() {
  Planner& planner = mirror_.planner();
  const bool over = !planner.over().empty();
  if (over != was_over_) {
    std::vector<std::string> names;
    for (const RackId rack : planner.over()) {
      names.push_back(fmt::format("{} {} of {}", planner.snapshot().racks[rack].name,
                                  planner.degree(rack), planner.snapshot().racks[rack].bound()));
    }
    tell(over ? "over" : "within",
         over ? "racks above their bound: " + joined(names) : "every rack is within its bound");
    was_over_ = over;
  }
  if (!over) {
    supersede_waiting("every rack is within its bound");
    no_plan_why_.clear();
    return;
  }
  size_t running = 0;
  {
    const std::lock_guard lock(mutex_);
    running = running_.size();
  }
  if (recovering_ || running >= static_cast<size_t>(rules_.plans_at_once)) return;
  const Clock::time_point start = Clock::now();
  const Plan plan = make_plan();
  {
    const std::lock_guard lock(mutex_);
    view_.plan_ms = milliseconds_since(start);
  }
  if (plan.rounds.empty()) {
    const std::string why =
        plan.status != PlanStatus::kUnknown
            ? "no moves of the jobs that may move bring any rack nearer its bound"
            : "no plan was found in time";
    // Told once, whatever else changes in what holds jobs back.
    if (std::exchange(no_plan_why_, why) != why) tell("no plan", why + held_back_text());
    supersede_waiting(why);
    return;
  }
  no_plan_why_.clear();
  propose(plan);
}

std::string Controller::held_back_text() const {
  if (held_back_.empty()) return "";
  const auto& [job, why] = *held_back_.begin();
  return fmt::format("; {} of {} may not move (status says why), {} for one: {}", held_back_.size(),
                     counted(std::ssize(mirror_.snapshot().jobs), "job"), job, why);
}

Plan Controller::make_plan() {
  Planner& planner = mirror_.planner();
  PlanOptions options;
  const auto limited = [&] {
    const Deadline limit = in_seconds(rules_.plan_limit_s);
    options.stop = [limit] { return Clock::now() >= limit; };
  };
  limited();
  Plan plan = planner.plan(options);
  if (plan.status == PlanStatus::kInfeasible) {
    // The bounds cannot all be met with the jobs that may move: as near to them as can be.
    options.best_effort = true;
    limited();
    return planner.plan(options);
  }
  if (plan.status != PlanStatus::kUnknown) return plan;
  // Not found in time: one rack at a time, the worst first; the others may not grow.
  std::vector<RackId> racks = planner.over();
  const auto excess = [&](RackId rack) {
    return planner.degree(rack) - planner.snapshot().racks[rack].bound();
  };
  std::stable_sort(racks.begin(), racks.end(),
                   [&](RackId a, RackId b) { return excess(a) > excess(b); });
  for (const RackId rack : racks) {
    options.mend = std::vector<RackId>{rack};
    limited();
    Plan one = planner.plan(options);
    if (!one.rounds.empty()) return one;
  }
  return plan;
}

void Controller::propose(const Plan& plan) {
  const Snapshot& snapshot = mirror_.snapshot();
  const double now_s = parts_.wall_s();
  const PlanRoutes routed = routes_of(snapshot, plan);
  const Gain gain = estimate_gain(snapshot, plan, routed, rules_.policy.gain, now_s);
  std::vector<std::string> against = objections(snapshot, plan, gain, rules_.policy, past_, now_s);
  PlanEntry entry;
  bool paused = false;
  {
    const std::lock_guard lock(mutex_);
    paused = view_.paused;
    if (!view_.read_only.empty()) against.push_back(view_.read_only);
  }
  if (paused) against.emplace_back("paused by an operator");
  if (rules_.mode == Mode::kObserve) {
    entry.reason = "mode is observe";
  } else if (!against.empty()) {
    entry.reason = joined(against);
  } else {
    entry.state = rules_.mode == Mode::kEnforce ? PlanState::kRunning : PlanState::kWaiting;
  }
  const std::string text = write_snapshot(snapshot);
  PlanRecord record = record_of(snapshot, plan, sha256(text));
  if (proposal_ && proposal_->rounds == record.rounds &&
      (proposal_->state == entry.state || proposal_->state == PlanState::kCancelled)) {
    return;
  }
  supersede_waiting("another plan is better now");
  entry.made_s = now_s;
  entry.moves = plan.moves;
  entry.snapshot = text;
  entry.plan = write_plan(record);
  entry.decision = decision_json(snapshot, plan, routed, gain, held_back_, against);
  const bool runs = entry.state == PlanState::kRunning;
  // A plan counts as running once its migrations are in the journal, not before.
  if (runs) entry.state = PlanState::kProposed;
  const absl::StatusOr<int64_t> id = add_plan(entry);
  if (!id.ok()) {
    set_trouble(fmt::format("the journal: {}", text_of(id.status())));
    return;
  }
  tell("plan",
       fmt::format("plan {}: {} ({}){}", *id, counted(plan.moves, "move"), name_of(plan.status),
                   entry.reason.empty() ? "" : ", not begun: " + entry.reason));
  if (!runs) {
    proposal_ = Proposal{*id, std::move(record.rounds), entry.state};
    return;
  }
  proposal_.reset();
  if (absl::Status status = run_plan(*id, plan.rounds); !status.ok()) {
    set_trouble(fmt::format("the journal: {}", text_of(status)));
  }
}

absl::Status Controller::run_plan(int64_t id, const std::vector<Round>& rounds) {
  const Snapshot& snapshot = mirror_.snapshot();
  std::vector<Migration> migrations = migrations_of(
      id, snapshot, parts_.scheduler.replaces_workers() ? staged_rounds(snapshot, rounds) : rounds,
      reports_);
  const double now_s = parts_.wall_s();
  if (absl::Status status = parts_.journal.add_migrations(migrations, now_s); !status.ok()) {
    return status;
  }
  if (absl::Status status = share_running(id, ""); !status.ok()) return status;
  absl::Status status = parts_.journal.set_plan_state(id, PlanState::kRunning, "", std::nullopt);
  if (!status.ok()) return status;
  mirror_.planner().begin(rounds);
  routes_stale_ = true;
  tell("begin", fmt::format("plan {} begins", id));
  launch(id, std::move(migrations), rounds);
  return absl::OkStatus();
}

void Controller::launch(int64_t id, std::vector<Migration> migrations, std::vector<Round> rounds,
                        bool cancelled) {
  const std::lock_guard lock(mutex_);
  Running& running = running_[id];
  std::set<std::string> jobs;
  for (const Migration& migration : migrations) jobs.insert(migration.job);
  running.jobs.assign(jobs.begin(), jobs.end());
  const std::vector<std::string> nodes = nodes_of(migrations);
  running.nodes.insert(nodes.begin(), nodes.end());
  running.rounds = std::move(rounds);
  PlanRun::Hooks hooks;
  hooks.find_nodes = [this](const WorkerName& worker, const std::string& from) {
    return free_nodes_for(worker, from);
  };
  hooks.ended = [this](const Migration& migration) {
    tell("migration", migration.reason.empty()
                          ? fmt::format("migration {} of job {}: {}", migration.id, migration.job,
                                        name_of(migration.state))
                          : fmt::format("migration {} of job {}: {}: {}", migration.id,
                                        migration.job, name_of(migration.state), migration.reason));
  };
  hooks.trouble = [this](const std::string& text) { tell("trouble", text); };
  running.run = std::make_unique<PlanRun>(id, std::move(migrations), mover_, scheduler_,
                                          parts_.journal, parts_.wall_s, std::move(hooks));
  running.cancelled = cancelled;
  if (cancelled) running.run->give_up();
  running.thread = std::jthread([this, id, run = running.run.get()](const std::stop_token& stop) {
    const PlanRun::End end = run->run(stop);
    {
      const std::lock_guard inner(mutex_);
      running_[id].end = end;
      ++notified_;
      notified_why_ = "a plan has ended";
    }
    wake_.notify_all();
  });
}

void Controller::reap() {
  std::map<int64_t, Running> through;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = running_.begin(); it != running_.end();) {
      const bool is_through = it->second.end && *it->second.end != PlanRun::End::kStopped;
      auto node = it++;
      if (is_through) through.insert(running_.extract(node));
    }
  }
  for (auto at = through.begin(); at != through.end();) {
    auto& [id, running] = *at;
    if (running.thread.joinable()) running.thread.join();
    const bool done = *running.end == PlanRun::End::kDone;
    const double now_s = parts_.wall_s();
    std::string reason;
    if (!done) {
      const absl::StatusOr<std::vector<Migration>> migrations = parts_.journal.migrations(id);
      for (const Migration& migration : migrations.ok() ? *migrations : std::vector<Migration>()) {
        if (migration.state != MigrationState::kRolledBack) continue;
        if (reason.empty()) reason = migration.reason;
        failed_jobs_[migration.job] = now_s;
        for (const WorkerMove& move : migration.moves) {
          if (move.to != kStagingNode) failed_nodes_[move.to] = now_s;
        }
      }
    }
    const PlanState state = done                ? PlanState::kDone
                            : running.cancelled ? PlanState::kCancelled
                                                : PlanState::kFailed;
    absl::Status written = end_plan(id, state, reason, now_s);
    if (!written.ok() && parts_.leadership != nullptr) {
      // It is over only when the others know it.
      set_trouble(fmt::format("plan {} has ended: {}", id, text_of(written)));
      const std::lock_guard lock(mutex_);
      soon_ = true;
      running_.insert(through.extract(at++));
      continue;
    }
    ++at;
    if (running.cancelled) written.Update(parts_.journal.set(cancelled_key(id), ""));
    if (!written.ok()) set_trouble(fmt::format("the journal: {}", text_of(written)));
    if (done && !running.rounds.empty()) {
      mirror_.planner().finish(all_moves(running.rounds));
    } else if (!mirror_.empty()) {
      mirror_.forget(running.jobs);
    }
    for (const std::string& job : running.jobs) last_moves_[job] = Clock::now();
    routes_stale_ = true;
    tell("end",
         fmt::format("plan {}: {}{}", id, name_of(state), reason.empty() ? "" : ": " + reason));
  }
  if (!through.empty()) parts_.journal.prune(rules_.keep_plans, rules_.keep_events).IgnoreError();
}

void Controller::wait_for_plans() {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [this] {
    return std::all_of(running_.begin(), running_.end(),
                       [](const auto& entry) { return entry.second.end.has_value(); });
  });
}

void Controller::supersede_waiting(std::string_view why) {
  if (!proposal_) return;
  const Proposal proposal = *std::exchange(proposal_, std::nullopt);
  if (proposal.state != PlanState::kWaiting) return;
  parts_.journal.set_plan_state(proposal.id, PlanState::kSuperseded, why, parts_.wall_s())
      .IgnoreError();
  tell("superseded", fmt::format("plan {} is dropped: {}", proposal.id, why));
}

std::vector<std::string> Controller::free_nodes_for(const WorkerName& worker,
                                                    const std::string& from) const {
  std::shared_ptr<const Snapshot> snapshot;
  {
    const std::lock_guard lock(mutex_);
    snapshot = view_.snapshot;
  }
  std::vector<std::string> nodes;
  if (!snapshot) return nodes;
  IdVector<NodeId, int> free(snapshot->nodes.size());
  NodeId home;
  for (size_t n = 0; n < free.size(); ++n) {
    free[NodeId(n)] = snapshot->nodes[NodeId(n)].slots;
    if (snapshot->nodes[NodeId(n)].name == from) home = NodeId(n);
  }
  int slots = 1;
  for (size_t g = 0; g < snapshot->groups.size(); ++g) {
    const Group& group = snapshot->groups[GroupId(g)];
    for (const NodeId node : group.workers) free[node] -= group.slots;
    if (snapshot->jobs[group.job].id == worker.job) slots = group.slots;
  }
  if (!home.valid()) return nodes;
  for (size_t n = 0; n < free.size(); ++n) {
    const Node& node = snapshot->nodes[NodeId(n)];
    if (node.state == NodeState::kUp && free[NodeId(n)] >= slots &&
        node.node_class == snapshot->nodes[home].node_class &&
        snapshot->racks[node.rack].island == snapshot->racks[snapshot->nodes[home].rack].island) {
      nodes.push_back(node.name);
    }
  }
  return nodes;
}

}  // namespace monkeytree
