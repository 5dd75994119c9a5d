// What `monkeytree route` prints for people.

#include "cli/route.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <sstream>

#include "routing/random_cluster.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const Snapshot& snapshot) {
  return routes_text(snapshot, routes(snapshot), Paint(false));
}

/// Job j0 and j1 over racks r0 and r1, one node each.
Snapshot two_jobs_on_two_racks() {
  std::mt19937 random(1);
  Snapshot snapshot = random_cluster(random, {.racks = 2, .nodes_per_rack = 2, .fill = 0});
  for (int j = 0; j < 2; ++j) {
    Job job;
    job.id = "j" + std::to_string(j);
    job.first_group = GroupId(j);
    job.group_count = 1;
    Group group;
    group.job = snapshot.jobs.push_back(job);
    group.workers = {NodeId(j), NodeId(2 + j)};
    snapshot.groups.push_back(group);
  }
  return snapshot;
}

TEST(RouteText, IsolatedFlows) {
  EXPECT_EQ(text_of(two_jobs_on_two_racks()),
            "4 flows, 2 colours\n"
            "isolated: every flow has an uplink and a downlink of its own\n"
            "\n"
            "job  ring  from     to       uplink\n"
            "j0      0  r0:r0n0  r1:r1n0       0\n"
            "j0      0  r1:r1n0  r0:r0n0       0\n"
            "j1      0  r0:r0n1  r1:r1n1       1\n"
            "j1      0  r1:r1n1  r0:r0n1       1\n");
}

TEST(RouteText, SharedLinksAreNamed) {
  Snapshot snapshot = two_jobs_on_two_racks();
  snapshot.set_uplinks(1);
  const std::string text = text_of(snapshot);
  EXPECT_THAT(text, HasSubstr("not isolated: more than one flow on 4 links\n"));
  EXPECT_THAT(text, HasSubstr("r0      up 0        2  j0#0 j1#0\n"));
  EXPECT_THAT(text, Not(HasSubstr("best effort")));
}

TEST(RouteText, FlowsWithoutASpineAndDifferentSpines) {
  Snapshot snapshot = two_jobs_on_two_racks();
  snapshot.racks[RackId(0)].spines = {0, 1};
  snapshot.racks[RackId(1)].spines = {1, 2};
  EXPECT_THAT(text_of(snapshot), HasSubstr("best effort\n(proved: no choice shares less)\n"));
  snapshot.racks[RackId(1)].spines = {7};
  const std::string text = text_of(snapshot);
  EXPECT_THAT(text, HasSubstr("not routed: 4 flows between racks that have no spine in common\n"));
  EXPECT_THAT(text, HasSubstr("none\n"));
}

TEST(RouteText, NothingToRoute) { EXPECT_EQ(text_of(Snapshot()), "no flow leaves a rack\n"); }

TEST(RouteText, KeepsToEightyColumnsAndCutsLongLists) {
  std::mt19937 random(2);
  Snapshot snapshot = random_cluster(random, {.racks = 40, .uplinks = 2, .fill = 1});
  for (Job& job : snapshot.jobs) job.id = std::string(70, 'x') + job.id;
  const std::string text = text_of(snapshot);
  EXPECT_THAT(text, HasSubstr("more (--json gives all)\n"));
  std::istringstream lines(text);
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 80u) << line;
  EXPECT_LT(count, 80);
}

}  // namespace
}  // namespace monkeytree
