#include "workload/model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "workload/idle.h"

namespace monkeytree {
namespace {

constexpr double kRate = 50'000;  // 400 Gb/s in bytes/µs
constexpr auto kGpipe = PipelineSchedule::kGpipe;
constexpr auto kPaired = PipelineSchedule::kOneForwardOneBackward;

Model model_of(std::vector<Phase> phases) {
  Model model;
  model.name = "m";
  model.phases = std::move(phases);
  return model;
}

Pipeline pipeline_of(int stages, int tensor, int microbatches) {
  return {stages, tensor, microbatches, 60'000, 111'000, 8'390'000, 8'590'000'000};
}

int64_t idle(const Model& model, int gpus, PipelineSchedule schedule = kGpipe) {
  return idle_iteration_us(rank_steps(model, gpus, schedule), kRate, 8, false);
}

/// Sends and receipts by pair of ranks.
using Traffic = std::map<std::pair<int, int>, std::vector<int64_t>>;

Traffic sends(const RankSteps& steps) {
  Traffic out;
  for (int rank = 0; rank < static_cast<int>(steps.size()); ++rank) {
    for (const Step& step : steps[static_cast<size_t>(rank)]) {
      if (step.send_to >= 0) out[{rank, step.send_to}].push_back(step.send_bytes);
    }
  }
  return out;
}

std::map<std::pair<int, int>, size_t> receipts(const RankSteps& steps) {
  std::map<std::pair<int, int>, size_t> out;
  for (int rank = 0; rank < static_cast<int>(steps.size()); ++rank) {
    for (const Step& step : steps[static_cast<size_t>(rank)]) {
      if (step.receive_from >= 0) ++out[{step.receive_from, rank}];
    }
  }
  return out;
}

TEST(RankSteps, AllReduceIsOneFlowToTheNextRank) {
  const RankSteps steps = rank_steps(model_of({Compute{7}, AllReduce{1000}}), 3, kGpipe);
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0], (std::vector<Step>{{7, -1, 0, -1}, {0, 1, 1333, 2}}));
  EXPECT_EQ(steps[2], (std::vector<Step>{{7, -1, 0, -1}, {0, 0, 1333, 1}}));
}

TEST(RankSteps, StridedRingsKeepTheTensorPosition) {
  const RankSteps steps = rank_steps(model_of({StridedRing{100, 4}}), 12, kGpipe);
  for (int rank = 0; rank < 12; ++rank) {
    const std::vector<Step> expected = {{0, (rank + 4) % 12, 133, (rank + 8) % 12}};
    EXPECT_EQ(steps[static_cast<size_t>(rank)], expected);
  }
}

TEST(RankSteps, AllToAllMeetsEveryOtherRankOnce) {
  const RankSteps steps = rank_steps(model_of({AllToAllRing{1'000'000}}), 5, kGpipe);
  const Traffic traffic = sends(steps);
  EXPECT_EQ(traffic.size(), 20u);
  for (const auto& [pair, bytes] : traffic) EXPECT_EQ(bytes, std::vector<int64_t>{50'000});
  EXPECT_EQ(steps[4][0], (Step{0, 0, 50'000, 3}));
}

TEST(RankSteps, NothingIsSentWhereNobodyElseIs) {
  const Model model = model_of({Compute{5}, AllReduce{9}, AllToAllRing{9}, StridedRing{9, 1}});
  EXPECT_EQ(rank_steps(model, 1, kGpipe), (RankSteps{{{5, -1, 0, -1}}}));
}

TEST(RankSteps, TinySizesKeepTheirMeeting) {
  const RankSteps steps = rank_steps(model_of({AllToAllRing{1}, AllReduce{0}}), 2, kGpipe);
  EXPECT_EQ(steps[0], (std::vector<Step>{{0, 1, 0, 1}, {0, 1, 0, 1}}));
}

TEST(RankSteps, ComputingInARowIsOneStep) {
  const Model model = model_of({Compute{1}, Compute{0}, Compute{2}, pipeline_of(1, 1, 3)});
  EXPECT_EQ(rank_steps(model, 1, kGpipe), (RankSteps{{{3 + 3 * 171'000, -1, 0, -1}}}));
}

TEST(RankSteps, GpipeSendsAllForwardThenAllBackward) {
  const RankSteps steps = rank_steps(model_of({pipeline_of(2, 1, 2)}), 2, kGpipe);
  const int64_t a = 8'390'000;
  EXPECT_EQ(
      steps[0],
      (std::vector<Step>{
          {60'000}, {0, 1, a, -1}, {60'000}, {0, 1, a, 1}, {111'000}, {0, -1, 0, 1}, {111'000}}));
  EXPECT_EQ(steps[1], (std::vector<Step>{{0, -1, 0, 0},
                                         {60'000},
                                         {0, -1, 0, 0},
                                         {171'000},
                                         {0, 0, a, -1},
                                         {111'000},
                                         {0, 0, a, -1}}));
}

TEST(RankSteps, OneForwardOneBackwardAlternates) {
  const RankSteps steps = rank_steps(model_of({pipeline_of(2, 1, 3)}), 2, kPaired);
  const int64_t a = 8'390'000;
  EXPECT_EQ(steps[0], (std::vector<Step>{{60'000},
                                         {0, 1, a, -1},
                                         {60'000},
                                         {0, 1, a, 1},
                                         {171'000},
                                         {0, 1, a, 1},
                                         {111'000},
                                         {0, -1, 0, 1},
                                         {111'000}}));
  EXPECT_EQ(steps[1], (std::vector<Step>{{0, -1, 0, 0},
                                         {171'000},
                                         {0, 0, a, 0},
                                         {171'000},
                                         {0, 0, a, 0},
                                         {171'000},
                                         {0, 0, a, -1}}));
}

// The programs end, each send has its receipt, and both schedules send the same.
TEST(RankSteps, NoPipelineWaitsForEver) {
  for (int stages = 1; stages <= 9; ++stages) {
    for (int microbatches = 1; microbatches <= 12; ++microbatches) {
      for (int replicas = 1; replicas <= 3; ++replicas) {
        const Model model = model_of({pipeline_of(stages, 2, microbatches)});
        const int gpus = stages * 2 * replicas;
        const RankSteps gpipe = rank_steps(model, gpus, kGpipe);
        const RankSteps paired = rank_steps(model, gpus, kPaired);
        const int64_t gpipe_us = idle_iteration_us(gpipe, kRate, 8, false);
        const int64_t paired_us = idle_iteration_us(paired, kRate, 8, false);
        ASSERT_GT(gpipe_us, 0) << stages << " stages, " << microbatches << " microbatches";
        ASSERT_GT(paired_us, 0) << stages << " stages, " << microbatches << " microbatches";
        // The same bubble but for sends, which 1F1B hides less well.
        const int64_t bubble_free = (microbatches + stages - 1) * int64_t{171'000};
        EXPECT_GE(paired_us, bubble_free);
        EXPECT_LE(paired_us, gpipe_us + 2 * 168 * (microbatches + stages));
        ASSERT_EQ(sends(gpipe), sends(paired));
        ASSERT_EQ(receipts(gpipe), receipts(paired));
        for (const auto& [pair, bytes] : sends(gpipe)) {
          ASSERT_EQ(receipts(gpipe)[pair], bytes.size());
        }
      }
    }
  }
}

TEST(IdleIteration, ComputeThenRing) {
  // 2·31/32 · 137.43 GB at 50,000 bytes/µs, rounded up.
  EXPECT_EQ(idle(model_of({Compute{5'258'000}, AllReduce{137'430'000'000}}), 32), 10'583'413);
}

TEST(IdleIteration, TrafficInsideANodeIsFreeWithNvlink) {
  const RankSteps eight = rank_steps(model_of({Compute{10}, AllReduce{1'000'000}}), 8, kGpipe);
  EXPECT_EQ(idle_iteration_us(eight, kRate, 8, true), 10);
  EXPECT_EQ(idle_iteration_us(eight, kRate, 8, false), 10 + 35);
  EXPECT_EQ(idle_iteration_us(eight, kRate, 4, true), 10 + 35);
}

TEST(IdleIteration, SaysWhenStepsWaitForEver) {
  const Step to_one{0, 1, 5, -1}, to_zero{0, 0, 5, -1}, from_one{0, -1, 0, 1},
      from_zero{0, -1, 0, 0};
  EXPECT_EQ(idle_iteration_us({{to_one, from_one}, {to_zero, from_zero}}, kRate, 8, false), -1);
  EXPECT_EQ(idle_iteration_us({{to_one, from_one}, {from_zero, to_zero}}, kRate, 8, false), 2);
  EXPECT_EQ(idle_iteration_us({}, kRate, 8, false), 0);
}

TEST(Misfit, SaysWhatWouldFit) {
  EXPECT_EQ(misfit(model_of({StridedRing{1, 8}}), 12), "needs a multiple of 8 GPUs");
  EXPECT_EQ(misfit(model_of({pipeline_of(2, 8, 8)}), 24), "needs a multiple of 16 GPUs");
  EXPECT_EQ(misfit(model_of({AllReduce{1}}), 0), "needs at least 1 GPU");
  EXPECT_EQ(misfit(model_of({AllReduce{1}}), 13), "");
  EXPECT_EQ(misfit(model_of({AllToAllRing{1}}), 10'000),
            "takes 9999 steps an iteration on each of 10000 GPUs, more than 16777216 in all");
  EXPECT_NE(misfit(model_of({pipeline_of(65536, 65536, 1)}), 1 << 20), "");
}

TEST(RankGroups, OneForEachStageOfWholeNodes) {
  const Model pipeline = model_of({pipeline_of(2, 8, 8)});
  std::vector<RankGroup> groups = rank_groups(pipeline, 48, 8);
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[1].first_rank, 24);
  EXPECT_EQ(groups[1].ranks, 24);
  EXPECT_EQ(groups[1].rings, 8);
  groups = rank_groups(pipeline, 16, 8);  // one replica: no ring
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].rings, 0);
  groups = rank_groups(model_of({pipeline_of(4, 2, 8)}), 16, 8);  // two stages in a node
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].ranks, 16);
  EXPECT_EQ(groups[0].rings, 2);
}

TEST(RankGroups, WeightIsTheNumberOfRings) {
  const auto rings = [](std::vector<Phase> phases, int gpus) {
    const std::vector<RankGroup> groups = rank_groups(model_of(std::move(phases)), gpus, 8);
    return groups.size() == 1 ? groups[0].rings : -1;
  };
  EXPECT_EQ(rings({Compute{1}, AllReduce{1}}, 16), 1);
  EXPECT_EQ(rings({StridedRing{1, 8}}, 16), 8);
  EXPECT_EQ(rings({StridedRing{1, 8}}, 8), 0);
  EXPECT_EQ(rings({AllToAllRing{1}}, 16), 1);
  EXPECT_EQ(rings({AllReduce{1}, StridedRing{1, 4}}, 16), 4);
  EXPECT_EQ(rings({pipeline_of(2, 8, 1), AllReduce{1}}, 32), 8);
  EXPECT_EQ(rings({Compute{1}}, 16), 0);
}

TEST(State, ShardsCarryFourteenBytesAParameter) {
  const auto shard = [](const Model& model, int gpus) {
    return state_bytes(model, gpus, 0, StateRule::kShard);
  };
  Model sharded = model_of({Compute{1}, AllReduce{137'430'000'000}});
  EXPECT_EQ(shard(sharded, 32), 7 * int64_t{137'430'000'000});
  sharded.sharded = true;
  EXPECT_EQ(shard(sharded, 32), 7 * (int64_t{137'430'000'000} / 32));
  EXPECT_EQ(shard(model_of({StridedRing{17'180'000'000, 8}}), 16), 7 * int64_t{17'180'000'000});
  EXPECT_EQ(shard(model_of({pipeline_of(2, 8, 8)}), 32), 7 * int64_t{8'590'000'000});
  EXPECT_EQ(shard(model_of({AllToAllRing{376'000'000}, AllReduce{8}}), 16), 56);
}

TEST(State, PaperCarriesWhatTheRankSends) {
  const std::vector<Phase> phases = {AllReduce{1001}, StridedRing{999, 4}, AllToAllRing{77'777},
                                     pipeline_of(3, 2, 5)};
  for (int gpus : {12, 24}) {
    const Model model = model_of(phases);
    const RankSteps steps = rank_steps(model, gpus, kPaired);
    for (int rank = 0; rank < gpus; ++rank) {
      int64_t sent = 0;
      for (const Step& step : steps[static_cast<size_t>(rank)]) sent += step.send_bytes;
      EXPECT_EQ(state_bytes(model, gpus, rank, StateRule::kPaper), sent) << "rank " << rank;
    }
  }
}

TEST(ComputeTime, IsThatOfTheStepsOfAnyRank) {
  const Model model = model_of({Compute{11}, AllReduce{5}, Compute{2}, pipeline_of(4, 1, 3)});
  for (const std::vector<Step>& steps : rank_steps(model, 8, kPaired)) {
    int64_t sum = 0;
    for (const Step& step : steps) sum += step.compute_us;
    EXPECT_EQ(sum, compute_us(model, 8));
  }
}

TEST(RingBytes, RoundsDown) {
  EXPECT_EQ(ring_bytes(100, 1), 0);
  EXPECT_EQ(ring_bytes(100, 2), 100);
  for (int64_t bytes = 0; bytes < 50; ++bytes) {
    for (int ranks = 2; ranks < 20; ++ranks) {
      EXPECT_EQ(ring_bytes(bytes, ranks), 2 * (ranks - 1) * bytes / ranks);
    }
  }
}

}  // namespace
}  // namespace monkeytree
