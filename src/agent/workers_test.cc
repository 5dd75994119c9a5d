#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/agent.h"
#include "agent/slurm_job.h"
#include "base/file.h"

/// What processes may say to an agent, told by hand-written packets.
namespace monkeytree {
namespace {

using std::chrono::milliseconds;

class Folder {
 public:
  Folder() {
    char name[] = "/tmp/monkeytree-workers-XXXXXX";
    path_ = mkdtemp(name);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

Arena make_arena() { return Arena::create({{"weights", 4096, 64}}).value(); }

WorkerHello hello_for(const Arena& arena) {
  WorkerHello hello;
  hello.name = {"4711", 0, 1};
  hello.state_bytes = static_cast<int64_t>(arena.payload_bytes());
  hello.command = {{"train"}, "/", {}};
  return hello;
}

/// A connection to the agent, and whatever is said over it.
class Peer {
 public:
  explicit Peer(const std::string& path) : socket_(connect_packets(path).value()) {}

  absl::Status say(std::string_view packet, int attached = -1) {
    return send_packet(socket_.get(), packet, attached);
  }
  absl::Status say(const FromWorker& message, int attached = -1) {
    return say(write_packet(message), attached);
  }
  /// The next packet; nullopt where the agent has closed the connection.
  std::optional<ToWorker> hear() {
    const absl::StatusOr<Packet> packet = receive_packet(socket_.get(), kMaxWorkerPacket);
    if (!packet.ok()) return std::nullopt;
    return read_to_worker(packet->bytes).value();
  }
  /// Why the agent refuses, after which it hangs up.
  std::string refusal() {
    const std::optional<ToWorker> answer = hear();
    if (!answer) return "hung up";
    const auto* refused = std::get_if<AgentRefused>(&*answer);
    if (refused == nullptr) return "not refused";
    EXPECT_FALSE(hear().has_value());
    return refused->why;
  }
  int socket() const { return socket_.get(); }

 private:
  Fd socket_;
};

class WorkersTest : public testing::Test {
 protected:
  WorkersTest() { start(); }

  void start() {
    agent_.reset();
    AgentOptions options;
    options.node = "n1";
    options.socket = folder_ / "agent.sock";
    options.fence_file = folder_ / "epoch";
    options.settle = milliseconds(50);
    options.job_of = [this](pid_t process) {
      return process == getpid() && in_job_ ? std::string("4711") : std::string();
    };
    agent_ = Agent::start(options).value();
  }
  Peer peer() const { return Peer(folder_ / "agent.sock"); }
  std::string refusal_of(std::string_view packet, int attached = -1) {
    Peer one = peer();
    EXPECT_TRUE(one.say(packet, attached).ok());
    return one.refusal();
  }
  AgentReply ask(AgentStep step, const std::string& migration = "1.0.0",
                 milliseconds timeout = milliseconds(20'000), uint64_t fence = 1) {
    AgentCommand command;
    command.step = step;
    command.migration = migration;
    command.worker = {"4711", 0, 1};
    command.timeout = timeout;
    command.fence = fence;
    return agent_->perform(command);
  }
  std::vector<WorkerState> workers() const { return agent_->state().workers; }

  Folder folder_;
  std::atomic<bool> in_job_ = false;  ///< what the scheduler's cgroups say of this process
  std::unique_ptr<Agent> agent_;
};

TEST_F(WorkersTest, AHelloIsTakenWithItsArenaOnly) {
  Arena arena = make_arena();
  const std::string good = write_packet(FromWorker(hello_for(arena)));
  EXPECT_NE(refusal_of(good).find("without the arena"), std::string::npos);

  const Fd null(open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_NE(refusal_of(good, null.get()).find("no memfd"), std::string::npos);
  const Fd loose(memfd_create("loose", MFD_CLOEXEC));
  EXPECT_EQ(ftruncate(loose.get(), 8192), 0);
  EXPECT_NE(refusal_of(good, loose.get()).find("not sealed"), std::string::npos);

  WorkerHello liar = hello_for(arena);
  liar.state_bytes += 1;
  EXPECT_NE(refusal_of(write_packet(FromWorker(liar)), arena.fd()).find("4097"), std::string::npos);
  liar = hello_for(arena);
  liar.phase = WorkerPhase::kPaused;
  EXPECT_NE(refusal_of(write_packet(FromWorker(liar)), arena.fd()).find("not committed"),
            std::string::npos);
  EXPECT_TRUE(workers().empty());

  Peer worker = peer();
  ASSERT_TRUE(worker.say(good, arena.fd()).ok());
  const std::optional<ToWorker> welcome = worker.hear();
  ASSERT_TRUE(welcome);
  EXPECT_EQ(std::get<AgentWelcome>(*welcome), (AgentWelcome{"n1", "127.0.0.1"}));
  ASSERT_EQ(workers().size(), 1U);
  EXPECT_EQ(workers()[0].name, (WorkerName{"4711", 0, 1}));
  EXPECT_EQ(workers()[0].user, getuid());
}

TEST_F(WorkersTest, PacketsThatAreNoneEndTheConnection) {
  EXPECT_NE(refusal_of("{\"type\": \"bye\"}").find("must be a hello"), std::string::npos);
  EXPECT_NE(refusal_of("\x01\x02").find("packet"), std::string::npos);
  EXPECT_NE(refusal_of(std::string(kMaxWorkerPacket + 1, ' ')).find("65536"), std::string::npos);
  Arena arena = make_arena();
  WorkerHello path = hello_for(arena);
  path.name.job = "../../etc";
  EXPECT_NE(refusal_of(write_packet(FromWorker(path)), arena.fd()).find("/job"), std::string::npos);

  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  worker.hear();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  EXPECT_EQ(worker.refusal(), "a second hello");
  Peer again = peer();
  ASSERT_TRUE(again.say(hello_for(arena), arena.fd()).ok());
  again.hear();
  ASSERT_TRUE(again.say(WorkerBye{}, arena.fd()).ok());
  EXPECT_EQ(again.refusal(), "a descriptor out of place");
}

TEST_F(WorkersTest, AProcessSpeaksForOneWorkerAndAWorkerHasOneProcess) {
  Arena arena = make_arena();
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  ASSERT_TRUE(worker.hear());
  WorkerHello other = hello_for(arena);
  other.name.worker = 2;
  EXPECT_EQ(refusal_of(write_packet(FromWorker(other)), arena.fd()),
            "the process speaks for worker 4711/0/1 already");

  const std::string packet = write_packet(FromWorker(hello_for(arena)));
  const std::string path = folder_ / "agent.sock";
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<Fd> socket = connect_packets(path);
    if (!socket.ok() || !send_packet(socket->get(), packet, arena.fd()).ok()) _exit(1);
    const absl::StatusOr<Packet> answer = receive_packet(socket->get(), kMaxWorkerPacket);
    const bool refused =
        answer.ok() && answer->bytes.find("is there already, as process") != std::string::npos;
    _exit(refused ? 0 : 2);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  // The first one is none the worse for it, and may come back by another connection.
  Peer again = peer();
  ASSERT_TRUE(again.say(packet, arena.fd()).ok());
  EXPECT_TRUE(std::holds_alternative<AgentWelcome>(*again.hear()));
  EXPECT_FALSE(worker.hear().has_value());
  EXPECT_EQ(workers().size(), 1U);
}

TEST_F(WorkersTest, WhoSaysNothingKeepsNobodyOut) {
  std::vector<Peer> silent;
  for (int i = 0; i < 200; ++i) silent.push_back(peer());
  Arena arena = make_arena();
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  EXPECT_TRUE(std::holds_alternative<AgentWelcome>(*worker.hear()));
  EXPECT_FALSE(silent.front().hear().has_value());
}

TEST_F(WorkersTest, AFloodOfOneUserKeepsNoOtherOut) {
  if (getuid() != 0) GTEST_SKIP() << "needs root, to be another user";
  std::filesystem::permissions(folder_ / "", std::filesystem::perms(0755));
  Arena arena = make_arena();
  Peer honest = peer();
  int ready[2], done[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    bool good = setuid(65534) == 0;
    std::vector<Peer> flood;
    for (int i = 0; i < 200 && good; ++i) flood.push_back(peer());
    char byte = good ? 'y' : 'n';
    good = write(ready[1], &byte, 1) == 1 && read(done[0], &byte, 1) == 1;
    _exit(good ? 0 : 1);
  }
  close(ready[1]);
  close(done[0]);
  char byte = 0;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  ASSERT_EQ(byte, 'y');
  // It came before all of them and is the oldest.
  EXPECT_TRUE(honest.say(hello_for(arena), arena.fd()).ok());
  const std::optional<ToWorker> answer = honest.hear();
  EXPECT_TRUE(answer && std::holds_alternative<AgentWelcome>(*answer));
  EXPECT_EQ(write(done[1], &byte, 1), 1);
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ready[0]);
  close(done[1]);
}

TEST_F(WorkersTest, AWorkerThatDoesNotReadIsCutOff) {
  Arena arena = make_arena();
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  ASSERT_TRUE(worker.hear());
  for (int i = 0; i < 5000; ++i) ask(AgentStep::kAnnounce);
  while (worker.hear()) {
  }
  EXPECT_EQ(ask(AgentStep::kPause, "1.0.0", milliseconds(100)).status.code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST_F(WorkersTest, APauseIsBelievedWhereTheArenaSaysTheSame) {
  Arena arena = make_arena();
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  worker.hear();
  const auto pause = [&](std::optional<uint64_t> epoch) {
    AgentReply reply;
    std::thread asking([&] { reply = ask(AgentStep::kPause); });
    EXPECT_EQ(std::get<AgentPause>(*worker.hear()).migration, "1.0.0");
    arena.begin_epoch();
    if (epoch) arena.commit(*epoch);
    EXPECT_TRUE(worker.say(WorkerPaused{"1.0.0", 7, 7}).ok());
    asking.join();
    return reply;
  };
  EXPECT_EQ(pause(std::nullopt).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(pause(6).status.code(), absl::StatusCode::kFailedPrecondition);
  const AgentReply good = pause(7);
  EXPECT_TRUE(good.status.ok()) << good.status;
  EXPECT_EQ(good.iteration, 7);
  EXPECT_EQ(good.epoch, 7);
  // Asked again it is not asked again.
  EXPECT_TRUE(ask(AgentStep::kPause).status.ok());
}

TEST_F(WorkersTest, AWorkerThatCannotSaysWhy) {
  Arena arena = make_arena();
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello_for(arena), arena.fd()).ok());
  worker.hear();
  AgentReply reply;
  std::thread asking([&] { reply = ask(AgentStep::kPause); });
  worker.hear();
  ASSERT_TRUE(worker.say(WorkerFailed{"1.0.0", "the reducer may differ\x1b[2J"}).ok());
  asking.join();
  EXPECT_EQ(reply.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(reply.status.message(), "worker 4711/0/1 the reducer may differ\\x1b[2J");
}

TEST_F(WorkersTest, APauseOutlivesTheConnectionAndTheAgent) {
  Arena arena = make_arena();
  WorkerHello hello = hello_for(arena);
  {
    Peer worker = peer();
    ASSERT_TRUE(worker.say(hello, arena.fd()).ok());
    worker.hear();
  }
  AgentReply reply;
  std::thread asking([&] { reply = ask(AgentStep::kPause); });
  {
    Peer worker = peer();  // it is asked on the new connection, and lost again
    ASSERT_TRUE(worker.say(hello, arena.fd()).ok());
    worker.hear();
    EXPECT_TRUE(std::holds_alternative<AgentPause>(*worker.hear()));
  }
  arena.commit_with_checksums(9);
  hello.phase = WorkerPhase::kPaused;
  hello.migration = "1.0.0";
  hello.iteration = 9;
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello, arena.fd()).ok());
  asking.join();
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  EXPECT_EQ(reply.iteration, 9);

  start();
  EXPECT_EQ(ask(AgentStep::kPause, "1.0.0", milliseconds(10)).status.code(),
            absl::StatusCode::kNotFound);
  Peer later = peer();
  ASSERT_TRUE(later.say(hello, arena.fd()).ok());
  later.hear();
  const AgentReply again = ask(AgentStep::kPause);
  EXPECT_TRUE(again.status.ok()) << again.status;
  EXPECT_EQ(again.epoch, 9);
}

/// It was paused for a second migration before it ever ran; that one is called off.
TEST_F(WorkersTest, ASuccessorWhoseLaterPauseIsCancelledStandsRestored) {
  Arena arena = make_arena();
  arena.commit_with_checksums(9);
  WorkerHello hello = hello_for(arena);
  hello.phase = WorkerPhase::kPaused;
  hello.successor_of = "1.0.0";
  hello.migration = "2.0.0";
  hello.iteration = 9;
  Peer worker = peer();
  ASSERT_TRUE(worker.say(hello, arena.fd()).ok());
  worker.hear();
  AgentReply reply;
  std::thread asking([&] { reply = ask(AgentStep::kCancel, "2.0.0"); });
  EXPECT_TRUE(std::holds_alternative<AgentCancel>(*worker.hear()));
  ASSERT_TRUE(worker.say(WorkerCancelled{"2.0.0"}).ok());
  asking.join();
  EXPECT_TRUE(reply.status.ok()) << reply.status;
  ASSERT_EQ(workers().size(), 1U);
  EXPECT_EQ(workers()[0].phase, WorkerPhase::kRestored);
}

TEST_F(WorkersTest, AnOlderControllerIsRefusedAlsoAfterARestart) {
  EXPECT_TRUE(ask(AgentStep::kAnnounce, "1.0.0", milliseconds(10), 5).status.ok());
  EXPECT_EQ(ask(AgentStep::kAnnounce, "1.0.0", milliseconds(10), 4).status.code(),
            absl::StatusCode::kFailedPrecondition);
  start();
  const AgentReply old = ask(AgentStep::kAnnounce, "1.0.0", milliseconds(10), 4);
  EXPECT_EQ(old.status.message(),
            "a controller of epoch 4 is refused, one of epoch 5 has been seen");
  EXPECT_TRUE(ask(AgentStep::kAnnounce, "1.0.0", milliseconds(10), 5).status.ok());
  EXPECT_EQ(agent_->hello().fence, 5U);
}

TEST_F(WorkersTest, CommandsWithoutSenseAreRefused) {
  EXPECT_EQ(ask(AgentStep::kPause, "../1").status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ask(AgentStep::kRelease, "1.0.0", milliseconds(10)).status.code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(ask(AgentStep::kArrived).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ask(AgentStep::kForward).status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(ask(AgentStep::kUndo).status.ok());
}

TEST_F(WorkersTest, TwoAgentsDoNotShareASocket) {
  AgentOptions options;
  options.node = "n2";
  options.socket = folder_ / "agent.sock";
  const absl::StatusOr<std::unique_ptr<Agent>> second = Agent::start(options);
  EXPECT_EQ(second.status().code(), absl::StatusCode::kAlreadyExists);
  options.socket = folder_ / std::string(200, 'x');
  EXPECT_EQ(Agent::start(options).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_F(WorkersTest, RoutesAreWrittenWhole) {
  agent_.reset();
  AgentOptions options;
  options.node = "n1";
  options.socket = folder_ / "agent.sock";
  options.routes_file = folder_ / "routes.json";
  agent_ = Agent::start(options).value();
  agent_->apply_routes({{"4711", 0, 1, "n1", "n2", "r1", "r2", 3}});
  EXPECT_NE(read_file(folder_ / "routes.json").value().find("\"uplink\": 3"), std::string::npos);
  agent_->apply_routes({});
  EXPECT_EQ(read_file(folder_ / "routes.json").value(), "[]\n");
  EXPECT_TRUE(agent_->routes().empty());
}

TEST_F(WorkersTest, FlowsOfRingsAreHeardAndTheirPortsTold) {
  std::mutex mutex;
  std::map<WorkerName, WorkerFlows> heard;
  agent_.reset();
  AgentOptions options;
  options.node = "n1";
  options.socket = folder_ / "agent.sock";
  options.on_flows = [&](const std::map<WorkerName, WorkerFlows>& flows) {
    const std::lock_guard lock(mutex);
    heard = flows;
  };
  agent_ = Agent::start(options).value();
  const auto becomes = [&](const std::map<WorkerName, WorkerFlows>& wanted) {
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < give_up) {
      {
        const std::lock_guard lock(mutex);
        if (heard == wanted) return true;
      }
      std::this_thread::sleep_for(milliseconds(2));
    }
    return false;
  };
  const Arena arena = make_arena();
  const WorkerHello hello = hello_for(arena);
  const WorkerFlows flows{{{0, "10.1.0.2", 40123}}};
  Peer one = peer();
  ASSERT_TRUE(one.say(hello, arena.fd()).ok());
  ASSERT_TRUE(one.say(flows).ok());
  EXPECT_TRUE(becomes({{hello.name, flows}}));
  const AgentPorts ports{{{flows.flows[0], 26961}}};
  agent_->tell_ports(hello.name, ports);
  agent_->tell_ports({"another", 0, 0}, ports);
  EXPECT_TRUE(one.hear().has_value());  // the welcome
  EXPECT_TRUE(one.hear() == std::optional<ToWorker>(ports));
  ASSERT_TRUE(one.say(WorkerFlows{}).ok());
  EXPECT_TRUE(becomes({}));
  agent_.reset();  // before what it tells
}

TEST(LogLine, IsSafeOnATerminal) {
  EXPECT_EQ(log_line("worker came", {{"worker", "4711/0/1"}, {"why", "a \"b\"\x1b"}, {"no", ""}}),
            "event=\"worker came\" worker=4711/0/1 why=\"a \\\"b\\\"\\\\x1b\" no=\"\"");
}

TEST_F(WorkersTest, WhoRunsInTheJobTakesItsNameFromWhoOnlySaysSo) {
  int ready[2] = {-1, -1};
  ASSERT_EQ(pipe(ready), 0);
  const pid_t pretender = fork();
  if (pretender == 0) {
    const Arena arena = make_arena();
    Peer one = peer();
    bool taken = one.say(hello_for(arena), arena.fd()).ok();
    const std::optional<ToWorker> welcome = one.hear();
    taken = taken && welcome && std::holds_alternative<AgentWelcome>(*welcome);
    (void)!write(ready[1], taken ? "y" : "n", 1);
    const std::optional<ToWorker> answer = one.hear();
    _exit(answer && std::holds_alternative<AgentRefused>(*answer) ? 0 : 1);
  }
  char byte = 'n';
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_EQ(byte, 'y');
  const Arena arena = make_arena();
  EXPECT_NE(
      refusal_of(write_packet(FromWorker(hello_for(arena))), arena.fd()).find("is there already"),
      std::string::npos);
  in_job_ = true;
  Peer real = peer();
  ASSERT_TRUE(real.say(hello_for(arena), arena.fd()).ok());
  const std::optional<ToWorker> welcome = real.hear();
  EXPECT_TRUE(welcome && std::holds_alternative<AgentWelcome>(*welcome));
  int status = -1;
  waitpid(pretender, &status, 0);
  EXPECT_EQ(status, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST(SlurmJob, IsWhereSlurmMakesIt) {
  EXPECT_EQ(job_in_cgroups("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n"),
            "4711");
  EXPECT_EQ(job_in_cgroups("0::/system.slice/n1_slurmstepd.scope/job_7/step_extern\n"), "7");
  EXPECT_EQ(job_in_cgroups("5:cpu,cpuacct:/\n4:memory:/slurm/uid_1000/job_12/step_0/task_0\n"),
            "12");
  EXPECT_EQ(job_in_cgroups("4:freezer:/slurm_n3/uid_0/job_3\n"), "3");
  for (const char* text :
       {"", "0::/\n", "0::/user.slice/user-1000.slice/job_4711\n", "x", "0::/slurm/job_1/x\n",
        "0::/user.slice/system.slice/slurmstepd.scope/job_1\n",
        "0::/system.slice/slurmstepd.scope/job_1x\n", "1:a:/slurm/uid_/job_1\n"}) {
    EXPECT_EQ(job_in_cgroups(text), "") << text;
  }
}

}  // namespace
}  // namespace monkeytree
