#pragma once

#include <algorithm>
#include <string>

#include "control/leadership.h"

namespace monkeytree {

/// For tests of one thread: leads as the test says, over books that lie in memory.
class FakeLeadership final : public Leadership {
 public:
  LeadershipView view() const override { return now; }
  std::chrono::milliseconds longest_step() const override { return std::chrono::seconds(1); }

  absl::StatusOr<SharedBooks> read() override { return books; }
  absl::Status set_last_plan(int64_t plan) override {
    books.last_plan = plan;
    return absl::OkStatus();
  }
  absl::Status put_plan(const PlanEntry& plan, std::string_view cancelled_by) override {
    forget_running(plan.id);
    books.running.push_back({plan, std::string(cancelled_by), {}});
    return absl::OkStatus();
  }
  absl::Status put_migration(const Migration& /*migration*/) override { return absl::OkStatus(); }
  absl::Status end_plan(const SharedPlan& plan, int64_t /*forget*/) override {
    forget_running(plan.entry.id);
    books.ended.push_back(plan);
    return absl::OkStatus();
  }
  absl::Status set_paused(std::string_view why) override {
    books.paused = why;
    return absl::OkStatus();
  }

  LeadershipView now;
  SharedBooks books;

 private:
  void forget_running(int64_t plan) {
    std::erase_if(books.running, [&](const SharedPlan& one) { return one.entry.id == plan; });
  }
};

}  // namespace monkeytree
