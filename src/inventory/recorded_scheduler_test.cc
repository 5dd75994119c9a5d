#include "inventory/recorded_scheduler.h"

#include <gtest/gtest.h>

#include "inventory/emulated_scheduler.h"

namespace monkeytree {
namespace {

std::vector<Snapshot> three() {
  return {uniform_cluster(1, 1, 1, 1), uniform_cluster(2, 1, 1, 1), uniform_cluster(3, 1, 1, 1)};
}
size_t racks(RecordedScheduler& recorded) {
  return recorded.observe(Deadline::max())->snapshot.racks.size();
}

TEST(Recorded, OneForEachLookTheLastForEver) {
  RecordedScheduler recorded(three(), 0, [] { return 0.0; });
  for (const size_t expected : {1U, 2U, 3U, 3U, 3U}) EXPECT_EQ(racks(recorded), expected);
}

TEST(Recorded, EachForATime) {
  double now = 1000;
  RecordedScheduler recorded(three(), 10, [&] { return now; });
  EXPECT_EQ(racks(recorded), 1U);
  now = 1009;
  EXPECT_EQ(racks(recorded), 1U);
  now = 1010;
  EXPECT_EQ(racks(recorded), 2U);
  now = 9999;
  EXPECT_EQ(racks(recorded), 3U);
}

TEST(Recorded, NothingCanBeChanged) {
  RecordedScheduler recorded(three(), 0, [] { return 0.0; });
  EXPECT_FALSE(recorded.why_read_only().empty());
  EXPECT_EQ(recorded.hold({"1", 0, 0}, "r0n0", "", Deadline::max()).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(recorded.reserve("a", {"r0n0"}, Deadline::max()).code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(recorded.describe(), "recorded cluster, 3 snapshots");
}

}  // namespace
}  // namespace monkeytree
