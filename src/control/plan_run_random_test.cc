#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"
#include "control/fake_scenes.h"
#include "control/fake_world.h"
#include "planning/random_snapshot.h"

/// Random plans in random clusters, met by several random faults at random calls, over as many
/// lives of the controller as it takes.
namespace monkeytree {
namespace {

using testing::IsEmpty;

class Story {
 public:
  explicit Story(uint64_t seed) : random_(seed) {
    RandomShape shape;
    shape.racks_low = 3;
    shape.racks_high = 5;
    shape.fill = below(3) == 0 ? 0.85 : 1.0;
    shape.bound_high = 2;
    scene_ = planned(fmt::format("seed {}", seed), random_snapshot(seed, shape));
  }

  bool has_moves() const { return !scene_.rounds.empty(); }
  bool staged() const { return scene_.staged > 0; }

  std::vector<std::string> play() {
    FakeWorld world(scene_.cluster);
    const int64_t plan = world.add_plan(scene_.rounds);
    calls_ = calls_without_faults();
    FakeWorld::Outcome outcome;
    for (int life = 0; life < 20 && outcome.end == PlanRun::End::kStopped; ++life) {
      world.revive();
      world.kill_at(kForEver);
      // The first lives are eventful; in the end the world comes to rest.
      for (int i = life < 5 ? 1 + below(3) : 0; i > 0; --i) add_event(world);
      if (life > 0) world.workers().all_agents_up();
      outcome = world.run(plan);
    }
    std::vector<std::string> faults = faults_at_the_end(world, outcome);
    if (faults.empty()) return faults;
    faults.insert(faults.begin(), fmt::format("{}", fmt::join(events_, "; ")));
    for (const Migration& migration : outcome.migrations) faults.push_back(line_of(migration));
    faults.resize(std::min<size_t>(faults.size(), 40));
    return faults;
  }

 private:
  int below(int n) { return static_cast<int>(random_.below(static_cast<uint64_t>(n))); }

  int calls_without_faults() const {
    FakeWorld world(scene_.cluster);
    world.run(world.add_plan(scene_.rounds));
    return world.calls().made();
  }

  static std::string line_of(const Migration& migration) {
    std::string line = migration.id;
    for (const WorkerMove& move : migration.moves) {
      line += fmt::format(" {} {}-{}", to_string(move.worker), move.from, move.to);
    }
    return fmt::format("{}: {} {}", line, name_of(migration.state), migration.reason);
  }

  const Move& any_move() {
    const Round& round = scene_.rounds[static_cast<size_t>(below(int(scene_.rounds.size())))];
    return round[static_cast<size_t>(below(int(round.size())))];
  }

  std::string any_node() {
    const Move& move = any_move();
    const NodeId node = below(2) == 0 ? move.from : move.to;
    return node == kStaging ? kStagingNode : scene_.cluster.nodes[node].name;
  }

  std::string any_job() {
    return scene_.cluster.jobs[scene_.cluster.groups[any_move().group].job].id;
  }

  void add_event(FakeWorld& world) {
    const int when = below(calls_ + 10);
    const auto note = [&](std::string what) {
      events_.push_back(fmt::format("call {}+{}: {}", world.calls().made(), when, what));
    };
    switch (below(8)) {
      case 0:
      case 1:
        note("killed");
        return world.kill_at(when);
      case 2: {
        const std::string job = any_job();
        note("job " + job + " ends");
        return world.at(when, [&world, job] { world.end_job(job); });
      }
      case 3:
        note("given up");
        return world.at(when, [&world] { world.give_up(); });
      case 4: {
        const std::string node = any_node();
        const int back = 1 + below(40);
        note(fmt::format("agent of {} away for {}", node, back));
        return world.at(when, [&world, node, back] {
          world.workers().agent_down(node);
          world.at(back, [&world, node] { world.workers().agent_up(node); });
        });
      }
      case 5: {
        const int writes = 1 + below(4);
        note(fmt::format("{} writes refused", writes));
        return world.at(when, [&world, writes] { world.refuse_writes(writes); });
      }
      case 6: {
        const auto call = static_cast<ExecutorCall>(below(7));
        const auto fault = static_cast<ExecutorFault>(below(6));
        const int times = 1 + below(3), skip = below(4);
        note(fmt::format("{} meets {} {} times after {}", name_of(call), int(fault), times, skip));
        return world.workers().inject(call, fault, times, skip);
      }
      default: {
        const auto call = static_cast<SchedulerCall>(1 + below(7));
        const auto fault = static_cast<SchedulerFault>(below(4));
        const int times = 1 + below(4), skip = below(6);
        note(fmt::format("{} meets {} {} times after {}", name_of(call), int(fault), times, skip));
        return world.scheduler().inject(call, fault, times, skip);
      }
    }
  }

  RandomSequence random_;
  Scene scene_;
  int calls_ = 0;
  std::vector<std::string> events_;
};

TEST(PlanRunRandom, ends_well_whatever_happens) {
  int played = 0, staged = 0;
  const char* more = std::getenv("MONKEYTREE_STORIES");
  const int wanted = more ? std::atoi(more) : 250;
  const char* first = std::getenv("MONKEYTREE_FIRST_STORY");
  for (uint64_t seed = first ? std::strtoull(first, nullptr, 10) : 1; played < wanted; ++seed) {
    Story story(seed);
    if (!story.has_moves()) continue;
    ++played;
    staged += story.staged();
    EXPECT_THAT(story.play(), IsEmpty()) << "seed " << seed;
    if (HasFailure()) return;
  }
  EXPECT_GT(staged, played / 10);
}

}  // namespace
}  // namespace monkeytree
