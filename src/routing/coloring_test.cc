#include "routing/coloring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

namespace monkeytree {
namespace {

/// A flow graph that remembers what it told the Coloring, and checks every promise from scratch.
struct Model {
  struct Entry {
    EdgeId id;
    RackId from, to;
  };
  std::vector<Entry> entries;

  int degree(RackId rack, bool out) const {
    return static_cast<int>(std::count_if(entries.begin(), entries.end(), [&](const Entry& e) {
      return (out ? e.from : e.to) == rack;
    }));
  }

  /// How many edges of each colour meet on each side of each rack.
  std::map<std::tuple<int, bool, int>, int> loads(const Coloring& coloring) const {
    std::map<std::tuple<int, bool, int>, int> loads;
    for (const Entry& e : entries) {
      ++loads[{e.from.value, true, coloring.color(e.id)}];
      ++loads[{e.to.value, false, coloring.color(e.id)}];
    }
    return loads;
  }

  int distinct_colors(const Coloring& coloring) const {
    std::vector<int> colors;
    for (const Entry& e : entries) colors.push_back(coloring.color(e.id));
    std::sort(colors.begin(), colors.end());
    return static_cast<int>(std::unique(colors.begin(), colors.end()) - colors.begin());
  }

  std::vector<int> colors(const Coloring& coloring) const {
    std::vector<int> out;
    for (const Entry& e : entries) out.push_back(coloring.color(e.id));
    return out;
  }

  /// Every edge has a colour within 0 … colours−1, and no side of a rack carries more than
  /// ⌈degree ÷ colours⌉ edges of one colour.
  void check(const Coloring& coloring) const {
    ASSERT_EQ(coloring.size(), entries.size());
    for (const auto& [key, load] : loads(coloring)) {
      const auto [rack, out, color] = key;
      ASSERT_GE(color, 0);
      ASSERT_LT(color, coloring.colors());
      const int d = degree(RackId(rack), out);
      ASSERT_LE(load, (d + coloring.colors() - 1) / coloring.colors());
    }
  }
};

std::vector<std::pair<RackId, RackId>> random_graph(std::mt19937& random, int racks, int edges) {
  std::vector<std::pair<RackId, RackId>> graph;
  for (int i = 0; i < edges; ++i) {
    const int from = static_cast<int>(random() % racks);
    const int to = (from + 1 + static_cast<int>(random() % (racks - 1))) % racks;
    graph.emplace_back(RackId(from), RackId(to));
  }
  return graph;
}

int largest_degree(const std::vector<std::pair<RackId, RackId>>& graph, int racks) {
  std::vector<int> out(racks), in(racks);
  int largest = 0;
  for (const auto& [from, to] : graph) {
    largest = std::max({largest, ++out[from.value], ++in[to.value]});
  }
  return largest;
}

TEST(Coloring, ColorsAPathWithOneColorAndAPairWithTwo) {
  Coloring coloring(3, 2);
  const EdgeId a = coloring.insert(RackId(0), RackId(1));
  const EdgeId b = coloring.insert(RackId(1), RackId(2));
  EXPECT_EQ(coloring.color(a), 0);
  EXPECT_EQ(coloring.color(b), 0);
  const EdgeId c = coloring.insert(RackId(0), RackId(1));
  EXPECT_EQ(coloring.color(c), 1);
}

TEST(Coloring, TakesExactlyTheLargestDegreeOfColors) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int racks = 2 + static_cast<int>(random() % 9);
    const auto graph = random_graph(random, racks, static_cast<int>(random() % 60));
    const int colors = largest_degree(graph, racks);
    if (colors == 0) continue;
    Coloring coloring(static_cast<size_t>(racks), colors);
    Model model;
    for (const auto& [from, to] : graph) {
      model.entries.push_back({coloring.insert(from, to), from, to});
    }
    ASSERT_NO_FATAL_FAILURE(model.check(coloring)) << "round " << round;
    ASSERT_EQ(model.distinct_colors(coloring), colors);
  }
}

TEST(Coloring, SpreadsEvenlyWhereFlowsExceedColors) {
  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const int racks = 2 + static_cast<int>(random() % 6);
    const auto graph = random_graph(random, racks, 5 + static_cast<int>(random() % 80));
    Coloring coloring(static_cast<size_t>(racks), 1 + static_cast<int>(random() % 5));
    Model model;
    for (const auto& [from, to] : graph) {
      model.entries.push_back({coloring.insert(from, to), from, to});
    }
    ASSERT_NO_FATAL_FAILURE(model.check(coloring)) << "round " << round;
  }
}

TEST(Coloring, MoreColorsThanAWordHasBits) {
  std::mt19937 random(3);
  const auto graph = random_graph(random, 6, 900);
  const int colors = largest_degree(graph, 6);
  ASSERT_GT(colors, 128);
  Coloring coloring(6, colors);
  Model model;
  for (const auto& [from, to] : graph) {
    model.entries.push_back({coloring.insert(from, to), from, to});
  }
  model.check(coloring);
  EXPECT_EQ(model.distinct_colors(coloring), colors);
}

TEST(Coloring, ManyInsertionsAndRemovalsStayProper) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const int racks = 2 + static_cast<int>(random() % 7);
    const int colors = 1 + static_cast<int>(random() % 5);
    Coloring coloring(static_cast<size_t>(racks), colors);
    Model model;
    for (int step = 0; step < 120; ++step) {
      coloring.begin_change();
      const std::vector<int> before = model.colors(coloring);
      const size_t old = model.entries.size();
      const bool insert = random() % 5 < (step < 60 ? 4u : 2u);
      if (insert || model.entries.empty()) {
        const auto [from, to] = random_graph(random, racks, 1).front();
        model.entries.push_back({coloring.insert(from, to), from, to});
        int changed = 0;
        const std::vector<int> after = model.colors(coloring);
        for (size_t i = 0; i < old; ++i) changed += before[i] != after[i];
        ASSERT_EQ(changed, coloring.recolored());
      } else {
        const size_t victim = random() % model.entries.size();
        coloring.remove(model.entries[victim].id);
        model.entries.erase(model.entries.begin() + static_cast<long>(victim));
      }
      ASSERT_NO_FATAL_FAILURE(model.check(coloring)) << "round " << round << " step " << step;
    }
  }
}

TEST(Coloring, SameCallsGiveTheSameColors) {
  const auto run = [] {
    std::mt19937 random(5);
    Coloring coloring(20, 6);
    Model model;
    for (const auto& [from, to] : random_graph(random, 20, 100)) {
      model.entries.push_back({coloring.insert(from, to), from, to});
    }
    return model.colors(coloring);
  };
  EXPECT_EQ(run(), run());
}

TEST(Coloring, KeepsWhatItIsToldToKeep) {
  Coloring coloring(3, 3);
  const EdgeId a = coloring.keep(RackId(0), RackId(1), 2);
  EXPECT_EQ(coloring.color(a), 2);
  EXPECT_EQ(coloring.recolored(), 0);
  const EdgeId b = coloring.keep(RackId(0), RackId(2), 2);  // the colour is taken at rack 0
  EXPECT_EQ(coloring.color(b), -1);
  EXPECT_TRUE(coloring.place(b));
  EXPECT_EQ(coloring.recolored(), 1);
  const EdgeId c = coloring.keep(RackId(1), RackId(2), 7);  // a colour that is gone
  EXPECT_TRUE(coloring.place(c));
  EXPECT_EQ(coloring.recolored(), 2);
  coloring.remove(b);
  EXPECT_EQ(coloring.recolored(), 1);
}

TEST(Coloring, TheShortestOfTheChainsIsTaken) {
  // Colours 0 and 1. A long path out of rack 1's right side, a short one at rack 0's left side.
  Coloring coloring(8, 2);
  const auto keep = [&](int from, int to, int color) {
    return coloring.keep(RackId(from), RackId(to), color);
  };
  const EdgeId short_end = keep(0, 7, 1);
  keep(2, 1, 0);
  keep(2, 3, 1);
  keep(4, 3, 0);
  keep(4, 5, 1);
  coloring.begin_change();
  const EdgeId added = coloring.insert(RackId(0), RackId(1));
  EXPECT_EQ(coloring.recolored(), 1);
  EXPECT_EQ(coloring.color(short_end), 0);
  EXPECT_EQ(coloring.color(added), 1);
}

TEST(Coloring, RacksUseOnlyTheirOwnColors) {
  std::mt19937 random(6);
  int unplaced = 0, all = 0;
  for (int round = 0; round < 2000; ++round) {
    const int racks = 3 + static_cast<int>(random() % 6);
    const int colors = 2 + static_cast<int>(random() % 4);
    std::vector<uint64_t> usable;
    for (int r = 0; r < racks; ++r) {
      usable.push_back(1 + random() % ((uint64_t{1} << colors) - 1));
    }
    Coloring coloring(static_cast<size_t>(racks), colors, usable);
    std::map<std::pair<int, int>, int> seen;
    Model model;
    for (const auto& [from, to] : random_graph(random, racks, 2 * racks)) {
      if ((usable[from.value] & usable[to.value]) == 0) continue;
      model.entries.push_back({coloring.insert(from, to), from, to});
    }
    for (const Model::Entry& e : model.entries) {
      const int color = coloring.color(e.id);
      ++all;
      if (color < 0) {
        ++unplaced;
        continue;
      }
      ASSERT_TRUE((usable[e.from.value] >> color) & 1);
      ASSERT_TRUE((usable[e.to.value] >> color) & 1);
    }
    for (const auto& [key, load] : model.loads(coloring)) {
      const auto [rack, out, color] = key;
      if (color < 0) continue;
      const int usable_count = std::popcount(usable[rack]);
      ASSERT_LE(load, (model.degree(RackId(rack), out) + usable_count - 1) / usable_count);
    }
  }
  EXPECT_LT(unplaced, all / 4);
}

}  // namespace
}  // namespace monkeytree
