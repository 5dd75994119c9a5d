#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stop_token>
#include <string>
#include <string_view>

#include "control/executor.h"
#include "control/journal.h"
#include "control/migration.h"
#include "inventory/scheduler.h"

namespace monkeytree {

/// How long each step may take before it counts as failed, and how long to wait before it is tried
/// again where it must succeed.
struct StepLimits {
  using Milliseconds = std::chrono::milliseconds;
  Milliseconds hold{20'000};
  Milliseconds prepare{180'000};  ///< the successor starts and touches its memory
  Milliseconds pause{120'000};    ///< an iteration may be long
  Milliseconds transfer{300'000};
  Milliseconds restore{60'000};
  Milliseconds resume{180'000};
  Milliseconds release{30'000};
  Milliseconds roll_back{30'000};
  Milliseconds first_retry{500};
  Milliseconds longest_retry{30'000};
};

/// What people and metrics are told of a step.
struct StepNotice {
  const Migration& migration;
  Step step;
  bool began;  ///< otherwise it ended
  absl::Status outcome;
};

/// Carries migrations through their steps, an intent in the journal before each and an outcome
/// after. Thread-safe: each thread runs its own migrations.
class Mover {
 public:
  struct Parts {
    Scheduler& scheduler;
    Executor& executor;
    Journal& journal;
    std::function<double()> wall_s;  ///< Unix time, for the journal
    std::function<void(const StepNotice&)> notice;
  };
  Mover(Parts parts, const StepLimits& limits) : parts_(std::move(parts)), limits_(limits) {}

  /// Goes on from whatever state the migration is in until it has ended. Before `restored` a step
  /// that fails, or `give_up`, turns it back; steps back, and steps after `restored`, are tried
  /// until they succeed or the job has ended. False where `stop` came first: the journal then knows
  /// where to go on.
  bool run(Migration& migration, const std::stop_token& stop, const std::atomic<bool>& give_up);

  const StepLimits& limits() const { return limits_; }

 private:
  absl::Status perform(Migration& migration, Step step);
  absl::Status hold(Migration& migration);
  absl::Status prepare(const Migration& migration);
  absl::Status pause(Migration& migration);
  absl::Status transfer(const Migration& migration);
  absl::Status restore(const Migration& migration);
  /// The successors have the state.
  absl::Status confirm(const Migration& migration, Deadline deadline);
  absl::Status resume(const Migration& migration);
  absl::Status release(const Migration& migration);
  /// What is left of the worker ends, and its node is given back.
  absl::Status let_go(const Migration& migration, const WorkerMove& move,
                      const std::vector<std::string>& order, Deadline deadline);
  absl::Status roll_back(const Migration& migration);
  absl::Status abandon(const Migration& migration);

  bool job_has_ended(const Migration& migration);
  /// Writes the outcome down, however often it takes; false where `stop` came first.
  bool write_outcome(const Migration& migration, Step step, int attempt,
                     const absl::Status& outcome, const std::stop_token& stop);
  StepLimits::Milliseconds limit(Step step) const;

  Parts parts_;
  StepLimits limits_;
};

/// Waits between attempts, each twice as long as the one before.
class Patience {
 public:
  explicit Patience(const StepLimits& limits)
      : first_(limits.first_retry), longest_(limits.longest_retry) {}
  /// False, at once, when asked to stop.
  bool wait(const std::stop_token& stop);
  void reset() { next_ = first_; }

 private:
  std::chrono::milliseconds first_, longest_, next_ = first_;
};

}  // namespace monkeytree
