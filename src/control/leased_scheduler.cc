#include "control/leased_scheduler.h"

#include <algorithm>
#include <thread>

namespace monkeytree {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMoment{10};

}  // namespace

std::string why_not_leading(const LeadershipView& view) {
  std::string out = "this controller does not lead; ";
  if (!view.trouble.empty()) return out + "who does is not known: " + view.trouble;
  if (view.leader.empty() || view.leader == view.name) return out + "nobody does at this moment";
  return out + view.leader + (view.address.empty() ? "" : " at " + view.address) + " does, ask it";
}

absl::StatusOr<Deadline> LeasedScheduler::begin(Deadline deadline) const {
  const std::chrono::milliseconds longest = leadership_.longest_step();
  while (true) {
    const Deadline now = steady_clock::now();
    const LeadershipView view = leadership_.view();
    if (!view.leads) return absl::FailedPreconditionError(why_not_leading(view));
    if (view.left > longest) return std::min(deadline, now + longest);
    if (now >= deadline) {
      return absl::DeadlineExceededError("the lease was not renewed in time for this step");
    }
    std::this_thread::sleep_for(kMoment);
  }
}

absl::StatusOr<Hold> LeasedScheduler::hold(const WorkerName& worker, const std::string& node,
                                           const std::string& reservation, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  if (!until.ok()) return until.status();
  return scheduler_.hold(worker, node, reservation, *until);
}

absl::Status LeasedScheduler::start(const Hold& hold, const WorkerCommand& command,
                                    Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.start(hold, command, *until) : until.status();
}

absl::Status LeasedScheduler::give_back(const WorkerName& worker, const std::string& node,
                                        const std::vector<std::string>& order, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.give_back(worker, node, order, *until) : until.status();
}

absl::Status LeasedScheduler::cancel(const Hold& hold, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.cancel(hold, *until) : until.status();
}

absl::Status LeasedScheduler::extend(const Hold& hold, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.extend(hold, *until) : until.status();
}

absl::Status LeasedScheduler::reserve(const std::string& name,
                                      const std::vector<std::string>& nodes, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.reserve(name, nodes, *until) : until.status();
}

absl::Status LeasedScheduler::unreserve(const std::string& name, Deadline deadline) {
  const absl::StatusOr<Deadline> until = begin(deadline);
  return until.ok() ? scheduler_.unreserve(name, *until) : until.status();
}

}  // namespace monkeytree
