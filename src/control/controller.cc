#include "control/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/status.h"
#include "control/controller_common.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::string_view, 3> kModes = {"observe", "recommend", "enforce"};

constexpr double kDay_s = 86400;

constexpr int kMostCoalesced = 5;  ///< times coalesce_ms

/// After what should have come about and has not.
constexpr std::chrono::milliseconds kSoon{500};

constexpr std::string_view kReservationPrefix = "plan-";

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
      leased_(parts_.leadership == nullptr
                  ? std::nullopt
                  : std::optional<LeasedScheduler>(std::in_place, parts_.scheduler,
                                                   *parts_.leadership)),
      scheduler_(leased_ ? static_cast<Scheduler&>(*leased_) : parts_.scheduler),
      mover_({scheduler_, parts_.executor, parts_.journal, parts_.wall_s,
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
  if (Leadership* const leadership = parts_.leadership; leadership != nullptr) {
    parts_.journal.share_migrations(
        [leadership](const Migration& migration) { return leadership->put_migration(migration); });
  }
}

Controller::~Controller() { stop(); }

absl::Status Controller::start() {
  // Of several controllers it takes up what is under way when it begins to lead.
  if (parts_.leadership == nullptr) {
    const std::lock_guard turn(turn_);
    if (absl::Status status = recover("the controller was started again"); !status.ok()) {
      return status;
    }
  }
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
    wake_.wait_for(lock, stop, soon_ ? std::min(poll, kSoon) : poll,
                   [this] { return notified_ != seen_; });
    // A burst of events is one: wait until it is quiet, but not for ever.
    for (int i = 0; i < kMostCoalesced && notified_ != seen_; ++i) {
      seen_ = notified_;
      wake_.wait_for(lock, stop, pause, [this] { return notified_ != seen_; });
    }
    seen_ = notified_;
  }
}

absl::Status Controller::recover(std::string_view why) {
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
  // What waited for a person is made anew for the cluster as it is now.
  plans = parts_.journal.plans(PlanState::kWaiting, rules_.keep_plans);
  if (!plans.ok()) return plans.status();
  for (const PlanEntry& plan : *plans) {
    absl::Status status =
        parts_.journal.set_plan_state(plan.id, PlanState::kSuperseded, why, parts_.wall_s());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void Controller::reconcile() {
  const std::lock_guard turn(turn_);
  const Clock::time_point start = Clock::now();
  follow_leadership();
  reap();
  Observation seen;
  if (!look(seen)) return;
  if (leads()) {
    decide();
    tidy(seen);
  }
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
  held_back_ = held_back(seen.snapshot, rules_.policy, seen.unmovable,
                         unhooked(seen.snapshot, agents), past_, now_s);
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

std::map<std::string, std::string> Controller::unhooked(
    const Snapshot& snapshot, const std::vector<AgentReport>& agents) const {
  std::map<std::string, std::string> unhooked;
  // What only looks shows what could be had, before anybody has put the hook into a job.
  if (rules_.mode == Mode::kObserve) return unhooked;
  std::set<std::string_view> connected;
  for (const AgentReport& agent : agents) {
    if (agent.connected) connected.insert(agent.node);
  }
  for (size_t g = 0; g < snapshot.groups.size(); ++g) {
    const Group& group = snapshot.groups[GroupId(g)];
    const std::string& job = snapshot.jobs[group.job].id;
    for (size_t w = 0; w < group.workers.size() && !unhooked.contains(job); ++w) {
      const std::string& node = snapshot.nodes[group.workers[w]].name;
      const WorkerName name{job, snapshot.group_index(GroupId(g)), static_cast<int>(w)};
      const auto report = reports_.find(name);
      if (report != reports_.end() && report->second.node == node) continue;
      unhooked[job] =
          connected.contains(node)
              ? fmt::format("worker {} on {} does not carry the hook", to_string(name), node)
              : fmt::format("the agent of {} is not connected", node);
    }
  }
  return unhooked;
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
    const absl::Status status = scheduler_.cancel(hold, limit);
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
      const absl::Status status = scheduler_.extend(hold, limit);
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
    const absl::Status status = scheduler_.unreserve(name, limit);
    tell("orphan",
         fmt::format("reservation {}: {}", name, status.ok() ? "given back" : text_of(status)));
  }
  const std::lock_guard lock(mutex_);
  view_.orphans = std::move(lines);
}

void Controller::route() {
  if (!routes_stale_) return;
  routes_stale_ = false;
  const Snapshot& snapshot = mirror_.snapshot();
  if (absl::Status status = check_routable(snapshot); !status.ok()) {
    tell("trouble", fmt::format("no routes: {}", message_of(status)));
    return;
  }
  routes_ = named_routes(snapshot, routes(snapshot, &routes_));
  if (rules_.mode == Mode::kEnforce && leads()) parts_.executor.apply_routes(routes_);
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

ControllerView Controller::view() const {
  std::optional<LeadershipView> leadership;
  if (parts_.leadership != nullptr) leadership = parts_.leadership->view();
  const std::lock_guard lock(mutex_);
  ControllerView view = view_;
  view.leadership = std::move(leadership);
  return view;
}

}  // namespace monkeytree
