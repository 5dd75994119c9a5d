#include "planning/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/test_load.h"
#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/counts.h"
#include "planning/counts_compare.h"
#include "planning/drawn_instance.h"
#include "planning/every_placement.h"
#include "planning/random_snapshot.h"
#include "planning/sweep.h"

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

/// Racks as drawn, each with a bound of its own.
Snapshot racks_of(const char* rows, const std::vector<int>& bounds) {
  Snapshot snapshot = *parse_letters(rows);
  for (RackId rack : snapshot.racks.keys()) {
    std::vector<int>& spines = snapshot.racks[rack].spines;
    spines.resize(static_cast<size_t>(bounds[static_cast<size_t>(rack.value)]));
    std::iota(spines.begin(), spines.end(), 0);
  }
  return snapshot;
}

/// Nearly no place is free; light and heavy groups; some racks may stay above their bound.
Snapshot small_and_full(uint64_t seed) {
  Random random(seed);
  RandomShape shape;
  shape.racks_low = 5;
  shape.racks_high = 8;
  shape.nodes_per_rack = 3;
  shape.uneven_racks = random.chance(0.3);
  shape.bound_low = 0;
  shape.uneven_bounds = random.chance(0.5);
  constexpr double kScatter[] = {0.05, 0.1, 0.2, 0.3, 0.5, 1.0};
  shape.scatter = kScatter[random.below(6)];
  const std::vector<int> weights[] = {{1}, {1}, {1, 2}, {1, 2, 3}, {1, 8}};
  shape.weights = weights[random.below(5)];
  if (random.chance(0.5)) shape.largest_group = random.between(2, 10);
  if (random.chance(0.1)) shape.pinned = 0.15;
  if (random.chance(0.1)) shape.drained = 0.15;
  if (random.chance(0.1)) shape.classes = 2;
  if (random.chance(0.1)) shape.islands = 2;
  constexpr double kFill[] = {1.0, 1.0, 1.0, 0.97, 0.93};
  shape.fill = kFill[random.below(5)];
  const Snapshot snapshot = random_snapshot(random.next(), shape);
  return with_raised_bounds(snapshot, random.next());
}

constexpr int64_t kFewNodes = 2000;

/// No budget below has a solution, as far as few search nodes can say.
void expect_none_below(Counts counts, int moves) {
  Search search(counts);
  search.set_limit(kFewNodes, {});
  for (int budget = 0; budget < moves; ++budget) {
    const Search::Answer answer = search.run(budget);
    if (answer == Search::Answer::kLimit) return;
    ASSERT_NE(answer, Search::Answer::kFound) << budget;
  }
}

void expect_found(Counts counts, int moves) {
  Search search(counts);
  search.set_limit(kFewNodes, {});
  const Search::Answer answer = search.run(moves);
  if (answer == Search::Answer::kLimit) return;
  ASSERT_EQ(answer, Search::Answer::kFound) << moves;
  EXPECT_EQ(moves_of(search.changes()), moves);
}

TEST(Search, FindsWhatEveryPlacementHas) {
  int compared = 0;
  for (uint64_t seed = 0; seed < instances(2500U); ++seed) {
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
  EXPECT_GT(compared, instances(3000));
}

/// What leaves a rack that may stay over its bound depends on what others do: all bounds differ.
TEST(Search, FindsWhatTheSweepFindsWhereRacksMayStayOver) {
  int compared = 0;
  for (uint64_t seed = 0; seed < instances(3000U); ++seed) {
    const Snapshot snapshot = small_and_full(seed);
    const Counts counts(snapshot);
    if (counts.excess() == 0) continue;
    Sweep sweep(counts);
    sweep.set_limit(400'000, {});
    int from = 0;
    constexpr int kMost = 8;
    const bool found = sweep.fewest(0, &from, kMost).has_value();
    SCOPED_TRACE(fmt::format("seed {}", seed));
    expect_none_below(counts, from);
    if (found) expect_found(counts, from);
    compared += found;
    if (HasFailure()) return;
  }
  EXPECT_GT(compared, instances(1000));
}

TEST(Search, JobsOfOneWorkerMakeWay) {
  // C and I leave r2 for D and J. Nothing is free: I comes in where D and J were, C where an I was.
  const Snapshot snapshot =
      racks_of("r0 CCCC\nr1 GGIJ\nr2 AACI\nr3 AAAH\nr4 BGGG\nr5 BDII\nr6 BBBI\nr7 BEFF\n",
               {1, 2, 1, 1, 2, 2, 2, 1});
  Counts counts(snapshot);
  expect_answer(snapshot, counts, 0, 5);
}

TEST(Search, OneHereAndTwoThere) {
  // One worker of A comes in at r4, where F makes way, and two in the empty places of r0.
  const Snapshot snapshot =
      racks_of("r0 CC..\nr1 AAAE\nr2 AADD\nr3 BBBD\nr4 FGGH\n", {2, 0, 3, 1, 1});
  Counts counts(snapshot);
  expect_answer(snapshot, counts, 0, 4);
}

TEST(Search, WhatComesAndWhatGoesMayChangePlaces) {
  // P has room in r1 only, once H with its 8 rings has left. H fits into r2 once U has left, and U
  // has no other place than the one that H leaves.
  Snapshot snapshot =
      racks_of("r0 PKKK\nr1 HLL.\nr2 UMMM\nr3 PPYY\nr4 HHZZ\nr5 UUWW\n", {0, 8, 8, 1, 8, 1});
  for (GroupId g : snapshot.groups.keys()) {
    Job& job = snapshot.jobs[snapshot.groups[g].job];
    if (job.id == "H") {
      snapshot.groups[g].rings = 8;
      snapshot.groups[g].pinned = {1, 2};
    }
    job.movable = job.id != "Z";
  }
  Counts counts(snapshot);
  expect_answer(snapshot, counts, 0, 3);
}

TEST(Search, WhatComesAndWhatGoesMayChangePlacesThoughTheyWeighTheSame) {
  // The same with one ring each: U's worker of r0 has room in r1 only, beside that of r2.
  Snapshot snapshot = racks_of("r0 UKKK\nr1 HLL.\nr2 UMMM\nr3 HHZZ\nr4 UUWW\n", {0, 1, 1, 1, 1});
  for (GroupId g : snapshot.groups.keys()) {
    Job& job = snapshot.jobs[snapshot.groups[g].job];
    if (job.id == "H") snapshot.groups[g].pinned = {1, 2};
    if (job.id == "U") snapshot.groups[g].pinned = {2, 3};
    job.movable = job.id != "Z" && job.id != "W";
  }
  Counts counts(snapshot);
  expect_answer(snapshot, counts, 0, 3);
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
  for (uint64_t seed = 0; seed < instances(1500U); ++seed) {
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
  EXPECT_GT(refusals, instances(10));
}

}  // namespace
}  // namespace monkeytree
