#include "inventory/emulated_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <thread>

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;

Deadline soon() { return std::chrono::steady_clock::now() + seconds(60); }

class EmulatedSocket : public testing::Test {
 protected:
  EmulatedSocket() {
    workers_.start = [this](const WorkerName& worker, const std::string& node,
                            const WorkerCommand& command, bool) {
      started_ = to_string(worker) + "@" + node + " " + command.arguments.at(0) + " " +
                 command.folder + " " + command.environment.at("A");
      return absl::OkStatus();
    };
  }
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<EmulatedServer>> server = EmulatedServer::open(cluster_, path_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  std::string path_ = testing::TempDir() + "/emulated_socket_" + std::to_string(getpid());
  std::string started_;
  EmulatedWorkers workers_;
  EmulatedScheduler cluster_{uniform_cluster(2, 2, 8, 2),
                             {[this](const auto&... all) { return workers_.start(all...); }, {}},
                             [] { return 1e9; }};
  std::unique_ptr<EmulatedServer> server_;
  EmulatedProxy proxy_{path_};
};

TEST_F(EmulatedSocket, every_call_goes_through) {
  EmulatedJob job;
  job.groups = {2};
  job.nodes = {"r0n0", "r1n0"};
  ASSERT_TRUE(cluster_.submit(job).ok());
  const WorkerName worker{"1", 0, 1};
  EXPECT_EQ(proxy_.describe(), cluster_.describe());
  ASSERT_TRUE(proxy_.reserve("swap", {"r0n1"}, soon()).ok());
  const Hold hold = proxy_.hold(worker, "r0n1", "swap", soon()).value();
  EXPECT_EQ(hold.worker, worker);
  EXPECT_THAT(proxy_.booked("1", soon()).value(), ElementsAre("r0n0", "r0n1", "r1n0"));
  ASSERT_TRUE(proxy_.start(hold, {{"train"}, "/tmp", {{"A", "b \xc3\xa4"}}}, soon()).ok());
  EXPECT_EQ(started_, "1/0/1@r0n1 train /tmp b \xc3\xa4");
  ASSERT_TRUE(proxy_.give_back(worker, "r1n0", {"r0n0", ""}, soon()).ok());
  EXPECT_THAT(cluster_.order("1"), ElementsAre("r0n0", ""));
  const Observation seen = proxy_.observe(soon()).value();
  const Observation own = cluster_.observe(soon()).value();
  EXPECT_EQ(seen.snapshot, own.snapshot);
  EXPECT_EQ(seen.holds, own.holds);
  EXPECT_EQ(seen.reservations, own.reservations);
  ASSERT_TRUE(proxy_.unreserve("swap", soon()).ok());
  ASSERT_TRUE(proxy_.cancel(hold, soon()).ok());
  EXPECT_THAT(proxy_.observe(soon())->unmovable, testing::SizeIs(1));
  ASSERT_TRUE(cluster_.end("1").ok());
  EXPECT_EQ(proxy_.hold(worker, "r0n1", "", soon()).status().code(), absl::StatusCode::kNotFound);
  cluster_.set_read_only("no");
  EXPECT_EQ(proxy_.why_read_only(), "no");
}

TEST_F(EmulatedSocket, errors_and_deadlines_go_through) {
  cluster_.inject(SchedulerCall::kBooked, SchedulerFault::kRefuse);
  const absl::Status refused = proxy_.booked("1", soon()).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("injected"));
  cluster_.inject(SchedulerCall::kBooked, SchedulerFault::kHang);
  EXPECT_EQ(
      proxy_.booked("1", std::chrono::steady_clock::now() + milliseconds(200)).status().code(),
      absl::StatusCode::kDeadlineExceeded);
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] { EXPECT_TRUE(proxy_.observe(soon()).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_F(EmulatedSocket, one_server_a_socket_and_none_at_the_end) {
  EXPECT_EQ(EmulatedServer::open(cluster_, path_).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(proxy_.observe(soon()).ok());
  server_.reset();
  EXPECT_EQ(proxy_.observe(soon()).status().code(), absl::StatusCode::kUnavailable);
  SetUp();
  EXPECT_TRUE(proxy_.observe(soon()).ok());
  EXPECT_FALSE(EmulatedServer::open(cluster_, std::string(200, 'x')).ok());
}

TEST_F(EmulatedSocket, bad_calls_are_answered) {
  for (const char* text : {"", "{", "[]", "{}", "{\"call\": 7}", "{\"call\": \"fly\"}",
                           "{\"call\": \"observe\", \"wings\": 2}", "\xff"}) {
    EXPECT_THAT(answer_emulated_call(cluster_, text), HasSubstr("\"code\":3")) << text;
  }
}

}  // namespace
}  // namespace monkeytree
