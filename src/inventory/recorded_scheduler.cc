#include "inventory/recorded_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace monkeytree {

RecordedScheduler::RecordedScheduler(std::vector<Snapshot> snapshots, double every_s,
                                     std::function<double()> clock)
    : snapshots_(std::move(snapshots)), every_s_(every_s), clock_(std::move(clock)) {}

std::string RecordedScheduler::describe() const {
  return fmt::format("recorded cluster, {} snapshot{}", snapshots_.size(),
                     snapshots_.size() == 1 ? "" : "s");
}

std::string RecordedScheduler::why_read_only() const { return "a recorded cluster is read-only"; }

absl::StatusOr<Observation> RecordedScheduler::observe(Deadline /*deadline*/) {
  const std::lock_guard lock(mutex_);
  if (looks_++ == 0) first_s_ = clock_();
  const double passed =
      every_s_ > 0 ? (clock_() - first_s_) / every_s_ : static_cast<double>(looks_ - 1);
  const double last = static_cast<double>(snapshots_.size() - 1);
  Observation seen;
  seen.snapshot = snapshots_[static_cast<size_t>(std::clamp(passed, 0.0, last))];
  return seen;
}

}  // namespace monkeytree
