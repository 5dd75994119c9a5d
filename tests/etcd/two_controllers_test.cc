// Two controllers, a real etcd, the program's agents and stand-in workers around an emulated
// cluster: whatever becomes of the one that leads, the other ends what was under way, and no worker
// runs twice or is lost.

#include "two_controllers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <chrono>
#include <thread>

#include "base/eventually.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;
using Clock = std::chrono::steady_clock;

class TwoControllersTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = EtcdServer::missing(); !why.empty()) GTEST_SKIP() << why;
  }
  /// The racks are within their bounds, nothing is under way or held, and all jobs go on.
  static void expect_mended(TwoControllers& two, const std::string& when) {
    ASSERT_TRUE(eventually([&] { return two.all_within() && two.shared().count("plans/") == 0; }))
        << when;
    for (const std::string& job : two.jobs()) {
      for (int w = 0; w < 2; ++w) {
        const int64_t now = two.iterations(job, w);
        EXPECT_TRUE(eventually([&] { return two.iterations(job, w) > now + 5; }))
            << when << ": job " << job << ", worker " << w;
      }
    }
    EXPECT_EQ(two.wrong_with_logs(), "") << when;
    EXPECT_EQ(two.cluster().inconsistency(), "") << when;
    EXPECT_EQ(two.shared().count("migrations/"), 0U) << when;
    // The books have a node for each worker and no more.
    for (const std::string& job : two.jobs()) {
      const auto booked = two.cluster().booked(job, Clock::now() + std::chrono::seconds(60));
      ASSERT_TRUE(booked.ok());
      EXPECT_EQ(booked->size(), 2U) << when;
    }
  }
};

TEST_F(TwoControllersTest, TheLeaderIsKilledAtEachStateOfAMove) {
  TwoControllers two;
  size_t leader = two.await_leader();
  for (const char* state :
       {"planned", "held", "prepared", "paused", "transferred", "restored", "resumed"}) {
    two.collide(8 << 20);
    // A state may be too short to be seen: then the next one that is.
    std::string seen;
    ASSERT_TRUE(eventually([&] {
      seen = two.shared().state_under_way();
      return seen == state || two.all_within();
    }));
    two.signal(leader, SIGKILL);
    const Clock::time_point killed = Clock::now();
    const size_t other = two.await_leader(leader);
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - killed);
    std::printf("killed at %s: seen %s, the other led after %lld ms\n", state, seen.c_str(),
                static_cast<long long>(took.count()));
    EXPECT_NE(other, leader);
    two.start(leader);
    expect_mended(two, state);
    EXPECT_LE(two.moved(), 2) << state;  // undone and made again, at the most
    two.end_jobs();
    leader = other;
  }
  // What became of a plan both know, whoever began it: budgets and history go on. One that was
  // killed before it had told of its plan has done nothing.
  const std::string plans = two.get(leader, "/api/v1/plans");
  EXPECT_THAT(plans, HasSubstr("\"id\":2,"));
  EXPECT_THAT(plans, Not(HasSubstr("while another controller led")));
}

TEST_F(TwoControllersTest, TheStandbyServesReadsAndNamesTheLeader) {
  TwoControllers::Settings settings;
  settings.mode = "recommend";
  TwoControllers two(settings);
  const size_t leader = two.await_leader(), standby = 1 - leader;
  ASSERT_TRUE(eventually([&] {
    return two.get(standby, "/api/v1/status").find(fmt::format("\"leader\":\"c{}\"", leader)) !=
           std::string::npos;
  }));
  two.collide();
  ASSERT_TRUE(eventually([&] {
    return two.get(leader, "/api/v1/plans").find("waiting") != std::string::npos;
  })) << two.get(leader, "/api/v1/status");
  EXPECT_TRUE(eventually([&] {
    return two.get(standby, "/api/v1/fragmentation").find("\"over\":true") != std::string::npos;
  }));
  EXPECT_THAT(two.get(standby, "/metrics"), HasSubstr("monkeytree_leads 0"));
  EXPECT_THAT(two.get(leader, "/metrics"), HasSubstr("monkeytree_leads 1"));
  for (const char* call : {"plans/1/approve", "plans/1/cancel", "pause", "resume"}) {
    const auto [status, body] = two.post(standby, std::string("/api/v1/") + call);
    EXPECT_EQ(status, 409) << call;
    EXPECT_THAT(body, HasSubstr(fmt::format("c{} at 127.0.0.1:", leader))) << call;
  }
  // The kill switch is the same for whoever leads.
  EXPECT_EQ(two.post(leader, "/api/v1/pause").first, 200);
  two.signal(leader, SIGTERM);
  EXPECT_EQ(two.await_leader(leader), standby);
  EXPECT_TRUE(eventually([&] {
    return two.get(standby, "/api/v1/status").find("\"paused\":true") != std::string::npos;
  }));
  EXPECT_EQ(two.post(standby, "/api/v1/resume").first, 200);
}

TEST_F(TwoControllersTest, ALeaderThatIsCutOffFromEtcdStopsAndTheOtherGoesOn) {
  TwoControllers::Settings settings;
  settings.by_wires = true;
  TwoControllers two(settings);
  const size_t leader = two.await_leader();
  two.collide(8 << 20);
  ASSERT_TRUE(
      eventually([&] { return !two.shared().state_under_way().empty() || two.all_within(); }));
  two.wire(leader).cut(true);
  EXPECT_EQ(two.await_leader(leader), 1 - leader);
  expect_mended(two, "cut off");
  // It still looks, and says what is the matter.
  EXPECT_TRUE(eventually([&] {
    return two.get(leader, "/api/v1/status").find("does not answer") != std::string::npos;
  }));
  EXPECT_THAT(two.get(leader, "/api/v1/snapshot"), HasSubstr("r0n0"));
  two.wire(leader).cut(false);
  EXPECT_TRUE(eventually([&] {
    return two.get(leader, "/api/v1/status").find("\"trouble\":\"\"}") != std::string::npos;
  }));
  EXPECT_EQ(two.leader(), 1 - leader);
}

TEST_F(TwoControllersTest, ALeaderThatStoodStillDoesNothingWhenItGoesOn) {
  TwoControllers two;
  const size_t leader = two.await_leader();
  two.collide(8 << 20);
  ASSERT_TRUE(
      eventually([&] { return !two.shared().state_under_way().empty() || two.all_within(); }));
  two.signal(leader, SIGSTOP);
  EXPECT_EQ(two.await_leader(leader), 1 - leader);
  expect_mended(two, "stood still");
  two.signal(leader, SIGCONT);
  EXPECT_TRUE(eventually([&] {
    return two.get(leader, "/api/v1/status").find("\"leads\":false") != std::string::npos;
  }));
  EXPECT_EQ(two.leader(), 1 - leader);
  expect_mended(two, "went on");
}

TEST_F(TwoControllersTest, WithoutEtcdNobodyActsAndAllGoesOnWhenItIsBack) {
  TwoControllers two;
  two.await_leader();
  two.etcd().kill();
  ASSERT_TRUE(eventually([&] { return !two.leader(); }));
  two.collide();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(two.all_within());
    std::this_thread::sleep_for(milliseconds(50));
  }
  EXPECT_THAT(two.get(0, "/api/v1/fragmentation"), HasSubstr("\"over\":true"));
  EXPECT_THAT(two.post(0, "/api/v1/pause").second, HasSubstr("etcd"));
  two.etcd().start();
  expect_mended(two, "etcd is back");
}

}  // namespace
}  // namespace monkeytree
