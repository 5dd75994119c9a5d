#include "control/policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <ctime>

#include "control/executor.h"
#include "planning/order.h"

namespace monkeytree {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

constexpr double kNow_s = 1'700'000'000;

/// Two racks of three nodes; job A on r0n0, r0n1 and r1n0, job B on r1n1 and r0n2; r1n2 is free.
Snapshot cluster() {
  Snapshot out;
  out.classes.push_back("default");
  out.islands.push_back("");
  for (int r = 0; r < 2; ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r);
    rack.spines = {0};
    for (int n = 0; n < 3; ++n) {
      Node node;
      node.name = fmt::format("r{}n{}", r, n);
      node.rack = RackId(r);
      rack.nodes.push_back(out.nodes.push_back(node));
    }
    out.racks.push_back(rack);
  }
  const std::vector<std::pair<std::string, std::vector<NodeId>>> jobs = {
      {"A", {NodeId(0), NodeId(1), NodeId(3)}}, {"B", {NodeId(4), NodeId(2)}}};
  for (const auto& [id, nodes] : jobs) {
    Job job;
    job.id = id;
    job.user = "ann";
    job.partition = "train";
    job.start_s = kNow_s - 7200;
    job.end_s = kNow_s + 7200;
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

Journal::PastMove past_move(const std::string& job, int worker, const std::string& from,
                            double ago_s) {
  Journal::PastMove move;
  move.worker = {job, 0, worker};
  move.from = from;
  move.to = "r0n1";
  move.ended_s = kNow_s - ago_s;
  return move;
}

class HeldBack : public testing::Test {
 protected:
  /// Why job A is held back; "" where it is not. Job B never is.
  std::string why() {
    const std::map<std::string, std::string> reasons =
        held_back(snapshot_, rules_, unmovable_, unhooked_, past_, kNow_s);
    EXPECT_FALSE(reasons.contains("B"));
    const auto found = reasons.find("A");
    return found == reasons.end() ? "" : found->second;
  }
  void moved(int times, double ago_s) {
    for (int i = 0; i < times; ++i) past_.push_back(past_move("A", i % 3, "x", ago_s));
  }
  Job& job() { return snapshot_.jobs[JobId(0)]; }

  Snapshot snapshot_ = cluster();
  PolicyRules rules_;
  std::map<std::string, std::string> unmovable_;
  std::map<std::string, std::string> unhooked_;
  std::vector<Journal::PastMove> past_;
};

TEST_F(HeldBack, nobody_without_a_reason) { EXPECT_EQ(why(), ""); }

TEST_F(HeldBack, jobs_that_opt_out_by_a_word_of_their_comment) {
  for (const std::string comment :
       {"monkeytree=off", "a b,monkeytree=off;c", "monkeytree=off x", "x\tmonkeytree=off"}) {
    job().comment = comment;
    EXPECT_EQ(why(), "its comment says monkeytree=off") << comment;
  }
  for (const std::string comment : {"monkeytree=offline", "xmonkeytree=off", "monkeytree=on", ""}) {
    job().comment = comment;
    EXPECT_EQ(why(), "") << comment;
  }
  rules_.opt_out = "";
  EXPECT_EQ(why(), "");
}

TEST_F(HeldBack, partitions_and_users_excluded) {
  job().partition = "debug";
  rules_.never_partitions = {"debug"};
  EXPECT_EQ(why(), "partition \"debug\" is excluded");
  rules_.never_partitions = {"other"};
  EXPECT_EQ(why(), "");
  rules_.only_partitions = {"train"};
  EXPECT_EQ(why(), "partition \"debug\" is excluded");
  rules_.only_partitions = {"debug", "train"};
  EXPECT_EQ(why(), "");
  job().user = "bob";
  rules_.never_users = {"bob"};
  EXPECT_EQ(why(), "user \"bob\" is excluded");
  rules_.never_users = {};
  rules_.only_users = {"ann"};
  EXPECT_EQ(why(), "user \"bob\" is excluded");
}

TEST_F(HeldBack, young_jobs_and_those_near_their_end) {
  job().start_s = kNow_s - 299;
  EXPECT_EQ(why(), "it started 5.0 min ago, less than 5.0 min");
  job().start_s = kNow_s - 300;
  EXPECT_EQ(why(), "");
  job().end_s = kNow_s + 600;
  EXPECT_EQ(why(), "it ends within 10.0 min, less than 15.0 min");
  job().end_s = kNow_s - 5;
  EXPECT_EQ(why(), "it ends within 0.0 min, less than 15.0 min");
  job().end_s = kNow_s + 900;
  EXPECT_EQ(why(), "");
  job().start_s = job().end_s = std::nullopt;
  EXPECT_EQ(why(), "");
}

TEST_F(HeldBack, jobs_that_moved_too_often_or_too_lately) {
  moved(7, 3600);
  EXPECT_EQ(why(), "");
  moved(1, 86'300);
  EXPECT_EQ(why(), "it had 8 moves in 24 hours, the most allowed");
  past_.back().ended_s = kNow_s - 86'500;
  EXPECT_EQ(why(), "");
  past_.back().ended_s = kNow_s - 600;
  rules_.moves_per_job = 9;
  EXPECT_EQ(why(), "it moved 10.0 min ago and cools down for 15.0 min");
  past_.back().ended_s = kNow_s - 900;
  EXPECT_EQ(why(), "");
}

TEST_F(HeldBack, jobs_whose_books_or_workers_could_not_follow) {
  unhooked_["A"] = "the agent of n1 is not connected";
  EXPECT_EQ(why(), "the agent of n1 is not connected");
  unmovable_["A"] = "it is suspended";
  EXPECT_EQ(why(), "it is suspended");
  job().movable = false;
  EXPECT_EQ(why(), "") << "the snapshot says so itself";
}

class Objections : public testing::Test {
 protected:
  Objections() {
    gain_.regained_gpu_h = 10;
    gain_.paused_gpu_h = 1;
    plan_.moves = 1;
    plan_.rounds = {{{GroupId(0), 2, NodeId(3), NodeId(5)}}};
  }
  std::vector<std::string> why() const {
    return objections(snapshot_, plan_, gain_, rules_, past_, kNow_s);
  }

  Snapshot snapshot_ = cluster();
  Plan plan_;
  Gain gain_;
  PolicyRules rules_;
  std::vector<Journal::PastMove> past_;
};

TEST_F(Objections, none_without_a_reason) { EXPECT_THAT(why(), IsEmpty()); }

TEST_F(Objections, moves_in_an_hour) {
  rules_.moves_per_hour = 3;
  for (int i = 0; i < 3; ++i) past_.push_back(past_move("C", i, "x", 3000));
  EXPECT_THAT(why(), ElementsAre("3 moves in the last hour and 1 in the plan are more than 3"));
  past_[0].ended_s = kNow_s - 3700;
  EXPECT_THAT(why(), IsEmpty());
}

TEST_F(Objections, moves_of_a_job_in_a_day) {
  rules_.moves_per_job = 2;
  for (int i = 0; i < 2; ++i) past_.push_back(past_move("A", i, "x", 80'000));
  EXPECT_THAT(why(), ElementsAre("job A had 2 moves in 24 hours, and 1 in the plan are more than 2 "
                                 "in all"));
  past_[0].ended_s = kNow_s - 90'000;
  EXPECT_THAT(why(), IsEmpty());
}

TEST_F(Objections, a_pause_that_does_not_pay) {
  gain_.regained_gpu_h = 1.99;
  EXPECT_THAT(why(), ElementsAre("1.99 GPU hours regained are less than 2 times the 1.00 paused"));
  rules_.pay_back = 1.5;
  EXPECT_THAT(why(), IsEmpty());
  gain_.regained_gpu_h = -1;
  rules_.pay_back = 0;
  EXPECT_THAT(why(), ElementsAre(HasSubstr("-1.00 GPU hours regained")));
}

TEST_F(Objections, a_worker_that_would_go_back) {
  // Worker 2 of A left rack r1 half an hour ago (for wherever); the plan sends it there.
  past_.push_back(past_move("A", 2, "r1n1", 1800));
  EXPECT_THAT(why(), ElementsAre("worker A/0/2 would go back to rack \"r1\", which it left within "
                                 "60.0 min"));
  past_[0].ended_s = kNow_s - 3700;
  EXPECT_THAT(why(), IsEmpty());
  past_[0] = past_move("A", 2, "r0n1", 1800);
  EXPECT_THAT(why(), IsEmpty()) << "it left another rack";
  past_[0] = past_move("A", 1, "r1n1", 1800);
  EXPECT_THAT(why(), IsEmpty()) << "it is another worker";
  past_[0] = past_move("A", 2, "gone", 1800);
  EXPECT_THAT(why(), IsEmpty());
}

TEST_F(Objections, a_staged_move_counts_where_it_ends) {
  plan_.rounds = {{{GroupId(0), 2, NodeId(3), kStaging}}, {{GroupId(0), 2, kStaging, NodeId(5)}}};
  past_.push_back(past_move("A", 2, "r1n1", 1800));
  EXPECT_THAT(why(), ElementsAre(HasSubstr("would go back")));
}

TEST_F(Objections, a_job_without_any_node) {
  plan_.rounds = {{{GroupId(1), 0, NodeId(4), kStaging}, {GroupId(1), 1, NodeId(2), kStaging}},
                  {{GroupId(1), 0, kStaging, NodeId(2)}, {GroupId(1), 1, kStaging, NodeId(4)}}};
  EXPECT_THAT(why(), ElementsAre("all workers of job B would be staged at once"));
  plan_.rounds = {{{GroupId(1), 0, NodeId(4), kStaging}}, {{GroupId(1), 0, kStaging, NodeId(5)}}};
  EXPECT_THAT(why(), IsEmpty());
}

TEST_F(Objections, none_for_a_job_that_has_ended_and_still_has_its_place) {
  snapshot_.groups[GroupId(1)].workers.clear();
  EXPECT_THAT(why(), IsEmpty());
}

TEST_F(Objections, the_wrong_time) {
  rules_.windows = {*parse_window("Mon 00:00-00:01")};
  const bool never = !in_window(rules_.windows, kNow_s);
  ASSERT_TRUE(never);
  EXPECT_THAT(why(), ElementsAre("outside the maintenance windows"));
}

TEST(Window, is_read) {
  const std::optional<Window> window = parse_window("Fri-Mon 20:00-06:30");
  ASSERT_TRUE(window);
  EXPECT_THAT(window->days, ElementsAre(true, true, false, false, false, true, true));
  EXPECT_EQ(window->from_min, 20 * 60);
  EXPECT_EQ(window->to_min, 6 * 60 + 30);
  EXPECT_THAT(parse_window("daily 00:00-24:00")->days, testing::Each(true));
  EXPECT_TRUE(parse_window("Sun 23:59-24:00"));
  for (const std::string_view text :
       {"", "Mon", "Mon 20:00", "Mon 20:00-", "Mon 20:00-20:00", "Mon 24:00-06:00",
        "Mon 25:00-26:00", "Mon 20:60-21:00", "Mon 24:01-06:00", "mon 20:00-21:00",
        "Mon-Xyz 20:00-21:00", "Mon  20:00-21:00", "Mon 20:00-21:00 ", "Mon 2000-2100",
        "Mon 20:0-21:00", "Mon -1:00-21:00", "Mon +1:00-21:00", "-Mon 20:00-21:00"}) {
    EXPECT_FALSE(parse_window(text)) << text;
  }
}

/// The machine's time zone, for a while.
class Zone {
 public:
  explicit Zone(const char* name) {
    const char* old = std::getenv("TZ");
    had_ = old != nullptr;
    if (had_) old_ = old;
    setenv("TZ", name, 1);
    tzset();
  }
  ~Zone() {
    if (had_) {
      setenv("TZ", old_.c_str(), 1);
    } else {
      unsetenv("TZ");
    }
    tzset();
  }
  Zone(const Zone&) = delete;
  Zone& operator=(const Zone&) = delete;

 private:
  bool had_ = false;
  std::string old_;
};

bool at(const std::string& window, const std::string& zone, int64_t utc_s) {
  const Zone here(zone.c_str());
  return in_window({*parse_window(window)}, static_cast<double>(utc_s));
}

constexpr int64_t kHour = 3600, kDay = 24 * kHour;
constexpr int64_t kSunday = 1'704'585'600;  ///< 2024-01-07 00:00 UTC

TEST(Window, reaches_over_midnight) {
  const std::string nights = "Mon-Fri 20:00-06:00";
  const int64_t monday = kSunday + kDay, saturday = kSunday + 6 * kDay;
  EXPECT_FALSE(at(nights, "UTC", monday + 5 * kHour)) << "Sunday is no day of it";
  EXPECT_FALSE(at(nights, "UTC", monday + 20 * kHour - 1));
  EXPECT_TRUE(at(nights, "UTC", monday + 20 * kHour));
  EXPECT_TRUE(at(nights, "UTC", monday + kDay + 6 * kHour - 1));
  EXPECT_FALSE(at(nights, "UTC", monday + kDay + 6 * kHour));
  EXPECT_TRUE(at(nights, "UTC", saturday + 5 * kHour)) << "Friday's reaches into Saturday";
  EXPECT_FALSE(at(nights, "UTC", saturday + 21 * kHour));
  EXPECT_TRUE(at("Sat 22:00-02:00", "UTC", saturday + kDay + kHour)) << "into Sunday";
  EXPECT_TRUE(at("Sun 00:00-24:00", "UTC", kSunday + kDay - 1));
  EXPECT_FALSE(at("Sun 00:00-24:00", "UTC", kSunday + kDay));
  EXPECT_TRUE(at("Sun 22:00-00:00", "UTC", kSunday + kDay - 1));
  EXPECT_FALSE(at("Sun 22:00-00:00", "UTC", kSunday + kDay));
}

TEST(Window, is_in_the_zone_of_the_machine) {
  // 20:30 on Monday in a zone five hours behind is 01:30 on Tuesday in UTC.
  const int64_t then = kSunday + 2 * kDay + kHour + kHour / 2;
  EXPECT_TRUE(at("Mon 20:00-21:00", "XXX5", then));
  EXPECT_FALSE(at("Mon 20:00-21:00", "UTC", then));
  EXPECT_TRUE(at("Tue 01:00-02:00", "UTC", then));
  EXPECT_TRUE(at("Tue 07:00-07:01", "XXX-5:30", then));
}

TEST(Window, none_means_always) { EXPECT_TRUE(in_window({}, kNow_s)); }

}  // namespace
}  // namespace monkeytree
