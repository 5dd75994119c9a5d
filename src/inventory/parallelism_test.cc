#include "inventory/parallelism.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace monkeytree {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string facts(std::string_view comment) {
  std::vector<std::string> faults;
  const CommentFacts f = parse_comment(comment, faults);
  std::string out;
  const auto add = [&](const char* name, std::optional<int> value) {
    if (value) out += std::string(name) + std::to_string(*value) + " ";
  };
  add("dp", f.dp);
  add("tp", f.tp);
  add("pp", f.pp);
  add("rings", f.rings);
  add("group", f.group);
  add("worker", f.worker);
  if (f.companion_of) out += "of " + *f.companion_of + " ";
  if (!f.movable) out += "fixed ";
  for (const std::string& fault : faults) out += "(" + fault + ")";
  return out;
}

TEST(Comment, IsReadAmongOtherWords) {
  EXPECT_EQ(facts("dp=4,tp=8,pp=2"), "dp4 tp8 pp2 ");
  EXPECT_EQ(facts("run 7; TP=8 seed=3, DP=4;rings=16"), "dp4 tp8 rings16 ");
  EXPECT_EQ(facts("monkeytree=off"), "fixed ");
  EXPECT_EQ(facts("monkeytree=on"), "");
  EXPECT_EQ(facts("companion-of=123_4,group=1,worker=0"), "group1 worker0 of 123_4 ");
  EXPECT_EQ(facts("a plain remark, 2=3, x="), "");
  EXPECT_EQ(facts("dp=4 dp=4"), "dp4 ");
}

TEST(Comment, FaultsLeaveParallelismOut) {
  EXPECT_EQ(facts("dp=4,tp=x"), "(tp=\"x\": expected a number from 1)");
  EXPECT_EQ(facts("dp=0"), "(dp=\"0\": expected a number from 1)");
  EXPECT_EQ(facts("dp=4,dp=5"), "(dp=5 after dp=4, expected one of them)");
  EXPECT_EQ(facts("tp=99999999999"), "(tp=\"99999999999\": expected a number from 1)");
  EXPECT_EQ(facts("monkeytree=maybe"), "(monkeytree=\"maybe\": expected on or off)");
}

TEST(AdminComment, HoldsTheOrderOfRanks) {
  EXPECT_EQ(ranks_of_admin_comment("monkeytree-ranks=n[3-1],n7 and more"), "n[3-1],n7");
  EXPECT_EQ(ranks_of_admin_comment("x;monkeytree-ranks=n1;y"), "n1");
  EXPECT_EQ(ranks_of_admin_comment("no-monkeytree-ranks=n1"), std::nullopt);
  EXPECT_EQ(ranks_of_admin_comment("pp:2"), std::nullopt);
}

std::string spread(int64_t per_stage, int64_t stages, const std::vector<int>& ranks_on) {
  std::string out;
  for (const Stage& stage : spread_stages(per_stage, stages, ranks_on)) {
    for (const Share& s : stage)
      out += std::to_string(s.node) + "*" + std::to_string(s.ranks) + " ";
    out += "/ ";
  }
  return out;
}

TEST(Stages, FillNodesInRankOrder) {
  EXPECT_EQ(spread(16, 2, {8, 8, 8, 8}), "0*8 1*8 / 2*8 3*8 / ");
  EXPECT_EQ(spread(12, 2, {8, 8, 8}), "0*8 1*4 / 1*4 2*8 / ");
  EXPECT_EQ(spread(2, 4, {8}), "0*2 / 0*2 / 0*2 / 0*2 / ");
  EXPECT_EQ(spread(6, 1, {4, 2}), "0*4 1*2 / ");
}

/// Rank by rank, from the rule itself.
TEST(Stages, MatchTheRuleRankByRank) {
  for (int tp : {1, 2, 4, 8}) {
    for (int dp : {1, 3, 4}) {
      for (int pp : {1, 2, 3}) {
        const int total = tp * dp * pp;
        for (int each = 1; each <= total; ++each) {
          if (total % each != 0) continue;
          const std::vector<Stage> stages =
              spread_stages(int64_t{tp} * dp, pp, std::vector<int>(total / each, each));
          std::vector<std::vector<int>> count(pp, std::vector<int>(total / each, 0));
          for (int p = 0; p < pp; ++p) {
            for (int d = 0; d < dp; ++d) {
              for (int t = 0; t < tp; ++t) ++count[p][(t + tp * (d + dp * p)) / each];
            }
          }
          for (int p = 0; p < pp; ++p) {
            std::vector<int> got(total / each, 0);
            for (const Share& share : stages[p]) got[share.node] += share.ranks;
            ASSERT_EQ(got, count[p]);
          }
        }
      }
    }
  }
}

TEST(AdminCommentTest, order_and_held_nodes_are_written_and_read) {
  const std::string comment = with_ranks("bill to X;", {"n1", "", "n3"}, {{0, 1, "n9"}});
  EXPECT_EQ(comment, "bill to X;monkeytree-ranks=n1,-,n3 monkeytree-held=0/1@n9");
  EXPECT_EQ(ranks_of_admin_comment(comment), "n1,-,n3");
  EXPECT_EQ(held_of_admin_comment(comment), (std::vector<HeldNode>{{0, 1, "n9"}}));
  EXPECT_EQ(with_ranks(comment, {"n2"}, {}), "bill to X;monkeytree-ranks=n2");
  EXPECT_EQ(with_ranks(comment, {}, {}), "bill to X;");
  EXPECT_EQ(with_ranks("a monkeytree-ranks=n1 b", {"n2"}, {}), "a b monkeytree-ranks=n2");
  EXPECT_EQ(with_ranks("", {"n2"}, {{1, 2, "n3"}, {1, 3, "n4"}}),
            "monkeytree-ranks=n2 monkeytree-held=1/2@n3,1/3@n4");
}

TEST(AdminCommentTest, held_nodes_that_make_no_sense_are_left_out) {
  EXPECT_EQ(held_of_admin_comment("monkeytree-held=x,1/@n,/2@n,1@2/n,3/4@,0/0@n1,-1/0@n"),
            (std::vector<HeldNode>{{0, 0, "n1"}}));
  EXPECT_TRUE(held_of_admin_comment("xmonkeytree-held=0/0@n1").empty());
}

}  // namespace
}  // namespace monkeytree
