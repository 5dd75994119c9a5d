#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "agent/workers.h"

/// The side of Workers that asks.
namespace monkeytree {
namespace {

using std::chrono::steady_clock;

absl::Status gone(const WorkerName& name, std::string_view what = "is not on this node") {
  return absl::NotFoundError(fmt::format("worker {} {}", to_string(name), what));
}

absl::Status refused(const WorkerName& name, std::string_view why) {
  return absl::FailedPreconditionError(fmt::format("worker {} {}", to_string(name), why));
}

absl::Status late(const WorkerName& name, std::string_view what) {
  return absl::DeadlineExceededError(
      fmt::format("worker {} has not {} by the deadline", to_string(name), what));
}

}  // namespace

bool Workers::off(const std::string& migration) const {
  return std::find(called_off_.begin(), called_off_.end(), migration) != called_off_.end();
}

void Workers::call_off(const std::string& migration) {
  const Lock lock(mutex_);
  if (off(migration)) return;
  called_off_.push_back(migration);
  if (called_off_.size() > 256) called_off_.pop_front();
  changed_.notify_all();
}

void Workers::stop_waiting() {
  const Lock lock(mutex_);
  stopping_ = true;
  note_change();
}

absl::StatusOr<Workers::WorkerPointer> Workers::await(Lock& lock, const std::string& migration,
                                                      const WorkerName& name, Deadline deadline) {
  const Deadline until = std::min(deadline, started_ + options_.settle);
  while (true) {
    if (stopping_) return absl::UnavailableError("the agent is stopping");
    if (off(migration)) return absl::CancelledError("the migration was called off");
    if (WorkerPointer worker = find(name)) return worker;
    if (steady_clock::now() >= until) return gone(name);
    changed_.wait_until(lock, until);
  }
}

absl::Status Workers::converse(Lock& lock, const std::string& migration,
                               const WorkerPointer& worker, const ToWorker& message,
                               const std::function<Outcome(Worker&)>& done, Deadline deadline,
                               bool may_be_off) {
  uint64_t told = 0;  // the connection on which the message was sent
  worker->failed.clear();
  while (true) {
    if (stopping_) return absl::UnavailableError("the agent is stopping");
    if (!may_be_off && off(migration)) {
      return absl::CancelledError("the migration was called off");
    }
    if (const Outcome outcome = done(*worker)) return *outcome;
    if (worker->ended) return gone(worker->now.name, "has ended");
    if (!migration.empty() && worker->failed == migration)
      return refused(worker->now.name, worker->why);
    if (worker->socket >= 0 && told != worker->connection) {
      told = worker->connection;
      tell(*worker, message);
      continue;
    }
    if (steady_clock::now() >= deadline) return late(worker->now.name, "answered");
    changed_.wait_until(lock, deadline);
  }
}

absl::StatusOr<Workers::Successor> Workers::await_successor(const std::string& migration,
                                                            const WorkerName& name,
                                                            Deadline deadline) {
  Lock lock(mutex_);
  while (true) {
    if (stopping_) return absl::UnavailableError("the agent is stopping");
    if (off(migration)) return absl::CancelledError("the migration was called off");
    const WorkerPointer worker = find(name);
    if (worker && !worker->ended && worker->now.successor_of == migration) {
      const WorkerPhase phase = worker->now.phase;
      if (phase == WorkerPhase::kWaiting || phase == WorkerPhase::kRestored) {
        return Successor{worker->arena, phase, worker->process.user};
      }
      return refused(name, fmt::format("is {}", name_of(phase)));
    }
    if (steady_clock::now() >= deadline) {
      return absl::DeadlineExceededError(
          fmt::format("no successor of worker {} has come to this node", to_string(name)));
    }
    changed_.wait_until(lock, deadline);
  }
}

absl::Status Workers::warm(const WorkerName& name) {
  std::shared_ptr<Arena> cold;
  {
    const Lock lock(mutex_);
    const WorkerPointer worker = find(name);
    if (!worker || worker->ended) return gone(name);
    cold = worker->arena;
  }
  absl::StatusOr<Arena> warm =
      Arena::open(Fd(fcntl(cold->fd(), F_DUPFD_CLOEXEC, 0)), {.prefault = true});
  if (!warm.ok()) return warm.status();
  const Lock lock(mutex_);
  const WorkerPointer worker = find(name);
  if (worker && worker->arena == cold) {
    worker->arena = std::make_shared<Arena>(*std::move(warm));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Arena>> Workers::paused_arena(const std::string& migration,
                                                             const WorkerName& name,
                                                             Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> worker = await(lock, migration, name, deadline);
  if (!worker.ok()) return worker.status();
  const WorkerHello& now = (*worker)->now;
  if (now.phase != WorkerPhase::kPaused || now.migration != migration) {
    return refused(name, fmt::format("is {}, not paused for this migration", name_of(now.phase)));
  }
  return (*worker)->arena;
}

absl::StatusOr<std::shared_ptr<Arena>> Workers::source_arena(const WorkerName& name,
                                                             Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> worker = await(lock, "", name, deadline);
  if (!worker.ok()) return worker.status();
  const WorkerPhase phase = (*worker)->now.phase;
  if (phase != WorkerPhase::kRunning && phase != WorkerPhase::kPaused &&
      phase != WorkerPhase::kRestored) {
    return refused(name, fmt::format("is {}", name_of(phase)));
  }
  return (*worker)->arena;
}

void Workers::announce(const std::string& migration, const std::string& job) {
  const Lock lock(mutex_);
  for (const auto& [instance, worker] : workers_) {
    if (worker->now.name.job == job && worker->now.phase == WorkerPhase::kRunning) {
      tell(*worker, AgentExpect{migration});
    }
  }
}

absl::StatusOr<WorkerPaused> Workers::pause(const std::string& migration, const WorkerName& name,
                                            Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> found = await(lock, migration, name, deadline);
  if (!found.ok()) return found.status();
  Worker& worker = **found;
  if (worker.now.phase == WorkerPhase::kRetired || worker.now.phase == WorkerPhase::kWaiting ||
      worker.now.successor_of == migration) {
    return refused(name, fmt::format("is {}", name_of(worker.now.phase)));
  }
  const absl::Status status = converse(
      lock, migration, *found, AgentPause{migration},
      [&](Worker& now) -> Outcome {
        if (now.now.phase != WorkerPhase::kPaused || now.now.migration != migration) {
          return std::nullopt;
        }
        return absl::OkStatus();
      },
      deadline);
  if (!status.ok()) return status;
  return WorkerPaused{migration, worker.now.iteration, worker.epoch};
}

absl::StatusOr<int64_t> Workers::restore(const std::string& migration, const WorkerName& name,
                                         Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> found = await(lock, migration, name, deadline);
  if (!found.ok()) return found.status();
  const WorkerHello& now = (*found)->now;
  if (now.successor_of != migration) return refused(name, "is no successor of this migration");
  const std::optional<uint64_t> epoch = (*found)->arena->committed_epoch();
  if (!epoch) return refused(name, "has not received its state");
  const absl::Status status = converse(
      lock, migration, *found, AgentRestore{migration, static_cast<int64_t>(*epoch)},
      [](Worker& worker) -> Outcome {
        if (worker.now.phase == WorkerPhase::kRestored) return absl::OkStatus();
        return std::nullopt;
      },
      deadline);
  if (!status.ok()) return status;
  return now.iteration;
}

absl::Status Workers::retire(const std::string& migration, const WorkerName& name,
                             Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> found = await(lock, migration, name, deadline);
  if (!found.ok()) return found.status();
  Worker& worker = **found;
  if (worker.now.phase == WorkerPhase::kRetired) return absl::OkStatus();
  if (worker.now.phase != WorkerPhase::kPaused || worker.now.migration != migration) {
    return refused(name,
                   fmt::format("is {}, not paused for this migration", name_of(worker.now.phase)));
  }
  worker.now.phase = WorkerPhase::kRetired;
  tell(worker, AgentRetire{migration});
  say(LogLevel::kInfo, "worker retired", worker);
  note_change();
  return absl::OkStatus();
}

absl::StatusOr<int64_t> Workers::resume(const std::string& migration, const WorkerName& name,
                                        const std::vector<WorkerPeer>& peers, Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> found = await(lock, migration, name, deadline);
  if (!found.ok()) return found.status();
  Worker& worker = **found;
  const WorkerHello& now = worker.now;
  const auto ready = [&] {
    return (now.phase == WorkerPhase::kPaused && now.migration == migration) ||
           (now.phase == WorkerPhase::kRestored && now.successor_of == migration);
  };
  const auto runs = [&] {
    return now.phase == WorkerPhase::kRunning && now.generation == migration;
  };
  const absl::Status status = converse(
      lock, migration, *found, AgentResume{migration, peers},
      [&](Worker& it) -> Outcome {
        if (runs() && it.stepped == migration) return absl::OkStatus();
        if (it.ended) return std::nullopt;
        if (!runs() && !ready()) {
          return refused(name,
                         fmt::format("is {}, not ready for this migration", name_of(now.phase)));
        }
        if (ready() && it.socket >= 0) {
          // From here on it may run at any moment.
          it.now.phase = WorkerPhase::kRunning;
          it.now.generation = migration;
          it.now.migration.clear();
          it.now.successor_of.clear();
          note_change();
        }
        return std::nullopt;
      },
      deadline);
  if (!status.ok()) return status;
  return now.iteration;
}

absl::Status Workers::await_end(Lock& lock, const WorkerPointer& worker, const ToWorker& message,
                                Deadline deadline) {
  // Half of the time to go by itself, then it is killed: whatever it would still do is not wanted.
  const auto now = steady_clock::now();
  const Deadline patience = now + (deadline > now ? (deadline - now) / 2 : Deadline::duration(0));
  const auto done = [](Worker& it) -> Outcome {
    return it.ended ? Outcome(absl::OkStatus()) : std::nullopt;
  };
  const std::string none;
  absl::Status status = converse(lock, none, worker, message, done, patience, true);
  if (!absl::IsDeadlineExceeded(status)) return status;
  say(LogLevel::kWarning, "worker killed", *worker, {{"reason", "does not end by itself"}});
  if (worker->process_fd.valid()) {
    syscall(SYS_pidfd_send_signal, worker->process_fd.get(), SIGKILL, nullptr, 0);
  }
  status = converse(lock, none, worker, message, done, deadline, true);
  return absl::IsDeadlineExceeded(status) ? late(worker->now.name, "ended") : status;
}

absl::Status Workers::release(const std::string& migration, const WorkerName& name,
                              Deadline deadline) {
  Lock lock(mutex_);
  for (const auto& [of, who] : released_) {
    if (of == migration && who == name && !find(name)) return absl::OkStatus();
  }
  const absl::StatusOr<WorkerPointer> found = await(lock, "", name, deadline);
  if (!found.ok()) return found.status();
  const WorkerPointer& worker = *found;
  const WorkerHello& now = worker->now;
  const bool leaves = (now.phase == WorkerPhase::kRetired || now.phase == WorkerPhase::kPaused) &&
                      now.migration == migration;
  if (!leaves) {
    return refused(name,
                   fmt::format("is {}, not about to leave by this migration", name_of(now.phase)));
  }
  if (!worker->ended) {
    // Should the connection break, it must not go on meanwhile.
    worker->now.phase = WorkerPhase::kRetired;
    absl::Status status = await_end(lock, worker, AgentRelease{migration}, deadline);
    if (!status.ok()) return status;
  }
  remove(worker->instance);
  released_.emplace_back(migration, name);
  if (released_.size() > 256) released_.pop_front();
  return absl::OkStatus();
}

absl::Status Workers::cancel(const std::string& migration, const WorkerName& name,
                             Deadline deadline) {
  Lock lock(mutex_);
  const absl::StatusOr<WorkerPointer> found = await(lock, "", name, deadline);
  if (!found.ok()) return found.status();
  const WorkerPointer& worker = *found;
  if (worker->ended) {
    remove(worker->instance);
    return gone(name, "has ended");
  }
  if (worker->now.phase == WorkerPhase::kRetired) {
    return refused(name, "is retired: its successor runs");
  }
  if (worker->now.successor_of == migration) {
    return refused(name, "is the migration's successor, not the worker that stays");
  }
  if (worker->now.generation == migration) {
    return refused(name, "has been resumed by this migration");
  }
  return converse(
      lock, migration, worker, AgentCancel{migration},
      [&](Worker& it) -> Outcome {
        const auto& done = it.cancelled;
        if (std::find(done.begin(), done.end(), migration) == done.end()) return std::nullopt;
        return absl::OkStatus();
      },
      deadline, true);
}

absl::Status Workers::end_successors(const std::string& migration, Deadline deadline) {
  Lock lock(mutex_);
  std::vector<WorkerPointer> leaving;
  for (const auto& [instance, worker] : workers_) {
    const bool successor = worker->now.successor_of == migration;
    const bool kept = worker->ended && worker->now.migration == migration;
    if (successor || kept) leaving.push_back(worker);
  }
  absl::Status status;
  for (const WorkerPointer& worker : leaving) {
    const absl::Status ended = worker->ended
                                   ? absl::OkStatus()
                                   : await_end(lock, worker, AgentCancel{migration}, deadline);
    if (ended.ok()) {
      remove(worker->instance);
    } else {
      status = ended;
    }
  }
  return status;
}

}  // namespace monkeytree
