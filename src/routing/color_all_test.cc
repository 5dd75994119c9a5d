#include "routing/color_all.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

namespace monkeytree {
namespace {

struct Graph {
  std::vector<RackPair> flows;
  std::vector<int> bounds;
};

/// Racks 0 … n−1 of one bound each; in two halves of different bounds if `halves`.
Graph random_graph(std::mt19937& random, int racks, int flows, int bound, bool halves) {
  Graph graph;
  graph.bounds.assign(static_cast<size_t>(racks), bound);
  const int half = halves ? racks / 2 : racks;
  for (int r = half; r < racks; ++r) graph.bounds[static_cast<size_t>(r)] = bound + 2;
  for (int i = 0; i < flows; ++i) {
    const bool second = halves && random() % 2 == 0;
    const int low = second ? half : 0, count = second ? racks - half : half;
    const int from = static_cast<int>(random() % static_cast<uint32_t>(count));
    const int step = 1 + static_cast<int>(random() % static_cast<uint32_t>(count - 1));
    graph.flows.push_back({RackId(low + from), RackId(low + (from + step) % count)});
  }
  return graph;
}

/// Every promise, counted afresh: range, evenness on each side of each rack, number of colours.
void check(const Graph& graph, const std::vector<int>& colors) {
  ASSERT_EQ(colors.size(), graph.flows.size());
  std::map<std::pair<int, bool>, std::map<int, int>> loads;
  std::map<std::pair<int, bool>, int> degrees;
  int largest = 0;
  for (size_t i = 0; i < colors.size(); ++i) {
    const auto [from, to] = graph.flows[i];
    ASSERT_GE(colors[i], 0);
    ASSERT_LT(colors[i], graph.bounds[static_cast<size_t>(from.value)]);
    ++loads[{from.value, true}][colors[i]];
    ++loads[{to.value, false}][colors[i]];
    largest = std::max({largest, ++degrees[{from.value, true}], ++degrees[{to.value, false}]});
  }
  for (const auto& [side, degree] : degrees) {
    const int bound = graph.bounds[static_cast<size_t>(side.first)];
    for (const auto& [color, load] : loads[side]) {
      ASSERT_LE(load, (degree + bound - 1) / bound);
      ASSERT_GE(load, degree / bound);
    }
    if (degree >= bound) ASSERT_EQ(loads[side].size(), static_cast<size_t>(bound));
  }
  const int most = *std::max_element(graph.bounds.begin(), graph.bounds.end());
  const std::set<int> distinct(colors.begin(), colors.end());
  ASSERT_LE(distinct.size(), static_cast<size_t>(std::min(largest, most)));
  if (largest <= *std::min_element(graph.bounds.begin(), graph.bounds.end())) {
    ASSERT_EQ(distinct.size(), static_cast<size_t>(largest));
  }
}

TEST(ColorAll, NothingToColor) { EXPECT_TRUE(color_all({}, {}).empty()); }

TEST(ColorAll, ThousandsOfRandomGraphs) {
  std::mt19937 random(1);
  for (int round = 0; round < 8000; ++round) {
    const int racks = 4 + static_cast<int>(random() % 10);
    const Graph graph = random_graph(random, racks, static_cast<int>(random() % 90),
                                     1 + static_cast<int>(random() % 20), round % 4 == 0);
    const std::vector<int> colors = color_all(graph.flows, graph.bounds);
    ASSERT_NO_FATAL_FAILURE(check(graph, colors)) << "round " << round;
    ASSERT_EQ(colors, color_all(graph.flows, graph.bounds));
  }
}

TEST(ColorAll, MoreColorsThanAWordHasBits) {
  std::mt19937 random(2);
  for (const int bound : {63, 64, 65, 128, 129, 400}) {
    const Graph graph = random_graph(random, 6, 900, bound, false);
    check(graph, color_all(graph.flows, graph.bounds));
  }
}

TEST(ColorAll, ARegularGraphTakesEveryColorEverywhere) {
  std::mt19937 random(3);
  Graph graph;
  const int racks = 300, bound = 16;
  graph.bounds.assign(racks, bound);
  std::vector<int> to(racks);
  for (int r = 0; r < racks; ++r) to[static_cast<size_t>(r)] = r;
  for (int m = 0; m < bound; ++m) {
    std::shuffle(to.begin(), to.end(), random);
    for (int r = 0; r < racks; ++r) {
      graph.flows.push_back({RackId(r), RackId(to[static_cast<size_t>(r)])});
    }
  }
  check(graph, color_all(graph.flows, graph.bounds));
}

}  // namespace
}  // namespace monkeytree
