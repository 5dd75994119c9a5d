#include "control/leased_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "control/fake_leadership.h"
#include "inventory/emulated_scheduler.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::HasSubstr;

LeadershipView leads_for(milliseconds left) {
  LeadershipView view;
  view.leads = true;
  view.name = "a";
  view.left = left;
  return view;
}

class LeasedSchedulerTest : public testing::Test {
 protected:
  absl::Status reserve_under(const LeadershipView& view, milliseconds within) {
    FakeLeadership lease;
    lease.now = view;
    LeasedScheduler leased(cluster_, lease);
    return leased.reserve("r", {"r0n0"}, steady_clock::now() + within);
  }

  EmulatedScheduler cluster_{uniform_cluster(2, 2, 8, 2)};
};

TEST_F(LeasedSchedulerTest, SaysOfItselfWhatItsSchedulerDoes) {
  const FakeLeadership lease;
  for (const bool replaces : {false, true}) {
    cluster_.set_replaces_workers(replaces);
    const LeasedScheduler leased(cluster_, lease);
    EXPECT_EQ(leased.replaces_workers(), replaces);
    EXPECT_EQ(leased.describe(), cluster_.describe());
  }
  cluster_.set_read_only("no rights");
  EXPECT_EQ(LeasedScheduler(cluster_, lease).why_read_only(), "no rights");
}

TEST_F(LeasedSchedulerTest, TheLeaderChanges) {
  const absl::Status status = reserve_under(leads_for(milliseconds(60'000)), milliseconds(60'000));
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(cluster_.calls(SchedulerCall::kReserve), 1);
}

TEST_F(LeasedSchedulerTest, WhoDoesNotLeadChangesNothingAndSaysWhoDoes) {
  LeadershipView view;
  view.name = "a";
  view.leader = "b";
  view.address = "10.0.0.2:7460";
  const absl::Status status = reserve_under(view, milliseconds(60'000));
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("b at 10.0.0.2:7460"));
  EXPECT_EQ(cluster_.calls(SchedulerCall::kReserve), 0);
}

TEST_F(LeasedSchedulerTest, NoChangeBeginsThatMayOutlastTheLease) {
  const absl::Status status = reserve_under(leads_for(milliseconds(1000)), milliseconds(50));
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_EQ(cluster_.calls(SchedulerCall::kReserve), 0);
}

}  // namespace
}  // namespace monkeytree
