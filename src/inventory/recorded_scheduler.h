#pragma once

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "inventory/read_only_scheduler.h"

namespace monkeytree {

/// Snapshots that were taken before, one after the other, the last for ever: to look at a cluster
/// again, and to see what would have been planned. Nothing can be changed. Thread-safe.
class RecordedScheduler final : public ReadOnlyScheduler {
 public:
  /// `snapshots`: at least one. Each stands for `every_s` from the first look on, or for one look
  /// where that is 0. `clock` gives seconds and may not go back.
  RecordedScheduler(std::vector<Snapshot> snapshots, double every_s, std::function<double()> clock);

  std::string describe() const override;
  std::string why_read_only() const override;
  absl::StatusOr<Observation> observe(Deadline deadline) override;

 private:
  const std::vector<Snapshot> snapshots_;
  const double every_s_;
  const std::function<double()> clock_;
  std::mutex mutex_;
  size_t looks_ = 0;
  double first_s_ = 0;
};

}  // namespace monkeytree
