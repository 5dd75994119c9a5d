#include "control/plan_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "control/fake_scenes.h"
#include "control/fake_world.h"

namespace monkeytree {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::IsEmpty;
using End = PlanRun::End;

TEST(Scenes, are_what_their_names_say) {
  std::vector<size_t> rounds;
  std::vector<int> staged;
  for (const Scene& scene : scenes()) {
    rounds.push_back(scene.rounds.size());
    staged.push_back(scene.staged);
  }
  EXPECT_THAT(rounds, ElementsAre(1, 1, 3, 4, 4, 3));
  EXPECT_THAT(staged, ElementsAre(0, 0, 1, 1, 2, 1));
  EXPECT_EQ(scenes()[1].rounds[0].size(), 2);
}

TEST(Migrations, say_who_is_where_before_and_after) {
  const Scene& scene = scenes()[4];
  WorkerReports reports;
  WorkerReport& report = reports[{"A", 0, 2}];
  report.state_bytes = 7;
  report.command = {{"train"}, "/home", {{"K", "V"}}};
  const std::vector<Migration> all = migrations_of(9, scene.cluster, scene.rounds, reports);
  ASSERT_EQ(all.size(), 4);
  EXPECT_EQ(all[0].id, "9.0.0");
  EXPECT_EQ(all[0].job, "A");
  EXPECT_EQ(all[0].gpus, 4);
  EXPECT_EQ(all[0].reservation, PlanRun::reservation_of(9));
  EXPECT_EQ(all[0].moves[0].state_bytes, 7);
  EXPECT_EQ(all[0].moves[0].command.folder, "/home");
  EXPECT_EQ(all[0].moves[0].to, kStagingNode);
  EXPECT_EQ(all[0].before.size(), 4);
  EXPECT_EQ(all[0].after.size(), 2);
  EXPECT_TRUE(!all[0].was_paused && all[0].stays_paused && all[0].staged.empty());
  EXPECT_EQ(all[1].job, "B");
  EXPECT_TRUE(!all[1].was_paused && !all[1].stays_paused);
  EXPECT_EQ(all[2].id, "9.2.0");
  EXPECT_TRUE(all[2].was_paused && all[2].stays_paused);
  EXPECT_THAT(all[2].staged, ElementsAre(WorkerName{"A", 0, 3}));
  EXPECT_EQ(all[2].after.at({"A", 0, 2}), "r0n2");
  EXPECT_TRUE(all[3].was_paused && !all[3].stays_paused && all[3].staged.empty());
  EXPECT_EQ(all[3].after.size(), 4);
  EXPECT_THAT(nodes_of(all), ElementsAre("r0n2", "r0n3", "r1n2", "r1n3"));
}

class OnScene : public testing::TestWithParam<size_t> {
 protected:
  const Scene& scene_ = scenes()[GetParam()];
};

INSTANTIATE_TEST_SUITE_P(All, OnScene, testing::Range<size_t>(0, 6));

TEST_P(OnScene, ends_well_without_faults) {
  FakeWorld world(scene_.cluster);
  const FakeWorld::Outcome outcome = world.run(world.add_plan(scene_.rounds));
  EXPECT_EQ(outcome.end, End::kDone);
  EXPECT_THAT(outcome.trouble, IsEmpty());
  EXPECT_THAT(outcome.migrations, Each(Field(&Migration::state, MigrationState::kReleased)));
  EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
}

TEST_P(OnScene, survives_a_kill_before_every_call) {
  int last = 0;
  for (int k = 0; k <= last; ++k) {
    SCOPED_TRACE(testing::Message() << scene_.name << ", killed before call " << k);
    FakeWorld world(scene_.cluster);
    const int64_t plan = world.add_plan(scene_.rounds);
    world.kill_at(k);
    FakeWorld::Outcome outcome = world.run(plan);
    if (world.calls().killed()) {
      last = k + 1;
      EXPECT_EQ(outcome.end, End::kStopped);
      world.revive();
      outcome = world.run(plan);
    }
    EXPECT_EQ(outcome.end, End::kDone);
    EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
    if (HasFailure()) return;
  }
  EXPECT_GT(last, 20);
}

TEST_P(OnScene, replaces_workers_where_the_scheduler_does) {
  const std::vector<Round> rounds = staged_rounds(scene_.cluster, scene_.rounds);
  std::set<JobId> moving;
  for (const Round& round : rounds) {
    moving.clear();
    for (const Move& move : round) {
      EXPECT_TRUE(move.from == kStaging || move.to == kStaging);
      EXPECT_TRUE(moving.insert(scene_.cluster.groups[move.group].job).second);
    }
  }
  for (int k = -1, last = 0; k <= last; ++k) {
    SCOPED_TRACE(testing::Message() << scene_.name << ", killed before call " << k);
    FakeWorld world(scene_.cluster);
    world.scheduler().set_replaces_workers(true);
    const int64_t plan = world.add_plan(rounds);
    if (k >= 0) world.kill_at(k);
    FakeWorld::Outcome outcome = world.run(plan);
    if (world.calls().killed()) {
      last = k + 1;
      EXPECT_EQ(outcome.end, End::kStopped);
      world.revive();
      outcome = world.run(plan);
    }
    EXPECT_EQ(outcome.end, End::kDone);
    EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_P(OnScene, survives_kill_after_kill) {
  for (int calls = 1; calls <= 12; ++calls) {
    SCOPED_TRACE(testing::Message() << scene_.name << ", killed every " << calls << " calls");
    FakeWorld world(scene_.cluster);
    const int64_t plan = world.add_plan(scene_.rounds);
    FakeWorld::Outcome outcome;
    for (int life = 0; life < 200 && outcome.end == End::kStopped; ++life) {
      world.revive();
      // A step that needs more calls than a controller lives for would never be done.
      world.kill_at(calls + life / 4);
      outcome = world.run(plan);
    }
    EXPECT_EQ(outcome.end, End::kDone);
    EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_P(OnScene, may_be_killed_while_it_gives_up) {
  for (int k = 0; k < 90; k += 3) {
    SCOPED_TRACE(testing::Message() << scene_.name << ", given up before call " << k);
    FakeWorld world(scene_.cluster);
    const int64_t plan = world.add_plan(scene_.rounds);
    world.at(k, [&] {
      world.give_up();
      world.kill_at(5 + k % 13);
    });
    FakeWorld::Outcome outcome = world.run(plan);
    if (world.calls().killed()) {
      world.revive();
      outcome = world.run(plan);
    }
    EXPECT_THAT(faults_at_the_end(world, outcome), IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_P(OnScene, a_job_may_end_before_every_call) {
  for (const Job& job : scene_.cluster.jobs) {
    EXPECT_THAT(at_every_call(scene_, [&](FakeWorld& world) { world.end_job(job.id); }), IsEmpty())
        << "job " << job.id;
  }
}

TEST_P(OnScene, may_be_given_up_before_every_call) {
  EXPECT_THAT(at_every_call(scene_, [](FakeWorld& world) { world.give_up(); }), IsEmpty());
}

TEST_P(OnScene, the_disk_may_be_full_from_every_call_on) {
  EXPECT_THAT(at_every_call(scene_, [](FakeWorld& world) { world.refuse_writes(3); }), IsEmpty());
}

TEST(PlanRun, undoes_what_took_a_node_when_the_cluster_is_full) {
  // In a full cluster a cycle is given up when its first worker is staged and its node is taken.
  FakeWorld world(scenes()[3].cluster);
  const int64_t plan = world.add_plan(scenes()[3].rounds);
  int pauses = 0;
  for (int k = 0; k < 100; ++k) {
    world.at(k, [&] {
      // The third job to pause is the second that moves into a place of the first two.
      if (world.workers().calls(ExecutorCall::kPause) != 3 || pauses++ > 0) return;
      world.give_up();
    });
  }
  const FakeWorld::Outcome outcome = world.run(plan);
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
  for (const Job& job : scenes()[3].cluster.jobs) {
    for (const auto& [worker, node] : world.workers().running(job.id)) {
      const std::vector<NodeId>& home = scenes()[3].cluster.groups[job.first_group].workers;
      EXPECT_EQ(node, scenes()[3].cluster.nodes[home[static_cast<size_t>(worker.worker)]].name);
    }
  }
}

TEST(PlanRun, begins_nothing_where_its_nodes_cannot_be_reserved) {
  FakeWorld world(scenes()[2].cluster);
  world.scheduler().inject(SchedulerCall::kReserve, SchedulerFault::kRefuse, 3);
  const FakeWorld::Outcome outcome = world.run(world.add_plan(scenes()[2].rounds));
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_EQ(world.scheduler().calls(SchedulerCall::kHold), 0);
  EXPECT_THAT(outcome.migrations, Each(Field(&Migration::state, MigrationState::kRolledBack)));
  EXPECT_THAT(outcome.migrations.front().reason,
              HasSubstr("its nodes cannot be reserved: reserve"));
  EXPECT_THAT(outcome.trouble, ElementsAre(HasSubstr("its nodes cannot be reserved")));
  EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
}

TEST(PlanRun, sends_a_staged_worker_elsewhere_when_both_its_places_are_lost) {
  // Two free nodes away from the swap; the node that A leaves dies, and the one it wants is kept.
  Scene scene = planned("", drawn_cluster({"AAB..", "ABB"}, 0));
  scene.cluster = drawn_cluster({"AAB", "ABB", "..."}, 0);
  scene.rounds = scenes()[2].rounds;
  FakeWorld world(scene.cluster);
  const std::string left =
      scene.cluster.nodes[scenes()[2].rounds[0][0].from == NodeId(2) ? NodeId(2) : NodeId(3)].name;
  const int64_t plan = world.add_plan(scene.rounds);
  bool died = false;
  for (int k = 0; k < 60; ++k) {
    world.at(k, [&] {
      const bool staged = world.scheduler().calls(SchedulerCall::kGiveBack) == 1;
      if (!staged || died) return;
      died = true;
      world.scheduler().set_node_state(left, NodeState::kDown).IgnoreError();
    });
  }
  const FakeWorld::Outcome outcome = world.run(plan);
  EXPECT_TRUE(died);
  EXPECT_EQ(outcome.end, End::kFailed);
  EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
}

}  // namespace
}  // namespace monkeytree
