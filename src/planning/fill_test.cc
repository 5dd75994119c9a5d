#include "planning/fill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cluster/letters.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;

std::vector<int> degrees_of(const Fill& filled) {
  return {filled.degrees.begin(), filled.degrees.end()};
}

TEST(Fill, DigestDiagramB) {
  const Snapshot s = parse_letters("R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..\n").value();
  const std::optional<Fill> filled = fill(s);  // by size: A 10, C 7, B 6, D 5
  ASSERT_TRUE(filled);
  EXPECT_EQ(filled->moves, 11);
  EXPECT_THAT(degrees_of(*filled), ElementsAre(1, 2, 2, 1));
  EXPECT_EQ(
      write_letters(filled->placement),
      write_letters(parse_letters("R1 AAAAAAAA\nR2 AACCCCCC\nR3 CBBBBBBD\nR4 DDDD....\n").value()));
}

TEST(Fill, DigestDiagramC) {
  const Snapshot s = parse_letters("R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n").value();
  std::vector<GroupId> order;  // A C B
  for (const char* job : {"A", "C", "B"}) {
    for (const Job& j : s.jobs) {
      if (j.id == job) order.push_back(j.first_group);
    }
  }
  const std::optional<Fill> filled = fill(s, order);
  ASSERT_TRUE(filled);
  EXPECT_EQ(filled->moves, 12);
  EXPECT_THAT(degrees_of(*filled), ElementsAre(1, 2, 1, 0));
}

TEST(Fill, TheOrderIsFollowedAndCompleted) {
  const Snapshot s = parse_letters("R1 ABB\nR2 CCC\n").value();
  const std::optional<Fill> filled = fill(s, std::vector{GroupId(1)});
  EXPECT_EQ(write_letters(filled->placement), "R1 BBC\nR2 CCA\n");
}

TEST(Fill, ImmovableWorkersStay) {
  Snapshot s = parse_letters("R1 .AB\nR2 BBB\n").value();
  s.groups[GroupId(0)].pinned = {0};
  EXPECT_EQ(write_letters(fill(s)->placement), "R1 BAB\nR2 BB.\n");
  s.jobs[JobId(1)].movable = false;
  EXPECT_EQ(write_letters(fill(s)->placement), "R1 .AB\nR2 BBB\n");
}

TEST(Fill, WithoutUpPlacesForAllThereIsNone) {
  Snapshot s = parse_letters("R1 AB\nR2 AB\n").value();
  s.nodes[NodeId(3)].state = NodeState::kDrain;
  EXPECT_FALSE(fill(s));
  EXPECT_TRUE(fill(Snapshot()));
}

/// Theorem 1 and its corollary: no degree above 2 · classes · the largest rings.
void expect_theorem(const RandomShape& shape, int count) {
  Random random(11);
  int tight = 0;
  for (int i = 0; i < count; ++i) {
    Snapshot s = random_snapshot(random.next(), shape);
    // The promise is for groups of one class.
    for (GroupId id : s.groups.keys()) {
      std::erase_if(s.groups[id].workers, [&, first = s.groups[id].workers[0]](NodeId node) {
        return s.nodes[node].node_class != s.nodes[first].node_class;
      });
    }
    std::vector<GroupId> order;
    for (GroupId id : s.groups.keys()) order.push_back(id);
    for (size_t k = order.size(); k > 1; --k) {
      std::swap(order[k - 1], order[static_cast<size_t>(random.below(static_cast<int>(k)))]);
    }
    int rings = 0;
    for (const Group& group : s.groups) rings = std::max(rings, group.rings);
    for (const std::optional<Fill>& filled : {fill(s), fill(s, order)}) {
      ASSERT_TRUE(filled) << i;
      const int worst = *std::max_element(filled->degrees.begin(), filled->degrees.end());
      ASSERT_LE(worst, 2 * shape.classes * rings) << i;
      tight += worst == 2 * shape.classes * rings;
    }
  }
  EXPECT_GT(tight, 0);
}

TEST(Fill, TheoremOneHoldsForAnyClusterAndOrder) {
  RandomShape plain;
  plain.racks_high = 12;
  expect_theorem(plain, 500);
  RandomShape weighted = plain;
  weighted.weights = {1, 8};
  weighted.uneven_racks = true;
  weighted.islands = 2;
  expect_theorem(weighted, 500);
  RandomShape slots = plain;
  slots.slots_per_node = 5;
  slots.worker_slots = {2};
  slots.nodes_per_rack = 2;
  expect_theorem(slots, 500);
  RandomShape classes = plain;
  classes.classes = 2;
  classes.nodes_per_rack = 6;
  expect_theorem(classes, 500);
}

}  // namespace
}  // namespace monkeytree
