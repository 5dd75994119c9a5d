#include "cluster/letters.h"

#include <gtest/gtest.h>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

constexpr std::string_view kRows =
    "R1  AAAAABB.\n"
    "R2  AAACCCD-\n"
    "R10 AACCCBB=\n";

TEST(LettersTest, RowsAreRacksAndLettersAreJobs) {
  const absl::StatusOr<Snapshot> snapshot = parse_letters(kRows, {3, {{"C", 8}}});
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->racks.size(), 3u);
  EXPECT_EQ(snapshot->nodes.size(), 24u);
  EXPECT_EQ(snapshot->jobs.size(), 4u);
  EXPECT_EQ(snapshot->racks[RackId(1)].bound(), 3);
  const Group& c = snapshot->groups[GroupId(2)];
  EXPECT_EQ(snapshot->jobs[c.job].id, "C");
  EXPECT_EQ(c.rings, 8);
  EXPECT_EQ(c.workers.size(), 6u);
  EXPECT_EQ(snapshot->nodes[c.workers[3]].name, "R10/3");
  EXPECT_EQ(snapshot->nodes[NodeId(15)].state, NodeState::kDrain);
  EXPECT_EQ(snapshot->nodes[NodeId(23)].state, NodeState::kReserved);
}

TEST(LettersTest, WhatIsReadIsWrittenBack) {
  EXPECT_EQ(write_letters(*parse_letters(kRows)), kRows);
}

TEST(LettersTest, WordsNameJobsWhereLettersRunOut) {
  const absl::StatusOr<Snapshot> snapshot = parse_letters("r1 A1 A1 B7 .\n\nr2 B7 . .\n");
  ASSERT_TRUE(snapshot.ok());
  EXPECT_EQ(snapshot->jobs.size(), 2u);
  EXPECT_EQ(snapshot->groups[GroupId(1)].workers.size(), 2u);
  EXPECT_EQ(fragmentation(*snapshot)[RackId(0)], 1);
}

TEST(LettersTest, MistakesNameTheirLine) {
  EXPECT_EQ(parse_letters("R1 AA\nR1 BB\n").status().message(), "line 2: a second rack 'R1'");
  EXPECT_EQ(parse_letters("R1 A?\n").status().message(),
            "line 1: '?' in a row, expected a letter, a digit, or one of . - ! =");
  EXPECT_EQ(parse_letters("R1 A\n", {2, {{"B", 8}}}).status().message(),
            "rings for job 'B', which is nowhere");
}

TEST(LettersTest, NothingIsAnEmptyCluster) { EXPECT_TRUE(parse_letters("")->racks.empty()); }

}  // namespace
}  // namespace monkeytree
