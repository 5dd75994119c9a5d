#include "base/hostlist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <set>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

std::string joined(std::string_view text) {
  absl::StatusOr<std::vector<std::string>> names = expand_hostlist(text);
  if (!names.ok()) return "error: " + std::string(names.status().message());
  std::string out;
  for (const std::string& name : *names) out += (out.empty() ? "" : " ") + name;
  return out;
}

// Each right side is what `scontrol show hostnames` of Slurm 22.05.8 prints.
TEST(Hostlist, ExpandsAsSlurmDoes) {
  EXPECT_EQ(joined("n[1-3]"), "n1 n2 n3");
  EXPECT_EQ(joined("n[01-3]"), "n01 n02 n03");
  EXPECT_EQ(joined("n[1-003]"), "n1 n2 n3");
  EXPECT_EQ(joined("n[9-011]"), "n9 n10 n11");
  EXPECT_EQ(joined("n[09-11]"), "n09 n10 n11");
  EXPECT_EQ(joined("n[0-0]"), "n0");
  EXPECT_EQ(joined("n[5,1-3,5]"), "n5 n1 n2 n3 n5");
  EXPECT_EQ(joined("n[01,1,001]"), "n01 n1 n001");
  EXPECT_EQ(joined("[1-3]"), "1 2 3");
  EXPECT_EQ(joined("12[3-4]"), "123 124");
  EXPECT_EQ(joined("rack1-[1-2]"), "rack1-1 rack1-2");
  EXPECT_EQ(joined("n00000000000000000000000000001"), "n00000000000000000000000000001");
  EXPECT_EQ(joined("n[00000000000000000000000000001-2]"),
            "n00000000000000000000000000001 n00000000000000000000000000002");
}

TEST(Hostlist, PartsNamesAtCommasAndBlanksAndSkipsEmptyOnes) {
  EXPECT_EQ(joined("a, b"), "a b");
  EXPECT_EQ(joined("a\n\tb,,a,"), "a b a");
  EXPECT_EQ(joined(",a"), "a");
  EXPECT_EQ(joined(""), "");
  EXPECT_EQ(joined(" "), "");
}

TEST(Hostlist, APrefixDoesNotCarryOverAComma) {
  EXPECT_EQ(joined("n[1-2],3"), "n1 n2 3");
  EXPECT_EQ(joined("a[1-2]b[3-4],c[1-2]"), "a1b3 a1b4 a2b3 a2b4 c1 c2");
}

TEST(Hostlist, SeveralGroupsCountInSlurmsOrder) {
  EXPECT_EQ(joined("n[1][2]"), "n12");
  EXPECT_EQ(joined("n[1-2][3-4]"), "n13 n14 n23 n24");
  EXPECT_EQ(joined("r[1-2]n[01-02]"), "r1n01 r1n02 r2n01 r2n02");
  EXPECT_EQ(joined("a[1,3]b[1-2]c[7,9]"),
            "a1b1c7 a1b1c9 a3b1c7 a3b1c9 a1b2c7 a1b2c9 a3b2c7 a3b2c9");
  EXPECT_EQ(joined("a[01-02]b[1-2]c[1]"), "a01b1c1 a02b1c1 a01b2c1 a02b2c1");
}

TEST(Hostlist, OddNamesStay) {
  EXPECT_EQ(joined("a;b a|b n{1-2} * ^x \"n1"), "a;b a|b n{1-2} * ^x \"n1");
}

TEST(Hostlist, WhatSlurmRefusesIsAnError) {
  EXPECT_THAT(joined("n[10-5]"), HasSubstr("\"10-5\" counts down"));
  EXPECT_THAT(joined("n[]"), HasSubstr("empty range"));
  EXPECT_THAT(joined("n[1,,3]"), HasSubstr("empty range"));
  EXPECT_THAT(joined("n[1,]"), HasSubstr("empty range"));
  for (const char* text : {"n[a-b]", "n[1-a]", "n[-1]", "n[1-2-3]", "n[0x1-0x3]", "n[1--3]",
                           "n[1 ,2]", "n[1;2]", "bgl[000x111]"}) {
    EXPECT_THAT(joined(text), HasSubstr("expected a number or low-high")) << text;
  }
  for (const char* text : {"n[1-2]x", "n[1-2]-ib", "n[1-2].lan", "n[1-2]3", "n[1]n[2]m3", "[1-3]a",
                           "r[1-2]n[1-3]x", "n[1-3]:x", "a[1-2]b"}) {
    EXPECT_THAT(joined(text), HasSubstr("after a bracket group")) << text;
  }
  EXPECT_THAT(joined("n[[1-2]]"), HasSubstr("'[' within brackets"));
  EXPECT_THAT(joined("n[1-65537]"), HasSubstr("too many names in range"));
  EXPECT_EQ(expand_hostlist("n[1-65536]")->size(), 65536u);
}

TEST(Hostlist, WhereSlurmSlipsWeAreStrict) {
  EXPECT_THAT(joined("n[1-2"), HasSubstr("'[' is not closed (at character 2)"));
  EXPECT_THAT(joined("a,n1-2]"), HasSubstr("']' without a '[' before it (at character 7)"));
  EXPECT_THAT(joined("n[1-]"), HasSubstr("expected a number or low-high"));
  EXPECT_THAT(joined("x[8-2]c[3]"), HasSubstr("\"8-2\" counts down"));  // Slurm drops the name
  EXPECT_THAT(joined("n[+1-3]"), HasSubstr("expected a number or low-high"));
  EXPECT_THAT(joined("n[ 1]"), HasSubstr("expected a number or low-high"));
  EXPECT_THAT(joined("n[99999999999999999998]"), HasSubstr("beyond 64 bits"));
  EXPECT_EQ(joined("n[18446744073709551614-18446744073709551615]"),
            "n18446744073709551614 n18446744073709551615");
}

TEST(Hostlist, NumbersBeyond64BitsStayAsWritten) {
  EXPECT_EQ(joined("n99999999999999999998"), "n99999999999999999998");
  EXPECT_TRUE(number_exceeds_slurm("n99999999999999999998"));
  EXPECT_FALSE(number_exceeds_slurm("n18446744073709551615"));
  EXPECT_FALSE(number_exceeds_slurm("n"));
  EXPECT_FALSE(number_exceeds_slurm("99999999999999999998x"));
}

TEST(Hostlist, ABombIsRefusedBeforeItGrows) {
  EXPECT_THAT(joined("n[1-1000000000]"), HasSubstr("too many names in range"));
  EXPECT_THAT(joined("a[1-60000]b[1-60000]c[1-60000]d[1-60000]"), HasSubstr("too many names"));
  EXPECT_THAT(joined(std::string(70000, 'x') + "[1-65536]"), HasSubstr("too many names"));
  EXPECT_THAT(joined(std::string(70000, 'x') + "[1-60000]y[1-2]"), HasSubstr("too many names"));
  EXPECT_FALSE(expand_hostlist("n[1-11]", 10).ok());
  EXPECT_TRUE(expand_hostlist("n[1-10]", 10).ok());
}

TEST(Hostlist, CompressesForPeople) {
  EXPECT_EQ(compress_hostlist({"n3", "n1", "n2", "x", "n07", "n2"}), "n[1-3,07],x");
  EXPECT_EQ(compress_hostlist({"n9", "n10", "n11", "n13"}), "n[9-11,13]");
  EXPECT_EQ(compress_hostlist({"n08", "n09", "n10"}), "n[08-10]");
  EXPECT_EQ(compress_hostlist({"n1"}), "n1");
  EXPECT_EQ(compress_hostlist({"a", "b"}), "a,b");
  EXPECT_EQ(compress_hostlist({}), "");
}

TEST(Hostlist, CompressThenExpandGivesTheSameNames) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::set<std::string> names;
    const int count = static_cast<int>(random() % 12);
    for (int i = 0; i < count; ++i) {
      std::string digits = std::to_string(random() % 15);
      digits.insert(0, random() % 3, '0');
      names.insert((random() % 2 ? "n" : "r1n") + (random() % 8 ? digits : ""));
    }
    const std::string text = compress_hostlist({names.begin(), names.end()});
    absl::StatusOr<std::vector<std::string>> back = expand_hostlist(text);
    ASSERT_TRUE(back.ok()) << text;
    EXPECT_EQ(std::set<std::string>(back->begin(), back->end()), names) << text;
    EXPECT_EQ(back->size(), names.size()) << text;
  }
}

}  // namespace
}  // namespace monkeytree
