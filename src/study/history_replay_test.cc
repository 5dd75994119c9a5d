#include "study/history_replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/fragmentation.h"
#include "routing/routes.h"
#include "study/history_page.h"
#include "workload/sacct.h"

namespace monkeytree {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kHourUs = int64_t{3600} * 1'000'000;

/// `racks` racks of `each` nodes n0, n1, … in order.
Snapshot fabric_of(int racks, int each, int uplinks) {
  Snapshot out;
  out.classes.push_back("default");
  out.islands.push_back("");
  for (int r = 0; r < racks; ++r) {
    Rack rack;
    rack.name = "r" + std::to_string(r);
    const RackId id = out.racks.push_back(rack);
    for (int n = 0; n < each; ++n) {
      Node node;
      node.name = "n" + std::to_string(out.nodes.size());
      node.rack = id;
      out.racks[id].nodes.push_back(out.nodes.push_back(node));
    }
  }
  out.set_uplinks(uplinks);
  return out;
}

/// A job from hour to hour, of 8 GPUs a node.
RecordedJob job_of(const std::string& id, double start_h, double end_h,
                   const std::vector<int>& nodes, int rings = 1) {
  RecordedJob out;
  out.id = id;
  out.start_us = static_cast<int64_t>(start_h * kHourUs);
  out.end_us = static_cast<int64_t>(end_h * kHourUs);
  out.gpus = 8 * static_cast<int64_t>(nodes.size());
  out.rings = rings;
  for (int node : nodes) out.nodes.emplace_back(node);
  return out;
}

double hours(double seconds) { return seconds / 3600; }

TEST(Replay, CountsHoursAboveTheBoundAndWhatTheyCost) {
  // Two racks of four nodes with one uplink each; two jobs cross from hour 1 to hour 3.
  const Snapshot fabric = fabric_of(2, 4, 1);
  const std::vector<RecordedJob> jobs = {job_of("a", 0, 3, {0, 4}), job_of("b", 1, 4, {1, 5}),
                                         job_of("c", 0, 4, {2})};
  ReplayOptions options;
  options.communication = 0.5;
  const HistoryReplay replay = replay_history(fabric, jobs, options);
  EXPECT_EQ(hours(replay.recorded_total.over_s), 2);
  EXPECT_EQ(hours(replay.recorded_total.excess_s), 4);  // both racks, one uplink short each
  EXPECT_EQ(replay.recorded_total.max_degree, 2);
  // k = 2: a third of 32 GPUs, for two hours.
  EXPECT_THAT(hours(replay.recorded_total.lost_gpu_s), DoubleNear(2 * 32 / 3.0, 1e-9));
  EXPECT_THAT(hours(replay.lost_gpu_s_by_job[0]), DoubleNear(2 * 16 / 3.0, 1e-9));
  EXPECT_EQ(replay.lost_gpu_s_by_job[2], 0);
  EXPECT_EQ(hours(replay.busy_gpu_s), 16 * 3 + 16 * 3 + 8 * 4);
  EXPECT_EQ(replay.crossing_jobs, 2);
  EXPECT_EQ(replay.single_node_jobs, 1);
  ASSERT_EQ(replay.recorded.size(), 4u);
  EXPECT_EQ(replay.recorded[0].over_s, 0);
  EXPECT_EQ(replay.recorded[1].over_s, 3600);
  EXPECT_EQ(replay.recorded[3].over_s, 0);
  EXPECT_EQ(replay.worst_by_hour[1].time_us, kHourUs);
  EXPECT_EQ(hours(replay.racks[RackId(1)].over_s), 2);
}

TEST(Replay, MonkeyTreeMendsItWithTheFewestMoves) {
  const Snapshot fabric = fabric_of(2, 4, 1);
  const std::vector<RecordedJob> jobs = {job_of("a", 0, 3, {0, 4}), job_of("b", 1, 4, {1, 5})};
  const HistoryReplay replay = replay_history(fabric, jobs, {});
  EXPECT_EQ(replay.kept.plans, 1);
  EXPECT_EQ(replay.kept.moves, 1);
  EXPECT_EQ(replay.kept.paused_gpu_s, 160);  // 16 GPUs for 10 s
  EXPECT_EQ(replay.monkeytree_total.over_s, 0);
  EXPECT_EQ(replay.monkeytree_total.lost_gpu_s, 0);
  EXPECT_EQ(hours(replay.ahead_s), 2);
  EXPECT_EQ(replay.behind_s, 0);
  EXPECT_THAT(replay.kept.held_s, ElementsAre(3 * 3600.0));  // until the record ends
}

TEST(Replay, EndsComeBeforeStartsOfTheSameMoment) {
  const Snapshot fabric = fabric_of(2, 4, 1);
  const HistoryReplay replay =
      replay_history(fabric, {job_of("a", 0, 1, {0, 4}), job_of("b", 1, 2, {0, 4})}, {});
  EXPECT_EQ(replay.recorded_total.over_s, 0);
  EXPECT_EQ(replay.overlapping_jobs, 0);
  EXPECT_EQ(replay.kept.replaced, 0);
}

TEST(Replay, TheOrderOfTheRowsDoesNotMatter) {
  const Snapshot fabric = fabric_of(3, 4, 1);
  const std::vector<RecordedJob> jobs = {job_of("a", 0, 3, {0, 4}), job_of("b", 1, 4, {1, 5}),
                                         job_of("c", 2, 6, {2, 6, 8})};
  const std::vector<RecordedJob> turned = {jobs[2], jobs[1], jobs[0]};
  const HistoryReplay one = replay_history(fabric, jobs, {});
  const HistoryReplay two = replay_history(fabric, turned, {});
  EXPECT_EQ(one.recorded_total.excess_s, two.recorded_total.excess_s);
  EXPECT_EQ(one.recorded_total.lost_gpu_s, two.recorded_total.lost_gpu_s);
  EXPECT_EQ(one.kept.moves, two.kept.moves);
}

TEST(Replay, AnArrivalOnATakenNodeGoesToItsRackOrElsewhere) {
  // b's worker moves from n5 to the only free node of rack 0, n2, or a's does.
  const Snapshot fabric = fabric_of(2, 3, 1);
  std::vector<RecordedJob> jobs = {job_of("a", 0, 9, {0, 3}), job_of("b", 1, 9, {1, 4}),
                                   job_of("c", 2, 3, {2}), job_of("d", 4, 9, {5})};
  const HistoryReplay replay = replay_history(fabric, jobs, {});
  EXPECT_EQ(replay.kept.moves, 1);
  // c finds its own node taken or free, according to which way the worker went.
  EXPECT_EQ(replay.kept.conflicts + replay.kept.replaced, 1);
  EXPECT_EQ(replay.kept.left_as_recorded, 0);
}

TEST(Replay, AJobWithoutRoomStaysAsRecorded) {
  const Snapshot fabric = fabric_of(2, 2, 1);
  const HistoryReplay replay = replay_history(
      fabric, {job_of("a", 0, 9, {0, 1}), job_of("b", 0, 9, {2, 3}), job_of("c", 1, 2, {1, 2})},
      {});
  EXPECT_EQ(replay.overlapping_jobs, 1);
  EXPECT_EQ(replay.kept.left_as_recorded, 1);
  EXPECT_EQ(replay.recorded_total.over_s, 0);
}

TEST(Replay, JobsOfOneNodeShareItAndNeverCount) {
  const Snapshot fabric = fabric_of(2, 2, 1);
  std::vector<RecordedJob> jobs = {job_of("a", 0, 4, {0}), job_of("b", 1, 2, {0}),
                                   job_of("c", 1, 5, {0})};
  for (RecordedJob& job : jobs) job.whole = false;
  const HistoryReplay replay = replay_history(fabric, jobs, {});
  EXPECT_EQ(replay.sharing_jobs, 2);
  EXPECT_EQ(replay.overlapping_jobs, 0);
  EXPECT_EQ(replay.kept.conflicts + replay.kept.replaced + replay.kept.left_as_recorded, 0);
  EXPECT_EQ(replay.recorded_total.max_degree, 0);
}

TEST(Replay, StopsWhenAskedWithWhatItHas) {
  const Snapshot fabric = fabric_of(2, 4, 1);
  std::vector<RecordedJob> jobs;
  for (int i = 0; i < 3000; ++i) jobs.push_back(job_of("j", i, i + 0.5, {i % 8}));
  ReplayOptions options;
  options.stop = [](double done) { return done > 0.3; };
  const HistoryReplay replay = replay_history(fabric, jobs, options);
  EXPECT_TRUE(replay.stopped);
  EXPECT_LT(replay.end_us, jobs.back().start_us);
  EXPECT_GT(replay.busy_gpu_s, 0);
}

std::vector<RecordedJob> random_history(std::mt19937& random, int nodes, int count) {
  std::vector<RecordedJob> jobs;
  std::vector<double> free_at(static_cast<size_t>(nodes), 0);
  double now = 0;
  for (int i = 0; i < count; ++i) {
    now += std::exponential_distribution<double>(4)(random);
    std::vector<int> free;
    for (int n = 0; n < nodes; ++n) {
      if (free_at[static_cast<size_t>(n)] <= now) free.push_back(n);
    }
    std::shuffle(free.begin(), free.end(), random);
    const size_t size = 1 + random() % 4;
    if (free.size() < size) continue;
    free.resize(size);
    const double end = now + 0.1 + static_cast<double>(random() % 1000) / 200;
    for (int n : free) free_at[static_cast<size_t>(n)] = end;
    jobs.push_back(
        job_of("j" + std::to_string(i), now, end, free, 1 + static_cast<int>(random() % 2)));
    if (size == 4 && random() % 2 == 0) jobs.back().stages = 2;
  }
  return jobs;
}

/// Everything afresh at every moment: fragmentation() and routes() of the placement.
TEST(Replay, EqualsALookAtEachMoment) {
  std::mt19937 random(7);
  for (int round = 0; round < 30; ++round) {
    const int uplinks = 1 + static_cast<int>(random() % 3);
    const Snapshot fabric = fabric_of(4, 5, uplinks);
    const std::vector<RecordedJob> jobs = random_history(random, 20, 60);
    ReplayOptions options;
    options.communication = 0.4;
    const HistoryReplay replay = replay_history(fabric, jobs, options);
    std::set<int64_t> moments;
    for (const RecordedJob& job : jobs) moments.insert({job.start_us, job.end_us});
    double over_s = 0, excess_s = 0, lost_s = 0, least_s = 0, most_s = 0;
    const auto lost = [&](const RecordedJob& job, size_t flows, double dt) {
      const double k = static_cast<double>(std::max<size_t>(1, flows));
      return static_cast<double>(job.gpus) * dt * (1 - 1 / (1 + 0.4 * (k - 1)));
    };
    for (auto at = moments.begin(); std::next(at) != moments.end(); ++at) {
      const double dt = static_cast<double>(*std::next(at) - *at) / 1e6;
      const Snapshot now = placement_at(fabric, jobs, *at);
      const int short_of = excess(fragmentation(now), bounds(now));
      over_s += short_of > 0 ? dt : 0;
      excess_s += short_of * dt;
      const Routes routed = routes(now);
      std::map<GroupId, size_t> fullest;
      for (const Shared& link : routed.shared) {
        for (int flow : link.flows) {
          size_t& flows = fullest[routed.flows[static_cast<size_t>(flow)].flow.group];
          flows = std::max(flows, link.flows.size());
        }
      }
      std::map<std::string, size_t> by_job;
      for (const auto& [group, flows] : fullest) {
        size_t& most = by_job[now.jobs[now.groups[group].job].id];
        most = std::max(most, flows);
      }
      const IdVector<RackId, int> degrees = fragmentation(now);
      for (const RecordedJob& job : jobs) {
        if (job.start_us > *at || job.end_us <= *at) continue;
        lost_s += lost(job, by_job[job.id], dt);
        int fewest = 1, most = 1;
        for (const RackRing& ring : rings_of(fabric, job.nodes, job.stages, job.rings)) {
          for (RackId rack : ring.racks) {
            fewest = std::max(fewest, degrees[rack] / uplinks);
            most = std::max(most, (degrees[rack] + uplinks - 1) / uplinks);
          }
        }
        least_s += lost(job, static_cast<size_t>(fewest), dt);
        most_s += lost(job, static_cast<size_t>(most), dt);
      }
    }
    EXPECT_NEAR(replay.recorded_total.over_s, over_s, 1e-6 * over_s + 1e-6);
    EXPECT_NEAR(replay.recorded_total.excess_s, excess_s, 1e-6 * excess_s + 1e-6);
    // Which flows of a rack get the fuller uplinks is a matter of taste.
    EXPECT_NEAR(replay.recorded_total.lost_gpu_s, lost_s, 0.03 * lost_s + 1e-6);
    EXPECT_GE(replay.recorded_total.lost_gpu_s, least_s * (1 - 1e-9));
    EXPECT_LE(replay.recorded_total.lost_gpu_s, most_s * (1 + 1e-9) + 1e-9);
    if (uplinks == 1) {
      EXPECT_NEAR(replay.recorded_total.lost_gpu_s, lost_s, 1e-6 * lost_s + 1e-6);
    }
    EXPECT_LE(replay.monkeytree_total.excess_s, replay.recorded_total.excess_s);
  }
}

/// Long enough that ended jobs are forgotten on the way: no trace of that may be left.
TEST(Replay, ForgettingEndedJobsChangesNothingRecorded) {
  std::mt19937 random(11);
  const Snapshot fabric = fabric_of(4, 5, 1);
  const std::vector<RecordedJob> jobs = random_history(random, 20, 12'000);
  ASSERT_GT(jobs.size(), 5000u);
  const HistoryReplay replay = replay_history(fabric, jobs, {});
  EXPECT_GT(replay.kept.moves, 1000);
  EXPECT_LT(replay.monkeytree_total.excess_s, 0.5 * replay.recorded_total.excess_s);
  EXPECT_EQ(replay.kept.left_as_recorded, 0);  // there is a node for each that the record had
}

TEST(Uplinks, RacksWithDifferentUplinksShareAsMuchAsTheirOwnAllow) {
  IdVector<RackId, int> bounds;
  for (int bound : {1, 4, 4}) bounds.push_back(bound);
  SharedUplinks uplinks(bounds);
  uplinks.add(7, {{{RackId(0), RackId(1)}, 1}});
  uplinks.add(3, {{{RackId(1), RackId(2)}, 1}});
  EXPECT_THAT(uplinks.sharers(), IsEmpty());
  uplinks.add(5, {{{RackId(0), RackId(2)}, 2}});
  ASSERT_EQ(uplinks.sharers().size(), 2u);
  EXPECT_EQ(uplinks.sharers()[0].job, 5);
  EXPECT_EQ(uplinks.sharers()[0].flows, 3);
  EXPECT_EQ(uplinks.sharers()[1].job, 7);
  uplinks.remove(5);
  EXPECT_THAT(uplinks.sharers(), IsEmpty());
  EXPECT_EQ(uplinks.max_degree(), 2);
  uplinks.remove(7);
  uplinks.remove(3);
  EXPECT_EQ(uplinks.max_degree(), 0);
}

class HistoryLog : public ::testing::Test {
 protected:
  /// Rows of `JobID|Start|End|AllocTRES|NodeList|Comment` on nodes n0 … n7 in two racks.
  std::optional<RecordedHistory> read(const std::string& rows) {
    ImportCounts counts;
    const std::string text = "JobID|Start|End|AllocTRES|NodeList|Comment\n" + rows;
    const std::optional<SacctLog> log = read_sacct(text, "log", counts, diagnostics_);
    if (!log) return std::nullopt;
    return recorded_history(*log, fabric_of(2, 4, 1), counts, "log", diagnostics_);
  }
  std::vector<std::string> reasons(const RecordedHistory& history) {
    std::vector<std::string> out;
    for (const auto& [reason, tally] : history.counts.skipped()) {
      out.push_back(std::to_string(tally.count) + " " + reason);
    }
    for (const auto& [what, tally] : history.counts.mended()) {
      out.push_back("~" + std::to_string(tally.count) + " " + what);
    }
    return out;
  }
  Diagnostics diagnostics_;
};

TEST_F(HistoryLog, CountsWhatItCannotUse) {
  const std::optional<RecordedHistory> history = read(
      "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|n[0-1]|\n"
      "2|2024-03-01T10:00:00|2024-03-01T10:00:00|gres/gpu=16|n[2-3]|\n"
      "3|2024-03-01T10:00:00|2024-03-01T11:00:00|cpu=4|n4|\n"
      "4|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8|x[1-30]|\n"
      "5|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=24|n5,x[4-5]|\n"
      "6|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8||\n"
      "7|2024-03-01T08:00:00|Unknown|gres/gpu=8|n6|\n");
  ASSERT_TRUE(history) << diagnostics_.text();
  EXPECT_THAT(reasons(*history),
              ElementsAre("1 no GPUs", "1 no node list", "1 on no node of the topology",
                          "1 ran for no time",
                          "~1 some of its nodes are not in the topology: the others taken",
                          "~1 still running: until the last moment of the log"));
  ASSERT_EQ(history->jobs.size(), 3u);
  EXPECT_EQ(history->jobs[0].end_us - history->jobs[0].start_us, 3 * kHourUs);
  EXPECT_EQ(history->unknown_nodes.size(), 30u);
  EXPECT_EQ(history->gpus_per_node, 8);
}

TEST_F(HistoryLog, ObeysComments) {
  const std::optional<RecordedHistory> history = read(
      "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=32|n[0-3]|dp=4,tp=4,pp=2\n"
      "2|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|n[4-5]|rings=3 monkeytree=off\n"
      "3|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|n[6-7]|dp=5\n");
  ASSERT_TRUE(history) << diagnostics_.text();
  EXPECT_EQ(history->jobs[0].rings, 4);
  EXPECT_EQ(history->jobs[0].stages, 2);
  EXPECT_EQ(history->jobs[1].rings, 3);
  EXPECT_FALSE(history->jobs[1].movable);
  EXPECT_EQ(history->jobs[2].rings, 1);
  EXPECT_THAT(reasons(*history),
              ElementsAre("~1 a comment whose dp x tp x pp are not its GPUs: one group"));
}

TEST_F(HistoryLog, GivesOneReasonForWhatANodeListIs) {
  const std::string times = "|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|";
  const std::optional<RecordedHistory> history =
      read("1" + times + "n[0-1],n1|\n2" + times + "n[2-|\n3" + times + "n[4-5]|\n");
  ASSERT_TRUE(history) << diagnostics_.text();
  EXPECT_THAT(reasons(*history), ElementsAre("1 a node list that is none",
                                             "~1 a node named twice in its list: once taken"));
  EXPECT_EQ(history->jobs[0].nodes.size(), 2u);
  EXPECT_TRUE(history->jobs[0].whole);
  EXPECT_EQ(history->gpus_per_node, 8);
}

TEST_F(HistoryLog, OneAbsurdRowIsLeftOut) {
  const std::string good =
      "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8|n0|\n"
      "2|2024-03-01T10:00:00|Unknown|gres/gpu=8|n1|\n"
      "3|2024-03-01T11:00:00|2024-03-01T12:00:00|gres/gpu=8|n2|\n";
  for (const auto& [row, reason] : std::map<std::string, std::string>{
           {"9|2024-03-01T10:00:00|2106-02-07T06:28:15|gres/gpu=8|n3|\n",
            "1 ran for more than 10 years"},
           {"9|1970-01-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8|n3|\n",
            "1 started more than 10 years before or after most jobs"},
           {"9|2106-02-07T06:28:15|2106-02-07T06:28:16|gres/gpu=8|n3|\n",
            "1 started more than 10 years before or after most jobs"},
           {"9|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=90000000|n3|\n",
            "1 more than 1024 GPUs on a node"}}) {
    for (const std::string& rows : {row + good, good + row}) {
      const std::optional<RecordedHistory> history = read(rows);
      ASSERT_TRUE(history) << diagnostics_.text();
      EXPECT_THAT(reasons(*history),
                  ElementsAre(reason, "~1 still running: until the last moment of the log"));
      ASSERT_EQ(history->jobs.size(), 3u);
      EXPECT_EQ(history->gpus_per_node, 8);
      EXPECT_EQ(history->jobs[1].end_us - history->jobs[1].start_us, 2 * kHourUs);
    }
  }
}

TEST_F(HistoryLog, RefusesLogsWithoutJobsOrNodes) {
  EXPECT_FALSE(read(""));
  EXPECT_THAT(diagnostics_.text(), HasSubstr("log: no job to replay: 0 rows"));
  ImportCounts counts;
  const std::optional<SacctLog> log = read_sacct(
      "JobID|Start|End\n1|2024-03-01T10:00:00|2024-03-01T11:00:00\n", "log", counts, diagnostics_);
  ASSERT_TRUE(log);
  EXPECT_FALSE(recorded_history(*log, fabric_of(2, 4, 1), counts, "log", diagnostics_));
  EXPECT_THAT(diagnostics_.text(), HasSubstr("log:1: no column NodeList, expected it in what"));
}

TEST(HistoryPage, IsWholeAlsoWhereNothingWasLost) {
  const Snapshot fabric = fabric_of(2, 4, 1);
  RecordedHistory history;
  history.jobs = {job_of("a", 0, 3, {0, 1})};
  const ReplayOptions options;
  const HistoryReplay replay = replay_history(fabric, history.jobs, options);
  const std::string html =
      history_page(fabric, history, replay, options, {"log", "topology.conf", false}).html();
  EXPECT_THAT(html, HasSubstr("No rack was ever above its bound"));
  EXPECT_THAT(html, HasSubstr("which nobody said"));
  EXPECT_THAT(html, HasSubstr("</html>"));
}

}  // namespace
}  // namespace monkeytree
