#include <fmt/format.h>

#include <set>
#include <utility>

#include "base/counted.h"
#include "base/status.h"
#include "control/controller.h"
#include "control/controller_common.h"

/// What a controller does because it leads, and when it leads no more.
namespace monkeytree {
namespace {

/// Under which the journal keeps that other controllers know what is in it.
constexpr std::string_view kShared = "shared";

constexpr double kDay_s = 86400;

std::string lead_text(const LeadershipView& now) {
  if (now.leads) return fmt::format("this controller leads, by token {}", now.token);
  if (!now.trouble.empty()) return "who leads is not known: " + now.trouble;
  if (now.leader.empty()) return "nobody leads";
  if (now.leader == now.name) return "this controller leads no more";
  return fmt::format("{}{} leads, this controller stands by", now.leader,
                     now.address.empty() ? "" : " at " + now.address);
}

}  // namespace

void Controller::leadership_changed() {
  if (parts_.leadership == nullptr) return;
  if (!parts_.leadership->view().leads) {
    const std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) running.thread.request_stop();
  }
  notify("who leads may have changed");
}

absl::Status Controller::check_leads() const {
  if (parts_.leadership == nullptr) return absl::OkStatus();
  const LeadershipView now = parts_.leadership->view();
  return now.leads ? absl::OkStatus() : absl::FailedPreconditionError(why_not_leading(now));
}

void Controller::follow_leadership() {
  if (parts_.leadership == nullptr) return;
  const LeadershipView now = parts_.leadership->view();
  {
    const std::lock_guard lock(mutex_);
    soon_ = false;
  }
  if (now.leads && now.term == leading_term_) return;
  if (leading_term_ != 0) step_back();
  std::string text = lead_text(now);
  if (now.leads) {
    if (const absl::Status status = take_over(now); !status.ok()) {
      text = fmt::format("this controller should lead and cannot yet: {}", text_of(status));
      const std::lock_guard lock(mutex_);
      soon_ = true;
    }
  }
  // Of etcd's trouble the first word is enough.
  const std::string news = now.leads || now.trouble.empty() ? text : "trouble";
  if (std::exchange(lead_told_, news) != news) tell("lead", text);
}

absl::Status Controller::take_over(const LeadershipView& now) {
  const absl::StatusOr<SharedBooks> books = parts_.leadership->read();
  if (!books.ok()) return books.status();
  if (absl::Status status = adopt(*books); !status.ok()) return status;
  routes_stale_ = true;
  if (absl::Status status = recover("another controller led"); !status.ok()) return status;
  leading_term_ = now.term;
  return absl::OkStatus();
}

absl::Status Controller::adopt(const SharedBooks& books) {
  Journal& journal = parts_.journal;
  const double now_s = parts_.wall_s();
  std::set<int64_t> shared;
  for (const SharedPlan& plan : books.running) shared.insert(plan.entry.id);
  for (const SharedPlan& plan : books.ended) shared.insert(plan.entry.id);
  const absl::StatusOr<std::vector<PlanEntry>> own =
      journal.plans(PlanState::kRunning, rules_.keep_plans);
  if (!own.ok()) return own.status();
  const absl::StatusOr<std::optional<std::string>> known = journal.get(kShared);
  if (!known.ok()) return known.status();
  const absl::StatusOr<std::optional<std::string>> paused = journal.get(kKillSwitch);
  if (!paused.ok()) return paused.status();
  const bool was_alone = !known->has_value();
  absl::Status status = journal.raise_plan_number(books.last_plan);
  const absl::StatusOr<int64_t> last = journal.last_plan();
  if (!status.ok() || !last.ok()) return status.ok() ? last.status() : status;
  if (*last > books.last_plan) status = parts_.leadership->set_last_plan(*last);
  if (!status.ok()) return status;
  for (const PlanEntry& plan : *own) {
    if (shared.contains(plan.id)) continue;
    if (!was_alone) {
      status = journal.set_plan_state(plan.id, PlanState::kFailed,
                                      "it ended while another controller led", now_s);
    } else {
      // It was begun before there were others.
      const absl::StatusOr<std::vector<Migration>> migrations = journal.migrations(plan.id);
      if (!migrations.ok()) return migrations.status();
      for (const Migration& migration : *migrations) {
        if (status.ok()) status = parts_.leadership->put_migration(migration);
      }
      if (status.ok()) status = share_running(plan.id, "");
    }
    if (!status.ok()) return status;
  }
  for (const SharedPlan& plan : books.ended) {
    const absl::StatusOr<std::optional<PlanEntry>> here = journal.plan(plan.entry.id);
    if (!here.ok()) return here.status();
    if (*here && (*here)->made_s == plan.entry.made_s && (*here)->ended_s) continue;
    status = journal.adopt(plan.entry, plan.migrations, plan.entry.ended_s.value_or(now_s));
    if (!status.ok()) return status;
  }
  for (const SharedPlan& plan : books.running) {
    status = journal.adopt(plan.entry, plan.migrations, now_s);
    if (status.ok()) status = journal.set(cancelled_key(plan.entry.id), plan.cancelled_by);
    if (!status.ok()) return status;
  }
  if (was_alone && books.paused.empty() && !paused->value_or("").empty()) {
    status = parts_.leadership->set_paused(**paused);
  } else {
    status = journal.set(kKillSwitch, books.paused);
  }
  return status.ok() ? journal.set(kShared, "1") : status;
}

void Controller::step_back() {
  leading_term_ = 0;
  std::vector<std::jthread> threads;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [id, running] : running_) {
      running.thread.request_stop();
      threads.push_back(std::move(running.thread));
    }
  }
  threads.clear();  // joined, without the lock that they need to end
  std::set<std::string> jobs;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, running] : running_) {
      jobs.insert(running.jobs.begin(), running.jobs.end());
    }
    running_.clear();
  }
  if (!mirror_.empty()) mirror_.forget({jobs.begin(), jobs.end()});
  for (const std::string& job : jobs) last_moves_[job] = std::chrono::steady_clock::now();
  supersede_waiting("this controller leads no more");
  stray_.clear();
}

absl::StatusOr<int64_t> Controller::add_plan(PlanEntry& entry) {
  if (parts_.leadership != nullptr) {
    const absl::StatusOr<int64_t> last = parts_.journal.last_plan();
    if (!last.ok()) return last.status();
    entry.id = *last + 1;
    absl::Status status = parts_.leadership->set_last_plan(entry.id);
    if (!status.ok()) return status;
  }
  return parts_.journal.add_plan(entry);
}

absl::Status Controller::share_running(int64_t plan, std::string_view cancelled_by) {
  if (parts_.leadership == nullptr) return absl::OkStatus();
  absl::StatusOr<std::optional<PlanEntry>> entry = parts_.journal.plan(plan);
  if (!entry.ok()) return entry.status();
  if (!*entry) return absl::NotFoundError(fmt::format("there is no plan {}", plan));
  (*entry)->state = PlanState::kRunning;
  return parts_.leadership->put_plan(**entry, cancelled_by);
}

absl::Status Controller::end_plan(int64_t plan, PlanState state, const std::string& reason,
                                  double now_s) {
  Journal& journal = parts_.journal;
  if (parts_.leadership != nullptr) {
    const absl::StatusOr<std::optional<PlanEntry>> entry = journal.plan(plan);
    if (!entry.ok()) return entry.status();
    const absl::StatusOr<std::vector<Migration>> migrations = journal.migrations(plan);
    if (!migrations.ok()) return migrations.status();
    // Budgets look back for a day.
    const absl::StatusOr<int64_t> oldest = journal.oldest_plan_since(now_s - 2 * kDay_s);
    if (!oldest.ok()) return oldest.status();
    if (*entry) {
      SharedPlan over{**entry, "", *migrations};
      over.entry.state = state;
      over.entry.reason = reason;
      over.entry.ended_s = now_s;
      absl::Status status = parts_.leadership->end_plan(over, *oldest);
      if (!status.ok()) return status;
    }
  }
  return journal.set_plan_state(plan, state, reason, now_s);
}

}  // namespace monkeytree
