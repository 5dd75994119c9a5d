#pragma once

#include <string>
#include <vector>

#include "inventory/scheduler.h"

namespace monkeytree {

/// A scheduler that is only looked at: every change is FailedPrecondition, for the reason that
/// why_read_only() gives.
class ReadOnlyScheduler : public Scheduler {
 public:
  bool replaces_workers() const final { return false; }
  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) final;
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) final;
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) final;
  absl::Status cancel(const Hold& hold, Deadline deadline) final;
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) final;
  absl::Status unreserve(const std::string& name, Deadline deadline) final;
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job, Deadline deadline) final;

 private:
  absl::Status refused() const { return absl::FailedPreconditionError(why_read_only()); }
};

}  // namespace monkeytree
