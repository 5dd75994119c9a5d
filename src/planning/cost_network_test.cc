#include "planning/cost_network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace monkeytree {
namespace {

int64_t cost_of(const CostNetwork& network, const std::vector<int>& value) {
  int64_t sum = 0;
  for (const CostTable& table : network.tables) {
    size_t cell = 0, stride = 1;
    for (int x : table.scope) {
      cell += stride * value[x];
      stride *= network.domain[x];
    }
    sum += table.cost[cell];
  }
  return std::min<int64_t>(sum, kNever);
}

int64_t least_by_trying_all(const CostNetwork& network) {
  std::vector<int> value(network.domain.size(), 0);
  int64_t least = kNever;
  for (;;) {
    least = std::min(least, cost_of(network, value));
    size_t x = 0;
    while (x < value.size() && ++value[x] == network.domain[x]) value[x++] = 0;
    if (x == value.size()) return least;
  }
}

class NetworkMaker {
 public:
  explicit NetworkMaker(uint32_t seed) : random_(seed) {}
  int below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void add_table(CostNetwork& network, std::vector<int> scope, int never_percent) {
    size_t cells = 1;
    for (int x : scope) cells *= network.domain[x];
    CostTable table{std::move(scope), {}};
    for (size_t i = 0; i < cells; ++i) {
      table.cost.push_back(below(100) < never_percent ? kNever : below(12));
    }
    network.tables.push_back(std::move(table));
  }

  CostNetwork random_network(int variables, int tables, int never_percent) {
    CostNetwork network;
    for (int x = 0; x < variables; ++x) network.domain.push_back(1 + below(3));
    for (int t = 0; t < tables; ++t) {
      std::vector<int> all(variables);
      for (int x = 0; x < variables; ++x) all[x] = x;
      std::shuffle(all.begin(), all.end(), random_);
      all.resize(1 + below(3));
      add_table(network, all, never_percent);
    }
    return network;
  }

 private:
  std::mt19937 random_;
};

TEST(CostNetwork, EqualsTryingAll) {
  for (uint32_t seed = 0; seed < 1500; ++seed) {
    NetworkMaker maker(seed);
    const int variables = 3 + maker.below(6);
    const CostNetwork network = maker.random_network(variables, 3 + maker.below(9), seed % 3 * 15);
    const int64_t least = least_by_trying_all(network);
    const CostMinimum found = minimise(network, 1'000'000);
    ASSERT_EQ(found.cost, least) << "seed " << seed;
    ASSERT_EQ(found.lower_bound, least) << "seed " << seed;
    if (least < kNever) {
      ASSERT_EQ(cost_of(network, found.value), least) << "seed " << seed;
    }
  }
}

TEST(CostNetwork, BoundHoldsWhenWorkRunsOut) {
  int unproved = 0;
  for (uint32_t seed = 0; seed < 600; ++seed) {
    NetworkMaker maker(seed);
    const CostNetwork network = maker.random_network(9, 16, seed % 2 * 10);
    const int64_t least = least_by_trying_all(network);
    const CostMinimum found = minimise(network, 1 + maker.below(2000));
    ASSERT_LE(found.lower_bound, least) << "seed " << seed;
    ASSERT_GE(found.cost, least) << "seed " << seed;
    if (found.cost < kNever) {
      ASSERT_EQ(cost_of(network, found.value), found.cost) << "seed " << seed;
    }
    unproved += found.lower_bound < found.cost;
  }
  EXPECT_GT(unproved, 50);  // else the test tests nothing
}

/// A square grid has no order of elimination with small tables: buckets are split and searched.
CostNetwork grid(int side, NetworkMaker& maker) {
  CostNetwork network;
  network.domain.assign(side * side, 3);
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      const int x = i * side + j;
      maker.add_table(network, {x}, 0);
      if (j + 1 < side) maker.add_table(network, {x, x + 1}, 0);
      if (i + 1 < side) maker.add_table(network, {x, x + side}, 0);
    }
  }
  return network;
}

TEST(CostNetwork, SearchAgreesWithElimination) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    NetworkMaker maker(seed);
    const CostNetwork network = grid(6, maker);
    const CostMinimum exact = minimise(network, 1'000'000'000);
    const CostMinimum split = minimise(network, 200'000);
    ASSERT_EQ(exact.lower_bound, exact.cost);
    ASSERT_EQ(cost_of(network, exact.value), exact.cost);
    EXPECT_LE(split.lower_bound, exact.cost);
    EXPECT_GE(split.cost, exact.cost);
    EXPECT_LE(split.work, 1'000'000);
  }
}

TEST(CostNetwork, EmptyAndImpossible) {
  EXPECT_EQ(minimise({}, 100).cost, 0);
  const CostNetwork stuck{{2, 2}, {{{0, 1}, {kNever, kNever, kNever, kNever}}, {{}, {3}}}};
  EXPECT_EQ(minimise(stuck, 100).cost, kNever);
  EXPECT_EQ(minimise(stuck, 100).lower_bound, kNever);
  const CostNetwork free{{3}, {{{}, {3}}}};
  EXPECT_EQ(minimise(free, 100).cost, 3);
}

}  // namespace
}  // namespace monkeytree
