#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "control/fake_scenes.h"
#include "control/fake_world.h"

/// What happens to a plan when a call is met by a fault, an agent is away or a node dies, before
/// every call that the controller makes.
namespace monkeytree {
namespace {

using testing::IsEmpty;

class Faults : public testing::TestWithParam<size_t> {
 protected:
  /// Nodes that workers come to or leave, with the jobs that do.
  std::map<std::string, std::set<std::string>> touched() const {
    std::map<std::string, std::set<std::string>> nodes;
    for (const Round& round : scene_.rounds) {
      for (const Move& move : round) {
        const std::string& job = scene_.cluster.jobs[scene_.cluster.groups[move.group].job].id;
        for (const NodeId node : {move.from, move.to}) {
          if (node != kStaging) nodes[scene_.cluster.nodes[node].name].insert(job);
        }
      }
    }
    return nodes;
  }

  /// Larger scenes are looked at in every third call only, each time others.
  int stride() const { return scene_.staged > 0 ? 3 : 1; }

  const Scene& scene_ = scenes()[GetParam()];
};

INSTANTIATE_TEST_SUITE_P(All, Faults, testing::Range<size_t>(0, 6));

TEST_P(Faults, an_agent_may_be_away_for_a_while) {
  std::vector<std::string> nodes = {kStagingNode};
  for (const auto& [node, jobs] : touched()) nodes.push_back(node);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const auto away = [&](FakeWorld& world) {
      world.workers().agent_down(nodes[n]);
      world.at(25, [&world, node = nodes[n]] { world.workers().agent_up(node); });
    };
    EXPECT_THAT(at_every_call(scene_, away, static_cast<int>(n) % stride(), stride()), IsEmpty())
        << nodes[n] << " away";
  }
}

TEST_P(Faults, a_node_may_die) {
  int first = 0;
  for (const auto& [node, jobs] : touched()) {
    const auto dies = [&, node = node, jobs = jobs](FakeWorld& world) {
      world.node_dies(node);
      // What cannot go on ends at last, by the job's own time-out or by a person.
      world.at(60, [&world, jobs] {
        for (const std::string& job : jobs) world.end_job(job);
      });
    };
    EXPECT_THAT(at_every_call(scene_, dies, first++ % stride(), stride()), IsEmpty())
        << node << " dies";
  }
}

TEST_P(Faults, every_call_to_the_agents_may_fail_in_every_way) {
  for (int call = 0; call <= static_cast<int>(ExecutorCall::kRollBack); ++call) {
    for (int fault = 0; fault <= static_cast<int>(ExecutorFault::kDataLoss); ++fault) {
      for (int skip = 0; skip < 3; ++skip) {
        SCOPED_TRACE(testing::Message() << scene_.name << ": " << name_of(ExecutorCall(call))
                                        << ", fault " << fault << ", after " << skip);
        FakeWorld world(scene_.cluster);
        // Rolling back happens where something else has failed.
        if (ExecutorCall(call) == ExecutorCall::kRollBack) {
          world.workers().inject(ExecutorCall::kRestore, ExecutorFault::kRefuse, 1, skip);
        }
        world.workers().inject(ExecutorCall(call), ExecutorFault(fault), 1 + skip % 3, skip);
        const int64_t plan = world.add_plan(scene_.rounds);
        world.kill_at(kForEver);
        EXPECT_THAT(faults_at_the_end(world, world.run(plan)), IsEmpty());
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(Faults, every_call_to_the_scheduler_may_fail_in_every_way) {
  for (int call = 1; call <= static_cast<int>(SchedulerCall::kBooked); ++call) {
    for (int fault = 0; fault <= static_cast<int>(SchedulerFault::kFailAfterDoing); ++fault) {
      for (int skip = 0; skip < 3; ++skip) {
        SCOPED_TRACE(testing::Message() << scene_.name << ": " << name_of(SchedulerCall(call))
                                        << ", fault " << fault << ", after " << skip);
        FakeWorld world(scene_.cluster);
        if (SchedulerCall(call) == SchedulerCall::kCancel) {
          world.workers().inject(ExecutorCall::kRestore, ExecutorFault::kRefuse, 1, skip);
        }
        world.scheduler().inject(SchedulerCall(call), SchedulerFault(fault), 1 + skip, skip);
        const int64_t plan = world.add_plan(scene_.rounds);
        world.kill_at(kForEver);
        EXPECT_THAT(faults_at_the_end(world, world.run(plan)), IsEmpty());
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace monkeytree
