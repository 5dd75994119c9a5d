#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "study/study_test_grid.h"

// What several threads do together; the thread sanitizer watches these.
namespace monkeytree {
namespace {

using ::testing::HasSubstr;

TEST(Threads, SameBytesWithOneAndTwo) {
  const StudyPlan plan = plan_study(small_study(), {.jobs = 60, .seeds = 3});
  MemoryStore one, two;
  EXPECT_EQ(files_of(plan, 1, one), files_of(plan, 2, two));
}

TEST(Threads, APartialStudyIsDrawnAndGoesOn) {
  const StudyPlan plan = plan_study(small_study(), {.jobs = 60, .seeds = 3});
  std::vector<GridCell> grid = grid_of(plan, no_files);
  MemoryStore store;
  const std::vector<GridCell> some(grid.begin() + 3, grid.begin() + 9);
  run_grid(some, store, {.threads = 2});
  const StudyResults partial(plan, gather(grid, store));
  EXPECT_EQ(partial.size(), 6u);
  EXPECT_EQ(partial.missing().size(), 12u);
  const StudyOutput output = write_study(partial);
  EXPECT_THAT(file_ending(output.files, ".html"), HasSubstr("Partial: 6 of 18 cells are there"));
  MemoryStore fresh;
  EXPECT_EQ(files_of(plan, 2, store), files_of(plan, 1, fresh));
}

}  // namespace
}  // namespace monkeytree
