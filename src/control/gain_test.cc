#include "control/gain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inventory/uplinks.h"
#include "planning/order.h"

namespace monkeytree {
namespace {

using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr double kNow_s = 1000;

/// Racks as drawn, a letter for each worker; every rack has `uplinks`, every node 8 GPUs.
Snapshot cluster(const std::vector<std::string>& racks, int uplinks) {
  Snapshot out;
  out.classes.push_back("default");
  out.islands.push_back("");
  std::map<char, std::vector<NodeId>> jobs;
  for (size_t r = 0; r < racks.size(); ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r);
    set_uplinks(rack, uplinks);
    for (size_t n = 0; n < racks[r].size(); ++n) {
      Node node;
      node.name = fmt::format("r{}n{}", r, n);
      node.rack = RackId(r);
      node.gpus = 8;
      const NodeId id = out.nodes.push_back(node);
      rack.nodes.push_back(id);
      if (racks[r][n] != '.') jobs[racks[r][n]].push_back(id);
    }
    out.racks.push_back(rack);
  }
  for (const auto& [letter, nodes] : jobs) {
    Job job;
    job.id = std::string(1, letter);
    job.first_group = GroupId(out.groups.size());
    job.group_count = 1;
    Group group;
    group.job = JobId(out.jobs.size());
    group.workers = nodes;
    out.groups.push_back(group);
    out.jobs.push_back(job);
  }
  return out;
}

Gain gain_of(const Snapshot& before, const Plan& plan, const GainRules& rules, double now_s) {
  return estimate_gain(before, plan, routes_of(before, plan), rules, now_s);
}

/// A and B cross the only uplink of r0 and r1 together; one move brings A home.
class TwoOnALink : public testing::Test {
 protected:
  TwoOnALink() { plan_.rounds = {{{GroupId(0), 2, NodeId(4), NodeId(3)}}}; }

  Snapshot snapshot_ = cluster({"AAB.", "AB.."}, 1);
  Plan plan_;
  GainRules rules_;
};

TEST_F(TwoOnALink, share_it) {
  const Snapshot wide = cluster({"AAB.", "AB.."}, 2);
  EXPECT_THAT(sharing(snapshot_, routes_of(snapshot_, {}).before),
              UnorderedElementsAre(Pair(JobId(0), 2), Pair(JobId(1), 2)));
  EXPECT_THAT(sharing(wide, routes_of(wide, {}).before), IsEmpty());
}

TEST_F(TwoOnALink, gain_what_communication_took_too_long) {
  snapshot_.jobs[JobId(0)].end_s = kNow_s + 7200;
  const Gain gain = gain_of(snapshot_, plan_, rules_, kNow_s);
  ASSERT_EQ(gain.jobs.size(), 2);
  // An iteration of 1 takes 1 + 0.3 · (2 − 1) = 1.3; then 1: 0.3 / 1.3 of the time is regained.
  const JobGain& a = gain.jobs[0];
  EXPECT_EQ(a.job, JobId(0));
  EXPECT_EQ(a.sharing_before, 2);
  EXPECT_EQ(a.sharing_after, 1);
  EXPECT_EQ(a.moves, 1);
  EXPECT_EQ(a.gpus, 24);
  EXPECT_EQ(a.left_s, 7200);
  EXPECT_DOUBLE_EQ(a.regained_gpu_h, 24 * 2 * (0.3 / 1.3));
  EXPECT_DOUBLE_EQ(a.paused_gpu_h, 24 * 10 / 3600.0);
  // B stays where it is, gains too, and pauses not at all. It does not say when it ends.
  const JobGain& b = gain.jobs[1];
  EXPECT_EQ(b.moves, 0);
  EXPECT_EQ(b.left_s, 14400);
  EXPECT_DOUBLE_EQ(b.regained_gpu_h, 16 * 4 * (0.3 / 1.3));
  EXPECT_EQ(b.paused_gpu_h, 0);
  EXPECT_DOUBLE_EQ(gain.regained_gpu_h, a.regained_gpu_h + b.regained_gpu_h);
  EXPECT_DOUBLE_EQ(gain.paused_gpu_h, a.paused_gpu_h);
}

TEST_F(TwoOnALink, gain_nothing_at_their_end) {
  for (Job& job : snapshot_.jobs) job.end_s = kNow_s - 1;
  const Gain gain = gain_of(snapshot_, plan_, rules_, kNow_s);
  EXPECT_EQ(gain.regained_gpu_h, 0);
  EXPECT_GT(gain.paused_gpu_h, 0);
}

TEST_F(TwoOnALink, lose_by_the_move_that_brings_them_together) {
  const Snapshot apart = apply_rounds(snapshot_, plan_.rounds);
  Plan back;
  back.rounds = {{{GroupId(0), 2, NodeId(3), NodeId(4)}}};
  const Gain gain = gain_of(apart, back, rules_, kNow_s);
  // 1 becomes 1.3: what took an hour takes 0.3 h longer.
  EXPECT_DOUBLE_EQ(gain.jobs[0].regained_gpu_h, -24 * 4 * 0.3);
}

TEST(Gain, a_job_pauses_once_for_each_round_that_moves_it) {
  const Snapshot snapshot = cluster({"AAB", "ABB"}, 1);
  Plan plan;
  plan.rounds = {{{GroupId(0), 2, NodeId(3), kStaging}},
                 {{GroupId(1), 0, NodeId(2), NodeId(3)}},
                 {{GroupId(0), 2, kStaging, NodeId(2)}}};
  const Gain gain = gain_of(snapshot, plan, {}, kNow_s);
  ASSERT_EQ(gain.jobs.size(), 2);
  EXPECT_EQ(gain.jobs[0].moves, 1);
  EXPECT_DOUBLE_EQ(gain.jobs[0].paused_gpu_h, 24 * 20 / 3600.0);
  EXPECT_DOUBLE_EQ(gain.jobs[1].paused_gpu_h, 24 * 10 / 3600.0);
  EXPECT_EQ(gain.jobs[0].sharing_before, 2);
  EXPECT_EQ(gain.jobs[0].sharing_after, 1);
}

TEST(Gain, counts_slots_as_gpus_where_nodes_have_several) {
  Snapshot snapshot = cluster({"AAB.", "AB.."}, 1);
  for (Node& node : snapshot.nodes) node.slots = 8;
  for (Group& group : snapshot.groups) group.slots = 2;
  Plan plan;
  plan.rounds = {{{GroupId(0), 2, NodeId(4), NodeId(3)}}};
  EXPECT_EQ(gain_of(snapshot, plan, {}, kNow_s).jobs[0].gpus, 6);
}

}  // namespace
}  // namespace monkeytree
