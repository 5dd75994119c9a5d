#include "simulation/plain_engine.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <ostream>
#include <random>
#include <utility>

#include "workload/idle.h"
#include "workload/model.h"

namespace monkeytree {

void PrintTo(const Notice& notice, std::ostream* out) {
  *out << "(" << static_cast<int>(notice.kind) << " " << notice.index << ")";
}

namespace {

constexpr Notice::Kind kStopped = Notice::kStopped, kFinished = Notice::kFinished,
                       kTransfer = Notice::kTransfer;

struct Event {
  Time time;
  Notice notice;
  friend bool operator==(const Event&, const Event&) = default;
};
using Events = std::vector<Event>;

void PrintTo(const Event& event, std::ostream* out) {
  *out << event.time << " ";
  PrintTo(event.notice, out);
}

/// Goes on to `until`, or until nothing moves.
Events run(Engine& engine, Time until = kNever) {
  Events events;
  for (Time time = engine.next(); time <= until && time != kNever; time = engine.next()) {
    std::vector<Notice> notices;
    engine.advance(time, notices);
    for (const Notice& notice : notices) events.push_back({time, notice});
  }
  std::vector<Notice> none;
  if (until != kNever) engine.advance(until, none);
  EXPECT_TRUE(none.empty());
  return events;
}

/// Racks of two nodes of 8, 4 spines.
EngineOptions small_fabric() {
  EngineOptions options;
  options.fabric.gpus = 64;
  options.fabric.gpus_per_rack = 16;
  options.fabric.spines = 4;
  return options;
}

EngineOptions one_rack() { return {}; }

std::vector<int> hosts(int first, int count) {
  std::vector<int> out(static_cast<size_t>(count));
  std::iota(out.begin(), out.end(), first);
  return out;
}

Program program_of(std::vector<Phase> phases, int gpus,
                   PipelineSchedule schedule = PipelineSchedule::kGpipe) {
  Model model;
  model.gpus = {gpus};
  model.phases = std::move(phases);
  return make_program(rank_steps(model, gpus, schedule), 8);
}

/// Rank 0 sends to rank 1, `us` at full rate.
Program one_send(int64_t us) {
  return make_program({{{.send_to = 1, .send_bytes = us * 50'000}}, {{.receive_from = 0}}}, 8);
}

PairSpines all_on(const Program& program, int16_t spine) {
  return PairSpines(program.pairs.size(), spine);
}

TEST(MakeProgram, SumsWhatEachPairSends) {
  const Program program = make_program({{{.compute_us = 7},
                                         {.send_to = 2, .send_bytes = 5, .receive_from = 1},
                                         {.send_to = 1, .send_bytes = 1},
                                         {.send_to = 2, .send_bytes = 6}},
                                        {{.send_to = 0, .send_bytes = 0}, {.receive_from = 0}},
                                        {{.receive_from = 0}, {.receive_from = 0}}},
                                       8);
  EXPECT_EQ(program.gpus, 3);
  EXPECT_EQ(program.pairs, (std::vector<RankPair>{{.from = 0, .to = 1, .bytes = 1},
                                                  {.from = 0, .to = 2, .bytes = 11}}));
}

class PlainEngineTest : public testing::TestWithParam<PlainRates> {
 protected:
  std::unique_ptr<Engine> engine(const EngineOptions& options) {
    return make_plain_engine(options, GetParam());
  }
  /// The time of `iterations` iterations alone from host 0 on.
  Time alone(const Program& program, int64_t iterations, const EngineOptions& options) {
    const std::unique_ptr<Engine> it = engine(options);
    it->start(0, program, hosts(0, program.gpus), all_on(program, 0), iterations);
    const Events events = run(*it);
    EXPECT_EQ(events.size(), 1u);
    EXPECT_EQ(events.front().notice, (Notice{kFinished, 0}));
    EXPECT_EQ(it->counters().iterations, iterations);
    return events.front().time;
  }
};

INSTANTIATE_TEST_SUITE_P(Rates, PlainEngineTest,
                         testing::Values(PlainRates::kAnew, PlainRates::kKept),
                         [](const auto& instance) {
                           return instance.param == PlainRates::kAnew ? "Anew" : "Kept";
                         });

TEST_P(PlainEngineTest, AllReduce) {
  const Program program = program_of({Compute{5'258'000}, AllReduce{137'430'000'000}}, 32);
  const int64_t flow = 2 * int64_t{31} * 137'430'000'000 / 32;
  EXPECT_EQ(alone(program, 3, one_rack()), 3 * (5'258'000 + (flow + 49'999) / 50'000));
}

TEST_P(PlainEngineTest, GPipe) {
  const Pipeline pipeline{.stages = 2,
                          .tensor = 8,
                          .microbatches = 8,
                          .forward_us = 60'000,
                          .backward_us = 111'000,
                          .activation_bytes = 8'390'000,
                          .shard_bytes = 8'590'000'000};
  // A slot for each microbatch and one to fill the pipeline, a blocking send after each of the 8
  // forwards and 8 backwards, then a ring of two.
  EXPECT_EQ(alone(program_of({pipeline}, 32), 2, one_rack()),
            2 * (9 * (60'000 + 111'000) + 16 * 168 + 171'800));
}

TEST_P(PlainEngineTest, AloneInARackTakesTheIdleTime) {
  const Pipeline pipeline{4, 2, 6, 3'000, 5'100, 77'777'777, 123'456'789};
  for (const bool nvlink : {false, true}) {
    EngineOptions options = one_rack();
    options.fabric.nvlink = nvlink;
    for (const Program& program :
         {program_of({Compute{100}, AllReduce{1'000'000'007}}, 16),
          program_of({Compute{1}, StridedRing{987'654'321, 8}}, 32),
          program_of({AllToAllRing{3'333'333'333}, Compute{5}, AllReduce{17}}, 24),
          program_of({pipeline}, 32, PipelineSchedule::kGpipe),
          program_of({pipeline}, 32, PipelineSchedule::kOneForwardOneBackward)}) {
      EXPECT_EQ(alone(program, 2, options),
                2 * idle_iteration_us(program.steps, 50'000, 8, nvlink));
    }
  }
}

TEST_P(PlainEngineTest, ZeroBytesAndFlowsInsideANodeTakeNoTime) {
  EngineOptions options = one_rack();
  EXPECT_EQ(alone(one_send(0), 5, options), 0);
  EXPECT_EQ(alone(one_send(1'000), 1, options), 1'000);
  options.fabric.nvlink = true;
  EXPECT_EQ(alone(one_send(1'000), 5, options), 0);
  const std::unique_ptr<Engine> it = engine(options);
  it->transfer({.from_host = 0, .to_host = 1, .bytes = 1'000'000});  // always over the NICs
  it->transfer({.from_host = 0, .to_host = 8, .bytes = 0});
  EXPECT_EQ(it->next(), 0);
  EXPECT_EQ(run(*it), (Events{{0, {kTransfer, 1}}, {20, {kTransfer, 0}}}));
}

TEST_P(PlainEngineTest, TwoRingsShareAnUplink) {
  // 16 ranks on a node each of two racks; one flow of 1 ms between the racks each way.
  const Program ring = program_of({AllReduce{26'666'667}}, 16);
  ASSERT_EQ(ring.steps[0][0].send_bytes, 50'000'000);
  const auto placed = [](int first_node) {
    std::vector<int> out = hosts(8 * first_node, 8);
    for (const int host : hosts(16 + 8 * first_node, 8)) out.push_back(host);
    return out;
  };
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->start(0, ring, placed(0), all_on(ring, 2), 1);
  run(*it, 500);
  it->start(1, ring, placed(1), all_on(ring, 2), 1);
  EXPECT_EQ(run(*it), (Events{{1'500, {kFinished, 0}}, {2'000, {kFinished, 1}}}));
  // On spines of their own neither waits.
  it->start(2, ring, placed(0), all_on(ring, 2), 1);
  it->start(3, ring, placed(1), all_on(ring, 1), 1);
  EXPECT_EQ(run(*it), (Events{{3'000, {kFinished, 2}}, {3'000, {kFinished, 3}}}));
  EXPECT_EQ(it->counters().flows, 4 * 16);
  EXPECT_EQ(it->counters().contended_flows, 4);
}

TEST_P(PlainEngineTest, ATransferSharesANic) {
  const Program send = one_send(1'000);
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->start(0, send, hosts(0, 2), all_on(send, -1), 1);
  run(*it, 400);
  EXPECT_EQ(
      it->transfer({.job = 9, .from_host = 0, .to_host = 20, .bytes = 10'000'000, .spine = 0}), 0);
  // The transfer takes 400 µs at half the NIC; the job's flow loses 200 µs.
  EXPECT_EQ(run(*it), (Events{{800, {kTransfer, 0}}, {1'200, {kFinished, 0}}}));
}

TEST_P(PlainEngineTest, ARouteChangeKeepsTheBytes) {
  const Program send = one_send(1'000);
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->start(0, send, std::vector<int>{0, 16}, all_on(send, 0), 1);
  it->start(1, send, std::vector<int>{1, 17}, all_on(send, 0), 1);
  run(*it, 600);  // 300 µs' worth each
  it->set_routes(1, all_on(send, 3));
  EXPECT_EQ(run(*it), (Events{{1'300, {kFinished, 0}}, {1'300, {kFinished, 1}}}));
}

TEST_P(PlainEngineTest, ATransferChangesItsSpine) {
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->transfer({.from_host = 0, .to_host = 16, .bytes = 50'000'000, .spine = 0});
  it->transfer({.from_host = 1, .to_host = 17, .bytes = 50'000'000, .spine = 1});
  it->set_transfer_spine(1, 0);
  run(*it, 600);
  it->set_transfer_spine(0, 2);
  EXPECT_EQ(run(*it), (Events{{1'300, {kTransfer, 0}}, {1'300, {kTransfer, 1}}}));
  it->set_transfer_spine(0, 1);  // long over
  EXPECT_EQ(it->next(), kNever);
}

TEST_P(PlainEngineTest, StopAndResume) {
  const Program send = one_send(1'000);
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->start(0, send, std::vector<int>{0, 16}, all_on(send, 0), 3);
  it->start(1, send, std::vector<int>{1, 17}, all_on(send, 0), 1);
  run(*it, 100);
  it->stop(0);
  it->stop(1);  // its last iteration: finishes
  EXPECT_EQ(run(*it), (Events{{2'000, {kStopped, 0}}, {2'000, {kFinished, 1}}}));
  EXPECT_EQ(it->next(), kNever);
  std::vector<Notice> none;
  it->advance(5'000, none);
  it->resume(0, std::vector<int>{8, 24}, all_on(send, 1));
  EXPECT_EQ(run(*it), (Events{{7'000, {kFinished, 0}}}));
}

TEST_P(PlainEngineTest, AStopAtTheEndOfAnIterationWaitsForTheNext) {
  const Program send = one_send(1'000);
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->start(0, send, hosts(0, 2), all_on(send, -1), 5);
  run(*it, 1'000);
  it->stop(0);
  EXPECT_EQ(run(*it), (Events{{2'000, {kStopped, 0}}}));
}

TEST_P(PlainEngineTest, EndsInOneMicrosecondAreReportedInOrder) {
  const Program send = one_send(2);
  const std::unique_ptr<Engine> it = engine(small_fabric());
  it->transfer({.from_host = 3, .to_host = 4, .bytes = 99'999});
  it->transfer({.from_host = 5, .to_host = 6, .bytes = 50'001});
  it->start(7, send, hosts(8, 2), all_on(send, -1), 1);
  it->start(4, send, hosts(10, 2), all_on(send, -1), 2);
  it->stop(4);
  EXPECT_EQ(
      run(*it),
      (Events{{2, {kStopped, 4}}, {2, {kFinished, 7}}, {2, {kTransfer, 0}}, {2, {kTransfer, 1}}}));
}

TEST_P(PlainEngineTest, SprayedFlowsShareAllSpines) {
  EngineOptions options = small_fabric();
  options.fabric.spray = true;
  const std::unique_ptr<Engine> it = engine(options);
  // Eight flows leave a rack with four uplinks.
  for (int i = 0; i < 8; ++i) {
    it->transfer({.from_host = i, .to_host = 16 + i, .bytes = 50'000'000, .spine = -1});
  }
  const Events events = run(*it);
  ASSERT_EQ(events.size(), 8u);
  for (const Event& event : events) EXPECT_EQ(event.time, 2'000);
}

TEST_P(PlainEngineTest, SglbTakesASpineThatIsFree) {
  EngineOptions options = small_fabric();
  options.sglb = SglbRule();
  const std::unique_ptr<Engine> it = engine(options);
  for (int i = 0; i < 3; ++i) {
    it->transfer({.job = i, .from_host = i, .to_host = 16 + i, .bytes = 50'000'000, .spine = 0});
  }
  EXPECT_EQ(run(*it),
            (Events{{1'000, {kTransfer, 0}}, {1'000, {kTransfer, 1}}, {1'000, {kTransfer, 2}}}));
}

TEST_P(PlainEngineTest, SglbMovesAFlowAtATick) {
  EngineOptions options = small_fabric();
  options.fabric.spines = 2;
  options.sglb = SglbRule();
  // 0 and 1 take a spine each; 2 is chosen so that it joins 0. When 1 has ended, the next tick
  // moves 0 to its spine.
  uint64_t job = 0;
  while (flow_hash(2, 18, job) % 2 != flow_hash(0, 16, 0) % 2) ++job;
  const std::unique_ptr<Engine> it = engine(options);
  it->transfer({.job = 0, .from_host = 0, .to_host = 16, .bytes = 1'000'000'000});
  it->transfer({.job = 0, .from_host = 1, .to_host = 17, .bytes = 50'000'000});
  it->transfer(
      {.job = static_cast<int>(job), .from_host = 2, .to_host = 18, .bytes = 1'000'000'000});
  EXPECT_EQ(run(*it),
            (Events{{1'000, {kTransfer, 1}}, {25'000, {kTransfer, 0}}, {25'000, {kTransfer, 2}}}));
}

/// Jobs that come, go, stop, move and change routes at random; what the engine reports.
Events random_life(Engine& engine, const FabricShape& shape, uint32_t seed) {
  std::mt19937 random(seed);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<uint32_t>(n)); };
  const Pipeline pipeline{2, 4, 3, 20, 35, 1'234'567, 33'333'333};
  const std::vector<Program> programs = {
      program_of({Compute{300}, AllReduce{40'000'001}}, 16),
      program_of({Compute{90}, StridedRing{31'234'567, 8}}, 16),
      program_of({AllToAllRing{1'111'111'111}, Compute{50}, AllReduce{9'999'999}}, 16),
      program_of({pipeline}, 16, PipelineSchedule::kOneForwardOneBackward)};
  enum class State { kRuns, kStops, kStands };
  struct Running {
    const Program* program;
    std::vector<int> nodes;
    State state;
  };
  std::map<int, Running> jobs;
  std::vector<bool> used(static_cast<size_t>(shape.gpus / shape.gpus_per_node));
  const auto take_nodes = [&] {
    std::vector<int> nodes;
    for (int tries = 0; tries < 50 && nodes.size() < 2; ++tries) {
      const int node = below(static_cast<int>(used.size()));
      if (used[static_cast<size_t>(node)]) continue;
      used[static_cast<size_t>(node)] = true;
      nodes.push_back(node);
    }
    if (nodes.size() == 1) used[static_cast<size_t>(nodes[0])] = false, nodes.clear();
    return nodes;
  };
  const auto hosts_of = [&](const std::vector<int>& nodes) {
    std::vector<int> out;
    for (const int node : nodes) {
      for (const int host : hosts(8 * node, 8)) out.push_back(host);
    }
    return out;
  };
  const auto random_spines = [&](const Program& program) {
    PairSpines spines;
    for (size_t i = 0; i < program.pairs.size(); ++i) {
      spines.push_back(static_cast<int16_t>(below(shape.spines)));
    }
    return spines;
  };
  const auto random_transfer = [&] {
    const int from = below(shape.gpus);
    const int to = (from + 1 + below(shape.gpus - 1)) % shape.gpus;
    engine.transfer({below(5), from, to, below(60'000'000), below(shape.spines)});
  };
  Events events;
  int next_job = 0, transfers = 0;
  Time time = 0;
  for (int step = 0; step < 400; ++step) {
    const Time next = engine.next();
    const bool early = next == kNever || below(4) == 0;
    time = early ? std::min(next, time + below(700)) : next;
    std::vector<Notice> notices;
    engine.advance(time, notices);
    for (const Notice& notice : notices) {
      events.push_back({time, notice});
      if (notice.kind == kTransfer) continue;
      Running& job = jobs.at(notice.index);
      for (const int node : job.nodes) used[static_cast<size_t>(node)] = false;
      job.state = State::kStands;
      if (notice.kind == kFinished) jobs.erase(notice.index);
    }
    for (auto& [index, job] : jobs) {
      if (job.state == State::kStands) {
        if (below(3) != 0) continue;
        job.nodes = take_nodes();
        if (!job.nodes.empty()) {
          engine.resume(index, hosts_of(job.nodes), random_spines(*job.program));
          job.state = State::kRuns;
        }
      } else if (job.state == State::kRuns && below(40) == 0) {
        engine.stop(index);
        job.state = State::kStops;
      } else if (below(15) == 0) {
        engine.set_routes(index, random_spines(*job.program));
      }
    }
    if (below(5) == 0) {
      if (const std::vector<int> nodes = take_nodes(); !nodes.empty()) {
        const Program& program = programs[static_cast<size_t>(below(4))];
        jobs[next_job] = {&program, nodes, State::kRuns};
        engine.start(next_job++, program, hosts_of(nodes), random_spines(program), 1 + below(6));
      }
    }
    if (below(10) == 0) random_transfer(), ++transfers;
    if (transfers > 0 && below(10) == 0) {
      engine.set_transfer_spine(below(transfers), below(shape.spines));
    }
  }
  // What runs comes to its end while the programs live.
  for (const Event& event : run(engine)) events.push_back(event);
  return events;
}

TEST(PlainEngine, RatesAnewAndKeptGiveTheSame) {
  for (uint32_t seed = 0; seed < 36; ++seed) {
    EngineOptions options = small_fabric();
    options.fabric.nvlink = seed % 2 == 1;
    options.fabric.spray = seed % 6 == 2;
    if (seed % 3 == 0) options.sglb = SglbRule{.tick_us = 100, .count_self = seed % 4 == 0};
    const std::unique_ptr<Engine> anew = make_plain_engine(options, PlainRates::kAnew);
    const std::unique_ptr<Engine> kept = make_plain_engine(options, PlainRates::kKept);
    const Events events = random_life(*anew, options.fabric, seed);
    ASSERT_EQ(events, random_life(*kept, options.fabric, seed)) << "seed " << seed;
    ASSERT_GT(events.size(), 30u);
    ASSERT_GT(anew->counters().contended_flows, 0);
  }
}

}  // namespace
}  // namespace monkeytree
