#include "scheduling/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string_view>

namespace monkeytree {
namespace {

using ::testing::ElementsAre;

constexpr auto kBestFit = PlacementRule::kBestFit;
constexpr auto kFirstFit = PlacementRule::kFirstFit;
constexpr auto kRandom = PlacementRule::kRandom;

/// Racks as words, a letter a node: `.` free, `x` taken, `h` held.
FreeNodes nodes_of(std::string_view picture) {
  IdVector<NodeId, RackId> racks;
  int rack = 0;
  for (char c : picture) {
    if (c == ' ') {
      ++rack;
    } else {
      racks.push_back(RackId(rack));
    }
  }
  FreeNodes nodes(racks);
  int32_t node = 0;
  for (char c : picture) {
    if (c == 'x') nodes.take(NodeId(node));
    if (c == 'h') nodes.hold(NodeId(node));
    if (c != ' ') ++node;
  }
  return nodes;
}

std::vector<int> placed(const FreeNodes& nodes, int wanted, PlacementRule rule = kBestFit,
                        FillRule fill = FillRule::kPaper) {
  std::vector<int> out;
  const auto found = nodes.place(wanted, rule, fill);
  if (!found) return {-1};
  for (NodeId node : *found) out.push_back(node.value);
  return out;
}

TEST(Placement, BestFitTakesTheTightestRack) {
  EXPECT_THAT(placed(nodes_of(".... x..x ...x"), 2), ElementsAre(5, 6));
  EXPECT_THAT(placed(nodes_of(".... x..x ...x"), 3), ElementsAre(8, 9, 10));
  EXPECT_THAT(placed(nodes_of("xxx. .xx. ..xx"), 2), ElementsAre(4, 7));  // ties: lowest rack
}

TEST(Placement, BestFitFillsTheEmptiestRacksWhenNoneHasRoom) {
  // Five nodes: the rack with three, then again the one with the most, though 1.. fits better.
  EXPECT_THAT(placed(nodes_of("..x. x..x .xx. xx.."), 4), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(placed(nodes_of("..x. x... .xxx x..."), 7), ElementsAre(0, 1, 3, 5, 6, 7, 13));
}

TEST(Placement, RemainderGoesWhereItFitsBest) {
  const FreeNodes nodes = nodes_of("..x. x... .xxx xx..");
  EXPECT_THAT(placed(nodes, 4, kBestFit, FillRule::kPaper), ElementsAre(0, 1, 3, 5));
  EXPECT_THAT(placed(nodes, 4, kBestFit, FillRule::kRemainder), ElementsAre(0, 1, 3, 8));
  EXPECT_THAT(placed(nodes, 5, kBestFit, FillRule::kRemainder), ElementsAre(0, 1, 3, 14, 15));
  EXPECT_THAT(placed(nodes, 6, kBestFit, FillRule::kRemainder), ElementsAre(0, 1, 3, 5, 6, 7));
}

TEST(Placement, FirstFitTakesTheLowestNodes) {
  EXPECT_THAT(placed(nodes_of("xx.x .... ...."), 4, kFirstFit), ElementsAre(2, 4, 5, 6));
}

TEST(Placement, NothingWhereTooFewAreFree) {
  for (PlacementRule rule : {kBestFit, kFirstFit, kRandom}) {
    EXPECT_THAT(placed(nodes_of("x. h. xx"), 3, rule), ElementsAre(-1));
  }
  EXPECT_THAT(placed(FreeNodes(0, 4), 1), ElementsAre(-1));
}

TEST(Placement, HeldNodesAreNotFree) {
  FreeNodes nodes = nodes_of("h.x. ....");
  EXPECT_EQ(nodes.free_count(), 6);
  EXPECT_THAT(placed(nodes, 3, kFirstFit), ElementsAre(1, 3, 4));
  nodes.hold(NodeId(2));  // promised while its job is still there
  nodes.give(NodeId(2));
  EXPECT_FALSE(nodes.is_free(NodeId(2)));
  nodes.take(NodeId(2));  // the move has arrived
  nodes.release(NodeId(2));
  EXPECT_TRUE(nodes.is_taken(NodeId(2)));
  nodes.release(NodeId(0));
  EXPECT_THAT(placed(nodes, 3, kFirstFit), ElementsAre(0, 1, 3));
}

TEST(Placement, RandomIsEvenAndSeeded) {
  const FreeNodes nodes = nodes_of("..x. .xx. h...");
  std::map<int, int> drawn;
  RandomSequence random(7), same(7);
  for (int i = 0; i < 8000; ++i) {
    const auto found = nodes.place(2, kRandom, FillRule::kPaper, &random);
    ASSERT_EQ(found, nodes.place(2, kRandom, FillRule::kPaper, &same));
    ASSERT_LT((*found)[0], (*found)[1]);
    for (NodeId node : *found) ++drawn[node.value];
  }
  EXPECT_EQ(drawn.size(), 8u);
  for (const auto& [node, times] : drawn) {
    EXPECT_TRUE(nodes.is_free(NodeId(node)));
    EXPECT_NEAR(times, 2000, 200) << "node " << node;
  }
}

/// The rules as they are told, over plain counts.
std::vector<NodeId> obvious_best_fit(const FreeNodes& nodes, int wanted, FillRule fill) {
  std::vector<std::vector<NodeId>> racks(static_cast<size_t>(nodes.rack_count()));
  for (int n = 0; n < nodes.node_count(); ++n) {
    if (!nodes.is_free(NodeId(n))) continue;
    racks[static_cast<size_t>(nodes.rack_of(NodeId(n)).value)].push_back(NodeId(n));
  }
  std::vector<NodeId> out;
  bool first = true;
  while (out.size() < static_cast<size_t>(wanted)) {
    const size_t rest = static_cast<size_t>(wanted) - out.size();
    std::vector<NodeId>* most = &racks[0];
    std::vector<NodeId>* best = nullptr;
    for (std::vector<NodeId>& rack : racks) {
      if (rack.size() > most->size()) most = &rack;
      if (rack.size() >= rest && (best == nullptr || rack.size() < best->size())) best = &rack;
    }
    const bool fits = best != nullptr && (first || fill == FillRule::kRemainder);
    std::vector<NodeId>* use = fits ? best : most;
    const size_t count = std::min(rest, use->size());
    out.insert(out.end(), use->begin(), use->begin() + static_cast<ptrdiff_t>(count));
    use->erase(use->begin(), use->begin() + static_cast<ptrdiff_t>(count));
    first = false;
  }
  std::sort(out.begin(), out.end());
  return out;
}

TEST(Placement, FollowsTheRulesThroughRandomHistories) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    RandomSequence random(seed);
    const int racks = 1 + static_cast<int>(random.below(8));
    IdVector<NodeId, RackId> rack_of;
    for (size_t n = 1 + random.below(40); n > 0; --n) {
      rack_of.push_back(RackId(static_cast<int32_t>(random.below(static_cast<uint64_t>(racks)))));
    }
    FreeNodes nodes(rack_of);
    for (int event = 0; event < 60; ++event) {
      const NodeId node(static_cast<int32_t>(random.below(rack_of.size())));
      if (random.below(3) == 0) {
        nodes.is_held(node) ? nodes.release(node) : nodes.hold(node);
      } else {
        nodes.is_taken(node) ? nodes.give(node) : nodes.take(node);
      }
      int free = 0;
      std::vector<NodeId> lowest;
      for (NodeId n : rack_of.keys()) {
        if (!nodes.is_free(n)) continue;
        ++free;
        lowest.push_back(n);
      }
      ASSERT_EQ(nodes.free_count(), free);
      if (free == 0) continue;
      const int wanted = 1 + static_cast<int>(random.below(static_cast<uint64_t>(free)));
      for (FillRule fill : {FillRule::kPaper, FillRule::kRemainder}) {
        ASSERT_EQ(nodes.place(wanted, kBestFit, fill), obvious_best_fit(nodes, wanted, fill))
            << "seed " << seed;
      }
      lowest.resize(static_cast<size_t>(wanted));
      ASSERT_EQ(nodes.place(wanted, kFirstFit), lowest);
      ASSERT_EQ(nodes.place(free + 1, kBestFit), std::nullopt);
    }
  }
}

}  // namespace
}  // namespace monkeytree
