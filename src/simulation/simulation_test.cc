#include "simulation/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/test_load.h"

// Whole runs: the fast engine against the plain one under every system, and what must hold of any
// run.
namespace monkeytree {
namespace {

/// Models of the catalogue's kinds whose iterations last milliseconds.
Catalogue quick_models() {
  Diagnostics diagnostics;
  const std::optional<Catalogue> catalogue = Catalogue::parse(R"(
models:
  - name: fsdp
    gpus: [4, 6, 10, 12]
    weight: 2
    sharded: true
    phases:
      - compute: {us: 2000}
      - all_reduce: {bytes: 90000000}
  - name: tensor
    gpus: [4, 6, 12]
    weight: 3
    phases:
      - compute: {us: 1500}
      - strided_ring: {bytes: 70000000, stride: 2}
  - name: pipeline
    gpus: [8, 16]
    weight: 2
    phases:
      - pipeline: {stages: 2, tensor: 2, microbatches: 3, forward_us: 300, backward_us: 500, activation_bytes: 4000000, shard_bytes: 50000000}
  - name: experts
    gpus: [8]
    weight: 1
    phases:
      - repeat: 2
        phases:
          - compute: {us: 700}
          - all_to_all_ring: {bytes: 300000000}
      - all_reduce: {bytes: 30000000}
)",
                                                              "models", diagnostics);
  EXPECT_TRUE(catalogue.has_value()) << diagnostics.text();
  return *catalogue;
}

Scenario small_cluster(const std::string& system, uint64_t seed) {
  Scenario scenario;
  scenario.fabric.gpus = 64;
  scenario.fabric.gpus_per_node = 2;
  scenario.fabric.gpus_per_rack = 8;
  scenario.fabric.spines = 2;
  scenario.system = System::find(system);
  scenario.fabric.spray = false;
  scenario.pause_us = 20'000;
  scenario.seed = seed;
  return scenario;
}

Trace drawn_trace(const Catalogue& catalogue, uint64_t seed, int jobs) {
  RandomSequence random(seed);
  Trace trace;
  Time time = 0;
  for (int i = 0; i < jobs; ++i) {
    const Model& model = catalogue.models()[random.below(catalogue.models().size())];
    time += static_cast<Time>(random.below(20'000));
    trace.push_back({time, model.name, model.gpus[random.below(model.gpus.size())],
                     1 + static_cast<int64_t>(random.below(60))});
  }
  return trace;
}

bool same(const JobResult& a, const JobResult& b) {
  return a.start == b.start && a.end == b.end && a.moves == b.moves && a.paused == b.paused;
}

class EverySystem : public testing::TestWithParam<std::string> {};

TEST_P(EverySystem, TheFastEngineGivesTheTimesOfThePlainOne) {
  const Catalogue catalogue = quick_models();
  int64_t moves = 0, shared = 0;
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Scenario scenario = small_cluster(GetParam(), seed);
    scenario.paper_rules = seed % 2 == 0;
    scenario.freeze_unfragmented = seed % 4 == 0;
    scenario.fabric.nvlink = seed % 3 == 0;
    const Trace trace = drawn_trace(catalogue, seed, 22);
    SimulationOptions options;
    const SimulationResult fast = simulate(scenario, catalogue, trace, options);
    options.plain_engine = true;
    const SimulationResult plain = simulate(scenario, catalogue, trace, options);
    ASSERT_EQ(fast.jobs.size(), trace.size());
    for (size_t i = 0; i < trace.size(); ++i) {
      EXPECT_TRUE(same(fast.jobs[i], plain.jobs[i]))
          << "seed " << seed << ", job " << i << ": " << fast.jobs[i].end << " and "
          << plain.jobs[i].end;
    }
    EXPECT_EQ(fast.plans, plain.plans);
    EXPECT_EQ(fast.counters.iterations, plain.counters.iterations);
    moves += fast.moves;
    shared += plain.counters.contended_flows;
  }
  EXPECT_GT(shared, 0) << "no run had any contention: the test says nothing";
  if (System::find(GetParam())->care != PlacementCare::kNone) {
    EXPECT_GT(moves, 0);
  }
}

TEST_P(EverySystem, NoNodeHasTwoJobsAndEveryJobRunsToItsEnd) {
  const Catalogue catalogue = quick_models();
  for (uint64_t seed = 11; seed < 11 + instances(4U); ++seed) {
    Scenario scenario = small_cluster(GetParam(), seed);
    scenario.backfill = seed % 2 == 0;
    const Trace trace = drawn_trace(catalogue, seed, 60);
    std::map<int, int> owner;  // node → job
    std::set<int> ended;
    Time last = 0;
    SimulationOptions options;
    options.on_event = [&](const SimulationEvent& event) {
      EXPECT_GE(event.time, last);
      last = event.time;
      if (event.kind == SimulationEvent::kStart) {
        for (const int node : event.nodes) {
          EXPECT_TRUE(owner.insert({node, event.job}).second) << "node " << node;
        }
      } else if (event.kind == SimulationEvent::kMove) {
        EXPECT_NE(event.nodes[0], event.nodes[1]);
      } else if (event.kind == SimulationEvent::kFinish) {
        EXPECT_TRUE(ended.insert(event.job).second);
        std::erase_if(owner, [&](const auto& item) { return item.second == event.job; });
      } else if (event.kind == SimulationEvent::kArrive) {
        // A worker has come to its node; whoever was there must have left.
        EXPECT_TRUE(owner.insert({event.nodes[0], event.job}).second) << "node " << event.nodes[0];
      } else if (event.kind == SimulationEvent::kLeave) {
        EXPECT_EQ(owner.erase(event.nodes[0]), 1U);
      }
    };
    const SimulationResult result = simulate(scenario, catalogue, trace, options);
    EXPECT_EQ(ended.size(), trace.size());
    EXPECT_TRUE(owner.empty());
    for (size_t i = 0; i < trace.size(); ++i) {
      const JobResult& job = result.jobs[i];
      EXPECT_GE(job.start, job.submit);
      EXPECT_GE(job.end - job.start, job.ideal) << "faster than alone: job " << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Systems, EverySystem,
                         testing::Values("ecmp", "crux", "sglb", "perfect", "spray", "repack",
                                         "monkeytree", "monkeytree-ecmp", "monkeytree-crux",
                                         "monkeytree-sglb"),
                         [](const auto& system) {
                           std::string name = system.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Clusters and rules drawn at random, tiny iterations: jobs end while they are asked to stop,
/// plans lose their members, bounds that cannot be met.
TEST(Simulation, DrawnRunsEndAndTheEnginesAgree) {
  const Catalogue catalogue = quick_models();
  const std::span<const System> systems = System::all();
  int64_t moves = 0, given_up = 0;
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    RandomSequence random(seed);
    const std::string system(systems[random.below(systems.size())].name);
    Scenario scenario = small_cluster(system, seed);
    scenario.fabric.nvlink = random.below(2) == 0;
    scenario.fabric.spines = 1 + static_cast<int>(random.below(4));
    scenario.scheduler = random.below(2) == 0 ? PlacementRule::kRandom : PlacementRule::kFirstFit;
    scenario.threshold = 1 + static_cast<int>(random.below(3));
    scenario.pause_us = random.below(2) == 0 ? 0 : 7'000;
    scenario.paper_rules = random.below(2) == 0;
    scenario.freeze_unfragmented = random.below(4) == 0;
    scenario.state = random.below(2) == 0 ? StateRule::kPaper : StateRule::kShard;
    scenario.pipeline =
        random.below(2) == 0 ? PipelineSchedule::kGpipe : PipelineSchedule::kOneForwardOneBackward;
    scenario.plan_work_limit = 2'000;
    scenario.state_scale = seed % 3 == 0 ? 0 : seed % 5 == 0 ? 2.5 : 1;
    Trace trace = drawn_trace(catalogue, seed, 40);
    for (TraceJob& job : trace) job.iterations = 1 + job.iterations % 4;
    for (TraceJob& job : trace) job.submit_us /= 10;
    SimulationOptions options;
    const SimulationResult fast = simulate(scenario, catalogue, trace, options);
    options.plain_engine = true;
    const SimulationResult plain = simulate(scenario, catalogue, trace, options);
    for (size_t i = 0; i < trace.size(); ++i) {
      ASSERT_NE(fast.jobs[i].end, kNever) << "seed " << seed << ", job " << i << " never ended";
      ASSERT_TRUE(same(fast.jobs[i], plain.jobs[i])) << "seed " << seed << ", job " << i;
    }
    moves += fast.moves;
    given_up += fast.given_up;
  }
  EXPECT_GT(moves, 0);
  EXPECT_GT(given_up, 0) << "no plan lost a member: the test says nothing about that";
}

TEST(Simulation, StateTakesTimeByItsSize) {
  const Catalogue catalogue = quick_models();
  const auto least_pause = [&](double scale) {
    Scenario scenario = small_cluster("monkeytree", 1);
    scenario.state_scale = scale;
    const SimulationResult result = simulate(scenario, catalogue, drawn_trace(catalogue, 1, 22));
    Time least = kNever;
    for (const JobResult& job : result.jobs) {
      if (job.moves > 0) least = std::min(least, job.paused);
    }
    return least;
  };
  const Time pause = small_cluster("monkeytree", 1).pause_us;
  EXPECT_EQ(least_pause(0), pause);
  EXPECT_GT(least_pause(1), pause);
  EXPECT_GT(least_pause(50), 10 * least_pause(1) - 10 * pause);
}

TEST(Simulation, AJobThatMeetsNoOtherIsPassedOver) {
  const Catalogue catalogue = quick_models();
  const Trace trace = {{0, "fsdp", 12, 5000}};  // in two racks
  const SimulationResult result = simulate(small_cluster("perfect", 1), catalogue, trace);
  EXPECT_EQ(result.counters.iterations, 5000);
  EXPECT_GE(result.counters.skipped, 4999);
  EXPECT_LT(result.counters.flows, 1000);
}

TEST(Simulation, AloneAJobTakesItsIdealTime) {
  const Catalogue catalogue = quick_models();
  for (const Model& model : catalogue.models()) {
    for (const int gpus : model.gpus) {
      const Trace trace = {{5, model.name, gpus, 7}};
      const SimulationResult result =
          simulate(small_cluster("perfect", 1), catalogue, trace, SimulationOptions());
      EXPECT_EQ(result.jobs[0].start, 5);
      EXPECT_EQ(result.jobs[0].end - 5, result.jobs[0].ideal) << model.name << ' ' << gpus;
    }
  }
}

TEST(Simulation, AJobInLineWaitsForTheOneBeforeIt) {
  const Catalogue catalogue = quick_models();
  Trace trace;
  for (int i = 0; i < 5; ++i) trace.push_back({0, "pipeline", 16, 10});
  trace.push_back({0, "fsdp", 4, 1});  // would fit, but is behind
  const SimulationResult result = simulate(small_cluster("perfect", 1), catalogue, trace);
  EXPECT_EQ(result.jobs[3].start, 0);
  EXPECT_EQ(result.jobs[4].start, std::min({result.jobs[0].end, result.jobs[1].end,
                                            result.jobs[2].end, result.jobs[3].end}));
  EXPECT_GE(result.jobs[5].start, result.jobs[4].start);
}

TEST(Simulation, StopsWhenAsked) {
  const Catalogue catalogue = quick_models();
  SimulationOptions options;
  options.stop = [](double) { return true; };
  const SimulationResult result =
      simulate(small_cluster("ecmp", 1), catalogue, drawn_trace(catalogue, 1, 20), options);
  EXPECT_TRUE(result.stopped);
  EXPECT_EQ(result.jobs.size(), 20U);
}

}  // namespace
}  // namespace monkeytree
