#include "election/candidacy.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

namespace monkeytree {
namespace {

using Time = Candidacy::Time;
using Act = Candidacy::Act;

constexpr Time kLease{8000};

Leader ours(int64_t lease, int64_t token) { return {"a", "a:7460", lease, token}; }

TEST(Candidacy, AsksForALeaseThenForTheLead) {
  Candidacy candidacy(kLease);
  EXPECT_EQ(candidacy.next().act, Act::kGrant);
  candidacy.granted(5, kLease, Time(100), Time(130));
  EXPECT_EQ(candidacy.next().act, Act::kCampaign);
  EXPECT_EQ(candidacy.token(Time(130)), 0);
  candidacy.found(ours(5, 77), Time(130), Time(150));
  EXPECT_EQ(candidacy.token(Time(150)), 77);
  EXPECT_EQ(candidacy.term(), 1U);
  // The lease is counted from the question, less the margin.
  EXPECT_EQ(candidacy.left(Time(150)), Time(100 + 8000 - 1000 - 150));
  EXPECT_EQ(candidacy.next().act, Act::kKeepAlive);
  EXPECT_EQ(candidacy.next().when, Time(2100));
}

TEST(Candidacy, WithoutAnswersItStopsBeforeTheLeaseEnds) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, kLease, Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  candidacy.failed(Act::kKeepAlive, Time(2100));
  EXPECT_EQ(candidacy.token(Time(6999)), 77);
  EXPECT_EQ(candidacy.token(Time(7000)), 0);
  EXPECT_EQ(candidacy.left(Time(7000)), Time(0));
}

TEST(Candidacy, ALeaseThatProvesToLiveAfterAllIsANewTerm) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, kLease, Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  // Asked in time, answered late: it did not lead for a moment.
  candidacy.kept(kLease, Time(6900), Time(7100));
  EXPECT_EQ(candidacy.token(Time(7100)), 0);
  candidacy.found(ours(5, 77), Time(7100), Time(7200));
  EXPECT_EQ(candidacy.token(Time(7200)), 77);
  EXPECT_EQ(candidacy.term(), 2U);
}

TEST(Candidacy, ALeaseThatIsGoneIsAskedForAnew) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, kLease, Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  candidacy.kept(Time(0), Time(2000), Time(2001));
  EXPECT_EQ(candidacy.token(Time(2001)), 0);
  EXPECT_EQ(candidacy.next().act, Act::kGrant);
  candidacy.granted(6, kLease, Time(2001), Time(2002));
  candidacy.found({"b", "b:7460", 9, 80}, Time(2002), Time(2003));
  EXPECT_EQ(candidacy.token(Time(2003)), 0);
  EXPECT_EQ(candidacy.leader().name, "b");
  EXPECT_EQ(candidacy.next().act, Act::kCampaign);
}

TEST(Candidacy, ALongerLeaseThanAskedForCountsAsAskedFor) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, Time(60'000), Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  EXPECT_EQ(candidacy.left(Time(0)), Time(7000));
}

TEST(Candidacy, WhoIsDisownedLeadsNoMoreAndLooksAtOnce) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, kLease, Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  candidacy.disowned(76, Time(10));  // of an earlier term
  EXPECT_EQ(candidacy.token(Time(10)), 77);
  candidacy.disowned(77, Time(10));
  EXPECT_EQ(candidacy.token(Time(10)), 0);
  EXPECT_EQ(candidacy.next().act, Act::kCampaign);
  EXPECT_EQ(candidacy.next().when, Time(10));
}

TEST(Candidacy, WhoHasResignedLeavesTheLeadToOthers) {
  Candidacy candidacy(kLease);
  candidacy.granted(5, kLease, Time(0), Time(0));
  candidacy.found(ours(5, 77), Time(0), Time(0));
  candidacy.resigned(Time(50));
  EXPECT_EQ(candidacy.token(Time(50)), 0);
  EXPECT_EQ(candidacy.next().act, Act::kGrant);
  EXPECT_GE(candidacy.next().when, Time(50) + kLease);
}

/// Three candidates and an etcd whose answers take long, get lost, or both: never do two lead at a
/// time, and while all goes well somebody does.
TEST(Candidacy, NeverDoTwoLeadAtATime) {
  struct Store {
    Time now{0};
    std::map<int64_t, Time> leases;  // → when each ends
    int64_t last = 0, revision = 0;
    Leader leader;
    void tick(Time to) {
      now = to;
      for (auto it = leases.begin(); it != leases.end();) {
        if (it->second <= now) {
          if (leader.lease == it->first) leader = {};
          it = leases.erase(it);
        } else {
          ++it;
        }
      }
    }
  };
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const auto draw = [&](int most) {
      return Time(static_cast<int64_t>(random() % static_cast<uint32_t>(most)));
    };
    Store store;
    std::vector<Candidacy> all(3, Candidacy(kLease));
    std::vector<Time> busy(3, Time(0));
    int64_t led = 0;
    const Time end(200'000);
    for (Time now(0); now < end; now += Time(10)) {
      const bool well = now > Time(100'000);
      for (size_t i = 0; i < all.size(); ++i) {
        Candidacy& one = all[i];
        if (now < busy[i] || now < one.next().when) continue;
        const Act act = one.next().act;
        const Time asked = now;
        const Time there = now + draw(well ? 20 : 3000), back = there + draw(well ? 20 : 3000);
        store.tick(std::max(there, store.now));
        busy[i] = back;
        const bool heard = well || random() % 4 != 0, answered = well || random() % 4 != 0;
        if (act == Act::kGrant) {
          if (heard) store.leases[++store.last] = store.now + kLease;
          if (heard && answered) {
            one.granted(store.last, kLease, asked, back);
          } else {
            one.failed(act, back);
          }
        } else if (act == Act::kKeepAlive) {
          const auto lease = store.leases.find(one.lease());
          if (heard && lease != store.leases.end()) lease->second = store.now + kLease;
          if (heard && answered) {
            one.kept(lease == store.leases.end() ? Time(0) : kLease, asked, back);
          } else {
            one.failed(act, back);
          }
        } else {
          if (heard && store.leader.lease == 0 && store.leases.contains(one.lease())) {
            store.leader = {std::to_string(i), "", one.lease(), ++store.revision};
          }
          if (heard && answered) {
            one.found(store.leader, asked, back);
          } else {
            one.failed(act, back);
          }
        }
      }
      // An answer that is still on its way has been taken in already: look from when it was there.
      int leaders = 0;
      for (size_t i = 0; i < all.size(); ++i) leaders += now >= busy[i] && all[i].token(now) != 0;
      ASSERT_LE(leaders, 1) << "seed " << seed << " at " << now.count();
      if (well) led += leaders;
    }
    EXPECT_GT(led, 8000) << "seed " << seed;  // of 10,000 looks
  }
}

}  // namespace
}  // namespace monkeytree
