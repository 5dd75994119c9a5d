#include "planning/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/check.h"
#include "planning/drawn_instance.h"
#include "planning/order.h"
#include "planning/plan_json.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::string_view kDiagramB = "R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..\n";
constexpr std::string_view kDiagramC = "R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n";

std::vector<int> list(const IdVector<RackId, int>& degrees) {
  return {degrees.begin(), degrees.end()};
}

Snapshot letters(std::string_view rows, const LetterOptions& options = {}) {
  return parse_letters(rows, options).value();
}

/// The plan, once the checker has found nothing and the moves have led to the degrees promised.
Plan sound_plan(const Snapshot& snapshot, const PlanOptions& options = {}) {
  Plan out = plan(snapshot, options);
  EXPECT_THAT(check_plan(snapshot, record_of(snapshot, out, "")), IsEmpty());
  EXPECT_EQ(out.after, fragmentation(apply_rounds(snapshot, out.rounds)));
  return out;
}

void expect_moves(const Snapshot& snapshot, int moves) {
  const Plan plan = sound_plan(snapshot);
  EXPECT_EQ(plan.status, moves == 0 ? PlanStatus::kCompliant : PlanStatus::kOptimal);
  EXPECT_EQ(plan.moves, moves);
  EXPECT_EQ(plan.lower_bound, moves);
  EXPECT_EQ(plan.excess_after, 0);
}

std::set<std::string> moved_jobs(const Snapshot& snapshot, const Plan& plan) {
  std::set<std::string> out;
  for (const Round& round : plan.rounds) {
    for (const Move& move : round) out.insert(snapshot.jobs[snapshot.groups[move.group].job].id);
  }
  return out;
}

TEST(Plan, DigestDiagramB) {
  EXPECT_THAT(list(sound_plan(letters(kDiagramB, {2, {}})).before), ElementsAre(2, 3, 4, 3));
  expect_moves(letters(kDiagramB, {1, {}}), 12);
  expect_moves(letters(kDiagramB, {2, {}}), 4);
  expect_moves(letters(kDiagramB, {3, {}}), 1);
}

TEST(Plan, DigestDiagramC) {
  EXPECT_THAT(list(sound_plan(letters(kDiagramC, {2, {}})).before), ElementsAre(2, 2, 3, 2));
  expect_moves(letters(kDiagramC, {1, {}}), 9);
  expect_moves(letters(kDiagramC, {2, {}}), 2);
  expect_moves(letters(kDiagramC, {3, {}}), 0);
}

TEST(Plan, AnEmptyClusterIsCompliant) { expect_moves(Snapshot(), 0); }

TEST(Plan, TwoJobsLargerThanARackShareOneOfThreeRacks) {
  const std::string rows = "R1 AAA\nR2 ABB\nR3 BB.\n";
  const Plan none = sound_plan(letters(rows, {1, {}}));
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_THAT(none.conflict, ElementsAre(RackId(0), RackId(1), RackId(2)));
  EXPECT_EQ(none.lower_bound, std::nullopt);
  EXPECT_EQ(none.moves, 0);
  EXPECT_EQ(none.excess_after, 1);
  expect_moves(letters(rows, {2, {}}), 0);             // Theorem 1's bound, and it is tight
  expect_moves(letters(rows + "R4 ...", {1, {}}), 1);  // A's last worker goes there
  PlanOptions options;
  options.best_effort = true;
  const Plan least = sound_plan(letters(rows, {1, {}}), options);
  EXPECT_EQ(least.status, PlanStatus::kOptimal);
  EXPECT_EQ(least.excess_after, 1);
  EXPECT_EQ(least.moves, 0);
}

TEST(Plan, EightRingsNeedSixteenUplinks) {
  const std::string rows = "R1 AAB\nR2 ABB\n";
  const std::map<std::string, int> rings = {{"A", 8}, {"B", 8}};
  expect_moves(letters(rows, {16, rings}), 0);
  expect_moves(letters(rows, {15, rings}), 2);
}

TEST(Plan, NamesTheRackThatImmovableJobsFill) {
  Snapshot snapshot = letters("R1 AAA\nR2 ABB\nR3 BB.\nR4 CC.\n", {1, {}});
  snapshot.jobs[JobId(0)].movable = snapshot.jobs[JobId(1)].movable = false;
  const Plan none = sound_plan(snapshot);
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_THAT(none.conflict, ElementsAre(RackId(1)));
}

TEST(Plan, ConflictLeavesOutRacksThatDoNotMatter) {
  // R1 and R2 hold a job that fits in neither, and may not use an uplink. R3 to R5 could be mended.
  Snapshot snapshot = letters("R1 AA\nR2 A.\nR3 BC.\nR4 BC.\nR5 ...\n", {0, {}});
  snapshot.islands.push_back("other");
  for (int r = 2; r < 5; ++r) snapshot.racks[RackId(r)].island = IslandId(1);
  const Plan none = sound_plan(snapshot);
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_THAT(none.conflict, testing::IsSubsetOf({RackId(0), RackId(1)}));
  EXPECT_THAT(none.conflict, testing::Not(IsEmpty()));
}

TEST(Plan, MendsTheRacksAskedForAndLetsNoOtherGrow) {
  const Snapshot snapshot = letters("R1 AB..\nR2 AB..\nR3 CD..\nR4 CD..\n", {1, {}});
  PlanOptions options;
  options.mend = std::vector<RackId>{RackId(0)};
  const Plan one = plan(snapshot, options);
  EXPECT_EQ(one.status, PlanStatus::kOptimal);
  EXPECT_EQ(one.moves, 1);
  EXPECT_THAT(list(one.after), ElementsAre(1, 1, 2, 2));
  options.mend = std::vector<RackId>{};
  EXPECT_EQ(plan(snapshot, options).status, PlanStatus::kCompliant);
}

TEST(Plan, FewestBytesDecideFirst) {
  // Any of the four workers may move; those of B hold less.
  Snapshot snapshot = letters("R1 AB..\nR2 AB..\n", {1, {}});
  snapshot.jobs[JobId(0)].state_bytes = 2'000'000'000;
  snapshot.jobs[JobId(1)].state_bytes = 1'000'000'000;
  const Plan light = sound_plan(snapshot);
  EXPECT_EQ(light.moves, 1);
  EXPECT_THAT(moved_jobs(snapshot, light), ElementsAre("B"));
  std::swap(snapshot.jobs[JobId(0)].state_bytes, snapshot.jobs[JobId(1)].state_bytes);
  EXPECT_THAT(moved_jobs(snapshot, sound_plan(snapshot)), ElementsAre("A"));
}

TEST(Plan, FewestJobsDecideNext) {
  // R1 must lose two rings: one each of B and C, or both of A's, with two workers either way.
  for (const char* rows :
       {"R1 AABC\nR2 A...\nR3 B...\nR4 C...\n", "R1 BCAA\nR3 B...\nR4 C...\nR2 A...\n"}) {
    const Snapshot snapshot = letters(rows, {2, {{"A", 2}}});
    const Plan plan = sound_plan(snapshot);
    EXPECT_EQ(plan.moves, 2);
    EXPECT_THAT(moved_jobs(snapshot, plan), ElementsAre("A"));
  }
}

TEST(Plan, FewestBytesComeBeforeFewestJobs) {
  Snapshot snapshot = letters("R1 AABC\nR2 A...\nR3 B...\nR4 C...\n", {2, {{"A", 2}}});
  for (Job& job : snapshot.jobs) job.state_bytes = job.id == "A" ? 3 : 2;
  EXPECT_THAT(moved_jobs(snapshot, sound_plan(snapshot)), ElementsAre("B", "C"));
}

/// Full, tight and large enough that a limit is met.
Snapshot hard_cluster() {
  RandomShape shape;
  shape.racks_low = shape.racks_high = 16;
  shape.bound_low = shape.bound_high = 2;
  shape.fill = 0.95;
  return random_snapshot(3, shape);
}

TEST(Plan, AWorkLimitLeavesTheBestPlanSoFarAndABound) {
  const Snapshot snapshot = hard_cluster();
  const Plan best = sound_plan(snapshot);
  ASSERT_EQ(best.status, PlanStatus::kOptimal);
  std::map<PlanStatus, int> seen;
  for (int64_t limit : {0, 1, 10, 100, 1000, 3000, 10'000, 30'000}) {
    PlanOptions options;
    options.work_limit = limit;
    const Plan cut = sound_plan(snapshot, options);
    ++seen[cut.status];
    if (cut.status == PlanStatus::kUnknown) {
      EXPECT_EQ(cut.lower_bound, std::nullopt);
      EXPECT_EQ(cut.moves, 0);
      EXPECT_EQ(cut.excess_after, cut.excess_before);
      continue;
    }
    EXPECT_LE(cut.lower_bound.value_or(0), best.moves) << limit;
    EXPECT_GE(cut.moves, best.moves) << limit;
    EXPECT_EQ(cut.excess_after, 0);
    EXPECT_EQ(cut.status == PlanStatus::kOptimal, cut.moves == cut.lower_bound);
    EXPECT_EQ(plan(snapshot, options).rounds, cut.rounds) << limit;
  }
  EXPECT_GT(seen[PlanStatus::kFeasible], 0);
}

TEST(Plan, AWorkLimitWithBestEffortBoundsTheExcess) {
  PlanOptions options;
  options.best_effort = true;
  for (int64_t limit : {0, 10, 1000, 10'000}) {
    options.work_limit = limit;
    const Plan cut = sound_plan(hard_cluster(), options);
    EXPECT_NE(cut.status, PlanStatus::kInfeasible);
    EXPECT_NE(cut.status, PlanStatus::kUnknown);
    EXPECT_LE(cut.excess_after, cut.excess_before);
    EXPECT_EQ(cut.excess_lower_bound.has_value(), cut.status == PlanStatus::kFeasible);
  }
}

TEST(Plan, StopEndsTheSearch) {
  const Snapshot snapshot = hard_cluster();
  for (int after : {0, 1, 3}) {
    int asked = 0;
    PlanOptions options;
    options.stop = [&] { return asked++ >= after; };
    const Plan cut = sound_plan(snapshot, options);
    EXPECT_NE(cut.status, PlanStatus::kInfeasible);
    EXPECT_NE(cut.status, PlanStatus::kCompliant);
    EXPECT_GT(asked, after);
    EXPECT_LT(asked, after + 50);  // each part of the search asks once more and ends
  }
}

TEST(Plan, TheSameQuestionHasTheSameAnswer) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kSmall);
    PlanOptions options = instance.options();
    options.work_limit = 20'000;
    const auto text = [&](const Snapshot& snapshot) {
      return write_plan(record_of(snapshot, plan(snapshot, options), ""));
    };
    const std::string first = text(instance.snapshot);
    const Snapshot copy = instance.snapshot;
    EXPECT_EQ(text(instance.snapshot), first) << seed;
    EXPECT_EQ(text(copy), first) << seed;
  }
}

}  // namespace
}  // namespace monkeytree
