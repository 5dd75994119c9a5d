#include "control/mirror.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"
#include "control/recheck.h"
#include "inventory/emulated_scheduler.h"
#include "planning/plan.h"

namespace monkeytree {
namespace {

const Deadline kForever = Deadline::max();

Snapshot look(EmulatedScheduler& cluster) {
  absl::StatusOr<Observation> seen = cluster.observe(kForever);
  EXPECT_TRUE(seen.ok()) << seen.status();
  return seen.ok() ? seen->snapshot : Snapshot();
}

EmulatedJob job(std::string id, std::vector<std::string> nodes) {
  EmulatedJob job;
  job.id = std::move(id);
  job.groups = {static_cast<int>(nodes.size())};
  job.nodes = std::move(nodes);
  return job;
}

/// The mirror says what a planner made afresh from the observation says.
void expect_same(const Mirror& mirror, const Snapshot& observed) {
  EXPECT_EQ(fragmentation(mirror.snapshot()), fragmentation(observed));
  for (size_t n = 0; n < observed.nodes.size(); ++n) {
    EXPECT_EQ(mirror.snapshot().nodes[NodeId(n)].state, observed.nodes[NodeId(n)].state);
  }
}

TEST(Mirror, FollowsAChurningCluster) {
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(seed);
    EmulatedScheduler cluster(uniform_cluster(4, 6, 1, 2), {}, [] { return 1e9; });
    EmulatedChurn churn(cluster, seed, {});
    Mirror mirror;
    PlanOptions options;
    options.work_limit = 20'000;
    for (int step = 0; step < 120; ++step) {
      churn.step();
      if (step % 8 == 3) {
        const NodeState state = step % 16 == 3 ? NodeState::kDrain : NodeState::kUp;
        ASSERT_TRUE(cluster.set_node_state("r1n2", state).ok());
      }
      const Snapshot observed = look(cluster);
      mirror.follow(observed, {});
      expect_same(mirror, observed);
      if (step % 10 != 0) continue;
      const Plan fresh = plan(observed, options);
      const Plan kept = mirror.planner().plan(options);
      if (fresh.limited || kept.limited) continue;
      EXPECT_EQ(kept.status, fresh.status);
      EXPECT_EQ(kept.moves, fresh.moves);
    }
  }
}

TEST(Mirror, AChangeIsToldAndNoChangeIsNot) {
  EmulatedScheduler cluster(uniform_cluster(2, 4, 1, 1), {}, [] { return 1e9; });
  Mirror mirror;
  EXPECT_TRUE(mirror.empty());
  EXPECT_TRUE(mirror.follow(look(cluster), {}));
  EXPECT_FALSE(mirror.follow(look(cluster), {}));
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  EXPECT_TRUE(mirror.follow(look(cluster), {}));
  EXPECT_FALSE(mirror.follow(look(cluster), {}));
  ASSERT_TRUE(cluster.end("a").ok());
  EXPECT_TRUE(mirror.follow(look(cluster), {}));
  EXPECT_FALSE(mirror.job("a"));
}

TEST(Mirror, JobsUnderWayStayWhereTheyWillBe) {
  EmulatedScheduler cluster(uniform_cluster(2, 3, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  ASSERT_TRUE(cluster.submit(job("b", {"r0n1", "r1n1"})).ok());
  Mirror mirror;
  mirror.follow(look(cluster), {});
  ASSERT_EQ(mirror.planner().over().size(), 2u);
  const Plan plan = mirror.planner().plan();
  ASSERT_EQ(plan.moves, 1);
  mirror.planner().begin(plan.rounds);
  EXPECT_TRUE(mirror.planner().over().empty());
  EXPECT_FALSE(mirror.follow(look(cluster), {}));  // the books have not followed yet
  EXPECT_TRUE(mirror.planner().over().empty());

  // Somebody else took the destination before it was held: that job waits to be counted.
  const std::string taken = mirror.snapshot().nodes[plan.rounds[0][0].to].name;
  ASSERT_TRUE(cluster.submit(job("c", {taken})).ok());
  mirror.follow(look(cluster), {});
  EXPECT_TRUE(mirror.waiting().contains("c"));
  EXPECT_FALSE(mirror.job("c"));

  // The move is given up: everything is as the books say.
  mirror.forget({"a", "b"});
  mirror.follow(look(cluster), {});
  EXPECT_TRUE(mirror.job("c"));
  expect_same(mirror, look(cluster));
}

TEST(Mirror, AJobWhoseBooksAreOldIsNotLookedAt) {
  EmulatedScheduler cluster(uniform_cluster(2, 3, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  Mirror mirror;
  const Snapshot old = look(cluster);
  mirror.follow(old, {});
  const std::vector<Round> rounds = {{{GroupId(0), 1, *mirror.node("r1n0"), *mirror.node("r0n2")}}};
  mirror.planner().apply(rounds);
  EXPECT_FALSE(mirror.follow(old, {"a"}));
  EXPECT_EQ(mirror.snapshot().groups[GroupId(0)].workers[1], *mirror.node("r0n2"));
}

TEST(Mirror, HoldsBackAndAvoids) {
  EmulatedScheduler cluster(uniform_cluster(2, 3, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  Mirror mirror;
  mirror.follow(look(cluster), {});
  mirror.hold_back({{"a", "because"}});
  EXPECT_FALSE(mirror.snapshot().jobs[*mirror.job("a")].movable);
  EXPECT_FALSE(mirror.follow(look(cluster), {}));  // it is the same job still
  mirror.hold_back({});
  EXPECT_TRUE(mirror.snapshot().jobs[*mirror.job("a")].movable);
  mirror.avoid({"r0n1"});
  EXPECT_EQ(mirror.snapshot().nodes[*mirror.node("r0n1")].state, NodeState::kReserved);
  mirror.follow(look(cluster), {});
  EXPECT_EQ(mirror.snapshot().nodes[*mirror.node("r0n1")].state, NodeState::kReserved);
  mirror.avoid({});
  EXPECT_EQ(mirror.snapshot().nodes[*mirror.node("r0n1")].state, NodeState::kUp);
}

TEST(Mirror, PlansByNameFindTheirWorkersAgain) {
  EmulatedScheduler cluster(uniform_cluster(2, 3, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  Mirror mirror;
  mirror.follow(look(cluster), {});
  PlanRecord record;
  record.rounds = {{{"a", 0, 1, "r1n0", "r0n2"}}};
  const auto rounds = mirror.rounds_of(record);
  ASSERT_TRUE(rounds);
  EXPECT_EQ((*rounds)[0][0].to, *mirror.node("r0n2"));
  record.rounds = {{{"a", 0, 2, "r1n0", "r0n2"}}};
  EXPECT_FALSE(mirror.rounds_of(record));
  record.rounds = {{{"gone", 0, 0, "r1n0", "r0n2"}}};
  EXPECT_FALSE(mirror.rounds_of(record));
}

/// A job that the mirror forgot and found again has two places in its snapshot, an empty one and
/// its own. Plans are rechecked, and snapshots given out, as if there were only its own.
TEST(Mirror, AJobThatCameBackIsItselfAgain) {
  EmulatedScheduler cluster(uniform_cluster(3, 4, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  ASSERT_TRUE(cluster.submit(job("b", {"r0n1", "r1n1"})).ok());
  Mirror mirror;
  mirror.follow(look(cluster), {});
  mirror.forget({"a", "b"});
  mirror.follow(look(cluster), {});
  ASSERT_EQ(mirror.snapshot().jobs.size(), 4u);
  const Plan made = mirror.planner().plan({});
  ASSERT_EQ(made.moves, 1);
  EXPECT_THAT(recheck(mirror.snapshot(), made.rounds), testing::IsEmpty());
  Diagnostics faults;
  const auto read = parse_snapshot(write_snapshot(mirror.snapshot()), "written", faults);
  ASSERT_TRUE(read) << faults.text();
  EXPECT_EQ(read->jobs.size(), 2u);
  EXPECT_EQ(plan(*read).moves, 1);
}

TEST(Recheck, APlanHoldsWhileItsOwnPartOfTheClusterDoes) {
  EmulatedScheduler cluster(uniform_cluster(3, 4, 1, 1), {}, [] { return 1e9; });
  ASSERT_TRUE(cluster.submit(job("a", {"r0n0", "r1n0"})).ok());
  ASSERT_TRUE(cluster.submit(job("b", {"r0n1", "r1n1"})).ok());
  const Snapshot before = look(cluster);
  const Plan made = plan(before);
  ASSERT_EQ(made.moves, 1);
  EXPECT_TRUE(recheck(before, made.rounds).empty());

  ASSERT_TRUE(cluster.submit(job("c", {"r2n0", "r2n1"})).ok());  // far away
  EXPECT_TRUE(recheck(look(cluster), made.rounds).empty());

  const std::string taken = before.nodes[made.rounds[0][0].to].name;
  ASSERT_TRUE(cluster.submit(job("d", {taken})).ok());
  EXPECT_FALSE(recheck(look(cluster), made.rounds).empty());
  ASSERT_TRUE(cluster.end("d").ok());
  EXPECT_TRUE(recheck(look(cluster), made.rounds).empty());

  ASSERT_TRUE(cluster.end("b").ok());  // nothing is over its bound any more
  EXPECT_FALSE(recheck(look(cluster), made.rounds).empty());
}

}  // namespace
}  // namespace monkeytree
