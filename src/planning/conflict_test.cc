// Proofs that no placement meets the bounds, in clusters too large for a sweep over all racks:
// found where the conflict is, with the racks named that it is between.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "planning/plan.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;

/// Racks of four nodes in pods of `pod` racks, an island each.
Snapshot cluster(int racks, int pod, int uplinks) {
  Snapshot s;
  s.classes.push_back("default");
  for (int r = 0; r < racks; ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r);
    rack.island = IslandId(r / pod);
    rack.uplinks = uplinks;
    rack.spines.resize(static_cast<size_t>(uplinks));
    std::iota(rack.spines.begin(), rack.spines.end(), 0);
    if (rack.island.value >= static_cast<int>(s.islands.size())) {
      s.islands.push_back(fmt::format("pod{}", rack.island.value));
    }
    for (int n = 0; n < 4; ++n) {
      Node node;
      node.name = fmt::format("r{}n{}", r, n);
      node.rack = RackId(r);
      rack.nodes.push_back(s.nodes.push_back(node));
    }
    s.racks.push_back(rack);
  }
  return s;
}

/// A job on nodes given by rack and place; the first `pinned` workers are.
void add_job(Snapshot& s, const std::vector<std::pair<int, int>>& places, int pinned = 0) {
  Job job;
  job.id = fmt::format("j{}", s.jobs.size());
  Group group;
  group.job = JobId(s.jobs.size());
  for (const auto& [rack, place] : places) group.workers.push_back(NodeId(4 * rack + place));
  for (int i = 0; i < pinned; ++i) group.pinned.push_back(i);
  job.first_group = s.groups.push_back(std::move(group));
  job.group_count = 1;
  s.jobs.push_back(std::move(job));
}

void set_bound(Snapshot& s, int rack, int bound) {
  s.racks[RackId(rack)].uplinks = bound;
  s.racks[RackId(rack)].spines.resize(static_cast<size_t>(bound));
}

TEST(Conflict, TwoJobsThatMustBothGatherInARackForOne) {
  Snapshot s = cluster(200, 200, 2);
  set_bound(s, 7, 0);
  add_job(s, {{7, 0}, {8, 0}, {8, 1}}, 1);
  add_job(s, {{7, 1}, {9, 0}, {9, 1}}, 1);
  const Plan answer = plan(s);
  EXPECT_EQ(answer.status, PlanStatus::kInfeasible);
  EXPECT_THAT(answer.conflict, ElementsAre(RackId(7)));
}

TEST(Conflict, AFullPodOfALargeCluster) {
  // Four jobs of three in three racks of four: one of them is in pieces, whatever moves.
  Snapshot s = cluster(120, 3, 1);
  for (const int r : {30, 31, 32}) {
    set_bound(s, r, 0);
    add_job(s, {{r, 0}, {r, 1}, {r, 2}});
  }
  add_job(s, {{30, 3}, {31, 3}, {32, 3}});
  add_job(s, {{50, 0}, {51, 0}});
  const Plan answer = plan(s);
  EXPECT_EQ(answer.status, PlanStatus::kInfeasible);
  // The pod is full, so each of its racks would have to hold whole jobs of three in four places.
  EXPECT_THAT(answer.conflict, ElementsAre(RackId(32)));
}

TEST(Conflict, APodWhoseJobsAreLargerThanItsRacks) {
  Snapshot s = cluster(400, 40, 1);
  for (int k = 0; k < 8; ++k) {
    std::vector<std::pair<int, int>> places;
    for (int i = 0; i < 20; ++i) places.emplace_back(80 + (20 * k + i) / 4, i % 4);
    for (auto& [rack, place] : places) rack = 80 + (rack - 80 + 7 * place) % 40;
    add_job(s, places);
  }
  PlanOptions options;
  options.work_limit = 1000;
  EXPECT_NE(plan(s, options).status, PlanStatus::kInfeasible);  // five racks for each of eight jobs
  for (int r = 80; r < 85; ++r) set_bound(s, r, 0);
  const Plan answer = plan(s);
  EXPECT_EQ(answer.status, PlanStatus::kInfeasible);
  EXPECT_EQ(answer.conflict.size(), 40u);
  EXPECT_EQ(answer.conflict.front(), RackId(80));
}

}  // namespace
}  // namespace monkeytree
