#include "planning/milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/check.h"
#include "planning/every_placement.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using testing::IsEmpty;

void expect_sound(const Snapshot& s, const Plan& plan) {
  ASSERT_THAT(check_plan(s, record_of(s, plan, "")), IsEmpty());
}

std::vector<RandomShape> tiny_shapes() {
  RandomShape plain;
  plain.racks_low = 3;
  plain.racks_high = 4;
  plain.nodes_per_rack = 3;
  plain.bound_low = 0;
  plain.bound_high = 2;
  plain.scatter = 0.7;
  RandomShape weighted = plain;
  weighted.weights = {1, 8};
  weighted.pinned = 0.1;
  weighted.fill = 0.85;
  RandomShape rough = plain;
  rough.pinned = 0.15;
  rough.drained = 0.15;
  rough.immovable_jobs = 0.1;
  rough.uneven_bounds = true;
  RandomShape classes = plain;
  classes.classes = 2;
  classes.drained = 0.1;
  RandomShape islands = plain;
  islands.racks_low = islands.racks_high = 4;
  islands.islands = 2;
  RandomShape slots = plain;
  slots.nodes_per_rack = 2;
  slots.slots_per_node = 4;
  slots.worker_slots = {2};
  slots.largest_group = 5;
  slots.pinned = 0.15;
  slots.drained = 0.15;
  return {plain, weighted, rough, classes, islands, slots};
}

TEST(Milp, EqualsEveryPlacementOnTinyClusters) {
  Random random(7);
  std::map<PlanStatus, int> seen;
  int compared = 0;
  const std::vector<RandomShape> shapes = tiny_shapes();
  for (int i = 0; i < 600; ++i) {
    const Snapshot s =
        random_snapshot(random.next(), shapes[static_cast<size_t>(i) % shapes.size()]);
    PlanOptions options;
    options.best_effort = i % 4 == 1;
    if (i % 5 == 2) options.mend = std::vector<RackId>{RackId(0), RackId(1)};
    const IdVector<RackId, int> bounds = effective_bounds(s, options);
    const EveryPlacement every(s, bounds);
    if (!every.complete()) continue;
    const int excess = every.least_excess();
    const int moves = every.fewest(excess).value();
    ++compared;
    const Plan answer = plan_milp(s, options, 60);
    ++seen[answer.status];
    if (answer.excess_before == 0) {
      ASSERT_EQ(answer.status, PlanStatus::kCompliant) << i;
      ASSERT_EQ(moves, 0) << i;
    } else if (excess > 0 && !options.best_effort) {
      ASSERT_EQ(answer.status, PlanStatus::kInfeasible) << i;
    } else {
      ASSERT_EQ(answer.status, PlanStatus::kOptimal) << i;
      ASSERT_EQ(answer.moves, moves) << i;
      ASSERT_EQ(answer.lower_bound, moves) << i;
      ASSERT_EQ(answer.excess_after, excess) << i;
    }
    expect_sound(s, answer);
  }
  EXPECT_GT(compared, 580);
  EXPECT_GT(seen[PlanStatus::kCompliant], 20);
  EXPECT_GT(seen[PlanStatus::kOptimal], 200);
  EXPECT_GT(seen[PlanStatus::kInfeasible], 20);
}

TEST(Milp, DigestDiagrams) {
  const std::string b = "R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..\n";
  const std::string c = "R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n";
  const auto moves = [](const std::string& rows, int bound) {
    const Snapshot s = parse_letters(rows, {bound, {}}).value();
    const MilpAnswer answer = milp_answer(s, {}, 60);
    EXPECT_EQ(answer.lower_bound, answer.moves);
    return answer.moves;
  };
  EXPECT_EQ(moves(b, 1), 12);
  EXPECT_EQ(moves(b, 2), 4);
  EXPECT_EQ(moves(b, 3), 1);
  EXPECT_EQ(moves(c, 1), 9);
  EXPECT_EQ(moves(c, 2), 2);
  EXPECT_EQ(moves(c, 3), 0);
}

TEST(Milp, NamesTheRacksInConflict) {
  // Two jobs each larger than a rack share one of three racks: the bound of Theorem 1 is tight.
  const Snapshot s = parse_letters("R1 AAA\nR2 ABB\nR3 BB.\nR4 CC.\n", {1, {}}).value();
  const Plan plan = plan_milp(s, {}, 60);
  EXPECT_EQ(plan.status, PlanStatus::kOptimal);
  Snapshot fixed = s;
  fixed.jobs[JobId(0)].movable = fixed.jobs[JobId(1)].movable = false;
  const Plan none = plan_milp(fixed, {}, 60);
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_EQ(none.conflict, std::vector<RackId>{RackId(1)});
  EXPECT_THAT(check_plan(fixed, record_of(fixed, none, "")), IsEmpty());
}

TEST(Milp, AnEmptyClusterIsCompliant) {
  EXPECT_EQ(plan_milp(Snapshot(), {}, 1).status, PlanStatus::kCompliant);
}

TEST(Milp, NoTimeIsUnknown) {
  const Snapshot s = parse_letters("R1 AB\nR2 AB\nR3 ..\n", {1, {}}).value();
  EXPECT_EQ(milp_answer(s, {}, 0).status, PlanStatus::kUnknown);
}

TEST(Milp, MixedSlotsNeverClaimTooMuch) {
  RandomShape mixed;
  mixed.slots_per_node = 4;
  mixed.nodes_per_rack = 2;
  mixed.worker_slots = {1, 2, 3};
  mixed.fill = 0.8;
  mixed.racks_low = mixed.racks_high = 4;
  mixed.bound_low = mixed.bound_high = 1;
  int inexact = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Snapshot s = random_snapshot(seed, mixed);
    inexact += !milp_answer(s, {}, 0).exact;
    expect_sound(s, plan_milp(s, {}, 0.5));
  }
  EXPECT_GT(inexact, 20);
}

}  // namespace
}  // namespace monkeytree
