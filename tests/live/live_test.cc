// The whole live system beside a real Slurm: controller, agents, training jobs, all as processes.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "base/eventually.h"
#include "live_system.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

constexpr SlurmFlavour kFlavour = SlurmFlavour::MONKEYTREE_SLURM_FLAVOUR;
/// A worker has eight rings where a job says that it has eight GPUs a node.
constexpr int kUplinks = kFlavour == SlurmFlavour::kCompanion ? kGpusPerNode : 1;
constexpr int kIterations = 1500;

class LiveTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
  }
  LiveSystem& start(const std::string& mode, const std::string& more = "") {
    LiveSystem::Options options;
    options.slurm.flavour = kFlavour;
    options.mode = mode;
    options.uplinks = std::to_string(kUplinks);
    options.more = more;
    live_ = std::make_unique<LiveSystem>(options);
    return *live_;
  }
  /// Two jobs across racks 0 and 1, whose uplinks are enough for one: one move mends it.
  void collide(int iterations) {
    jobs_ = {live_->submit({"r0n0", "r1n0"}, iterations),
             live_->submit({"r0n1", "r1n1"}, iterations)};
    for (const std::string& job : jobs_) {
      ASSERT_TRUE(eventually([&] { return live_->iterations(job, 2) > 2; })) << live_->logs();
    }
  }
  /// All jobs have ended well, and nothing is left of them.
  void expect_clean_end(int iterations) {
    for (const std::string& job : jobs_) {
      EXPECT_TRUE(eventually([&] { return live_->iterations(job, 2) == iterations; }))
          << live_->iterations(job, 2);
      live_->slurm().try_run({"scancel", job});  // its launcher is done
      EXPECT_EQ(live_->check_logs(job, 2, iterations), "");
    }
    EXPECT_EQ(live_->double_booked(), "");
    live_->notify();
    EXPECT_TRUE(eventually([&] { return live_->slurm().not_idle().empty(); }))
        << live_->slurm().run({"squeue", "--format=%i %j %T %N %k"});
  }
  int moved() {
    int moved = 0;
    for (const std::string& job : jobs_) {
      for (int w = 0; w < 2; ++w) moved += live_->places(job, w) > 1;
    }
    return moved;
  }

  std::unique_ptr<LiveSystem> live_;
  std::vector<std::string> jobs_;
};

TEST_F(LiveTest, EnforceMendsTheRacksAndTheJobsGoOn) {
  LiveSystem& live = start("enforce");
  collide(kIterations);
  EXPECT_TRUE(eventually([&] {
    live.notify();
    return live.excess() == 0;
  })) << live.get("/api/v1/plans");
  EXPECT_TRUE(eventually([&] { return live.number("/api/v1/plans", "/plans/0/moves", 0) == 1; }));
  expect_clean_end(kIterations);
  EXPECT_EQ(moved(), 1);
  // A second look at the explanation: why, and how it went.
  const std::string plan = live.get("/api/v1/plans/1");
  EXPECT_THAT(plan, testing::HasSubstr("\"done\""));
  EXPECT_THAT(plan, testing::HasSubstr("released"));
}

TEST_F(LiveTest, ObserveLeavesSlurmAsItIs) {
  LiveSystem& live = start("observe");
  collide(100000);
  const auto look = [&] {
    return live.slurm().run({"scontrol", "--oneliner", "show", "job"}) +
           live.slurm().run({"scontrol", "--oneliner", "show", "node"}) +
           live.slurm().run({"scontrol", "--oneliner", "show", "reservation"});
  };
  // What changes by itself: run times and load.
  const auto settled = [&](std::string text) {
    for (const char* word : {"RunTime=", "CPULoad=", "FreeMem=", "LastBusyTime="}) {
      for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
        text.erase(at, text.find_first_of(" \n", at) - at);
      }
    }
    return text;
  };
  // The database hears of the jobs and their steps a little later.
  EXPECT_TRUE(eventually([&] {
    const std::string steps = live.slurm().run(
        {"sacct", "--allusers", "--noheader", "--parsable2", "--format=JobID", "--state=RUNNING"});
    return std::count(steps.begin(), steps.end(), '\n') == 4;  // two jobs with a step each
  }));
  std::string rows = live.database();
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::seconds(2));
    const std::string before = std::exchange(rows, live.database());
    return before == rows;
  }));
  const std::string before = settled(look());
  EXPECT_TRUE(eventually([&] {
    live.notify();
    return live.number("/api/v1/plans", "/plans/0/moves", 0) == 1;
  })) << live.get("/api/v1/status");
  for (int i = 0; i < 20; ++i) {
    live.notify();
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_EQ(settled(look()), before);
  EXPECT_EQ(live.database(), rows);
  EXPECT_EQ(live.excess(), 2 * kUplinks);
}

TEST_F(LiveTest, AControllerThatIsKilledGoesOnFromItsJournal) {
  LiveSystem& live = start("enforce");
  collide(kIterations);
  // Kill it again and again, a little later each time.
  for (int i = 0; i < 12 && live.excess() > 0; ++i) {
    live.notify();
    std::this_thread::sleep_for(milliseconds(100 * i));
    live.kill_controller();
    live.start_controller();
  }
  EXPECT_TRUE(eventually([&] { return live.excess() == 0; }));
  expect_clean_end(kIterations);
}

TEST_F(LiveTest, AnAgentThatIsKilledComesBackAndNothingIsLost) {
  LiveSystem& live = start("enforce");
  collide(kIterations);
  for (int i = 0; i < 4; ++i) {
    live.notify();
    for (const char* node : {"r0n0", "r1n0", "r0n1", "r1n1"}) {
      live.kill_agent(node);
      live.start_agent(node);
    }
  }
  EXPECT_TRUE(eventually([&] { return live.excess() == 0; })) << live.get("/api/v1/plans");
  expect_clean_end(kIterations);
}

}  // namespace
}  // namespace monkeytree
