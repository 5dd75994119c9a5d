#include "inventory/emulated_scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "cluster/snapshot_json.h"

namespace monkeytree {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

Deadline soon() { return std::chrono::steady_clock::now() + seconds(60); }

EmulatedJob job_on(std::vector<std::string> nodes) {
  EmulatedJob job;
  job.groups = {static_cast<int>(nodes.size())};
  job.nodes = std::move(nodes);
  return job;
}

/// Nodes of a job's only group, as observed.
std::vector<std::string> workers(EmulatedScheduler& cluster, size_t job) {
  const Observation seen = cluster.observe(soon()).value();
  std::vector<std::string> out;
  const Group& group = seen.snapshot.groups[seen.snapshot.jobs[JobId(job)].first_group];
  for (NodeId node : group.workers) out.push_back(seen.snapshot.nodes[node].name);
  return out;
}

NodeState state_of(EmulatedScheduler& cluster, const std::string& name) {
  const Observation seen = cluster.observe(soon()).value();
  for (const Node& node : seen.snapshot.nodes) {
    if (node.name == name) return node.state;
  }
  return NodeState::kDown;
}

class Emulated : public testing::Test {
 protected:
  EmulatedScheduler cluster_{uniform_cluster(2, 4, 8, 2)};
};

TEST_F(Emulated, books_follow_a_move) {
  ASSERT_EQ(*cluster_.submit(job_on({"r0n0", "r1n0"})), "1");
  const WorkerName worker{"1", 0, 1};
  const Hold hold = cluster_.hold(worker, "r0n1", "", soon()).value();
  EXPECT_EQ(cluster_.hold(worker, "r0n1", "", soon()).value(), hold);
  EXPECT_THAT(cluster_.booked("1", soon()).value(), ElementsAre("r0n0", "r0n1", "r1n0"));
  EXPECT_THAT(workers(cluster_, 0), ElementsAre("r0n0", "r1n0"));
  EXPECT_EQ(state_of(cluster_, "r0n1"), NodeState::kReserved);

  EXPECT_TRUE(cluster_.start(hold, {{"train"}, "/", {}}, soon()).ok());
  EXPECT_TRUE(cluster_.give_back(worker, "r1n0", {"r0n0", "r0n1"}, soon()).ok());
  EXPECT_TRUE(cluster_.give_back(worker, "r1n0", {"r0n0", "r0n1"}, soon()).ok());
  EXPECT_THAT(cluster_.booked("1", soon()).value(), ElementsAre("r0n0", "r0n1"));
  EXPECT_THAT(workers(cluster_, 0), ElementsAre("r0n0", "r0n1"));
  EXPECT_EQ(state_of(cluster_, "r0n1"), NodeState::kUp);
  EXPECT_THAT(cluster_.observe(soon())->holds, ElementsAre(hold));

  // On from there: the hold's node is given back in its turn.
  ASSERT_TRUE(cluster_.hold(worker, "r1n3", "", soon()).ok());
  EXPECT_THAT(workers(cluster_, 0), ElementsAre("r0n0", "r0n1"));
  EXPECT_TRUE(cluster_.give_back(worker, "r0n1", {"r0n0", "r1n3"}, soon()).ok());
  EXPECT_THAT(workers(cluster_, 0), ElementsAre("r0n0", "r1n3"));
  EXPECT_EQ(cluster_.free_nodes(), 6);
}

TEST_F(Emulated, a_cancelled_hold_leaves_nothing) {
  ASSERT_TRUE(cluster_.submit(job_on({"r0n0", "r1n0"})).ok());
  const Hold hold = cluster_.hold({"1", 0, 0}, "r1n1", "", soon()).value();
  EXPECT_TRUE(cluster_.cancel(hold, soon()).ok());
  EXPECT_TRUE(cluster_.cancel(hold, soon()).ok());
  EXPECT_THAT(cluster_.booked("1", soon()).value(), ElementsAre("r0n0", "r1n0"));
  EXPECT_EQ(cluster_.start(hold, {}, soon()).code(), absl::StatusCode::kNotFound);
}

TEST_F(Emulated, others_get_no_held_or_reserved_node) {
  ASSERT_TRUE(cluster_.submit(job_on({"r0n0", "r1n0"})).ok());
  ASSERT_TRUE(cluster_.submit(job_on({"r0n1", "r1n1"})).ok());
  EXPECT_EQ(cluster_.hold({"1", 0, 0}, "r1n1", "", soon()).status().code(),
            absl::StatusCode::kAborted);
  ASSERT_TRUE(cluster_.reserve("swap", {"r0n0", "r1n1"}, soon()).ok());
  ASSERT_TRUE(cluster_.reserve("swap", {"r1n1", "r0n0"}, soon()).ok());
  EXPECT_FALSE(cluster_.reserve("swap", {"r0n0"}, soon()).ok());
  EXPECT_EQ(cluster_.reserve("other", {"r0n0"}, soon()).code(), absl::StatusCode::kAborted);

  // 1/0/0 changes places with 2/0/1; its state is staged in between.
  ASSERT_TRUE(cluster_.give_back({"1", 0, 0}, "r0n0", {"", "r1n0"}, soon()).ok());
  EXPECT_THAT(cluster_.observe(soon())->unmovable, SizeIs(1));
  EXPECT_FALSE(cluster_.submit(job_on({"r0n0"})).ok());
  EXPECT_EQ(cluster_.hold({"2", 0, 1}, "r0n0", "", soon()).status().code(),
            absl::StatusCode::kAborted);
  ASSERT_TRUE(cluster_.hold({"2", 0, 1}, "r0n0", "swap", soon()).ok());
  ASSERT_TRUE(cluster_.give_back({"2", 0, 1}, "r1n1", {"r0n1", "r0n0"}, soon()).ok());
  ASSERT_TRUE(cluster_.hold({"1", 0, 0}, "r1n1", "swap", soon()).ok());
  ASSERT_TRUE(cluster_.unreserve("swap", soon()).ok());
  EXPECT_THAT(workers(cluster_, 0), ElementsAre("r1n1", "r1n0"));
  EXPECT_THAT(workers(cluster_, 1), ElementsAre("r0n1", "r0n0"));
  EXPECT_THAT(cluster_.observe(soon())->reservations, IsEmpty());
}

TEST_F(Emulated, holds_of_ended_jobs_are_orphans) {
  ASSERT_TRUE(cluster_.submit(job_on({"r0n0", "r1n0"})).ok());
  const Hold hold = cluster_.hold({"1", 0, 0}, "r1n1", "", soon()).value();
  ASSERT_TRUE(cluster_.end("1").ok());
  EXPECT_THAT(cluster_.observe(soon())->orphans, ElementsAre(hold));
  EXPECT_EQ(cluster_.free_nodes(), 7);
  EXPECT_EQ(cluster_.give_back({"1", 0, 0}, "r0n0", {}, soon()).code(),
            absl::StatusCode::kNotFound);
  EXPECT_THAT(cluster_.booked("1", soon()).value(), IsEmpty());
  ASSERT_TRUE(cluster_.cancel(hold, soon()).ok());
  EXPECT_EQ(cluster_.free_nodes(), 8);
}

TEST(EmulatedWorkersTest, start_and_end_with_the_books) {
  std::vector<std::string> log;
  EmulatedWorkers workers;
  workers.start = [&](const WorkerName& worker, const std::string& node, const WorkerCommand&,
                      bool successor) {
    log.push_back(to_string(worker) + "@" + node + (successor ? " successor" : ""));
    return absl::OkStatus();
  };
  workers.end = [&](const std::string& job, const std::string& node) {
    log.push_back(job + " ends on " + node);
  };
  EmulatedScheduler cluster(uniform_cluster(1, 3, 1, 2), workers);
  EmulatedJob job = job_on({"r0n0", "r0n1"});
  job.command.arguments = {"train"};
  ASSERT_TRUE(cluster.submit(job).ok());
  const Hold hold = cluster.hold({"1", 0, 0}, "r0n2", "", soon()).value();
  ASSERT_TRUE(cluster.start(hold, job.command, soon()).ok());
  ASSERT_TRUE(cluster.start(hold, job.command, soon()).ok());
  ASSERT_TRUE(cluster.give_back({"1", 0, 0}, "r0n0", {}, soon()).ok());
  ASSERT_TRUE(cluster.cancel(hold, soon()).ok());
  EXPECT_THAT(log, ElementsAre("1/0/0@r0n0", "1/0/1@r0n1", "1/0/0@r0n2 successor", "1 ends on r0n0",
                               "1 ends on r0n2"));
}

TEST_F(Emulated, meets_each_fault) {
  ASSERT_TRUE(cluster_.submit(job_on({"r0n0", "r1n0"})).ok());
  const WorkerName worker{"1", 0, 0};
  cluster_.inject(SchedulerCall::kHold, SchedulerFault::kRefuse);
  cluster_.inject(SchedulerCall::kHold, SchedulerFault::kUnavailable);
  cluster_.inject(SchedulerCall::kHold, SchedulerFault::kFailAfterDoing);
  const auto hold = [&] { return cluster_.hold(worker, "r1n1", "", soon()).status().code(); };
  EXPECT_EQ(hold(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(hold(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(cluster_.observe(soon())->holds, IsEmpty());
  EXPECT_EQ(hold(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(cluster_.observe(soon())->holds, SizeIs(1));
  EXPECT_EQ(hold(), absl::StatusCode::kOk);
  EXPECT_EQ(cluster_.calls(SchedulerCall::kHold), 4);

  cluster_.inject(SchedulerCall::kBooked, SchedulerFault::kHang, 2);
  const Deadline past = std::chrono::steady_clock::now();
  EXPECT_EQ(cluster_.booked("1", past).status().code(), absl::StatusCode::kDeadlineExceeded);
  std::thread hanging([&] {
    EXPECT_EQ(cluster_.booked("1", soon()).status().code(), absl::StatusCode::kUnavailable);
  });
  while (cluster_.calls(SchedulerCall::kBooked) < 2) std::this_thread::yield();
  cluster_.heal();
  cluster_.heal();
  hanging.join();
}

TEST(EmulatedChurnTest, one_seed_gives_one_course) {
  const auto course = [](uint64_t seed) {
    EmulatedScheduler cluster(uniform_cluster(4, 4, 8, 2), {}, [] { return 1e9; });
    EmulatedChurn churn(cluster, seed, {});
    std::string text;
    for (int i = 0; i < 200; ++i) {
      text += churn.step() + "\n";
      EXPECT_EQ(cluster.inconsistency(), "");
    }
    const Snapshot snapshot = cluster.observe(soon()).value().snapshot;
    Diagnostics diagnostics;
    const std::string json = write_snapshot(snapshot);
    EXPECT_TRUE(parse_snapshot(json, "s", diagnostics).has_value()) << diagnostics.text();
    return text + json;
  };
  EXPECT_EQ(course(1), course(1));
  EXPECT_NE(course(1), course(2));
}

}  // namespace
}  // namespace monkeytree
