#include "planning/cover.h"

#include <coin/Cbc_C_Interface.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "base/test_load.h"
#include "planning/cover_instances.h"

namespace monkeytree {
namespace {

int workers_of(const CoverGroup& group) {
  return std::accumulate(group.entries.begin(), group.entries.end(), 0,
                         [](int sum, const CoverEntry& e) { return sum + e.workers; });
}

/// What the named actions cost, kNever where they break a rule or leave a demand unmet.
int cost_of(const CoverInstance& in, const std::vector<CoverAction>& evict,
            const std::vector<CoverAction>& complete) {
  const std::set<CoverAction> emptied(evict.begin(), evict.end());
  const std::set<CoverAction> completed(complete.begin(), complete.end());
  if (emptied.size() != evict.size() || completed.size() != complete.size()) return kNever;
  std::vector<int> covered(in.racks.size(), 0), load(in.racks.size(), 0);
  int cost = 0;
  size_t seen = 0;
  for (int g = 0; g < static_cast<int>(in.groups.size()); ++g) {
    const CoverGroup& group = in.groups[g];
    size_t emptied_here = 0, completed_here = 0;
    for (const CoverEntry& e : group.entries) {
      if (emptied.contains({g, e.rack})) {
        if (!e.can_empty) return kNever;
        ++emptied_here;
        cost += e.workers;
        covered[e.rack] += group.weight;
        load[e.rack] -= e.workers;
      }
      if (completed.contains({g, e.rack})) {
        if (!e.can_hold_all || emptied.contains({g, e.rack})) return kNever;
        ++completed_here;
        covered[e.rack] += group.weight;
        load[e.rack] += workers_of(group) - e.workers;
      }
    }
    if (completed_here > 1) return kNever;
    if (completed_here == 1 && emptied_here + 1 != group.entries.size()) return kNever;
    seen += emptied_here + completed_here;
  }
  if (seen != emptied.size() + completed.size()) return kNever;
  for (size_t t = 0; t < in.racks.size(); ++t) {
    if (covered[t] < in.racks[t].demand) return kNever;
    if (in.racks[t].demand > 0) cost += std::max(0, load[t] - std::max(0, in.racks[t].free_slots));
  }
  return cost;
}

/// Strain of the entries that are emptied for themselves.
int strain_of(const CoverInstance& in, const std::vector<CoverAction>& evict,
              const std::vector<CoverAction>& complete) {
  int strain = 0;
  for (const CoverAction& action : evict) {
    const auto same = [&](const CoverAction& c) { return c.group == action.group; };
    if (std::any_of(complete.begin(), complete.end(), same)) continue;
    for (const CoverEntry& e : in.groups[action.group].entries) {
      if (e.rack == action.rack) strain += e.strain;
    }
  }
  return strain;
}

/// Tries every combination of actions, group by group; completions in racks that are not over only
/// where asked for.
class AllCombinations {
 public:
  AllCombinations(const CoverInstance& in, bool only_over) : in_(in), skip_(only_over) { go(0); }
  int least() const { return least_; }
  int least_strain() const { return least_strain_; }

 private:
  void go(int g) {
    if (g == static_cast<int>(in_.groups.size())) {
      const int cost = cost_of(in_, evict_, complete_);
      if (cost > least_) return;
      const int strain = strain_of(in_, evict_, complete_);
      least_strain_ = cost < least_ ? strain : std::min(least_strain_, strain);
      least_ = cost;
      return;
    }
    const std::vector<CoverEntry>& entries = in_.groups[g].entries;
    const int n = static_cast<int>(entries.size());
    for (int completed = -1; completed < n; ++completed) {
      for (int mask = 0; mask < 1 << n; ++mask) {
        const size_t evicts = evict_.size();
        if (completed >= 0) {
          if (mask != ((1 << n) - 1 - (1 << completed))) continue;
          if (skip_ && in_.racks[entries[completed].rack].demand <= 0) continue;
          complete_.push_back({g, entries[completed].rack});
        }
        for (int i = 0; i < n; ++i) {
          if ((mask >> i & 1) != 0) evict_.push_back({g, entries[i].rack});
        }
        go(g + 1);
        evict_.resize(evicts);
        if (completed >= 0) complete_.pop_back();
      }
    }
  }

  const CoverInstance& in_;
  bool skip_;
  std::vector<CoverAction> evict_, complete_;
  int least_ = kNever;
  int least_strain_ = 0;
};

/// The integer program as the header states it, solved by CBC; kNever where infeasible, −1 where
/// CBC did not finish.
int least_by_cbc(const CoverInstance& in) {
  Cbc_Model* model = Cbc_newModel();
  Cbc_setParameter(model, "log", "0");
  Cbc_setParameter(model, "sec", "20");
  Cbc_setParameter(model, "ratioGap", "0");
  int columns = 0;
  const auto column = [&](double cost, double upper) {
    Cbc_addCol(model, "x", 0, upper, cost, 1, 0, nullptr, nullptr);
    return columns++;
  };
  using Row = std::vector<std::pair<int, double>>;
  const auto add = [&](const Row& row, char sense, double side) {
    std::vector<int> index;
    std::vector<double> value;
    for (const auto& [i, v] : row) {
      index.push_back(i);
      value.push_back(v);
    }
    Cbc_addRow(model, "r", static_cast<int>(index.size()), index.data(), value.data(), sense, side);
  };
  std::vector<Row> demand(in.racks.size()), room(in.racks.size());
  for (const CoverGroup& group : in.groups) {
    std::vector<int> empties;
    for (const CoverEntry& e : group.entries) {
      const int z = column(e.workers, e.can_empty ? 1 : 0);
      empties.push_back(z);
      demand[e.rack].push_back({z, group.weight});
      room[e.rack].push_back({z, e.workers});
    }
    Row once;
    for (size_t i = 0; i < group.entries.size(); ++i) {
      const CoverEntry& e = group.entries[i];
      const int c = column(0, e.can_hold_all ? 1 : 0);
      once.push_back({c, 1});
      demand[e.rack].push_back({c, group.weight});
      room[e.rack].push_back({c, e.workers - workers_of(group)});
      for (size_t j = 0; j < group.entries.size(); ++j) {
        if (i == j) add({{c, 1}, {empties[j], 1}}, 'L', 1);
        if (i != j) add({{c, 1}, {empties[j], -1}}, 'L', 0);
      }
    }
    add(once, 'L', 1);
  }
  for (size_t t = 0; t < in.racks.size(); ++t) {
    if (in.racks[t].demand <= 0) continue;
    room[t].push_back({column(1, 1e6), 1});
    add(demand[t], 'G', in.racks[t].demand);
    add(room[t], 'G', -std::max(0, in.racks[t].free_slots));
  }
  Cbc_solve(model);
  int least = -1;
  if (Cbc_isProvenOptimal(model)) least = static_cast<int>(std::lround(Cbc_getObjValue(model)));
  if (Cbc_isProvenInfeasible(model)) least = kNever;
  Cbc_deleteModel(model);
  return least;
}

class InstanceMaker {
 public:
  explicit InstanceMaker(uint32_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  CoverInstance arbitrary(int racks, int groups, int span) {
    CoverInstance in;
    const int fixed_percent = below(3) * 10, tight_percent = below(3) * 20, most_free = below(4);
    const bool weighted = below(3) == 0;
    for (int g = 0; g < groups; ++g) {
      CoverGroup group{weighted && below(3) == 0 ? 2 + below(7) : 1, {}};
      std::set<int> where;
      const int entries = 2 + below(span - 1);
      while (static_cast<int>(where.size()) < entries) where.insert(below(racks));
      for (int t : where) {
        group.entries.push_back({t, 1 + below(below(2) == 0 ? 3 : 6), below(100) >= fixed_percent,
                                 below(100) >= tight_percent});
      }
      in.groups.push_back(group);
    }
    std::vector<int> degree(racks, 0);
    for (const CoverGroup& group : in.groups) {
      for (const CoverEntry& e : group.entries) degree[e.rack] += group.weight;
    }
    for (int t = 0; t < racks; ++t) {
      const int demand =
          below(4) == 0 ? -below(3) : std::min(degree[t], 1 + below(weighted ? 9 : 3));
      in.racks.push_back({demand, below(1 + most_free) - (below(9) == 0)});
    }
    return in;
  }

  void strain(CoverInstance& in) {
    for (CoverGroup& group : in.groups) {
      for (CoverEntry& e : group.entries) e.strain = below(8);
    }
  }

 private:
  std::mt19937 random_;
};

void expect_solves(const CoverInstance& in, const CoverResult& found, int least) {
  if (found.cut_racks > 0) {
    ASSERT_LE(found.lower_bound, least);
    ASSERT_GE(found.cost, least);
    return;
  }
  ASSERT_EQ(found.lower_bound, least);
  ASSERT_EQ(found.cost, least);
  ASSERT_EQ(found.conflict.empty(), least < kNever);
  if (least < kNever) {
    ASSERT_EQ(cost_of(in, found.evict, found.complete), least);
  }
}

TEST(Cover, EqualsTryingAll) {
  int infeasible = 0, completing = 0;
  for (uint32_t seed = 0; seed < instances(1200U); ++seed) {
    SCOPED_TRACE(seed);
    InstanceMaker maker(seed);
    const int racks = 3 + maker.below(2);
    CoverInstance in = maker.arbitrary(racks, 2 + maker.below(3), 3);
    if (seed % 2 == 1) maker.strain(in);
    const CoverResult found = solve_cover(in.racks, in.groups);
    // A completion in a rack that is not over costs as much as emptying, but has no strain.
    const AllCombinations all(in, seed % 2 == 1);
    expect_solves(in, found, all.least());
    if (HasFatalFailure()) return;
    if (found.cost < kNever && seed % 2 == 1) {
      ASSERT_EQ(strain_of(in, found.evict, found.complete), all.least_strain());
    }
    infeasible += found.cost >= kNever;
    completing += !found.complete.empty();
  }
  EXPECT_GT(infeasible, instances(50));
  EXPECT_GT(completing, instances(100));
}

TEST(Cover, EqualsCbcOnArbitraryInstances) {
  int cut = 0;
  for (uint32_t seed = 0; seed < instances(500U); ++seed) {
    SCOPED_TRACE(seed);
    InstanceMaker maker(seed);
    const int racks = 4 + maker.below(12);
    CoverInstance in = maker.arbitrary(racks, racks * (1 + maker.below(3)), 4);
    maker.strain(in);
    const int least = least_by_cbc(in);
    if (least < 0) continue;
    const CoverResult found = solve_cover(in.racks, in.groups);
    expect_solves(in, found, least);
    if (HasFatalFailure()) return;
    cut += found.cut_racks > 0;
  }
  EXPECT_LT(cut, 100);
}

TEST(Cover, EqualsCbcAfterChurn) {
  for (uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    Churn churn;
    churn.racks = 256;
    churn.bound = 2 + static_cast<int>(seed % 2);
    churn.fill = seed % 3 == 0 ? 0.9 : 0.97;
    churn.largest = seed % 4 < 2 ? 8 : 12;
    churn.first_fit = 100;
    churn.over = 120;
    churn.events = 5000;
    churn.seed = seed;
    if (seed % 5 == 0) churn.heavy_percent = 20, churn.bound = 8;
    const CoverInstance in = ChurnedCluster(churn).instance();
    const int least = least_by_cbc(in);
    if (least < 0) continue;
    const CoverResult found = solve_cover(in.racks, in.groups);
    ASSERT_EQ(found.cut_racks, 0);
    expect_solves(in, found, least);
    if (HasFatalFailure()) return;
  }
}

TEST(Cover, BoundAndActionsHoldWhenWorkRunsOut) {
  int unproved = 0;
  for (uint32_t seed = 0; seed < instances(300U); ++seed) {
    SCOPED_TRACE(seed);
    InstanceMaker maker(seed);
    const int racks = 6 + maker.below(20);
    const CoverInstance in = maker.arbitrary(racks, racks * 2, 4);
    const int least = solve_cover(in.racks, in.groups).cost;
    const CoverResult found = solve_cover(in.racks, in.groups, 1 + maker.below(400));
    ASSERT_LE(found.lower_bound, least);
    ASSERT_GE(found.cost, least);
    if (found.cost < kNever) {
      ASSERT_EQ(cost_of(in, found.evict, found.complete), found.cost);
    }
    unproved += !found.proved();
  }
  EXPECT_GT(unproved, instances(20));
}

/// Counts of workers by group and rack, all groups movable.
struct TinyCluster {
  int capacity = 4;
  int bound = 1;
  std::vector<int> weight;
  std::vector<std::vector<int>> count;

  int racks() const { return static_cast<int>(count[0].size()); }

  std::vector<int> degrees() const {
    std::vector<int> degree(racks(), 0);
    for (size_t g = 0; g < count.size(); ++g) {
      const int size = std::accumulate(count[g].begin(), count[g].end(), 0);
      for (int t = 0; t < racks(); ++t) {
        if (count[g][t] > 0 && count[g][t] < size) degree[t] += weight[g];
      }
    }
    return degree;
  }

  CoverInstance instance() const {
    CoverInstance in;
    const std::vector<int> degree = degrees();
    for (int t = 0; t < racks(); ++t) {
      int load = 0;
      for (const std::vector<int>& row : count) load += row[t];
      in.racks.push_back({degree[t] - bound, capacity - load});
    }
    for (size_t g = 0; g < count.size(); ++g) {
      CoverGroup group{weight[g], {}};
      const int size = std::accumulate(count[g].begin(), count[g].end(), 0);
      for (int t = 0; t < racks(); ++t) {
        if (count[g][t] > 0) group.entries.push_back({t, count[g][t], true, size <= capacity});
      }
      if (group.entries.size() > 1) in.groups.push_back(group);
    }
    return in;
  }
};

/// The fewest moves by trying every placement.
class AllPlacements {
 public:
  explicit AllPlacements(const TinyCluster& start) : start_(start), now_(start) {
    load_.assign(start.racks(), 0);
    place(0, 0, std::accumulate(start.count[0].begin(), start.count[0].end(), 0), 0);
  }
  int least() const { return least_; }

 private:
  void place(size_t g, int t, int left, int moves) {
    if (moves >= least_) return;
    if (t == start_.racks()) {
      if (left > 0) return;
      if (g + 1 == start_.count.size()) {
        const std::vector<int> degree = now_.degrees();
        if (std::all_of(degree.begin(), degree.end(), [&](int f) { return f <= start_.bound; })) {
          least_ = moves;
        }
        return;
      }
      const std::vector<int>& row = start_.count[g + 1];
      place(g + 1, 0, std::accumulate(row.begin(), row.end(), 0), moves);
      return;
    }
    for (int w = 0; w <= std::min(left, start_.capacity - load_[t]); ++w) {
      now_.count[g][t] = w;
      load_[t] += w;
      place(g, t + 1, left - w, moves + std::max(0, start_.count[g][t] - w));
      load_[t] -= w;
    }
  }

  const TinyCluster& start_;
  TinyCluster now_;
  std::vector<int> load_;
  int least_ = kNever;
};

TEST(Cover, NoPlanHasFewerMoves) {
  int over = 0, tight = 0;
  for (uint32_t seed = 0; seed < instances(400U); ++seed) {
    SCOPED_TRACE(seed);
    InstanceMaker maker(seed);
    const int racks = 3 + maker.below(2), groups = 4 + maker.below(2);
    TinyCluster cluster{3 + maker.below(2), 1, {}, {}};
    const bool weighted = maker.below(3) == 0;
    if (weighted) cluster.bound = 2;
    std::vector<int> slots;
    for (int t = 0; t < racks; ++t) slots.insert(slots.end(), cluster.capacity, t);
    for (int g = 0; g < groups; ++g) {
      cluster.weight.push_back(weighted ? 1 + maker.below(2) : 1);
      cluster.count.emplace_back(racks, 0);
    }
    const int workers = racks * cluster.capacity - maker.below(3);
    for (int i = 0; i < workers; ++i) {
      const int pick = maker.below(static_cast<int>(slots.size()));
      ++cluster.count[maker.below(groups)][slots[pick]];
      slots.erase(slots.begin() + pick);
    }
    const CoverInstance in = cluster.instance();
    const CoverResult found = solve_cover(in.racks, in.groups);
    const int least = AllPlacements(cluster).least();
    ASSERT_TRUE(found.proved());
    ASSERT_LE(found.lower_bound, least);
    over += found.lower_bound > 0;
    tight += found.lower_bound > 0 && found.lower_bound == least;
  }
  EXPECT_GT(over, instances(300));
  EXPECT_GT(tight, instances(40));
}

TEST(Cover, ACompletionPaysForBothRacks) {
  // Three workers of one group in rack 0, one in rack 1: moving that one mends both.
  const std::vector<CoverRack> racks{{1, 1}, {1, 0}};
  const std::vector<CoverGroup> groups{{1, {{0, 3}, {1, 1}}}};
  const CoverResult found = solve_cover(racks, groups);
  EXPECT_EQ(found.cost, 1);
  EXPECT_TRUE(found.proved());
  EXPECT_EQ(found.evict, (std::vector<CoverAction>{{0, 1}}));
  EXPECT_EQ(found.complete, (std::vector<CoverAction>{{0, 0}}));
  // Without a free slot in rack 0, another worker must make room.
  EXPECT_EQ(solve_cover({{1, 0}, {1, 0}}, groups).cost, 2);
}

TEST(Cover, NamesRacksThatConflict) {
  // Both racks need the group gone, but neither worker may move.
  const std::vector<CoverGroup> pinned{{1, {{0, 1, false}, {2, 1, false}}}};
  const CoverResult found = solve_cover({{1, 0}, {0, 0}, {1, 0}}, pinned);
  EXPECT_EQ(found.lower_bound, kNever);
  EXPECT_EQ(found.conflict, (std::vector<int>{0, 2}));
}

TEST(Cover, NothingOverCostsNothing) {
  const CoverResult found = solve_cover({{0, 0}, {-1, 3}}, {{1, {{0, 1}, {1, 1}}}});
  EXPECT_EQ(found.cost, 0);
  EXPECT_TRUE(found.proved());
  EXPECT_TRUE(found.evict.empty());
}

}  // namespace
}  // namespace monkeytree
