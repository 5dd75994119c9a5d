#include "planning/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/counts.h"
#include "planning/counts_compare.h"
#include "planning/drawn_instance.h"
#include "planning/every_placement.h"

namespace monkeytree {
namespace {

int moves_of(const std::vector<CountChange>& changes) {
  int sum = 0;
  for (const CountChange& change : changes) sum += std::max(0, change.delta);
  return sum;
}

bool any_mixed(const Counts& counts) {
  bool out = false;
  for (size_t c = 0; c < counts.class_count(); ++c) out |= counts.mixed(ClassId(c));
  return out;
}

/// Budget after budget up to the answer, which must be `fewest` moves, or none at all.
void expect_answer(const Snapshot& snapshot, Counts& counts, int allowed,
                   std::optional<int> fewest) {
  Search search(counts);
  search.set_limit(100'000, {});  // some hold no placement and take long to say so
  for (int budget = 0;; ++budget) {
    ASSERT_LE(budget, 60) << "no end to it";
    const Search::Answer answer = search.run(budget, allowed);
    expect_same_counts(counts, Counts(snapshot));  // as it was found
    if (answer == Search::Answer::kNone) {
      if (fewest) {
        ASSERT_LT(budget, *fewest) << "missed";
      }
      continue;
    }
    if (answer == Search::Answer::kNever) {
      ASSERT_FALSE(fewest.has_value()) << "never, but " << *fewest << " moves will do";
      return;
    }
    if (answer == Search::Answer::kLimit) return;
    ASSERT_EQ(answer, Search::Answer::kFound);
    ASSERT_EQ(budget, fewest);
    ASSERT_EQ(moves_of(search.changes()), budget);
    Counts after = counts;
    after.shift(search.changes());
    ASSERT_LE(after.excess(), allowed);
    for (size_t r = 0; r < counts.rack_count(); ++r) {
      for (size_t c = 0; c < counts.class_count(); ++c) {
        ASSERT_GE(after.free(RackId(r), ClassId(c)), 0);
      }
    }
    return;
  }
}

TEST(Search, FindsWhatEveryPlacementHas) {
  int compared = 0;
  for (uint64_t seed = 0; seed < 2500; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kTiny);
    Counts counts(instance.snapshot);
    if (any_mixed(counts) || counts.excess() == 0) continue;
    const EveryPlacement every(instance.snapshot, bounds(instance.snapshot));
    if (!every.complete()) continue;
    SCOPED_TRACE(fmt::format("seed {}: {}", seed, instance.describe()));
    EXPECT_LE(Search(counts).root_bound(), every.fewest(0).value_or(1 << 30));
    for (int allowed = 0; allowed < std::min(counts.excess(), 12); ++allowed) {
      SCOPED_TRACE(fmt::format("excess {}", allowed));
      expect_answer(instance.snapshot, counts, allowed, every.fewest(allowed));
      ++compared;
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(compared, 3000);
}

TEST(Search, LimitsLeaveTheCountsAsTheyWere) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kTight);
    Counts counts(instance.snapshot);
    for (int64_t work : {1, 7, 50, 400}) {
      Search search(counts);
      search.set_limit(work, {});
      search.run(12, static_cast<int>(seed % 3));
      expect_same_counts(counts, Counts(instance.snapshot));
      int asked = 0;
      Search stopped(counts);
      stopped.set_limit(50'000, [&] { return ++asked > 2; });
      stopped.run(12, 0);
      expect_same_counts(counts, Counts(instance.snapshot));
    }
    if (HasFailure()) FAIL() << "seed " << seed;
  }
}

/// Where nodes refuse everything, nothing is found and nothing is claimed.
TEST(Search, RefusalsAreNoProofs) {
  int refusals = 0;
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kTiny);
    Counts counts(instance.snapshot);
    if (!any_mixed(counts) || counts.excess() == 0) continue;
    Search search(counts);
    search.set_limit(20'000, {});
    search.set_accept([](std::span<const CountChange>) { return false; });
    for (int budget = 0; budget < 8; ++budget) {
      if (search.run(budget) != Search::Answer::kFound) continue;
      // Only classes that are not mixed, where counts alone promise a packing.
      for (const CountChange& change : search.changes()) {
        EXPECT_FALSE(counts.mixed(change.node_class)) << seed;
      }
    }
    refusals += search.refused();
    expect_same_counts(counts, Counts(instance.snapshot));
  }
  EXPECT_GT(refusals, 10);
}

}  // namespace
}  // namespace monkeytree
