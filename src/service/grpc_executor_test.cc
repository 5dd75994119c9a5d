#include "service/grpc_executor.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/eventually.h"
#include "wire/agent_proto.h"
#include "wire/agents.grpc.pb.h"

/// Agents that are hostile, slow or gone, told by hand-written messages.
namespace monkeytree {
namespace {

using std::chrono::milliseconds;

Deadline in(milliseconds time) { return std::chrono::steady_clock::now() + time; }

AgentHello hello_of(const std::string& node) {
  AgentHello hello;
  hello.node = node;
  hello.instance = 1;
  hello.address = "10.0.0.1";
  return hello;
}

/// One stream to the executor.
class RawAgent {
 public:
  explicit RawAgent(int port) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(fmt::format("127.0.0.1:{}", port),
                                                   grpc::InsecureChannelCredentials(), arguments);
    stub_ = wire::v1::Agents::NewStub(channel);
    context_ = std::make_unique<grpc::ClientContext>();
    stream_ = stub_->Session(context_.get());
  }
  ~RawAgent() {
    context_->TryCancel();
    if (!finished_) end();
  }

  void say(const wire::v1::FromAgent& message) { stream_->Write(message); }
  void say(const AgentHello& hello) {
    wire::v1::FromAgent message;
    write_proto(hello, *message.mutable_hello());
    say(message);
  }
  void say(const AgentState& state) {
    wire::v1::FromAgent message;
    write_proto(state, *message.mutable_state());
    say(message);
  }
  void say(const AgentReply& reply) {
    wire::v1::FromAgent message;
    write_proto(reply, *message.mutable_reply());
    say(message);
  }
  /// The next message; false at the end.
  bool hear(wire::v1::ToAgent& message) { return stream_->Read(&message); }
  AgentCommand command() {
    wire::v1::ToAgent message;
    while (hear(message)) {
      if (message.has_command()) return read_proto(message.command()).value();
    }
    return {};
  }
  grpc::Status end() {
    finished_ = true;
    wire::v1::ToAgent message;
    while (stream_->Read(&message)) {
    }
    return stream_->Finish();
  }

 private:
  std::unique_ptr<wire::v1::Agents::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReaderWriter<wire::v1::FromAgent, wire::v1::ToAgent>> stream_;
  bool finished_ = false;
};

class GrpcExecutorTest : public testing::Test {
 protected:
  GrpcExecutorTest() { start({}); }
  void start(GrpcExecutorOptions options) {
    executor_.reset();
    options.patience = milliseconds(50);
    options.fence = 7;
    executor_ = GrpcExecutor::start(options).value();
  }
  RawAgent dial() const { return RawAgent(executor_->port()); }
  bool connected(const std::string& node) const {
    for (const AgentReport& agent : executor_->agents()) {
      if (agent.node == node) return agent.connected;
    }
    return false;
  }

  std::unique_ptr<GrpcExecutor> executor_;
};

TEST_F(GrpcExecutorTest, AnAgentIsWelcomedAndAsked) {
  RawAgent agent = dial();
  agent.say(hello_of("n1"));
  wire::v1::ToAgent message;
  ASSERT_TRUE(agent.hear(message));
  ASSERT_TRUE(message.has_welcome());
  EXPECT_EQ(message.welcome().fence(), 7U);
  EXPECT_EQ(message.welcome().heartbeat_ms(), 2000U);
  absl::Status status;
  std::thread asking([&] {
    status = executor_->restore("1.0.0", {"4711", 0, 1}, "n1", in(milliseconds(30'000)));
  });
  const AgentCommand command = agent.command();
  EXPECT_EQ(command.step, AgentStep::kRestore);
  EXPECT_EQ(command.fence, 7U);
  EXPECT_GT(command.timeout, milliseconds(0));
  EXPECT_LE(command.timeout, milliseconds(30'000));
  AgentReply reply;
  reply.request = command.request;
  reply.status = absl::DataLossError("a byte differs");
  agent.say(reply);
  asking.join();
  EXPECT_EQ(status, absl::DataLossError("a byte differs"));
}

TEST_F(GrpcExecutorTest, WhoeverMakesNoSenseIsRefused) {
  const auto refusal = [&](const auto& message) {
    RawAgent agent = dial();
    agent.say(message);
    return agent.end().error_code();
  };
  EXPECT_EQ(refusal(AgentState()), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(refusal(hello_of("../n1")), grpc::StatusCode::INVALID_ARGUMENT);
  AgentHello other = hello_of("n1");
  other.version = 99;
  EXPECT_EQ(refusal(other), grpc::StatusCode::FAILED_PRECONDITION);
  AgentHello huge = hello_of("n1");
  huge.machine = std::string(kMaxAgentMessage + 1, 'x');
  EXPECT_EQ(refusal(huge), grpc::StatusCode::RESOURCE_EXHAUSTED);
  RawAgent twice = dial();
  twice.say(hello_of("n1"));
  twice.say(hello_of("n2"));
  EXPECT_EQ(twice.end().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_TRUE(eventually([&] { return !connected("n1"); }));
  EXPECT_FALSE(connected("n2"));
  // The next one is served as ever.
  RawAgent good = dial();
  good.say(hello_of("n1"));
  EXPECT_TRUE(eventually([&] { return connected("n1"); }));
}

TEST_F(GrpcExecutorTest, AnAgentThatIsAwayIsUnavailableSoon) {
  const absl::Status status =
      executor_->restore("1.0.0", {"4711", 0, 1}, "n1", in(milliseconds(60'000)));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "the agent of node n1 is not connected");
}

TEST_F(GrpcExecutorTest, ASlowAgentHoldsUpNobodyElse) {
  RawAgent slow = dial();
  slow.say(hello_of("slow"));  // and never reads
  RawAgent quick = dial();
  quick.say(hello_of("quick"));
  ASSERT_TRUE(eventually([&] { return connected("slow") && connected("quick"); }));
  std::vector<std::thread> waiting;
  for (int i = 0; i < 20; ++i) {
    waiting.emplace_back([&] {
      const absl::Status status =
          executor_->restore("1.0.0", {"4711", 0, 1}, "slow", in(milliseconds(1500)));
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
    });
  }
  std::thread answering([&] {
    AgentReply reply;
    reply.request = quick.command().request;
    quick.say(reply);
  });
  EXPECT_TRUE(executor_->restore("1.0.0", {"4711", 0, 1}, "quick", in(milliseconds(30'000))).ok());
  answering.join();
  for (std::thread& one : waiting) one.join();
}

TEST_F(GrpcExecutorTest, OneAgentCannotAnswerForAnother) {
  RawAgent one = dial(), two = dial();
  one.say(hello_of("n1"));
  two.say(hello_of("n2"));
  ASSERT_TRUE(eventually([&] { return connected("n1") && connected("n2"); }));
  std::thread answering([&] {
    AgentReply reply;
    reply.request = one.command().request;
    two.say(reply);
  });
  EXPECT_EQ(executor_->restore("1.0.0", {"4711", 0, 1}, "n1", in(milliseconds(700))).code(),
            absl::StatusCode::kDeadlineExceeded);
  answering.join();
}

TEST_F(GrpcExecutorTest, ACallIsSentAgainToAnAgentThatCameBack) {
  GrpcExecutorOptions options;
  start(options);
  auto first = std::make_unique<RawAgent>(executor_->port());
  first->say(hello_of("n1"));
  ASSERT_TRUE(eventually([&] { return connected("n1"); }));
  absl::Status status = absl::UnknownError("");
  std::thread asking([&] {
    status = executor_->restore("1.0.0", {"4711", 0, 1}, "n1", in(milliseconds(60'000)));
  });
  EXPECT_EQ(first->command().step, AgentStep::kRestore);
  // The second dials before the first is seen to be gone, as after a network that was cut.
  RawAgent second = dial();
  second.say(hello_of("n1"));
  AgentReply reply;
  reply.request = second.command().request;
  second.say(reply);
  asking.join();
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_FALSE(first->end().ok());
  EXPECT_TRUE(connected("n1"));
}

TEST_F(GrpcExecutorTest, ASilentAgentCountsAsGone) {
  GrpcExecutorOptions options;
  options.silent = milliseconds(200);
  start(options);
  RawAgent agent = dial();
  agent.say(hello_of("n1"));
  ASSERT_TRUE(eventually([&] { return !executor_->agents().empty(); }));
  EXPECT_TRUE(eventually([&] { return !connected("n1"); }));
  EXPECT_FALSE(agent.end().ok());
}

TEST_F(GrpcExecutorTest, RoutesGoToTheNodesThatSend) {
  const PreviousRoute route{"4711", 0, 1, "n1", "n2", "r1", "r2", 3};
  executor_->apply_routes({route});
  EXPECT_TRUE(executor_->agents().empty());
  RawAgent agent = dial();
  agent.say(hello_of("n1"));
  wire::v1::ToAgent message;
  while (agent.hear(message) && !message.has_routes()) {
  }
  const auto routes = read_proto(message.routes()).value();
  ASSERT_EQ(routes.size(), 1U);
  EXPECT_EQ(routes[0], (RouteInstruction{"4711", 0, 1, "n1", "n2", "r1", "r2", 3}));
  executor_->apply_routes({route});  // nothing new: nothing is sent
  executor_->apply_routes({});
  ASSERT_TRUE(agent.hear(message));
  EXPECT_TRUE(message.has_routes());
  EXPECT_EQ(message.routes().routes_size(), 0);
}

TEST_F(GrpcExecutorTest, WorkersAreReportedOnceTheirCommandIsKnown) {
  RawAgent agent = dial();
  AgentHello hello = hello_of("n1");
  WorkerState worker;
  worker.instance = 5;
  worker.name = {"4711", 0, 1};
  worker.phase = WorkerPhase::kPaused;
  worker.migration = "1.0.0";
  worker.iteration = 9;
  hello.state.workers = {worker};
  agent.say(hello);
  ASSERT_TRUE(eventually([&] { return connected("n1"); }));
  EXPECT_TRUE(executor_->agents()[0].workers.empty());
  wire::v1::FromAgent message;
  write_proto(AgentWorkerCommand{5, {{"train"}, "/", {{"A", "1"}}}},
              *message.mutable_worker_command());
  agent.say(message);
  ASSERT_TRUE(eventually([&] { return !executor_->agents()[0].workers.empty(); }));
  const WorkerReport report = executor_->agents()[0].workers[0];
  EXPECT_EQ(report.name, (WorkerName{"4711", 0, 1}));
  EXPECT_EQ(report.node, "n1");
  EXPECT_EQ(report.migration, "1.0.0");
  EXPECT_TRUE(report.paused);
  EXPECT_FALSE(report.successor);
  EXPECT_EQ(report.iteration, 9);
  EXPECT_EQ(report.command, (WorkerCommand{{"train"}, "/", {{"A", "1"}}}));
}

TEST_F(GrpcExecutorTest, OnlyTheSameUserMayTakeOver) {
  RawAgent from = dial(), to = dial();
  AgentHello hello = hello_of("n1");
  WorkerState worker;
  worker.name = {"4711", 0, 1};
  worker.user = 1000;
  hello.state.workers = {worker};
  from.say(hello);
  to.say(hello_of("n2"));
  ASSERT_TRUE(eventually([&] { return connected("n1") && connected("n2"); }));
  std::thread answering([&] {
    AgentReply reply;
    reply.request = to.command().request;
    reply.user = 1001;
    to.say(reply);
  });
  const absl::Status status =
      executor_->prepare("1.0.0", {"4711", 0, 1}, "n2", 1, in(milliseconds(30'000)));
  answering.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(status.message().find("runs as user 1001, the worker as user 1000"),
            absl::string_view::npos);
}

TEST(GrpcExecutorStart, ListensOnLoopbackUnlessToldOtherwise) {
  GrpcExecutorOptions options;
  options.listen = "0.0.0.0:0";
  const absl::Status refused = GrpcExecutor::start(options).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("insecure: true"), absl::string_view::npos);
  options.insecure = true;
  std::string warned;
  options.log = [&](LogLevel level, std::string_view event, const LogFields&) {
    if (level == LogLevel::kWarning) warned = event;
  };
  EXPECT_TRUE(GrpcExecutor::start(options).ok());
  EXPECT_NE(warned.find("insecure"), std::string::npos);
  options.listen = "nowhere";
  EXPECT_EQ(GrpcExecutor::start(options).status().code(), absl::StatusCode::kInvalidArgument);

  options.listen = "127.0.0.1:0";
  const auto first = GrpcExecutor::start(options).value();
  options.listen = fmt::format("127.0.0.1:{}", first->port());
  EXPECT_EQ(GrpcExecutor::start(options).status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace monkeytree
