// Elections and fenced writes with a real etcd.

#include "election/election.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/eventually.h"
#include "election/fenced_store.h"
#include "etcd_server.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLease{2};  // etcd's shortest

/// One controller's part.
struct Candidate {
  Candidate(const std::string& endpoint, std::string name,
            std::function<Candidacy::Time()> clock = lease_clock)
      : etcd(*Etcd::open({{endpoint}, {}})) {
    ElectionSettings settings;
    settings.name = std::move(name);
    settings.address = [at = settings.name + ":7460"] { return at; };
    settings.lease = kLease;
    settings.clock = std::move(clock);
    election = std::make_unique<Election>(*etcd, settings, [this] { ++changes; });
    store = std::make_unique<FencedStore>(*etcd, *election);
    election->start();
  }
  bool leads() const { return election->token() != 0; }

  std::atomic<int> changes = 0;
  std::unique_ptr<Etcd> etcd;
  std::unique_ptr<Election> election;
  std::unique_ptr<FencedStore> store;
};

class ElectionTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = EtcdServer::missing(); !why.empty()) GTEST_SKIP() << why;
    server_ = std::make_unique<EtcdServer>();
  }
  std::unique_ptr<Candidate> candidate(const std::string& name) const {
    return std::make_unique<Candidate>(server_->endpoint(), name);
  }
  /// What an outsider reads.
  std::string value(const std::string& key) const {
    const auto etcd = Etcd::open({{server_->endpoint()}, {}});
    const auto pairs = (*etcd)->read({key, ""}, milliseconds(60'000));
    return pairs.ok() && !pairs->empty() ? pairs->front().value : "";
  }

  std::unique_ptr<EtcdServer> server_;
};

TEST_F(ElectionTest, OneLeadsAndTheOtherKnowsWho) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  const auto b = candidate("b");
  EXPECT_TRUE(eventually([&] { return b->election->view().leader.name == "a"; }));
  EXPECT_EQ(b->election->view().leader.address, "a:7460");
  EXPECT_FALSE(b->leads());
  EXPECT_EQ(b->election->view().leader.token, a->election->token());
  // It goes on for several leases.
  const int64_t token = a->election->token();
  std::this_thread::sleep_for(2 * kLease);
  EXPECT_EQ(a->election->token(), token);
  EXPECT_EQ(a->election->view().term, 1U);
}

TEST_F(ElectionTest, WhoResignsIsFollowedAtOnceByAHigherToken) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  const int64_t token = a->election->token();
  const auto b = candidate("b");
  a->election->resign();
  EXPECT_FALSE(a->leads());
  ASSERT_TRUE(eventually([&] { return b->leads(); }));
  EXPECT_GT(b->election->token(), token);
}

TEST_F(ElectionTest, WhoIsGoneIsFollowedWhenTheLeaseHasEnded) {
  auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  const auto b = candidate("b");
  const int64_t token = a->election->token();
  a.reset();
  ASSERT_TRUE(eventually([&] { return b->leads(); }));
  EXPECT_GT(b->election->token(), token);
}

TEST_F(ElectionTest, AnEtcdThatStallsEndsTheLeadBeforeTheLeaseAndLaterSomebodyLeads) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  server_->stall();
  const auto since = Clock::now();
  EXPECT_TRUE(eventually([&] { return !a->leads(); }));
  EXPECT_LT(Clock::now() - since, kLease);
  EXPECT_TRUE(eventually([&] { return !a->election->view().trouble.empty(); }));
  EXPECT_FALSE(a->store->put("x", "1").ok());
  server_->go_on();
  EXPECT_TRUE(eventually([&] { return a->leads() && a->election->view().trouble.empty(); }));
  EXPECT_EQ(a->election->view().term, 2U);
  EXPECT_TRUE(a->store->put("x", "1").ok());
}

TEST_F(ElectionTest, AnEtcdThatIsKilledAndComesBackIsUsedAgain) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  ASSERT_TRUE(a->store->put("x", "1").ok());
  server_->kill();
  EXPECT_TRUE(eventually([&] { return !a->leads(); }));
  EXPECT_THAT(a->election->view().trouble, testing::HasSubstr("does not answer"));
  server_->start();
  EXPECT_TRUE(eventually([&] { return a->leads(); }));
  EXPECT_TRUE(a->store->put("x", "2").ok());
  EXPECT_EQ(value("/monkeytree/x"), "2");
}

TEST_F(ElectionTest, WhoIsCutOffLeadsNoMoreBeforeTheOtherDoes) {
  Wire wire(server_->port());
  Candidate a(wire.endpoint(), "a");
  ASSERT_TRUE(eventually([&] { return a.leads(); }));
  const auto b = candidate("b");
  ASSERT_TRUE(eventually([&] { return b->election->view().leader.name == "a"; }));
  std::atomic<bool> stop = false, both = false;
  std::thread watch([&] {
    while (!stop) both = both || (b->leads() && a.leads());
  });
  wire.cut(true);
  EXPECT_TRUE(eventually([&] { return b->leads(); }));
  wire.cut(false);
  EXPECT_TRUE(eventually([&] { return a.election->view().leader.name == "b"; }));
  stop = true;
  watch.join();
  EXPECT_FALSE(both);
  EXPECT_TRUE(b->leads());
}

TEST_F(ElectionTest, WhoBelievesToLeadStillWritesNothing) {
  // Its clock stands still: it never notices that its lease is over.
  const Candidacy::Time start = lease_clock();
  std::atomic<bool> frozen = false;
  Wire wire(server_->port());
  std::atomic<int64_t> frozen_at = 0;
  const auto clock = [&] {
    if (frozen) return Candidacy::Time(frozen_at.load());
    return lease_clock();
  };
  Candidate a(wire.endpoint(), "a", clock);
  ASSERT_TRUE(eventually([&] { return a.leads(); }));
  ASSERT_TRUE(a.store->put("x", "of a").ok());
  const int64_t token = a.election->token();
  frozen_at = lease_clock().count();
  frozen = true;
  wire.cut(true);
  const auto b = candidate("b");
  ASSERT_TRUE(eventually([&] { return b->leads(); }));
  ASSERT_TRUE(b->store->read("").ok());
  ASSERT_TRUE(b->store->put("x", "of b").ok());
  EXPECT_EQ(a.election->token(), token);  // it believes
  wire.cut(false);
  const absl::Status refused = a.store->put("x", "of a again");
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_FALSE(a.store->exchange({a.store->under("")}, {{"y", "z"}}).ok());
  EXPECT_EQ(value("/monkeytree/x"), "of b");
  EXPECT_EQ(value("/monkeytree/y"), "");
  EXPECT_EQ(a.election->token(), 0);  // now it knows
  frozen = false;
  EXPECT_GT(lease_clock(), start);
}

TEST_F(ElectionTest, AWriteThatComesLateUndoesNoLaterOne) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  ASSERT_TRUE(a->store->put("m", "1").ok());
  ASSERT_TRUE(a->store->put("m", "2").ok());
  // As the first would be if it had been on its way until now.
  EtcdChange late;
  late.where = {{a->election->leader_key(), EtcdChange::Revision::kCreated, a->election->token()},
                {"/monkeytree/m", EtcdChange::Revision::kModified, 0}};
  late.puts = {{"/monkeytree/m", "1"}};
  const auto outcome = a->etcd->change(late, milliseconds(60'000));
  ASSERT_TRUE(outcome.ok());
  EXPECT_FALSE(outcome->done);
  EXPECT_EQ(value("/monkeytree/m"), "2");
  // What another process of the same leader had written is taken up by reading.
  const auto pairs = a->store->read("");
  ASSERT_TRUE(pairs.ok());
  EXPECT_TRUE(a->store->put("m", "3").ok());
}

TEST_F(ElectionTest, ALeadersKeyThatSomebodyRemovesIsNoticed) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  const int64_t token = a->election->token();
  EtcdChange change;
  change.removals = {{"/monkeytree/leader", ""}};
  ASSERT_TRUE(a->etcd->change(change, milliseconds(60'000)).ok());
  EXPECT_FALSE(a->store->put("x", "1").ok());
  EXPECT_TRUE(eventually([&] { return a->election->token() > token; }));
  EXPECT_TRUE(a->store->put("x", "1").ok());
}

TEST_F(ElectionTest, ManyKeysAreReadInPages) {
  const auto a = candidate("a");
  ASSERT_TRUE(eventually([&] { return a->leads(); }));
  for (int i = 0; i < 11; ++i) {
    std::vector<std::pair<std::string, std::string>> puts;
    for (int j = 0; j < 100; ++j)
      puts.emplace_back("many/" + std::to_string(1000 + 100 * i + j), "v");
    ASSERT_TRUE(a->store->exchange({}, puts).ok());
  }
  const auto pairs = a->store->read("many/");
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  ASSERT_EQ(pairs->size(), 1100U);
  EXPECT_EQ(pairs->front().key, "many/1000");
  EXPECT_EQ(pairs->back().key, "many/2099");
}

TEST_F(ElectionTest, TheOtherEndpointIsAskedWhereOneIsCutOff) {
  Wire wire(server_->port());
  auto etcd = Etcd::open({{wire.endpoint(), server_->endpoint()}, {}});
  wire.cut(true);
  EXPECT_TRUE((*etcd)->grant(kLease, milliseconds(2000)).ok());
  const auto since = Clock::now();
  EXPECT_TRUE((*etcd)->grant(kLease, milliseconds(20'000)).ok());  // now asked first
  EXPECT_LT(Clock::now() - since, milliseconds(9000));
}

TEST_F(ElectionTest, LeasesThatAreNotThere) {
  auto etcd = Etcd::open({{server_->endpoint()}, {}});
  const auto left = (*etcd)->keep_alive(4711, milliseconds(10'000));
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_EQ(left->count(), 0);
  EXPECT_TRUE((*etcd)->revoke(4711, milliseconds(10'000)).ok());
}

}  // namespace
}  // namespace monkeytree
