// Two controllers beside a real Slurm and a real etcd. The one that leads is killed at each state
// of a move; the other ends it, or undoes it and moves anew: no worker is lost or runs twice, and
// Slurm's books are as the racks are.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "base/eventually.h"
#include "etcd_server.h"
#include "live_system.h"
#include "shared_keys.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

/// MONKEYTREE_LEADER_STATES=all: every state; otherwise those that differ most in what is undone.
std::vector<std::string> states() {
  if (std::getenv("MONKEYTREE_LEADER_STATES") != nullptr) {
    return {"planned", "held", "prepared", "paused", "transferred", "restored", "resumed"};
  }
  return {"held", "paused", "restored"};
}

class LeaderTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    if (const std::string why = EtcdServer::missing(); !why.empty()) GTEST_SKIP() << why;
    etcd_ = std::make_unique<EtcdServer>();
    shared_ = std::make_unique<SharedKeys>(etcd_->endpoint());
    LiveSystem::Options options;
    options.uplinks = std::to_string(kGpusPerNode);  // a worker has as many rings
    options.etcd = etcd_->endpoint();
    live_ = std::make_unique<LiveSystem>(options);
  }

  std::unique_ptr<EtcdServer> etcd_;
  std::unique_ptr<SharedKeys> shared_;
  std::unique_ptr<LiveSystem> live_;
};

TEST_F(LeaderTest, KilledAtEachStateOfAMove) {
  size_t leader = live_->await_leader();
  for (const std::string& state : states()) {
    // Two jobs across racks whose uplinks are enough for one: one move mends it.
    constexpr int kIterations = 100000;
    const std::vector<std::string> jobs = {live_->submit({"r0n0", "r1n0"}, kIterations),
                                           live_->submit({"r0n1", "r1n1"}, kIterations)};
    // A state may be too short to be seen: then the next one that is.
    std::string seen;
    ASSERT_TRUE(eventually([&] {
      live_->notify();
      seen = shared_->state_under_way();
      return seen == state || (seen.empty() && live_->excess() == 0);
    })) << state;
    live_->kill_controller(leader);
    const Clock::time_point killed = Clock::now();
    const size_t other = live_->await_leader(leader);
    fmt::print("killed at {}: seen {}, the other led after {:.1f} s\n", state, seen,
               std::chrono::duration<double>(Clock::now() - killed).count());
    live_->start_controller(leader);
    leader = other;

    EXPECT_TRUE(eventually([&] {
      live_->notify();
      return shared_->count("plans/") == 0 && live_->excess() == 0;
    })) << state;
    EXPECT_EQ(shared_->count("migrations/"), 0U) << state;
    for (const std::string& job : jobs) {
      const int64_t then = live_->iterations(job, 2);
      EXPECT_TRUE(eventually([&] { return live_->iterations(job, 2) > then + 5; }))
          << state << ": job " << job << " does not go on";
      EXPECT_EQ(live_->booked_nodes(job), 2U) << state;
      EXPECT_EQ(live_->check_logs(job, 2), "") << state;
    }
    EXPECT_EQ(live_->double_booked(), "") << state;
    for (const std::string& job : jobs) live_->slurm().try_run({"scancel", job});
    EXPECT_TRUE(eventually([&] {
      live_->notify();
      return live_->slurm().not_idle().empty();
    })) << state
        << ": nodes are still held";
  }
}

}  // namespace
}  // namespace monkeytree
