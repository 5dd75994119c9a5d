#include "planning/sweep.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "base/test_load.h"
#include "cluster/fragmentation.h"
#include "planning/counts.h"
#include "planning/drawn_instance.h"
#include "planning/every_placement.h"

namespace monkeytree {
namespace {

bool any_mixed(const Counts& counts) {
  bool out = false;
  for (size_t c = 0; c < counts.class_count(); ++c) out |= counts.mixed(ClassId(c));
  return out;
}

void expect_fewest(const Counts& counts, int allowed, std::optional<int> fewest) {
  Sweep sweep(counts);
  int from = 0;
  const int last = 30;
  const std::optional<std::vector<CountChange>> changes = sweep.fewest(allowed, &from, last);
  ASSERT_EQ(changes.has_value(), fewest.has_value());
  ASSERT_EQ(from, fewest.value_or(last + 1));
  if (!changes) return;
  Counts after = counts;
  after.shift(*changes);
  EXPECT_LE(after.excess(), allowed);
  int moves = 0;
  for (const CountChange& change : *changes) moves += std::max(0, change.delta);
  EXPECT_EQ(moves, *fewest);
}

/// The bounds of these racks alone cannot hold together.
void expect_conflict(const Snapshot& snapshot, const std::vector<RackId>& racks) {
  ASSERT_FALSE(racks.empty());
  IdVector<RackId, int> lifted(snapshot.racks.size(), 1000);
  for (RackId rack : racks) lifted[rack] = snapshot.racks[rack].bound();
  const EveryPlacement every(snapshot, lifted);
  ASSERT_TRUE(every.complete());
  EXPECT_GT(every.least_excess(), 0);
}

TEST(Sweep, DecidesAsEveryPlacementDoes) {
  int impossible = 0;
  for (uint64_t seed = 10'000; seed < 10'000 + instances(2000U); ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kTiny);
    const Counts counts(instance.snapshot);
    if (any_mixed(counts)) continue;
    const EveryPlacement every(instance.snapshot, bounds(instance.snapshot));
    if (!every.complete()) continue;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, instance.describe()));
    EXPECT_LE(Sweep(counts).excess_bound(), every.least_excess());
    for (int allowed = 0; allowed <= std::min(counts.excess(), 12); ++allowed) {
      SCOPED_TRACE(fmt::format("excess {}", allowed));
      const std::optional<int> fewest = every.fewest(allowed);
      EXPECT_EQ(Sweep(counts).feasible(allowed), fewest.has_value());
      expect_fewest(counts, allowed, fewest);
    }
    if (every.least_excess() > 0) {
      ++impossible;
      Sweep sweep(counts);
      EXPECT_EQ(sweep.feasible(0), false);
      expect_conflict(instance.snapshot, sweep.conflict());
    }
    if (HasFailure()) return;
  }
  EXPECT_GT(impossible, instances(200));
}

TEST(Sweep, ALimitDecidesNothingFalsely) {
  for (uint64_t seed = 10'000; seed < 10'000 + instances(500U); ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kTiny);
    const Counts counts(instance.snapshot);
    if (any_mixed(counts)) continue;
    const EveryPlacement every(instance.snapshot, bounds(instance.snapshot));
    if (!every.complete()) continue;
    for (int64_t work : {0, 1, 10, 100, 1000}) {
      Sweep sweep(counts);
      sweep.set_limit(work, {});
      const std::optional<bool> feasible = sweep.feasible(0);
      if (feasible) {
        EXPECT_EQ(*feasible, every.least_excess() == 0) << seed;
      }
      int from = 0;
      const auto changes = sweep.fewest(0, &from, 30);
      EXPECT_LE(from, every.fewest(0).value_or(31)) << seed;
      if (changes) {
        EXPECT_EQ(from, every.fewest(0)) << seed;
      }
    }
  }
}

}  // namespace
}  // namespace monkeytree
