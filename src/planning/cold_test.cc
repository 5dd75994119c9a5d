// Plans for clusters where many racks are over their bound at once: sound, never below the bound
// that is proved for them, and as good as it where there is room.

#include "planning/cold.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/cold_landing.h"
#include "planning/cold_plan.h"
#include "planning/counts.h"
#include "planning/milp.h"
#include "planning/order.h"
#include "planning/plan.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

constexpr int64_t kCells = 10'000'000;
constexpr int64_t kNodes = 20'000;

/// Small, and most racks over their bound; features by the seed.
RandomShape cold_shape(uint64_t seed) {
  Random random(seed);
  RandomShape shape;
  shape.racks_low = 8;
  shape.racks_high = 12;
  shape.scatter = 0.4;
  shape.bound_low = 1;
  shape.fill = random.chance(0.5) ? 0.75 : 0.95;
  if (random.chance(0.3)) shape.weights = {1, 8};
  if (random.chance(0.2)) shape.classes = 2;
  if (random.chance(0.2)) shape.islands = 2;
  if (random.chance(0.2)) shape.pinned = 0.1;
  if (random.chance(0.2)) shape.drained = 0.1;
  if (random.chance(0.2)) shape.uneven_racks = true;
  if (random.chance(0.2)) shape.slots_per_node = 2;
  return shape;
}

/// 256 racks of 8 nodes, about a fifth of them over their bound.
Snapshot middle_sized(uint64_t seed, double fill) {
  RandomShape shape;
  shape.racks_low = shape.racks_high = 256;
  shape.nodes_per_rack = 8;
  shape.bound_low = shape.bound_high = 2;
  shape.largest_group = 8;
  shape.scatter = 0.02;
  shape.fill = fill;
  return random_snapshot(seed, shape);
}

int moves_of(const std::vector<CountChange>& changes) {
  int sum = 0;
  for (const CountChange& change : changes) sum += std::max(0, change.delta);
  return sum;
}

void expect_untouched(const Counts& counts, const Snapshot& snapshot) {
  const Counts fresh(snapshot);
  EXPECT_EQ(counts.over(), fresh.over());
  EXPECT_EQ(counts.excess(), fresh.excess());
  EXPECT_TRUE(counts.kinds() == fresh.kinds());
  for (size_t r = 0; r < counts.rack_count(); ++r) {
    EXPECT_EQ(counts.rack(RackId(r)).bound, fresh.rack(RackId(r)).bound);
    EXPECT_EQ(counts.rack(RackId(r)).degree, fresh.rack(RackId(r)).degree);
    EXPECT_EQ(counts.rack(RackId(r)).groups, fresh.rack(RackId(r)).groups);
  }
}

/// The changes can be carried out node by node; what excess they leave.
int excess_after(const Snapshot& snapshot, const std::vector<CountChange>& changes) {
  const auto rounds = order_moves(snapshot, changes);
  EXPECT_TRUE(rounds.has_value());
  if (!rounds) return -1;
  return excess(fragmentation(apply_rounds(snapshot, *rounds)), bounds(snapshot));
}

TEST(Cold, PlansAreSoundOnSmallClustersWithAllFeatures) {
  int plans = 0, cold = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Snapshot snapshot = random_snapshot(seed, cold_shape(seed));
    Counts counts(snapshot);
    if (counts.excess() == 0) continue;
    const ColdBound bound = cold_bound(counts, kCells);
    if (!bound.possible) continue;
    ++cold;
    const ColdPlan plan = cold_plan(counts, bound, {nullptr, kNodes});
    expect_untouched(counts, snapshot);
    EXPECT_EQ(moves_of(plan.changes), plan.moves);
    EXPECT_EQ(excess_after(snapshot, plan.changes), plan.excess);
    if (plan.excess > 0) continue;
    ++plans;
    EXPECT_GE(plan.moves, bound.moves);
  }
  EXPECT_GT(cold, 200);
  EXPECT_GT(plans, cold / 2);
}

TEST(Cold, LandingNeverRaisesADegreeAboveItsBound) {
  for (uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Snapshot snapshot = random_snapshot(seed, cold_shape(seed));
    Counts counts(snapshot);
    const ColdBound bound = cold_bound(counts, kCells);
    if (!bound.possible) continue;
    const ColdLanding landing = land_cover(counts, bound);
    const std::vector<Counts::Shift> shifts = counts.shift(landing.changes);
    const Counts before(snapshot);
    for (size_t r = 0; r < counts.rack_count(); ++r) {
      const int allowed = std::max(before.rack(RackId(r)).bound, before.rack(RackId(r)).degree);
      EXPECT_LE(counts.rack(RackId(r)).degree, allowed) << "rack " << r;
    }
    if (landing.dropped.empty() && !bound.evict.empty()) {
      EXPECT_EQ(counts.excess(), 0);
    }
    counts.unshift(shifts);
    EXPECT_GE(excess_after(snapshot, landing.changes), 0);
  }
}

TEST(Cold, BoundAndPlanEncloseTheIntegerProgramsOptimum) {
  int compared = 0;
  for (uint64_t seed = 1000; seed < 1040; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomShape shape = cold_shape(seed);
    shape.racks_high = 9;
    shape.scatter = 0.25;
    const Snapshot snapshot = random_snapshot(seed, shape);
    Counts counts(snapshot);
    if (counts.excess() == 0) continue;
    const MilpAnswer reference = milp_answer(snapshot, {}, 2);
    const ColdBound bound = cold_bound(counts, kCells);
    if (!bound.possible) {
      EXPECT_TRUE(reference.status == PlanStatus::kInfeasible ||
                  reference.status == PlanStatus::kUnknown);
      continue;
    }
    const ColdPlan plan = cold_plan(counts, bound, {nullptr, kNodes});
    if (reference.status == PlanStatus::kInfeasible) {
      EXPECT_GT(plan.excess, 0);
      continue;
    }
    if (reference.status != PlanStatus::kOptimal) continue;
    ++compared;
    EXPECT_LE(bound.moves, reference.moves);
    if (plan.excess == 0) {
      EXPECT_GE(plan.moves, reference.moves);
    }
  }
  EXPECT_GT(compared, 10);
}

TEST(Cold, MiddleSizedClustersAreProved) {
  for (uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Snapshot snapshot = middle_sized(seed, 0.9);
    EXPECT_GT(Counts(snapshot).over().size(), 25u);
    const Plan answer = plan(snapshot);
    EXPECT_EQ(answer.status, PlanStatus::kOptimal);
    EXPECT_EQ(answer.excess_after, 0);
    EXPECT_EQ(excess(fragmentation(apply_rounds(snapshot, answer.rounds)), bounds(snapshot)), 0);
  }
}

TEST(Cold, NearlyFullClustersGetAPlanNearTheBound) {
  for (uint64_t seed = 0; seed < 3; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Snapshot snapshot = middle_sized(seed, 0.97);
    PlanOptions options;
    options.work_limit = 200'000;
    const Plan answer = plan(snapshot, options);
    ASSERT_TRUE(answer.lower_bound.has_value());
    EXPECT_EQ(answer.excess_after, 0);
    EXPECT_LE(answer.moves * 100, *answer.lower_bound * 120);
    EXPECT_EQ(plan(snapshot, options).rounds, answer.rounds);
  }
}

TEST(Cold, BestEffortLowersTheExcessOfAFullClusterWhateverTheWork) {
  const Snapshot snapshot = middle_sized(3, 1.0);
  PlanOptions options;
  options.best_effort = true;
  int before = Counts(snapshot).excess();
  for (const int64_t work : {10'000, 100'000}) {
    SCOPED_TRACE(work);
    options.work_limit = work;
    const Plan answer = plan(snapshot, options);
    EXPECT_EQ(answer.status, PlanStatus::kFeasible);
    EXPECT_EQ(excess(fragmentation(apply_rounds(snapshot, answer.rounds)), bounds(snapshot)),
              answer.excess_after);
    EXPECT_LT(answer.excess_after, before);
    EXPECT_EQ(plan(snapshot, options).rounds, answer.rounds);
    before = answer.excess_after;
  }
  EXPECT_LT(before, Counts(snapshot).excess() / 2);
}

TEST(Cold, StopEndsWithWhatThereIs) {
  const Snapshot snapshot = middle_sized(7, 0.97);
  Counts counts(snapshot);
  const ColdBound bound = cold_bound(counts, kCells);
  const ColdPlan plan = cold_plan(counts, bound, {[] { return true; }, INT64_MAX});
  expect_untouched(counts, snapshot);
  EXPECT_EQ(excess_after(snapshot, plan.changes), plan.excess);
  EXPECT_LT(plan.excess, counts.excess());
}

}  // namespace
}  // namespace monkeytree
