#include <fmt/format.h>

#include "control/controller.h"
#include "control/controller_common.h"
#include "control/recheck.h"

/// What a person may tell the controller.
namespace monkeytree {

absl::Status Controller::approve(int64_t plan, std::string_view by) {
  const std::lock_guard turn(turn_);
  if (absl::Status status = check_leads(); !status.ok()) return status;
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
  if (absl::Status status = check_leads(); !status.ok()) return status;
  const absl::StatusOr<std::optional<PlanEntry>> entry = parts_.journal.plan(plan);
  if (!entry.ok()) return entry.status();
  if (!*entry) return absl::NotFoundError(fmt::format("there is no plan {}", plan));
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
    const std::string_view who = by.empty() ? "somebody" : by;
    if (absl::Status status = share_running(plan, who); !status.ok()) return status;
    if (absl::Status status = parts_.journal.set(cancelled_key(plan), who); !status.ok()) {
      return status;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (Running* const found = running()) {
      found->cancelled = true;
      found->run->give_up();
    } else if (!proposal_ || proposal_->id != plan || proposal_->state != PlanState::kWaiting) {
      return absl::FailedPreconditionError(fmt::format("plan {} is {}, neither waiting nor running",
                                                       plan, name_of((*entry)->state)));
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
  if (parts_.leadership != nullptr) {
    absl::Status status = check_leads();
    if (status.ok()) status = parts_.leadership->set_paused(text);
    if (!status.ok()) return status;
  }
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
  if (parts_.leadership != nullptr) {
    absl::Status status = check_leads();
    if (status.ok()) status = parts_.leadership->set_paused("");
    if (!status.ok()) return status;
  }
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
