#include "planning/rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <queue>

#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

/// Plays the schedule; empty where every destination is free when its round starts.
std::string play(const std::vector<Arc>& arcs, std::vector<int> free,
                 const std::vector<ArcTime>& times) {
  int last = 0;
  for (const ArcTime& time : times) last = std::max(last, time.round);
  for (int round = 0; round <= last; ++round) {
    std::vector<int> freed(free.size(), 0);
    bool any = false;
    for (size_t i = 0; i < arcs.size(); ++i) {
      if (times[i].staged >= times[i].round) return "staged after its arrival";
      const int first = times[i].staged >= 0 ? times[i].staged : times[i].round;
      if (first == round && arcs[i].from >= 0) ++freed[static_cast<size_t>(arcs[i].from)];
      if (times[i].round == round && --free[static_cast<size_t>(arcs[i].to)] < 0) return "no place";
      any = any || first == round || times[i].round == round;
    }
    if (!any) return "an empty round";
    for (size_t p = 0; p < free.size(); ++p) free[p] += freed[p];
  }
  return "";
}

int rounds_of(const std::vector<ArcTime>& times) {
  int last = 0;
  for (const ArcTime& time : times) last = std::max(last, time.round + 1);
  return last;
}

/// The fewest rounds without staging by trying every set of arcs in every round; -1 where none
/// ends.
int slow_rounds(const std::vector<Arc>& arcs, const std::vector<int>& free) {
  const unsigned all = (1u << arcs.size()) - 1;
  std::map<unsigned, int> seen{{0, 0}};
  std::queue<unsigned> queue({0});
  while (!queue.empty()) {
    const unsigned done = queue.front();
    queue.pop();
    if (done == all) return seen[done];
    for (unsigned set = 1; set <= all; ++set) {
      if ((set & done) != 0 || seen.count(set | done) != 0) continue;
      std::vector<int> left = free;
      for (size_t i = 0; i < arcs.size(); ++i) {
        if (done >> i & 1) {
          --left[static_cast<size_t>(arcs[i].to)];
          if (arcs[i].from >= 0) ++left[static_cast<size_t>(arcs[i].from)];
        }
      }
      bool fits = true;
      for (size_t i = 0; i < arcs.size(); ++i) {
        if (set >> i & 1) fits = fits && --left[static_cast<size_t>(arcs[i].to)] >= 0;
      }
      if (!fits) continue;
      seen[set | done] = seen[done] + 1;
      queue.push(set | done);
    }
  }
  return -1;
}

struct Instance {
  std::vector<Arc> arcs;
  std::vector<int> free;
};

/// Arcs at random, and just enough free places that everything fits in the end, plus a few.
Instance random_instance(Random& random, int arcs, int pools, double spare, double sinks) {
  Instance in;
  std::vector<int> need(static_cast<size_t>(pools), 0);
  for (int i = 0; i < arcs; ++i) {
    Arc arc;
    arc.to = random.below(pools);
    do {
      arc.from = random.below(pools);
    } while (arc.from == arc.to);
    if (random.chance(sinks)) arc.from = -1;
    arc.cost = random.below(3);
    if (arc.from >= 0) --need[static_cast<size_t>(arc.from)];
    ++need[static_cast<size_t>(arc.to)];
    in.arcs.push_back(arc);
  }
  for (int n : need) in.free.push_back(std::max(0, n) + (random.chance(spare) ? 1 : 0));
  return in;
}

int staged_count(const std::vector<ArcTime>& times) {
  return static_cast<int>(
      std::count_if(times.begin(), times.end(), [](const ArcTime& t) { return t.staged >= 0; }));
}

int stuck_count(const Instance& in) {
  const Components components = components_of(in.arcs, in.free);
  std::vector<int> ids = components.component;
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return static_cast<int>(std::count_if(
      ids.begin(), ids.end(), [&](int id) { return components.stuck[static_cast<size_t>(id)]; }));
}

TEST(Rounds, NothingToDo) { EXPECT_TRUE(schedule_rounds({}, {})->empty()); }

TEST(Rounds, RoomForAllIsOneRound) {
  const std::vector<Arc> arcs{{0, 1}, {1, 0}};
  EXPECT_EQ(rounds_of(*schedule_rounds(arcs, std::vector<int>{1, 1})), 1);
}

TEST(Rounds, SwapWithoutRoomStagesTheCheaperWorker) {
  const std::vector<Arc> arcs{{0, 1, 7}, {1, 0, 5}};
  const auto times = schedule_rounds(arcs, std::vector<int>{0, 0});
  ASSERT_TRUE(times);
  EXPECT_EQ((*times)[0].staged, -1);
  EXPECT_EQ((*times)[1].staged, 0);
  EXPECT_EQ(rounds_of(*times), 3);
}

TEST(Rounds, CycleRunsBeforeTheChainThatWouldUseUpTheFreePlace) {
  // The only free place is in 0; 3 -> 0 must wait until the cycle 0 -> 1 -> 0 has gone through it.
  const std::vector<Arc> arcs{{3, 0}, {0, 1}, {1, 0}};
  const auto times = schedule_rounds(arcs, std::vector<int>{1, 0, 0, 0});
  ASSERT_TRUE(times);
  EXPECT_EQ(play(arcs, {1, 0, 0, 0}, *times), "");
  EXPECT_EQ(staged_count(*times), 0);
}

TEST(Rounds, WhatCannotFitIsRefused) {
  EXPECT_FALSE(schedule_rounds(std::vector<Arc>{{0, 1}}, std::vector<int>{0, 0}));
  // Leaving a drained node frees no place for the one who comes.
  EXPECT_FALSE(schedule_rounds(std::vector<Arc>{{-1, 1}, {1, 0}}, std::vector<int>{0, 0}));
}

TEST(Rounds, FewestForSmallPlans) {
  Random random(1);
  int with_contention = 0, staged = 0;
  for (int i = 0; i < 4000; ++i) {
    const Instance in = random_instance(random, random.between(1, 6), random.between(2, 5),
                                        random.chance(0.5) ? 0.3 : 0.1, 0.1);
    const auto times = schedule_rounds(in.arcs, in.free);
    ASSERT_TRUE(times);
    ASSERT_EQ(play(in.arcs, in.free, *times), "") << i;
    const int fewest = slow_rounds(in.arcs, in.free);
    ASSERT_EQ(staged_count(*times), stuck_count(in)) << i;
    ASSERT_EQ(fewest<0, staged_count(*times)> 0) << i;
    if (fewest >= 0) {
      ASSERT_EQ(rounds_of(*times), fewest) << i;
    }
    with_contention += fewest > 1;
    staged += fewest < 0;
  }
  EXPECT_GT(with_contention, 500);
  EXPECT_GT(staged, 50);
}

TEST(Rounds, LargePlansAreLegalAndStageOnlyWhatMustBe) {
  Random random(2);
  int staged = 0;
  for (int i = 0; i < 500; ++i) {
    const int arcs = random.between(9, 60);
    const Instance in = random_instance(random, arcs, random.between(2, arcs),
                                        random.chance(0.5) ? 0.2 : 0.0, i % 3 == 0 ? 0.0 : 0.1);
    const auto times = schedule_rounds(in.arcs, in.free);
    ASSERT_TRUE(times);
    ASSERT_EQ(play(in.arcs, in.free, *times), "") << i;
    ASSERT_EQ(staged_count(*times), stuck_count(in)) << i;
    staged += staged_count(*times);
  }
  EXPECT_GT(staged, 0);
}

TEST(Rounds, LargePlansShareTheWorkAmongFreePlaces) {
  // Random exchanges between full racks, and a free place in one rack out of three: no schedule has
  // fewer rounds than arcs ÷ places, and this should not need many more.
  Random random(3);
  Instance in;
  in.free.assign(300, 0);
  for (size_t p = 0; p < 300; p += 3) in.free[p] = 1;
  std::vector<int> order;
  for (int i = 0; i < 2400; ++i) order.push_back(i % 300);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(random.below(static_cast<int>(i)))]);
  }
  for (int i = 0; i < 2400; ++i) {
    if (i % 300 != order[static_cast<size_t>(i)]) {
      in.arcs.push_back({i % 300, order[static_cast<size_t>(i)]});
    }
  }
  const auto times = schedule_rounds(in.arcs, in.free);
  ASSERT_TRUE(times);
  EXPECT_EQ(play(in.arcs, in.free, *times), "");
  EXPECT_LE(rounds_of(*times), 24 * 5 / 4);
}

TEST(Rounds, LongFullRingNeedsOneStagedWorker) {
  std::vector<Arc> arcs;
  for (int i = 0; i < 5000; ++i) arcs.push_back({i, (i + 1) % 5000, i == 17 ? 1 : 2});
  const std::vector<int> free(5000, 0);
  const auto times = schedule_rounds(arcs, free);
  ASSERT_TRUE(times);
  EXPECT_EQ(play(arcs, free, *times), "");
  EXPECT_EQ(rounds_of(*times), 5001);
  EXPECT_EQ((*times)[17].staged, 0);
}

}  // namespace
}  // namespace monkeytree
