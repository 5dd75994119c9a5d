#include "cluster/fragmentation.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "cluster/analysis.h"
#include "cluster/letters.h"
#include "cluster/picture.h"

namespace monkeytree {
namespace {

std::vector<int> degrees(const Snapshot& snapshot) {
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  return {degrees.begin(), degrees.end()};
}

TEST(FragmentationTest, WorkedExamples) {
  EXPECT_EQ(degrees(*parse_letters("R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..")),
            (std::vector<int>{2, 3, 4, 3}));
  EXPECT_EQ(degrees(*parse_letters("R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...")),
            (std::vector<int>{2, 2, 3, 2}));
  EXPECT_EQ(degrees(*parse_letters("R1 AB\nR2 A.\nR3 CC", {2, {{"A", 8}, {"C", 8}}})),
            (std::vector<int>{8, 8, 0}));
  EXPECT_TRUE(degrees(Snapshot()).empty());
}

/// A random cluster of letters, some jobs made of two groups.
Snapshot random_cluster(std::mt19937& random) {
  std::string rows;
  const size_t racks = 1 + random() % 6, letters = 1 + random() % 6;
  for (size_t r = 0; r < racks; ++r) {
    rows += "r" + std::to_string(r) + " ";
    for (size_t n = 1 + random() % 8; n > 0; --n) {
      rows += random() % 4 == 0 ? '.' : static_cast<char>('A' + random() % letters);
    }
    rows += "\n";
  }
  Snapshot snapshot = *parse_letters(rows, {static_cast<int>(random() % 4), {}});
  for (Group& group : snapshot.groups) group.rings = 1 + static_cast<int>(random() % 3);
  return snapshot;
}

/// The definition, word by word: a rack counts a group's rings when the group has a worker in it
/// and a worker outside.
TEST(FragmentationTest, AgreesWithTheDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 3000; ++round) {
    const Snapshot snapshot = random_cluster(random);
    const IdVector<RackId, int> found = fragmentation(snapshot);
    int over = 0;
    for (RackId rack : snapshot.racks.keys()) {
      int expected = 0;
      for (const Group& group : snapshot.groups) {
        bool inside = false, outside = false;
        for (NodeId node : group.workers) {
          (snapshot.nodes[node].rack == rack ? inside : outside) = true;
        }
        if (inside && outside) expected += group.rings;
      }
      ASSERT_EQ(found[rack], expected) << write_letters(snapshot);
      over += std::max(0, expected - snapshot.racks[rack].bound());
    }
    ASSERT_EQ(excess(found, bounds(snapshot)), over);
  }
}

TEST(FragmentationTest, AJobInsideOneRackCostsNothingHoweverManyGroups) {
  EXPECT_EQ(degrees(*parse_letters("R1 AABBCC\nR2 DDDDDD")), (std::vector<int>{0, 0}));
}

TEST(AnalysisTest, CountsFragmentedJobsAndTheirGpus) {
  Snapshot snapshot = *parse_letters("R1 AAB.\nR2 AB..\nR3 CC-B", {1, {{"B", 2}}});
  for (Node& node : snapshot.nodes) node.gpus = 8;
  const Analysis analysis = analyze(snapshot);
  EXPECT_EQ(analysis.over, (std::vector<RackId>{RackId(0), RackId(1), RackId(2)}));
  EXPECT_EQ(analysis.excess, 2 + 2 + 1);
  EXPECT_EQ(analysis.gpus, 8 * 8);
  EXPECT_EQ(analysis.gpus_fragmented, 6 * 8);
  EXPECT_TRUE(analysis.gpus_known);
  ASSERT_EQ(analysis.fragmented.size(), 2u);
  EXPECT_EQ(analysis.fragmented[1].racks, 3);
  EXPECT_EQ(analysis.fragmented[1].rings, 2);
  EXPECT_EQ(analysis.fragmented[0].over, (std::vector<RackId>{RackId(0), RackId(1)}));
  snapshot.nodes[NodeId(0)].gpus = 0;
  EXPECT_FALSE(analyze(snapshot).gpus_known);
}

TEST(AnalysisTest, AWorkerHoldsItsShareOfTheNode) {
  Snapshot snapshot = *parse_letters("R1 AB");
  snapshot.nodes[NodeId(0)].slots = 8;
  snapshot.nodes[NodeId(0)].gpus = 4;
  snapshot.groups[GroupId(0)].slots = 2;
  EXPECT_EQ(gpus_of(snapshot, GroupId(0), NodeId(0)), 1);
  snapshot.nodes[NodeId(0)].gpus = 0;
  EXPECT_EQ(gpus_of(snapshot, GroupId(0), NodeId(0)), 2);
}

TEST(PictureTest, CellsAreSlotsOrNodes) {
  Snapshot snapshot = *parse_letters("R1 ABC.");
  for (Node& node : snapshot.nodes) node.slots = 2;
  snapshot.groups[GroupId(0)].slots = 2;
  snapshot.groups[GroupId(2)].workers = {NodeId(1)};  // C shares B's node
  EXPECT_EQ(write_letters(snapshot), "R1 AABC....\n");
  const Picture picture(snapshot);
  const std::vector<Cell> nodes = picture.cells(RackId(0), CellOf::kNode);
  ASSERT_EQ(nodes.size(), 4u);
  EXPECT_FALSE(nodes[0].mixed);
  EXPECT_TRUE(nodes[1].mixed);
  EXPECT_FALSE(nodes[2].job.valid());
  EXPECT_EQ(picture.cell_count(RackId(0), CellOf::kSlot), 8u);
}

TEST(PictureTest, JobsKeepTheLetterThatIsTheirName) {
  const Snapshot snapshot = *parse_letters("R1 long B A x1");
  const IdVector<JobId, char> letters =
      letters_for(snapshot, {JobId(0), JobId(1), JobId(2), JobId(3)});
  EXPECT_EQ(std::string(letters.begin(), letters.end()), "CBAD");
  EXPECT_EQ(letters_for(snapshot, {})[JobId(0)], kNoLetter);
}

}  // namespace
}  // namespace monkeytree
