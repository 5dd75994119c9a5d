#pragma once

#include <string>
#include <vector>

#include "control/leadership.h"
#include "inventory/scheduler.h"

namespace monkeytree {

/// A scheduler that only the leader changes. No scheduler can check a token, so a change begins
/// only while more of the lease is left than it may take, and ends within that: what this
/// controller still has under way when its lease ends is nothing.
///
/// Errors besides the scheduler's: FailedPrecondition, this controller does not lead.
class LeasedScheduler final : public Scheduler {
 public:
  LeasedScheduler(Scheduler& scheduler, const Leadership& leadership)
      : scheduler_(scheduler), leadership_(leadership) {}

  std::string describe() const override { return scheduler_.describe(); }
  std::string why_read_only() const override { return scheduler_.why_read_only(); }
  bool replaces_workers() const override { return scheduler_.replaces_workers(); }
  absl::StatusOr<Observation> observe(Deadline deadline) override {
    return scheduler_.observe(deadline);
  }
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                  Deadline deadline) override {
    return scheduler_.booked(job, deadline);
  }

  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) override;
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) override;
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) override;
  absl::Status cancel(const Hold& hold, Deadline deadline) override;
  absl::Status extend(const Hold& hold, Deadline deadline) override;
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) override;
  absl::Status unreserve(const std::string& name, Deadline deadline) override;

 private:
  /// Waits for the lease to be long enough; until when the change must have ended.
  absl::StatusOr<Deadline> begin(Deadline deadline) const;

  Scheduler& scheduler_;
  const Leadership& leadership_;
};

}  // namespace monkeytree
