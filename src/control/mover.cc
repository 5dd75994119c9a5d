#include "control/mover.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <future>
#include <mutex>
#include <utility>
#include <vector>

#include "base/status.h"

namespace monkeytree {
namespace {

Deadline after(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

/// The first that is not OK.
absl::Status worst(const std::vector<absl::Status>& statuses) {
  for (const absl::Status& status : statuses) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

/// Does the same for all moves at once, so that a job that moves two workers pauses once and not
/// twice as long.
template <class Do>
absl::Status for_each_move(const Migration& migration, Do act) {
  if (migration.moves.size() == 1) return act(migration.moves.front());
  std::vector<std::future<absl::Status>> running;
  running.reserve(migration.moves.size());
  for (const WorkerMove& move : migration.moves) {
    running.push_back(std::async(std::launch::async, [&act, &move] { return act(move); }));
  }
  std::vector<absl::Status> statuses;
  for (std::future<absl::Status>& one : running) statuses.push_back(one.get());
  return worst(statuses);
}

/// The job's nodes by group and worker once the migration is over; "" for a staged worker.
std::vector<std::string> order_after(const Migration& migration) {
  std::map<WorkerName, std::string> all;
  for (const auto& [name, node] : migration.before) all[name] = node;
  for (const WorkerName& name : migration.staged) all[name] = "";
  for (const WorkerMove& move : migration.moves) all[move.worker] = "";
  for (const auto& [name, node] : migration.after) all[name] = node;
  std::vector<std::string> order;
  for (const auto& [name, node] : all) order.push_back(node);
  return order;
}

bool uses_after(const Migration& migration, const std::string& node) {
  return std::any_of(migration.after.begin(), migration.after.end(),
                     [&](const auto& entry) { return entry.second == node; });
}

}  // namespace

bool Patience::wait(const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wake;
  std::unique_lock lock(mutex);
  wake.wait_for(lock, stop, next_, [] { return false; });
  next_ = std::min(2 * next_, longest_);
  return !stop.stop_requested();
}

bool Mover::run(Migration& migration, const std::stop_token& stop,
                const std::atomic<bool>& give_up) {
  Patience patience(limits_);
  while (!ended(migration)) {
    if (stop.stop_requested()) return false;
    if (give_up && migration.heading == Heading::kForward && can_turn_back(migration)) {
      migration.heading = Heading::kBack;
      migration.reason = "cancelled";
    }
    const Step step = *next_step(migration);
    const absl::StatusOr<int> attempt = parts_.journal.begin_step(migration, step, parts_.wall_s());
    if (!attempt.ok()) {
      // No intent on disk, no step. What a full disk keeps from being written down is not done.
      parts_.notice({migration, step, false, with_context(attempt.status(), "journal")});
      if (!patience.wait(stop)) return false;
      continue;
    }
    parts_.notice({migration, step, true, absl::OkStatus()});
    absl::Status outcome = perform(migration, step);
    if (outcome.ok()) {
      advance(migration, step);
      patience.reset();
    } else if (migration.heading != Heading::kAbandon && job_has_ended(migration)) {
      migration.heading = Heading::kAbandon;
      migration.reason = "the job has ended";
    } else if (migration.heading == Heading::kForward && can_turn_back(migration)) {
      migration.heading = Heading::kBack;
      migration.reason = fmt::format("{}: {}", name_of(step), message_of(outcome));
    }
    if (!write_outcome(migration, step, *attempt, outcome, stop)) return false;
    parts_.notice({migration, step, false, outcome});
    // The way back is tried at once, everything else after a while.
    const bool turned = !outcome.ok() && next_step(migration) != step;
    if (!outcome.ok() && !turned && !patience.wait(stop)) return false;
  }
  return true;
}

bool Mover::write_outcome(const Migration& migration, Step step, int attempt,
                          const absl::Status& outcome, const std::stop_token& stop) {
  Patience patience(limits_);
  while (true) {
    const absl::Status written =
        parts_.journal.end_step(migration, step, attempt, outcome, parts_.wall_s());
    if (written.ok()) return true;
    parts_.notice({migration, step, false, with_context(written, "journal")});
    if (!patience.wait(stop)) return false;
  }
}

bool Mover::job_has_ended(const Migration& migration) {
  const absl::StatusOr<std::vector<std::string>> booked =
      parts_.scheduler.booked(migration.job, after(limits_.release));
  return booked.ok() && booked->empty();
}

StepLimits::Milliseconds Mover::limit(Step step) const {
  switch (step) {
    case Step::kHold:
      return limits_.hold;
    case Step::kPrepare:
      return limits_.prepare;
    case Step::kPause:
      return limits_.pause;
    case Step::kTransfer:
      return limits_.transfer;
    case Step::kRestore:
      return limits_.restore;
    case Step::kResume:
      return limits_.resume;
    case Step::kRelease:
      return limits_.release;
    case Step::kRollBack:
    case Step::kAbandon:
      return limits_.roll_back;
  }
  return limits_.release;
}

absl::Status Mover::perform(Migration& migration, Step step) {
  switch (step) {
    case Step::kHold:
      return hold(migration);
    case Step::kPrepare:
      return prepare(migration);
    case Step::kPause:
      return pause(migration);
    case Step::kTransfer:
      return transfer(migration);
    case Step::kRestore:
      return restore(migration);
    case Step::kResume:
      return resume(migration);
    case Step::kRelease:
      return release(migration);
    case Step::kRollBack:
      return roll_back(migration);
    case Step::kAbandon:
      return abandon(migration);
  }
  return absl::InternalError("no such step");
}

absl::Status Mover::hold(Migration& migration) {
  // The scheduler's books could not tell such a job from one that has ended.
  if (migration.after.empty() && !parts_.scheduler.replaces_workers()) {
    return absl::FailedPreconditionError("the job would have no node while its state is staged");
  }
  const Deadline deadline = after(limit(Step::kHold));
  for (WorkerMove& move : migration.moves) {
    if (is_staging(move.to)) continue;
    const absl::StatusOr<Hold> held =
        parts_.scheduler.hold(move.worker, move.to, migration.reservation, deadline);
    if (!held.ok()) return with_context(held.status(), move.to);
    move.hold = held->id;
  }
  const absl::StatusOr<std::vector<std::string>> booked =
      parts_.scheduler.booked(migration.job, deadline);
  if (!booked.ok()) return with_context(booked.status(), "reading the hold back");
  for (const WorkerMove& move : migration.moves) {
    if (is_staging(move.to)) continue;
    if (!std::binary_search(booked->begin(), booked->end(), move.to)) {
      return absl::AbortedError(
          fmt::format("{}: the scheduler says it is held, but does not book it", move.to));
    }
  }
  return absl::OkStatus();
}

absl::Status Mover::prepare(const Migration& migration) {
  const Deadline deadline = after(limit(Step::kPrepare));
  return for_each_move(migration, [&](const WorkerMove& move) {
    if (!is_staging(move.to)) {
      WorkerCommand command = move.command;
      command.environment["MONKEYTREE_SUCCESSOR_OF"] = migration.id;
      command.environment["MONKEYTREE_JOB"] = move.worker.job;
      command.environment["MONKEYTREE_GROUP"] = std::to_string(move.worker.group);
      command.environment["MONKEYTREE_WORKER"] = std::to_string(move.worker.worker);
      const absl::Status started =
          parts_.scheduler.start({move.hold, move.worker, move.to}, command, deadline);
      if (!started.ok()) return with_context(started, move.to);
    }
    return with_context(
        parts_.executor.prepare(migration.id, move.worker, move.to, move.state_bytes, deadline),
        move.to);
  });
}

absl::Status Mover::pause(Migration& migration) {
  const absl::StatusOr<int64_t> iteration = parts_.executor.pause(
      migration.id, migration.job, migration.before, after(limit(Step::kPause)));
  if (!iteration.ok()) return iteration.status();
  migration.iteration = *iteration;
  return absl::OkStatus();
}

absl::Status Mover::transfer(const Migration& migration) {
  const Deadline deadline = after(limit(Step::kTransfer));
  return for_each_move(migration, [&](const WorkerMove& move) {
    return with_context(
        parts_.executor.transfer(migration.id, move.worker, move.from, move.to, deadline),
        fmt::format("{} to {}", move.from, move.to));
  });
}

absl::Status Mover::restore(const Migration& migration) {
  return confirm(migration, after(limit(Step::kRestore)));
}

absl::Status Mover::confirm(const Migration& migration, Deadline deadline) {
  return for_each_move(migration, [&](const WorkerMove& move) {
    if (is_staging(move.to)) return absl::OkStatus();
    return with_context(parts_.executor.restore(migration.id, move.worker, move.to, deadline),
                        move.to);
  });
}

absl::Status Mover::resume(const Migration& migration) {
  if (migration.stays_paused) return confirm(migration, after(limit(Step::kResume)));
  return parts_.executor.resume(migration.id, migration.job, migration.after,
                                after(limit(Step::kResume)));
}

absl::Status Mover::release(const Migration& migration) {
  const Deadline deadline = after(limit(Step::kRelease));
  const std::vector<std::string> order = order_after(migration);
  if (migration.stays_paused) {
    // No good iteration shows that the successors have the state; they say so themselves.
    absl::Status confirmed = confirm(migration, deadline);
    if (!confirmed.ok()) return confirmed;
  }
  for (const WorkerMove& move : migration.moves) {
    absl::Status status = let_go(migration, move, order, deadline);
    if (!status.ok()) return with_context(status, move.from);
  }
  const absl::StatusOr<std::vector<std::string>> booked =
      parts_.scheduler.booked(migration.job, deadline);
  if (!booked.ok()) return with_context(booked.status(), "reading the books back");
  for (const WorkerMove& move : migration.moves) {
    if (is_staging(move.from) || uses_after(migration, move.from)) continue;
    if (std::binary_search(booked->begin(), booked->end(), move.from)) {
      return absl::AbortedError(fmt::format("{}: the scheduler still books it", move.from));
    }
  }
  return absl::OkStatus();
}

absl::Status Mover::let_go(const Migration& migration, const WorkerMove& move,
                           const std::vector<std::string>& order, Deadline deadline) {
  const auto end = [&] {
    absl::Status ended = parts_.executor.release(migration.id, move.worker, move.from, deadline);
    return absl::IsNotFound(ended) ? absl::OkStatus() : ended;
  };
  const auto give_back = [&] {
    // Back from staging there is no node to give back, but the order is new.
    return parts_.scheduler.give_back(move.worker, is_staging(move.from) ? "" : move.from, order,
                                      deadline);
  };
  // What would end by itself, and well, counts as done where the scheduler makes workers anew.
  const bool scheduler_first = parts_.scheduler.replaces_workers();
  absl::Status status = scheduler_first ? give_back() : end();
  if (!status.ok()) return status;
  return scheduler_first ? end() : give_back();
}

absl::Status Mover::roll_back(const Migration& migration) {
  const Deadline deadline = after(limit(Step::kRollBack));
  std::vector<absl::Status> statuses;
  const auto cancel_holds = [&] {
    for (const WorkerMove& move : migration.moves) {
      if (is_staging(move.to)) continue;
      statuses.push_back(with_context(
          parts_.scheduler.cancel({move.hold, move.worker, move.to}, deadline), move.to));
    }
  };
  const bool scheduler_first = parts_.scheduler.replaces_workers();
  if (scheduler_first) cancel_holds();
  // Before it holds its nodes no worker was told of it; and the workers need not be where `before`
  // has them when an earlier move of the job has been undone.
  if (migration.state > MigrationState::kPlanned) {
    statuses.push_back(parts_.executor.roll_back(migration.id, migration.job, migration.before,
                                                 !migration.was_paused, deadline));
  }
  // The nodes are given back even where an agent does not answer: its node may be gone for good.
  if (!scheduler_first) cancel_holds();
  return worst(statuses);
}

absl::Status Mover::abandon(const Migration& migration) {
  const Deadline deadline = after(limit(Step::kAbandon));
  // The workers have ended with their job; what agents still keep of it they drop, those that are
  // away when they come back.
  std::vector<absl::Status> statuses;
  const auto drop = [&](const std::string& id) {
    absl::Status dropped = parts_.executor.roll_back(id, migration.job, migration.before,
                                                     /*go_on=*/false, deadline);
    if (!absl::IsNotFound(dropped)) statuses.push_back(std::move(dropped));
  };
  drop(migration.id);
  for (const WorkerMove& move : migration.moves) {
    if (!is_staging(move.from)) {
      // Where it came by an earlier move of the plan, which still waits for the node.
      statuses.push_back(
          with_context(parts_.scheduler.cancel({"", move.worker, move.from}, deadline), move.from));
    } else {
      drop(move.staged_by);
    }
    if (is_staging(move.to)) continue;
    statuses.push_back(with_context(
        parts_.scheduler.cancel({move.hold, move.worker, move.to}, deadline), move.to));
  }
  return worst(statuses);
}

}  // namespace monkeytree
