#include "wire/agent_proto.h"

#include <gtest/gtest.h>

#include <string>

namespace monkeytree {
namespace {

WorkerState worker(int index) {
  WorkerState out;
  out.instance = 7;
  out.name = {"4711", 0, index};
  out.phase = WorkerPhase::kRestored;
  out.migration = "";
  out.successor_of = "12.0.1";
  out.iteration = 5;
  out.state_bytes = int64_t{1} << 40;
  out.user = 1000;
  out.replicas = "r1";
  out.connected = false;
  return out;
}

AgentHello hello() {
  AgentHello out;
  out.node = "n1";
  out.instance = ~uint64_t{0};
  out.slots = 8;
  out.address = "10.0.0.1";
  out.machine = "m";
  out.fence = 3;
  out.staging_quota = 1 << 20;
  out.staging_endpoints = {"tcp:10.0.0.1:1", "shm:@x"};
  out.staging_access = "word";
  out.state = {{worker(0), worker(1)}, {{"12.0.1:4711/0/3", 100, true}}, 200};
  return out;
}

TEST(AgentProto, GivesBackWhatWasWritten) {
  wire::v1::Hello hello_out;
  write_proto(hello(), hello_out);
  EXPECT_TRUE(read_proto(hello_out).value() == hello());

  for (int step = 0; step < kAgentSteps; ++step) {
    AgentCommand command;
    command.request = 9;
    command.fence = 4;
    command.step = static_cast<AgentStep>(step);
    command.migration = "12.0.1";
    command.worker = {"4711", 1, 2};
    command.timeout = std::chrono::milliseconds(1500);
    command.state_bytes = 77;
    command.peers = {{0, 1, "n2", "10.0.0.2"}};
    command.endpoint = "tcp:1.2.3.4:5";
    command.token = "t";
    command.access = "a";
    command.key = "k";
    command.share = 1;
    command.shares = 3;
    wire::v1::Command out;
    write_proto(command, out);
    EXPECT_TRUE(read_proto(out).value() == command) << name_of(command.step);
  }

  AgentReply reply;
  reply.request = 9;
  reply.status = absl::DataLossError("a byte differs");
  reply.iteration = 1;
  reply.epoch = 2;
  reply.arrived = true;
  reply.endpoints = {"e"};
  reply.token = "t";
  reply.user = 3;
  wire::v1::Reply reply_out;
  write_proto(reply, reply_out);
  EXPECT_TRUE(read_proto(reply_out).value() == reply);

  const AgentWorkerCommand start{7, {{"a", "b"}, "/home", {{"K", "V"}}}};
  wire::v1::WorkerCommand start_out;
  write_proto(start, start_out);
  EXPECT_TRUE(read_proto(start_out).value() == start);

  const std::vector<RouteInstruction> routes = {{"4711", 0, 1, "n1", "n2", "r1", "r2", -1}};
  wire::v1::Routes routes_out;
  write_proto(routes, routes_out);
  EXPECT_TRUE(read_proto(routes_out).value() == routes);
}

TEST(AgentProto, RefusesWhatAPeerMustNotSend) {
  wire::v1::Hello other;
  write_proto(hello(), other);
  other.set_version(2);
  EXPECT_EQ(read_proto(other).status().code(), absl::StatusCode::kFailedPrecondition);
  other.set_version(1);
  other.set_node("../n1");
  EXPECT_EQ(read_proto(other).status().code(), absl::StatusCode::kInvalidArgument);

  wire::v1::AgentState state;
  write_proto(hello().state, state);
  state.mutable_workers(1)->mutable_name()->set_job("a/b");
  EXPECT_EQ(read_proto(state).status().code(), absl::StatusCode::kInvalidArgument);
  write_proto(hello().state, state);
  state.mutable_workers(0)->set_phase(wire::v1::WorkerState::UNKNOWN);
  EXPECT_EQ(read_proto(state).status().code(), absl::StatusCode::kInvalidArgument);
  AgentState many;
  for (int i = 0; i <= kMaxWorkersPerNode; ++i) many.workers.push_back(worker(i));
  wire::v1::AgentState many_out;
  write_proto(many, many_out);
  EXPECT_EQ(read_proto(many_out).status().code(), absl::StatusCode::kInvalidArgument);

  wire::v1::Command command;
  command.set_migration("12.0.1");
  EXPECT_EQ(read_proto(command).status().code(), absl::StatusCode::kUnimplemented);
  command.set_step(static_cast<wire::v1::Command::Step>(99));
  EXPECT_EQ(read_proto(command).status().code(), absl::StatusCode::kUnimplemented);
  command.set_step(wire::v1::Command::PAUSE);
  EXPECT_TRUE(read_proto(command).ok());
  command.set_migration("");
  EXPECT_EQ(read_proto(command).status().code(), absl::StatusCode::kInvalidArgument);

  wire::v1::Reply reply;
  reply.set_code(99);
  EXPECT_EQ(read_proto(reply).value().status.code(), absl::StatusCode::kUnknown);
}

TEST(HostPort, TellsLoopbackFromTheRest) {
  EXPECT_TRUE(parse_host_port("127.0.0.1:1").value().loopback);
  EXPECT_TRUE(parse_host_port("127.8.9.1:1").value().loopback);
  EXPECT_TRUE(parse_host_port("localhost:65535").value().loopback);
  EXPECT_TRUE(parse_host_port("[::1]:0").value().loopback);
  EXPECT_FALSE(parse_host_port("10.0.0.1:1").value().loopback);
  EXPECT_FALSE(parse_host_port("0.0.0.0:1").value().loopback);
  EXPECT_FALSE(parse_host_port("[::]:1").value().loopback);
  EXPECT_FALSE(parse_host_port("127.0.0.1.evil.org:1").value().loopback);
  EXPECT_EQ(parse_host_port("[::1]:70").value().text(), "[::1]:70");
  for (const char* bad : {"", "host", ":1", "host:", "host:x", "host:65536", "host:-1", "::1:70",
                          "a b:1", "http://h:1", "h:1x"}) {
    EXPECT_FALSE(parse_host_port(bad).ok()) << bad;
  }
}

}  // namespace
}  // namespace monkeytree
