// Random instances against the paper's integer program over CBC: equal in status, moves and excess
// wherever both have proved their answer. MONKEYTREE_PLAN_INSTANCES=N takes N small instances in
// place of 2,000, N / 4 tiny, N / 40 tight and N / 20 large ones.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>

#include "cluster/fragmentation.h"
#include "planning/check.h"
#include "planning/drawn_instance.h"
#include "planning/milp.h"
#include "planning/order.h"
#include "planning/plan.h"
#include "planning/plan_json.h"

namespace monkeytree {
namespace {

constexpr double kReferenceSeconds = 20;
/// About a second: hardly any instance here needs so much.
constexpr int64_t kWorkLimit = 1'000'000;

bool proved(PlanStatus status) {
  return status != PlanStatus::kFeasible && status != PlanStatus::kUnknown;
}

/// Sound whatever the status: the checker finds nothing, and the moves lead to the degrees
/// promised.
void expect_sound(const DrawnInstance& instance, Plan plan) {
  const IdVector<RackId, int> after = fragmentation(apply_rounds(instance.snapshot, plan.rounds));
  EXPECT_EQ(plan.after, after);
  EXPECT_EQ(plan.before, fragmentation(instance.snapshot));
  EXPECT_EQ(plan.excess_before, excess(plan.before, plan.bounds));
  EXPECT_EQ(plan.excess_after, excess(plan.after, plan.bounds));
  if (instance.mend) {  // the checker knows no racks that may stay over
    plan.bounds = effective_bounds(instance.snapshot, instance.options());
    plan.excess_before = excess(plan.before, plan.bounds);
    plan.excess_after = excess(plan.after, plan.bounds);
  }
  EXPECT_THAT(check_plan(instance.snapshot, record_of(instance.snapshot, plan, "")),
              testing::IsEmpty());
}

struct Tally {
  int instances = 0;
  int undecided = 0;            ///< a limit came first
  int reference_undecided = 0;  ///< the same for CBC
  int unseated = 0;             ///< mixed slots: nodes cannot take the reference's counts
  std::map<PlanStatus, int> statuses;

  std::string describe() const {
    std::string out = fmt::format("{} instances:", instances);
    for (const auto& [status, count] : statuses)
      out += fmt::format(" {} {}", count, name_of(status));
    return out + fmt::format("; not proved {}, by CBC {}; counts that no node can take {}",
                             undecided, reference_undecided, unseated);
  }
};

/// Excess over what must be met.
int remaining(const DrawnInstance& instance, const Plan& plan) {
  return excess(plan.after, effective_bounds(instance.snapshot, instance.options()));
}

void compare(const DrawnInstance& instance, Tally& tally) {
  PlanOptions options = instance.options();
  options.work_limit = kWorkLimit;
  const Plan ours = plan(instance.snapshot, options);
  expect_sound(instance, ours);
  const MilpAnswer reference = milp_answer(instance.snapshot, options, kReferenceSeconds);
  ++tally.instances;
  ++tally.statuses[ours.status];
  tally.reference_undecided += !proved(reference.status);
  const bool has_moves =
      reference.status == PlanStatus::kOptimal || reference.status == PlanStatus::kFeasible;
  if (!reference.exact && has_moves && !order_moves(instance.snapshot, reference.changes)) {
    // Its moves and excess are lower bounds only.
    ++tally.unseated;
    if (ours.status == PlanStatus::kUnknown || reference.status != PlanStatus::kOptimal) return;
    EXPECT_NE(ours.status, PlanStatus::kCompliant);
    const int left = remaining(instance, ours);
    EXPECT_GE(std::pair(left, ours.moves), std::pair(reference.excess_after, reference.moves));
    return;
  }
  tally.undecided += !proved(ours.status);
  if (proved(reference.status) && proved(ours.status)) {
    EXPECT_EQ(name_of(ours.status), name_of(reference.status));
    EXPECT_EQ(ours.moves, reference.moves);
    EXPECT_EQ(remaining(instance, ours), reference.excess_after);
  } else if (reference.status == PlanStatus::kOptimal) {
    // A bound that is not yet a proof, and a plan that is not yet the best.
    if (remaining(instance, ours) == reference.excess_after) {
      EXPECT_LE(ours.lower_bound.value_or(0), reference.moves);
      if (ours.status == PlanStatus::kFeasible) {
        EXPECT_GE(ours.moves, reference.moves);
      }
    }
    EXPECT_LE(ours.excess_lower_bound.value_or(0), reference.excess_after);
  } else if (has_moves && ours.status == PlanStatus::kOptimal) {
    EXPECT_LE(std::pair(remaining(instance, ours), ours.moves),
              std::pair(reference.excess_after, reference.moves));
  }
}

int wanted() {
  const char* text = std::getenv("MONKEYTREE_PLAN_INSTANCES");
  return text == nullptr ? 2000 : std::max(1, std::atoi(text));
}

/// Instances `part` of kParts of the first `total` of a size.
constexpr int kParts = 8;
void compare_part(DrawnSize size, int total, int part) {
  Tally tally;
  for (int seed = part; seed < total; seed += kParts) {
    const DrawnInstance instance = draw_instance(static_cast<uint64_t>(seed), size);
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, instance.describe()));
    compare(instance, tally);
    if (testing::Test::HasFatalFailure()) return;
  }
  std::printf("%s\n", tally.describe().c_str());
  // Few: one in fifty, and of the larger ones one in five.
  const bool larger = size == DrawnSize::kTight || size == DrawnSize::kLarge;
  EXPECT_LE(tally.undecided, 1 + tally.instances / (larger ? 5 : 50));
  EXPECT_LE(tally.reference_undecided, 1 + tally.instances / (larger ? 5 : 50));
}

class PlanReference : public testing::TestWithParam<int> {};

TEST_P(PlanReference, SmallClusters) { compare_part(DrawnSize::kSmall, wanted(), GetParam()); }
TEST_P(PlanReference, TinyClusters) { compare_part(DrawnSize::kTiny, wanted() / 4, GetParam()); }
TEST_P(PlanReference, TightClusters) { compare_part(DrawnSize::kTight, wanted() / 40, GetParam()); }
TEST_P(PlanReference, LargeClusters) { compare_part(DrawnSize::kLarge, wanted() / 20, GetParam()); }

INSTANTIATE_TEST_SUITE_P(Parts, PlanReference, testing::Range(0, kParts));

}  // namespace
}  // namespace monkeytree
