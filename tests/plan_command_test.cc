// What `monkeytree plan` tells a person who waits.

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "cli/plan.h"
#include "cluster/letters.h"

namespace monkeytree {
namespace {

TEST(PlanProgress, TheLineNamesPlanBoundAndTime) {
  EXPECT_EQ(progress_line(12, 60, 14, 11),
            "12 s, 48 s left: best plan 14 moves, at least 11 needed; Ctrl-C ends here");
  EXPECT_EQ(progress_line(2, 2.5, std::nullopt, 3),
            "2 s, 1 s left: no plan yet, at least 3 needed; Ctrl-C ends here");
  EXPECT_EQ(progress_line(70, 60, 1, 1),
            "70 s, 0 s left: best plan 1 move, at least 1 needed; Ctrl-C ends here");
  EXPECT_EQ(progress_line(3, std::nullopt, 20, 4),
            "3 s: best plan 20 moves, at least 4 needed; Ctrl-C ends here");
  EXPECT_LT(progress_line(1 << 30, 1e8, 1 << 30, 1 << 30).size(), 80u);
}

TEST(PlanProgress, BestFallsBoundRisesAndTheyEndAtThePlan) {
  for (int bound : {1, 2}) {
    const Snapshot snapshot =
        parse_letters("R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..\n", {bound, {}}).value();
    std::vector<std::pair<std::optional<int>, int>> told;
    PlanOptions options;
    options.progress = [&](std::optional<int> best, int least) { told.push_back({best, least}); };
    const Plan with = plan(snapshot, options);
    ASSERT_FALSE(told.empty());
    EXPECT_TRUE(std::is_sorted(told.begin(), told.end(),
                               [](const auto& a, const auto& b) { return a.second < b.second; }));
    EXPECT_EQ(told.back(), std::pair(std::optional(with.moves), with.moves));
    const Plan without = plan(snapshot);
    EXPECT_EQ(with.rounds, without.rounds);
    EXPECT_EQ(with.lower_bound, without.lower_bound);
  }
}

}  // namespace
}  // namespace monkeytree
