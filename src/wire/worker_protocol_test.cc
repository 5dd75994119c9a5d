#include "wire/worker_protocol.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace monkeytree {
namespace {

WorkerHello hello() {
  WorkerHello out;
  out.name = {"4711_2", 1, 3};
  out.ranks = 8;
  out.phase = WorkerPhase::kPaused;
  out.migration = "12.0.1";
  out.generation = "9.1.0";
  out.iteration = 120;
  out.state_bytes = int64_t{1} << 40;
  out.replicas = "r1";
  out.command = {{"python3", "train.py", "--name", "a b"}, "/home/ada", {{"A", "1"}, {"B_2", ""}}};
  return out;
}

std::string fault(std::string_view packet) {
  const absl::StatusOr<FromWorker> read = read_from_worker(packet);
  EXPECT_FALSE(read.ok()) << packet;
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(read.status().message());
}

/// The hello with one piece of its text replaced.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = write_packet(FromWorker(hello()));
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(WorkerProtocol, AHelloNeedNotSayWhoseReplicaItIs) {
  const absl::StatusOr<FromWorker> read = read_from_worker(changed("\"replicas\":\"r1\",", ""));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<WorkerHello>(*read).replicas, "");
  EXPECT_NE(fault(changed("\"r1\"", "\"a/b\"")).find("/replicas"), std::string::npos);
}

TEST(WorkerProtocol, GivesBackWhatWasWritten) {
  WorkerHello successor = hello();
  successor.phase = WorkerPhase::kRestored;
  successor.successor_of = "12.0.1";
  const std::vector<FromWorker> from = {hello(),
                                        successor,
                                        WorkerPaused{"m", 5, 6},
                                        WorkerRestored{"m", 5},
                                        WorkerStepped{"m", 6},
                                        WorkerCancelled{"m"},
                                        WorkerFailed{"m", "no \"reason\""},
                                        WorkerProgress{7},
                                        WorkerFlows{},
                                        WorkerFlows{{{0, "10.1.0.2", 1}, {1, "10.1.0.2", 65535}}},
                                        WorkerBye{}};
  for (const FromWorker& message : from) {
    const absl::StatusOr<FromWorker> read = read_from_worker(write_packet(message));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == message) << write_packet(message);
  }
  const std::vector<ToWorker> to = {
      AgentWelcome{"n1", "10.0.0.1"},
      AgentWelcome{"n1", ""},
      AgentRefused{"taken"},
      AgentExpect{"m"},
      AgentPause{"m"},
      AgentRestore{"m", 3},
      AgentResume{"m", {{0, 1, "n2", "fe80::1%eth0"}, {1, 0, "n3", ""}}},
      AgentRetire{"m"},
      AgentRelease{"m"},
      AgentCancel{"m"},
      AgentPorts{},
      AgentPorts{{{{0, "10.1.0.2", 40123}, 26961}, {{1, "10.1.0.2", 40124}, 0}}}};
  for (const ToWorker& message : to) {
    const absl::StatusOr<ToWorker> read = read_to_worker(write_packet(message));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_TRUE(*read == message) << write_packet(message);
  }
}

TEST(WorkerProtocol, RefusesWhatItDoesNotKnow) {
  EXPECT_NE(fault("").find("packet"), std::string::npos);
  EXPECT_NE(fault("[]").find("expected an object"), std::string::npos);
  EXPECT_NE(fault("{}").find("type"), std::string::npos);
  EXPECT_EQ(fault(R"({"type": "dance"})"), "packet: unknown type \"dance\"");
  EXPECT_NE(fault(R"({"type": "bye", "why": "tired"})").find("why"), std::string::npos);
  EXPECT_NE(fault(R"({"type": "bye", "type": "bye"})").find("type"), std::string::npos);
  EXPECT_NE(fault(R"({"type": "bye"} {})").find("packet"), std::string::npos);
  EXPECT_NE(fault(R"({"type": "paused", "migration": "m"})").find("iteration"), std::string::npos);
  EXPECT_NE(fault(R"({"type": "progress", "iteration": -1})").find("/iteration"),
            std::string::npos);
  EXPECT_NE(fault(R"({"type": "progress", "iteration": 1.5})").find("/iteration"),
            std::string::npos);
  const auto flows = [](const std::string& flow) {
    return R"({"type": "flows", "flows": [)" + flow + "]}";
  };
  EXPECT_NE(fault(flows(R"({"ring": 0, "to": "10.0.0.2"})")).find("port"), std::string::npos);
  EXPECT_NE(fault(flows(R"({"ring": 0, "to": "10.0.0.2", "port": 0})")).find("/flows/0/port"),
            std::string::npos);
  EXPECT_NE(fault(flows(R"({"ring": 0, "to": "a/b", "port": 1})")).find("no address"),
            std::string::npos);
  EXPECT_NE(fault(flows(R"({"ring": 0, "to": "h", "port": 1, "source_port": 2})")).find("source"),
            std::string::npos);
  // What only the other side may say.
  EXPECT_EQ(fault(R"({"type": "pause", "migration": "m"})"), "packet: unknown type \"pause\"");
}

TEST(WorkerProtocol, RefusesWhatIsTooLong) {
  WorkerFailed failed{"m", std::string(1000, 'x')};
  EXPECT_TRUE(read_from_worker(write_packet(FromWorker(failed))).ok());
  failed.why += 'x';
  EXPECT_NE(fault(write_packet(FromWorker(failed))).find("1000"), std::string::npos);
  WorkerHello long_one = hello();
  long_one.command.environment["LONG"] = std::string(kMaxWorkerPacket, 'x');
  EXPECT_NE(fault(write_packet(FromWorker(long_one))).find("65536"), std::string::npos);
  WorkerHello many = hello();
  many.command.arguments.assign(1025, "x");
  EXPECT_NE(fault(write_packet(FromWorker(many))).find("1025 elements"), std::string::npos);
  EXPECT_NE(fault(std::string(60000, '[')).find("packet"), std::string::npos);
}

TEST(WorkerProtocol, RefusesNamesThatLeadElsewhere) {
  const std::string longer(129, 'a');
  for (const char* bad :
       {"", ".", "..", "../x", "a/b", "-rf", "a b", "a\\u0000", "ä", "\\n", longer.c_str()}) {
    EXPECT_NE(fault(changed("\"4711_2\"", std::string("\"") + bad + "\"")).find("/job"),
              std::string::npos)
        << bad;
  }
  EXPECT_NE(fault(changed("\"12.0.1\"", "\"../12\"")).find("/migration"), std::string::npos);
  for (const char* bad : {"home", "", "/a/../b", "/..", "/a\\u0000"}) {
    EXPECT_NE(fault(changed("\"/home/ada\"", std::string("\"") + bad + "\"")).find("folder"),
              std::string::npos)
        << bad;
  }
  EXPECT_TRUE(read_from_worker(changed("\"/home/ada\"", "\"/home/..ada/a..\"")).ok());
  for (const char* bad : {"", "A=B", "1A", "A B"}) {
    EXPECT_NE(fault(changed("\"B_2\"", std::string("\"") + bad + "\"")).find("variable"),
              std::string::npos)
        << bad;
  }
  EXPECT_NE(fault(changed("\"a b\"", "\"a\\u0000b\"")).find("NUL"), std::string::npos);
  EXPECT_NE(fault(changed("\"worker\":3", "\"worker\":1000000")).find("/worker"),
            std::string::npos);
  EXPECT_NE(fault(changed("\"v\":1", "\"v\":2")).find("/v"), std::string::npos);
  EXPECT_NE(fault(changed("\"paused\"", "\"waiting\"")).find("successor_of"), std::string::npos);
  EXPECT_NE(fault(changed("[\"python3\",\"train.py\",\"--name\",\"a b\"]", "[]")).find("program"),
            std::string::npos);
}

TEST(WorkerProtocol, WritesBytesThatAreNoTextAsText) {
  WorkerHello odd = hello();
  odd.command.environment["ODD"] = "\xff";
  const absl::StatusOr<FromWorker> read = read_from_worker(write_packet(FromWorker(odd)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(std::get<WorkerHello>(*read).command.environment.at("ODD"), "\xef\xbf\xbd");
}

}  // namespace
}  // namespace monkeytree
