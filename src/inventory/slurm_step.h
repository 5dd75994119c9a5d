#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "inventory/slurm_scheduler.h"

/// What the steps of SlurmScheduler share; nobody else's.
namespace monkeytree {

inline bool holds(const std::vector<std::string>& nodes, const std::string& node) {
  return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
}

/// By how much the companion would end before its job; 0 or less where it does not.
inline int64_t seconds_short(const SlurmJob& companion, const SlurmJob& job) {
  if (!companion.end_s || !job.end_s) return 0;
  return static_cast<int64_t>(*job.end_s - *companion.end_s);
}

/// One step on one job at a time; what it needs to know.
class SlurmScheduler::Step {
 public:
  Step(SlurmScheduler& scheduler, const std::string& job, Deadline deadline)
      : scheduler_(scheduler), job_(job) {
    status_ = begin(deadline);
  }
  ~Step() {
    if (has_turn_) scheduler_.turns_.end(job_);
  }
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const absl::Status& status() const { return status_; }
  SlurmBooks how() const { return configuration_.choice.books; }
  const SlurmConfig& config() const { return configuration_.config; }
  const Books& books() const { return books_; }
  /// Null where it does not run.
  const SlurmJob* job() const { return books_.job(job_); }

 private:
  absl::Status begin(Deadline deadline) {
    has_turn_ = scheduler_.turns_.take(job_, deadline);
    if (!has_turn_) {
      return absl::DeadlineExceededError(fmt::format("another step on job {} takes long", job_));
    }
    absl::StatusOr<Configuration> configuration = scheduler_.known_configuration(deadline);
    if (!configuration.ok()) return configuration.status();
    configuration_ = *std::move(configuration);
    if (!configuration_.choice.why_not.empty()) {
      return absl::FailedPreconditionError(configuration_.choice.why_not);
    }
    Diagnostics ignored;
    absl::StatusOr<Books> books = scheduler_.read_books(deadline, ignored);
    if (!books.ok()) return books.status();
    books_ = *std::move(books);
    return absl::OkStatus();
  }

  SlurmScheduler& scheduler_;
  const std::string job_;
  bool has_turn_ = false;
  absl::Status status_;
  Configuration configuration_;
  Books books_;
};

}  // namespace monkeytree
