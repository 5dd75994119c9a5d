#include "control/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/counted.h"
#include "base/sha256.h"
#include "base/status.h"
#include "cluster/snapshot_json.h"
#include "control/decision.h"
#include "control/recheck.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 3> kModes = {"observe", "recommend", "enforce"};
constexpr double kDay_s = 86400;
constexpr int kMostCoalesced = 5;  ///< times coalesce_ms
constexpr std::string_view kKillSwitch = "paused";
/// Under which the journal keeps that a person has cancelled a running plan, until it has ended.
std::string cancelled_key(int64_t plan) { return fmt::format("cancelled {}", plan); }
constexpr std::string_view kReservationPrefix = "plan-";

Deadline in_seconds(double seconds) {
  return Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000));
}

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string joined(const std::vector<std::string>& parts) {
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<Move> all_moves(const std::vector<Round>& rounds) {
  std::vector<Move> moves;
  for (const Round& round : rounds) moves.insert(moves.end(), round.begin(), round.end());
  return moves;
}

}  // namespace

std::string_view name_of(Mode mode) { return kModes[static_cast<size_t>(mode)]; }
std::optional<Mode> mode_named(std::string_view name) {
  const auto* found = std::find(kModes.begin(), kModes.end(), name);
  if (found == kModes.end()) return std::nullopt;
  return static_cast<Mode>(found - kModes.begin());
}

Controller::Controller(Parts parts, ControllerRules rules)
    : parts_(std::move(parts)),
      rules_(std::move(rules)),
      mover_({parts_.scheduler, parts_.executor, parts_.journal, parts_.wall_s,
              [this](const StepNotice& notice) {
                if (parts_.on_step) parts_.on_step(notice);
                if (notice.began || notice.outcome.ok()) return;
                tell("step", fmt::format("migration {}: {} failed: {}", notice.migration.id,
                                         name_of(notice.step), message_of(notice.outcome)));
              }},
             rules_.steps) {
  view_.mode = rules_.mode;
  view_.scheduler = parts_.scheduler.describe();
  view_.read_only = parts_.scheduler.why_read_only();
  view_.trouble = "the cluster has not been looked at yet";
}

Controller::~Controller() { stop(); }

absl::Status Controller::start() {
  if (absl::Status status = recover(); !status.ok()) return status;
  thread_ = std::jthread([this](const std::stop_token& stop) { loop(stop); });
  return absl::OkStatus();
}

void Controller::stop() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) {
      running.thread.request_stop();
      threads.push_back(std::move(running.thread));
    }
  }
  threads.clear();  // joined, without the lock that they need to end
}

void Controller::notify(std::string_view why) {
  {
    const std::lock_guard lock(mutex_);
    ++notified_;
    notified_why_ = why;
  }
  wake_.notify_all();
}

void Controller::loop(const std::stop_token& stop) {
  const auto poll = std::chrono::milliseconds(static_cast<int64_t>(rules_.poll_s * 1000));
  const auto pause = std::chrono::milliseconds(rules_.coalesce_ms);
  while (!stop.stop_requested()) {
    reconcile();
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, stop, poll, [this] { return notified_ != seen_; });
    // A burst of events is one: wait until it is quiet, but not for ever.
    for (int i = 0; i < kMostCoalesced && notified_ != seen_; ++i) {
      seen_ = notified_;
      wake_.wait_for(lock, stop, pause, [this] { return notified_ != seen_; });
    }
    seen_ = notified_;
  }
}

absl::Status Controller::recover() {
  const std::lock_guard turn(turn_);
  const absl::StatusOr<std::optional<std::string>> paused = parts_.journal.get(kKillSwitch);
  if (!paused.ok()) return paused.status();
  {
    const std::lock_guard lock(mutex_);
    view_.paused = paused->has_value() && !(*paused)->empty();
    view_.paused_why = paused->value_or("");
  }
  absl::StatusOr<std::vector<PlanEntry>> plans =
      parts_.journal.plans(PlanState::kRunning, rules_.keep_plans);
  if (!plans.ok()) return plans.status();
  for (const PlanEntry& plan : *plans) {
    absl::StatusOr<std::vector<Migration>> migrations = parts_.journal.migrations(plan.id);
    if (!migrations.ok()) return migrations.status();
    const absl::StatusOr<std::optional<std::string>> by =
        parts_.journal.get(cancelled_key(plan.id));
    if (!by.ok()) return by.status();
    const bool cancelled = !by->value_or("").empty();
    tell("recover", fmt::format("plan {} was under way{}; going on with it", plan.id,
                                cancelled ? " and is cancelled by " + **by : ""));
    launch(plan.id, std::move(*migrations), {}, cancelled);
  }
  return absl::OkStatus();
}

void Controller::reconcile() {
  const std::lock_guard turn(turn_);
  const Clock::time_point start = Clock::now();
  reap();
  Observation seen;
  if (!look(seen)) return;
  decide();
  tidy(seen);
  route();
  publish(seen);
  const std::lock_guard lock(mutex_);
  view_.reconcile_ms = milliseconds_since(start);
}

bool Controller::look(Observation& seen) {
  const Clock::time_point began = Clock::now();
  absl::StatusOr<Observation> observed =
      parts_.scheduler.observe(in_seconds(rules_.observe_limit_s));
  if (!observed.ok()) {
    set_trouble(fmt::format("the scheduler: {}", text_of(observed.status())));
    return false;
  }
  seen = std::move(*observed);
  // What the books said before a job's last move ended does not count any more.
  std::set<std::string> keep;
  std::erase_if(last_moves_, [&](const auto& entry) { return entry.second < began; });
  for (const auto& [job, when] : last_moves_) keep.insert(job);

  const double now_s = parts_.wall_s();
  std::erase_if(failed_nodes_, [&](const auto& entry) {
    return now_s - entry.second > rules_.policy.cool_down_s;
  });
  std::erase_if(failed_jobs_, [&](const auto& entry) {
    return now_s - entry.second > rules_.policy.cool_down_s;
  });
  std::set<std::string> avoid;
  for (const auto& [node, when] : failed_nodes_) avoid.insert(node);
  {
    const std::lock_guard lock(mutex_);
    recovering_ = false;
    for (const auto& [id, running] : running_) {
      if (!running.rounds.empty()) continue;
      recovering_ = true;
      avoid.insert(running.nodes.begin(), running.nodes.end());
      keep.insert(running.jobs.begin(), running.jobs.end());
    }
  }
  // A plan from before a restart: its jobs are shown as the books have them, but not planned with.
  if (recovering_ && mirror_.empty()) keep.clear();
  if (mirror_.follow(seen.snapshot, keep)) routes_stale_ = true;
  mirror_.avoid(avoid);

  reports_.clear();
  const std::vector<AgentReport> agents = parts_.executor.agents();
  for (const AgentReport& agent : agents) {
    if (!agent.connected) continue;
    for (const WorkerReport& worker : agent.workers) {
      if (!worker.successor) reports_[worker.name] = worker;
    }
  }
  absl::StatusOr<std::vector<Journal::PastMove>> past = parts_.journal.moves_since(now_s - kDay_s);
  if (!past.ok()) {
    set_trouble(fmt::format("the journal: {}", text_of(past.status())));
    return false;
  }
  past_ = std::move(*past);
  held_back_ =
      held_back(seen.snapshot, rules_.policy, seen.unmovable, hooked(seen.snapshot), past_, now_s);
  for (const auto& [job, when] : failed_jobs_) {
    held_back_.try_emplace(job, "a move of it has just been undone");
  }
  mirror_.hold_back(held_back_);
  // Known only once the scheduler has answered, and may change with its configuration.
  std::string scheduler = parts_.scheduler.describe();
  std::string read_only = parts_.scheduler.why_read_only();
  const std::lock_guard lock(mutex_);
  view_.scheduler = std::move(scheduler);
  view_.read_only = std::move(read_only);
  view_.ready = true;
  view_.trouble.clear();
  view_.agents = agents;
  view_.observed_s = now_s;
  return true;
}

std::map<std::string, bool> Controller::hooked(const Snapshot& snapshot) const {
  std::map<std::string, bool> hooked;
  for (size_t g = 0; g < snapshot.groups.size(); ++g) {
    const Group& group = snapshot.groups[GroupId(g)];
    const std::string& job = snapshot.jobs[group.job].id;
    bool& all = hooked.try_emplace(job, true).first->second;
    // What only looks shows what could be had, before anybody has put the hook into a job.
    if (rules_.mode == Mode::kObserve) continue;
    for (size_t w = 0; w < group.workers.size() && all; ++w) {
      const auto report =
          reports_.find({job, snapshot.group_index(GroupId(g)), static_cast<int>(w)});
      all =
          report != reports_.end() && report->second.node == snapshot.nodes[group.workers[w]].name;
    }
  }
  return hooked;
}

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
    if (std::exchange(no_plan_why_, why) != why) tell("no plan", why);
    supersede_waiting(why);
    return;
  }
  no_plan_why_.clear();
  propose(plan);
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
  const Gain gain = estimate_gain(snapshot, plan, rules_.policy.gain, now_s);
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
  entry.decision = decision_json(snapshot, plan, gain, held_back_, against);
  const bool runs = entry.state == PlanState::kRunning;
  // A plan counts as running once its migrations are in the journal, not before.
  if (runs) entry.state = PlanState::kProposed;
  const absl::StatusOr<int64_t> id = parts_.journal.add_plan(entry);
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
  std::vector<Migration> migrations = migrations_of(id, mirror_.snapshot(), rounds, reports_);
  const double now_s = parts_.wall_s();
  if (absl::Status status = parts_.journal.add_migrations(migrations, now_s); !status.ok()) {
    return status;
  }
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
  running.run = std::make_unique<PlanRun>(id, std::move(migrations), mover_, parts_.scheduler,
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
  for (auto& [id, running] : through) {
    if (running.thread.joinable()) running.thread.join();
    const bool done = *running.end == PlanRun::End::kDone;
    const double now_s = parts_.wall_s();
    if (done && !running.rounds.empty()) {
      mirror_.planner().finish(all_moves(running.rounds));
    } else if (!mirror_.empty()) {
      mirror_.forget(running.jobs);
    }
    for (const std::string& job : running.jobs) last_moves_[job] = Clock::now();
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
    absl::Status written = parts_.journal.set_plan_state(id, state, reason, now_s);
    if (running.cancelled) written.Update(parts_.journal.set(cancelled_key(id), ""));
    if (!written.ok()) set_trouble(fmt::format("the journal: {}", text_of(written)));
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

void Controller::tidy(const Observation& seen) {
  std::set<std::string> busy;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, running] : running_) {
      busy.insert(running.jobs.begin(), running.jobs.end());
    }
  }
  const Deadline limit = in_seconds(rules_.observe_limit_s);
  // Nobody's twice in a row: a plan that has just ended looks like that once.
  std::set<std::string> stray;
  std::vector<std::string> lines;
  const auto consider = [&](const Hold& hold, std::string_view why) {
    stray.insert(hold.id);
    lines.push_back(
        fmt::format("{} on {} for {}: {}", hold.id, hold.node, to_string(hold.worker), why));
    if (rules_.mode == Mode::kObserve || !stray_.contains(hold.id)) return;
    const absl::Status status = parts_.scheduler.cancel(hold, limit);
    tell("orphan",
         fmt::format("hold {}: {}", lines.back(), status.ok() ? "given back" : text_of(status)));
  };
  for (const Hold& hold : seen.orphans) {
    if (!busy.contains(hold.worker.job)) consider(hold, "its job has ended");
  }
  for (const Hold& hold : seen.holds) {
    if (busy.contains(hold.worker.job) || last_moves_.contains(hold.worker.job)) continue;
    const auto worker = mirror_.worker(hold.worker);
    const bool lives_there =
        worker &&
        mirror_.snapshot()
                .nodes[mirror_.snapshot().groups[worker->first].workers[static_cast<size_t>(
                    worker->second)]]
                .name == hold.node;
    if (!lives_there) consider(hold, "no plan and no worker uses it");
  }
  stray_ = std::move(stray);
  if (rules_.mode != Mode::kObserve) {
    for (const Hold& hold : seen.short_holds) {
      const absl::Status status = parts_.scheduler.extend(hold, limit);
      if (!status.ok()) {
        tell("hold", fmt::format("{} on {} for {} ends before its job and cannot be extended: {}",
                                 hold.id, hold.node, to_string(hold.worker), text_of(status)));
      }
    }
  }
  for (const std::string& name : seen.reservations) {
    if (!name.starts_with(kReservationPrefix) || rules_.mode == Mode::kObserve) continue;
    bool in_use = false;
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [id, running] : running_) in_use |= PlanRun::reservation_of(id) == name;
    }
    if (in_use) continue;
    const absl::Status status = parts_.scheduler.unreserve(name, limit);
    tell("orphan",
         fmt::format("reservation {}: {}", name, status.ok() ? "given back" : text_of(status)));
  }
  const std::lock_guard lock(mutex_);
  view_.orphans = std::move(lines);
}

void Controller::supersede_waiting(std::string_view why) {
  if (!proposal_) return;
  const Proposal proposal = *std::exchange(proposal_, std::nullopt);
  if (proposal.state != PlanState::kWaiting) return;
  parts_.journal.set_plan_state(proposal.id, PlanState::kSuperseded, why, parts_.wall_s())
      .IgnoreError();
  tell("superseded", fmt::format("plan {} is dropped: {}", proposal.id, why));
}

void Controller::route() {
  if (!routes_stale_) return;
  routes_stale_ = false;
  const Snapshot& snapshot = mirror_.snapshot();
  if (absl::Status status = check_routable(snapshot); !status.ok()) {
    tell("trouble", fmt::format("no routes: {}", message_of(status)));
    return;
  }
  const Routes routed = routes(snapshot, &routes_);
  std::vector<PreviousRoute> named;
  named.reserve(routed.flows.size());
  for (const RoutedFlow& one : routed.flows) {
    const Group& group = snapshot.groups[one.flow.group];
    const auto node = [&](int worker) {
      return snapshot.nodes[group.workers[static_cast<size_t>(worker)]].name;
    };
    named.push_back({snapshot.jobs[group.job].id, snapshot.group_index(one.flow.group),
                     one.flow.ring, node(one.flow.from_worker), node(one.flow.to_worker),
                     snapshot.racks[one.flow.from_rack].name, snapshot.racks[one.flow.to_rack].name,
                     one.uplink});
  }
  routes_ = std::move(named);
  if (rules_.mode == Mode::kEnforce) parts_.executor.apply_routes(routes_);
  const std::lock_guard lock(mutex_);
  view_.routes = std::make_shared<const std::vector<PreviousRoute>>(routes_);
}

void Controller::publish(const Observation& seen) {
  // Most turns change nothing, and to compare is cheaper than to copy.
  std::shared_ptr<const Snapshot> snapshot = view().snapshot;
  if (!snapshot || *snapshot != mirror_.snapshot()) {
    snapshot = std::make_shared<const Snapshot>(mirror_.snapshot());
  }
  const std::lock_guard lock(mutex_);
  view_.snapshot = std::move(snapshot);
  view_.held_back = held_back_;
  view_.findings = seen.findings;
  view_.running.clear();
  for (const auto& [id, running] : running_) view_.running.push_back(id);
  view_.waiting.clear();
  if (proposal_ && proposal_->state == PlanState::kWaiting) {
    view_.waiting.push_back(proposal_->id);
  }
}

void Controller::set_trouble(std::string trouble) {
  bool news = false;
  {
    const std::lock_guard lock(mutex_);
    view_.ready = false;
    news = view_.trouble != trouble;
    view_.trouble = trouble;
  }
  if (news) tell("trouble", std::move(trouble));
}

void Controller::tell(std::string_view kind, std::string text, std::string data) {
  Event event{0, parts_.wall_s(), std::string(kind), std::move(text), std::move(data)};
  // A disk that takes no more must not keep the news from the log.
  parts_.journal.add_event(event.time_s, event.kind, event.text, event.data).IgnoreError();
  if (parts_.on_event) parts_.on_event(event);
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

ControllerView Controller::view() const {
  const std::lock_guard lock(mutex_);
  return view_;
}

absl::Status Controller::approve(int64_t plan, std::string_view by) {
  const std::lock_guard turn(turn_);
  const absl::StatusOr<std::optional<PlanEntry>> entry = parts_.journal.plan(plan);
  if (!entry.ok()) return entry.status();
  if (!*entry) return absl::NotFoundError(fmt::format("there is no plan {}", plan));
  if ((*entry)->state != PlanState::kWaiting || !proposal_ || proposal_->id != plan) {
    return absl::FailedPreconditionError(
        fmt::format("plan {} is {}, not waiting{}", plan, name_of((*entry)->state),
                    (*entry)->reason.empty() ? "" : ": " + (*entry)->reason));
  }
  reap();
  Observation seen;
  if (!look(seen)) return absl::UnavailableError(view().trouble);
  Diagnostics findings;
  const std::optional<PlanRecord> record = parse_plan((*entry)->plan, "journal", findings);
  if (!record) return absl::DataLossError("the plan in the journal cannot be read");
  const std::optional<std::vector<Round>> rounds = mirror_.rounds_of(*record);
  std::vector<std::string> changed;
  if (!rounds) {
    changed.emplace_back("a job or node of it is gone");
  } else {
    changed = recheck(mirror_.snapshot(), *rounds);
  }
  {
    const std::lock_guard lock(mutex_);
    if (view_.paused) changed.emplace_back("paused by an operator");
  }
  if (!changed.empty()) {
    supersede_waiting("the cluster has changed: " + joined(changed));
    return absl::FailedPreconditionError("the cluster has changed since: " + joined(changed));
  }
  if (absl::Status status = parts_.journal.set_approved(plan, by); !status.ok()) return status;
  tell("approve", fmt::format("plan {} is approved by {}", plan, by));
  proposal_.reset();
  absl::Status status = run_plan(plan, *rounds);
  publish(seen);
  return status;
}

absl::Status Controller::cancel(int64_t plan, std::string_view by) {
  const std::lock_guard turn(turn_);
  const auto running = [&]() -> Running* {
    const auto found = running_.find(plan);
    return found == running_.end() || found->second.end ? nullptr : &found->second;
  };
  bool runs = false;
  {
    const std::lock_guard lock(mutex_);
    runs = running() != nullptr;
  }
  // Written down first: a controller that is killed before the plan ends goes on cancelling it.
  if (runs) {
    absl::Status status = parts_.journal.set(cancelled_key(plan), by.empty() ? "somebody" : by);
    if (!status.ok()) return status;
  }
  {
    const std::lock_guard lock(mutex_);
    if (Running* const found = running()) {
      found->cancelled = true;
      found->run->give_up();
    } else if (!proposal_ || proposal_->id != plan || proposal_->state != PlanState::kWaiting) {
      return absl::FailedPreconditionError(
          fmt::format("plan {} is neither waiting nor running", plan));
    }
  }
  tell("cancel", fmt::format("plan {} is cancelled by {}", plan, by));
  if (!proposal_ || proposal_->id != plan) return absl::OkStatus();
  // It stays as the proposal: the same plan does not come up again at once.
  proposal_->state = PlanState::kCancelled;
  return parts_.journal.set_plan_state(plan, PlanState::kCancelled, fmt::format("by {}", by),
                                       parts_.wall_s());
}

absl::Status Controller::pause(std::string_view why, std::string_view by) {
  const std::string text =
      why.empty() ? fmt::format("by {}", by) : fmt::format("by {}: {}", by, why);
  if (absl::Status status = parts_.journal.set(kKillSwitch, text); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    view_.paused = true;
    view_.paused_why = text;
  }
  tell("pause", "paused " + text);
  return absl::OkStatus();
}

absl::Status Controller::resume(std::string_view by) {
  if (absl::Status status = parts_.journal.set(kKillSwitch, ""); !status.ok()) return status;
  {
    const std::lock_guard lock(mutex_);
    view_.paused = false;
    view_.paused_why.clear();
  }
  tell("resume", fmt::format("resumed by {}", by));
  notify("resumed");
  return absl::OkStatus();
}

}  // namespace monkeytree
