#include "control/plan_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "control/fake_world.h"
#include "planning/plan.h"

namespace monkeytree {
namespace {

using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using End = PlanRun::End;

/// A cluster and moves to be carried out in it.
struct Scene {
  std::string name;
  Snapshot cluster;
  std::vector<Round> rounds;
};

Scene planned(std::string name, const std::vector<std::string>& racks, int uplinks) {
  Scene scene{std::move(name), drawn_cluster(racks, uplinks), {}};
  scene.rounds = plan(scene.cluster).rounds;
  return scene;
}

/// "A2 r1n0 r0n2": worker 2 of job A, from, to; "-" is the staging server.
Round round_of(const Snapshot& cluster, const std::vector<std::array<std::string, 3>>& moves) {
  const auto node = [&](const std::string& name) {
    for (const NodeId id : cluster.nodes.keys()) {
      if (cluster.nodes[id].name == name) return id;
    }
    return kStaging;
  };
  Round round;
  for (const auto& [worker, from, to] : moves) {
    for (const Job& job : cluster.jobs) {
      if (job.id != worker.substr(0, 1)) continue;
      round.push_back({job.first_group, std::stoi(worker.substr(1)), node(from), node(to)});
    }
  }
  return round;
}

Scene two_staged() {
  Scene scene{"two workers of a job staged", drawn_cluster({"AABB", "BBAA"}, 0), {}};
  scene.rounds = {round_of(scene.cluster, {{"A2", "r1n2", "-"}, {"A3", "r1n3", "-"}}),
                  round_of(scene.cluster, {{"B0", "r0n2", "r1n2"}, {"B1", "r0n3", "r1n3"}}),
                  round_of(scene.cluster, {{"A2", "-", "r0n2"}}),
                  round_of(scene.cluster, {{"A3", "-", "r0n3"}})};
  return scene;
}

Scene moves_while_staged() {
  Scene scene{"a job moves while it is paused", drawn_cluster({"AAB.", "ABB."}, 0), {}};
  scene.rounds = {round_of(scene.cluster, {{"A2", "r1n0", "-"}}),
                  round_of(scene.cluster, {{"A0", "r0n0", "r0n3"}, {"B0", "r0n2", "r1n0"}}),
                  round_of(scene.cluster, {{"A2", "-", "r0n2"}, {"A1", "r0n1", "r0n0"}})};
  return scene;
}

const std::vector<Scene>& scenes() {
  static const std::vector<Scene> kScenes = {
      planned("one direct move", {"AA.", "AB.", "BB."}, 1),
      planned("two moves of a job", {"AAA..", "ABB..", "ACC.."}, 0),
      planned("a swap on a full cluster", {"AAB", "ABB"}, 0),
      planned("a cycle of three", {"AAC", "ABB", "BCC"}, 1),
      two_staged(),
      moves_while_staged(),
  };
  return kScenes;
}

int staged_moves(const std::vector<Round>& rounds) {
  int count = 0;
  for (const Round& round : rounds) {
    for (const Move& move : round) count += move.to == kStaging;
  }
  return count;
}

TEST(Scenes, are_what_their_names_say) {
  EXPECT_EQ(scenes()[0].rounds.size(), 1);
  EXPECT_EQ(staged_moves(scenes()[0].rounds), 0);
  EXPECT_EQ(scenes()[1].rounds.size(), 1);
  EXPECT_EQ(scenes()[1].rounds[0].size(), 2);
  EXPECT_EQ(scenes()[2].rounds.size(), 3);
  EXPECT_EQ(staged_moves(scenes()[2].rounds), 1);
  EXPECT_EQ(scenes()[3].rounds.size(), 4);
  EXPECT_EQ(staged_moves(scenes()[3].rounds), 1);
}

/// What the world is like at the end, whatever happened on the way.
class OnScene : public testing::TestWithParam<size_t> {
 protected:
  /// Runs the plan; `happens` is told the world once the plan is written down. What hangs for ever
  /// fails.
  FakeWorld::Outcome run(FakeWorld& world, const std::function<void(FakeWorld&)>& happens) {
    constexpr int kForEver = 3000;
    const int64_t plan = world.add_plan(scene_.rounds);
    world.kill_at(kForEver);
    happens(world);
    return world.run(plan);
  }

  /// A new world for every call that the controller makes, in which `happens` before that call.
  void at_every_call(const std::function<void(FakeWorld&)>& happens) {
    int last = 0;
    for (int k = 0; k <= last; ++k) {
      SCOPED_TRACE(testing::Message() << scene_.name << ", before call " << k);
      FakeWorld world(scene_.cluster);
      bool happened = false;
      const FakeWorld::Outcome outcome = run(world, [&](FakeWorld& one) {
        one.at(k, [&] {
          happened = true;
          happens(one);
        });
      });
      if (happened) last = k + 1;
      expect_clean(world, outcome);
      if (HasFailure()) return;
    }
    EXPECT_GT(last, 10);
  }

  static void expect_clean(FakeWorld& world, const FakeWorld::Outcome& outcome) {
    EXPECT_THAT(outcome.end, AnyOf(End::kDone, End::kFailed));
    world.workers().all_agents_up();
    for (const std::string& job : world.scheduler().running()) {
      if (world.workers().broken(job)) world.end_job(job);
    }
    EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
  }

  std::vector<std::string> jobs() const {
    std::vector<std::string> ids;
    for (const Job& job : scene_.cluster.jobs) ids.push_back(job.id);
    return ids;
  }

  const Scene& scene_ = scenes()[GetParam()];
};

INSTANTIATE_TEST_SUITE_P(All, OnScene, testing::Range<size_t>(0, 6));

TEST_P(OnScene, ends_well_without_faults) {
  FakeWorld world(scene_.cluster);
  const FakeWorld::Outcome outcome = world.run(world.add_plan(scene_.rounds));
  EXPECT_EQ(outcome.end, End::kDone);
  EXPECT_THAT(outcome.trouble, IsEmpty());
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
  EXPECT_GT(last, 10);
}

TEST_P(OnScene, survives_kill_after_kill) {
  for (int step = 1; step <= 12; ++step) {
    SCOPED_TRACE(testing::Message() << scene_.name << ", killed every " << step << " calls");
    FakeWorld world(scene_.cluster);
    const int64_t plan = world.add_plan(scene_.rounds);
    FakeWorld::Outcome outcome;
    // Where each controller gets less far than the one before must begin, it gets nowhere.
    for (int life = 0; life < 200 && outcome.end == End::kStopped; ++life) {
      world.revive();
      world.kill_at(step + life / 4);
      outcome = world.run(plan);
    }
    EXPECT_EQ(outcome.end, End::kDone);
    EXPECT_THAT(world.faults(outcome.migrations), IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_P(OnScene, a_job_may_end_before_every_call) {
  for (const std::string& job : jobs()) {
    at_every_call([&](FakeWorld& world) { world.end_job(job); });
  }
}

TEST_P(OnScene, may_be_given_up_before_every_call) {
  at_every_call([](FakeWorld& world) { world.give_up(); });
}

TEST_P(OnScene, an_agent_may_be_away_from_every_call_on) {
  std::set<std::string> nodes = {kStagingNode};
  for (const Round& round : scene_.rounds) {
    for (const Move& move : round) {
      if (move.from != kStaging) nodes.insert(scene_.cluster.nodes[move.from].name);
      if (move.to != kStaging) nodes.insert(scene_.cluster.nodes[move.to].name);
    }
  }
  for (const std::string& node : nodes) {
    at_every_call([&](FakeWorld& world) {
      world.workers().agent_down(node);
      world.at(25, [&world, node] { world.workers().agent_up(node); });
    });
  }
}

TEST_P(OnScene, the_disk_may_be_full_from_every_call_on) {
  at_every_call([](FakeWorld& world) { world.refuse_writes(3); });
}

TEST_P(OnScene, a_node_may_die_before_every_call) {
  for (const Move& move : scene_.rounds.front()) {
    for (const NodeId node : {move.from, move.to}) {
      if (node == kStaging) continue;
      const std::string name = scene_.cluster.nodes[node].name;
      const std::string job = scene_.cluster.jobs[scene_.cluster.groups[move.group].job].id;
      at_every_call([&](FakeWorld& world) {
        world.node_dies(name);
        // What cannot go on ends at last, by its own time-out or an operator's hand.
        world.at(60, [&world, job] { world.end_job(job); });
      });
    }
  }
}

}  // namespace
}  // namespace monkeytree
