#include "routing/sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace monkeytree {
namespace {

/// The fewest meeting pairs, by trying everything.
int64_t fewest_pairs(const SharingProblem& problem) {
  std::vector<int> colors(problem.flows.size(), 0);
  int64_t best = INT64_MAX;
  const auto usable = [&](size_t f, int c) {
    return (problem.usable[static_cast<size_t>(problem.flows[f].from.value)] >> c) & 1 &
           (problem.usable[static_cast<size_t>(problem.flows[f].to.value)] >> c);
  };
  while (true) {
    bool allowed = true;
    for (size_t f = 0; f < colors.size(); ++f) allowed &= usable(f, colors[f]) != 0;
    if (allowed) best = std::min(best, meeting_pairs(problem, colors));
    size_t f = 0;
    while (f < colors.size() && ++colors[f] == problem.colors) colors[f++] = 0;
    if (f == colors.size()) return best;
  }
}

SharingProblem random_problem(std::mt19937& random, size_t most_flows) {
  SharingProblem problem;
  problem.racks = 2 + random() % 4;
  problem.colors = 2 + static_cast<int>(random() % 2);
  for (size_t r = 0; r < problem.racks; ++r) {
    problem.usable.push_back(1 + random() % ((uint64_t{1} << problem.colors) - 1));
  }
  for (size_t i = 0; i < most_flows; ++i) {
    const RackId from(size_t{random() % problem.racks}), to(size_t{random() % problem.racks});
    if (from == to || (problem.usable[static_cast<size_t>(from.value)] &
                       problem.usable[static_cast<size_t>(to.value)]) == 0) {
      continue;
    }
    problem.flows.push_back({from, to, -1});
  }
  return problem;
}

TEST(ShareLeast, IsExactOnSmallProblems) {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const SharingProblem problem = random_problem(random, 8);
    std::vector<int> colors(problem.flows.size(), -1);
    ASSERT_TRUE(share_least(problem, colors));
    ASSERT_EQ(meeting_pairs(problem, colors), fewest_pairs(problem)) << "round " << round;
  }
}

TEST(ShareLeast, NeverWorsensAndIsDeterministic) {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const SharingProblem problem = random_problem(random, 60);
    std::vector<int> colors(problem.flows.size(), -1);
    share_least(problem, colors);
    std::vector<int> again(problem.flows.size(), -1);
    share_least(problem, again);
    ASSERT_EQ(colors, again);
    const int64_t before = meeting_pairs(problem, colors);
    share_least(problem, again);
    ASSERT_LE(meeting_pairs(problem, again), before);
  }
}

TEST(ShareLeast, KeepsPreferredColorsAmongEquals) {
  SharingProblem problem{2, 2, {3, 3}, {}};
  problem.flows = {{RackId(0), RackId(1), 1}, {RackId(0), RackId(1), 0}, {RackId(0), RackId(1), 1}};
  std::vector<int> colors(3, -1);
  EXPECT_TRUE(share_least(problem, colors));
  EXPECT_EQ(colors, (std::vector<int>{1, 0, 1}));
}

}  // namespace
}  // namespace monkeytree
