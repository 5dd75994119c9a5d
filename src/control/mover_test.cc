#include "control/mover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "control/fake_scenes.h"
#include "control/fake_world.h"

/// What a single migration does on its way; plan_run_test and its kin try what may come between.
namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class MoverTest : public testing::Test {
 protected:
  MoverTest() : world_(scenes().front().cluster) {
    plan_ = world_.add_plan(scenes().front().rounds);
    world_.kill_at(kForEver);
    world_.on_step = [this](const StepNotice& notice) {
      if (notice.began) steps_.emplace_back(name_of(notice.step));
      if (!notice.began && !notice.outcome.ok()) {
        faults_.emplace_back(notice.outcome.message());
      }
      if (during_) during_(notice);
    };
  }
  Migration run() {
    const FakeWorld::Outcome outcome = world_.run(plan_);
    EXPECT_THAT(world_.faults(outcome.migrations), IsEmpty());
    return outcome.migrations.front();
  }
  std::vector<StepEntry> journaled() const {
    return Journal::open(world_.journal_file())->steps(plan_).value();
  }

  FakeWorld world_;
  int64_t plan_ = 0;
  std::vector<std::string> steps_, faults_;
  std::function<void(const StepNotice&)> during_;
};

TEST_F(MoverTest, goes_through_all_steps) {
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kReleased);
  EXPECT_THAT(steps_,
              ElementsAre("hold", "prepare", "pause", "transfer", "restore", "resume", "release"));
  EXPECT_EQ(done.moves[0].hold, "h1");
  EXPECT_TRUE(done.iteration.has_value());
  EXPECT_EQ(done.reason, "");
  EXPECT_THAT(world_.scheduler().order("A"), ElementsAre("r0n0", "r0n1", "r0n2"));
  for (const StepEntry& step : journaled()) EXPECT_EQ(step.outcome, "OK");
}

TEST_F(MoverTest, tells_a_successor_what_it_is) {
  // FakeWorkers notes a violation where it is not told; here: only once, however often it is tried.
  world_.workers().inject(ExecutorCall::kPrepare, ExecutorFault::kUnavailable);
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kRolledBack);
  EXPECT_EQ(done.reason, "prepare: r0n2: prepare: no answer, as injected");
  EXPECT_THAT(steps_, ElementsAre("hold", "prepare", "roll back"));
  EXPECT_EQ(world_.scheduler().calls(SchedulerCall::kStart), 1);
  EXPECT_EQ(world_.scheduler().calls(SchedulerCall::kCancel), 1);
}

TEST_F(MoverTest, believes_a_hold_only_when_it_reads_it_back) {
  world_.scheduler().inject(SchedulerCall::kBooked, SchedulerFault::kUnavailable);
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kRolledBack);
  EXPECT_THAT(done.reason, HasSubstr("hold: reading the hold back: "));
  EXPECT_EQ(world_.workers().calls(ExecutorCall::kRollBack), 0) << "no worker was told of it";
}

TEST_F(MoverTest, tries_on_after_the_point_of_no_return) {
  world_.workers().inject(ExecutorCall::kResume, ExecutorFault::kUnavailable, 3);
  world_.workers().inject(ExecutorCall::kRelease, ExecutorFault::kHang, 2);
  EXPECT_EQ(run().state, MigrationState::kReleased);
  EXPECT_THAT(steps_, ElementsAre("hold", "prepare", "pause", "transfer", "restore", "resume",
                                  "resume", "resume", "resume", "release", "release", "release"));
  const std::vector<StepEntry> steps = journaled();
  EXPECT_EQ(steps[6].attempt, 2);
  EXPECT_EQ(steps[6].outcome, "UNAVAILABLE: resume: no answer, as injected");
}

TEST_F(MoverTest, tries_to_roll_back_until_it_has) {
  world_.workers().inject(ExecutorCall::kTransfer, ExecutorFault::kDataLoss);
  world_.workers().inject(ExecutorCall::kRollBack, ExecutorFault::kUnavailable, 3);
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kRolledBack);
  EXPECT_THAT(done.reason, HasSubstr("a checksum does not hold"));
  EXPECT_EQ(world_.workers().calls(ExecutorCall::kRollBack), 4);
}

TEST_F(MoverTest, gives_up_while_it_can) {
  during_ = [&](const StepNotice& notice) {
    if (notice.began && notice.step == Step::kTransfer) world_.give_up();
  };
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kRolledBack);
  EXPECT_EQ(done.reason, "cancelled");
  EXPECT_EQ(steps_.back(), "roll back");
}

TEST_F(MoverTest, does_not_give_up_what_has_been_restored) {
  during_ = [&](const StepNotice& notice) {
    if (!notice.began && notice.step == Step::kRestore) world_.give_up();
  };
  EXPECT_EQ(run().state, MigrationState::kReleased);
}

TEST_F(MoverTest, does_nothing_that_is_not_written_down) {
  during_ = [&](const StepNotice& notice) {
    if (!notice.began && notice.step == Step::kPrepare && notice.outcome.ok()) {
      world_.refuse_writes(4);
    }
  };
  EXPECT_EQ(run().state, MigrationState::kReleased);
  EXPECT_EQ(std::count(steps_.begin(), steps_.end(), "pause"), 1);
  EXPECT_EQ(std::count_if(faults_.begin(), faults_.end(),
                          [](const std::string& fault) { return fault.starts_with("journal: "); }),
            4);
}

TEST_F(MoverTest, abandons_a_job_that_has_ended) {
  during_ = [&](const StepNotice& notice) {
    if (notice.began && notice.step == Step::kPause) world_.end_job("A");
  };
  const Migration done = run();
  EXPECT_EQ(done.state, MigrationState::kAbandoned);
  EXPECT_EQ(done.reason, "the job has ended");
  EXPECT_EQ(steps_.back(), "abandon");
}

TEST_F(MoverTest, moves_no_worker_of_a_job_that_would_be_left_without_a_node) {
  const Snapshot cluster = drawn_cluster({"A.", "A."}, 0);
  FakeWorld world(cluster);
  const GroupId group = cluster.jobs[JobId(0)].first_group;
  const Round unload = {{group, 0, NodeId(0), kStaging}, {group, 1, NodeId(2), kStaging}};
  const Round load = {{group, 0, kStaging, NodeId(1)}, {group, 1, kStaging, NodeId(0)}};
  const FakeWorld::Outcome outcome = world.run(world.add_plan({unload, load}));
  EXPECT_THAT(outcome.migrations.front().reason, HasSubstr("would have no node"));
  EXPECT_EQ(world.workers().calls(ExecutorCall::kPause), 0);
  EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
}

TEST(Patience, ends_at_once_when_asked_to_stop) {
  StepLimits limits;
  limits.first_retry = std::chrono::hours(1);
  std::stop_source stop;
  Patience patience(limits);
  std::jthread asks([&] { stop.request_stop(); });
  EXPECT_FALSE(patience.wait(stop.get_token()));
  EXPECT_FALSE(patience.wait(stop.get_token()));
}

}  // namespace
}  // namespace monkeytree
