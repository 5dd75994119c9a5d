#include "fabric.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "base/command.h"
#include "base/status.h"
#include "fixture.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;
using ::testing::HasSubstr;

bool wait_for(const std::function<bool()>& outcome) {
  const auto give_up = steady_clock::now() + seconds(60);
  while (steady_clock::now() < give_up) {
    if (outcome()) return true;
    std::this_thread::sleep_for(milliseconds(20));
  }
  return outcome();
}

sockaddr_in socket_address(const std::string& address, int port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_port = htons(static_cast<uint16_t>(port));
  inet_pton(AF_INET, address.c_str(), &at.sin_addr);
  return at;
}

Fd bound_socket(const Fabric& fabric, const std::string& name, const std::string& address,
                int port) {
  Fd socket;
  const absl::Status entered = fabric.inside(name, [&] {
    socket = Fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    const sockaddr_in at = socket_address(address, port);
    if (bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0) socket.reset();
  });
  return entered.ok() ? std::move(socket) : Fd();
}

/// Sends one datagram from the first host of rack 0 to that of rack 1; true where it arrives.
bool arrives(const Fabric& fabric, int source_port, size_t bytes = 100) {
  const Fd from = bound_socket(fabric, host_name(0, 0), host_address(0, 0), source_port);
  const Fd to = bound_socket(fabric, host_name(1, 0), host_address(1, 0), 9000);
  if (!from.valid() || !to.valid()) return false;
  const timeval patience{5, 0};
  setsockopt(to.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  const sockaddr_in at = socket_address(host_address(1, 0), 9000);
  const std::string text(bytes, 'x');
  if (sendto(from.get(), text.data(), text.size(), 0, reinterpret_cast<const sockaddr*>(&at),
             sizeof at) != static_cast<ssize_t>(bytes)) {
    return false;
  }
  std::string got(bytes + 1, '\0');
  return recv(to.get(), got.data(), got.size(), 0) == static_cast<ssize_t>(bytes);
}

class FabricTest : public FabricFixture {};

TEST_F(FabricTest, TwoAtOnceDoNotMeet) {
  const std::unique_ptr<Fabric> one = up({2, 1, 2, 0}), two = up({2, 2, 3, 0});
  ASSERT_TRUE(one && two);
  EXPECT_TRUE(arrives(*one, 20000));
  EXPECT_TRUE(arrives(*two, 20000));
  const auto before = one->counts();
  ASSERT_TRUE(before.ok()) << before.status();
  for (int port = 20000; port < 20020; ++port) EXPECT_TRUE(arrives(*two, port));
  const auto after = one->counts();
  ASSERT_TRUE(after.ok()) << after.status();
  for (const UplinkCount& link : difference(*before, *after)) {
    EXPECT_LT(link.up_packets, 10U) << link.rack << " " << link.spine;  // ARP at most
  }
}

TEST_F(FabricTest, UplinksOfTheFastestRateStand) {
  const absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::up({2, 1, 1, 100000});
  EXPECT_TRUE(fabric.ok()) << fabric.status();
}

TEST_F(FabricTest, AFailedUplinkCarriesNothingAndComesBack) {
  const std::unique_ptr<Fabric> fabric = up({3, 1, 2, 0});
  ASSERT_TRUE(fabric);
  // Which uplinks of rack 0 carried datagrams from many ports.
  const auto used = [&] {
    const auto before = fabric->counts();
    for (int port = 20000; port < 20030; ++port) EXPECT_TRUE(arrives(*fabric, port, 1000)) << port;
    const auto after = fabric->counts();
    std::set<int> uplinks;
    for (const UplinkCount& link : difference(*before, *after)) {
      if (link.rack == 0 && link.up_bytes > 1000) uplinks.insert(link.spine);
    }
    return uplinks;
  };
  EXPECT_EQ(used(), (std::set<int>{0, 1}));
  for (const int rack : {0, 1}) {  // at either end of the flow
    ASSERT_TRUE(fabric->fail(rack, 1).ok());
    EXPECT_FALSE(fabric->works(rack, 1));
    EXPECT_EQ(used(), (std::set<int>{0}));
    ASSERT_TRUE(fabric->repair(rack, 1).ok());
    EXPECT_TRUE(fabric->works(rack, 1));
    EXPECT_EQ(used(), (std::set<int>{0, 1}));
  }
  // One uplink each, and no spine in common.
  ASSERT_TRUE(fabric->fail(0, 0).ok());
  ASSERT_TRUE(fabric->fail(1, 1).ok());
  EXPECT_FALSE(arrives(*fabric, 20000));
  ASSERT_TRUE(fabric->repair(1, 1).ok());
  EXPECT_TRUE(arrives(*fabric, 20000));
  EXPECT_EQ(fabric->fail(3, 0).code(), absl::StatusCode::kNotFound);
}

TEST_F(FabricTest, CountersTellWhatEachUplinkCarried) {
  const std::unique_ptr<Fabric> fabric = up({2, 1, 4, 100});
  ASSERT_TRUE(fabric);
  EXPECT_TRUE(arrives(*fabric, 20000));  // addresses are known from here on
  const auto before = fabric->counts();
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(arrives(*fabric, 20000, 1000));
  const auto after = fabric->counts();
  ASSERT_TRUE(before.ok() && after.ok());
  int carrying = 0, receiving = 0;
  for (const UplinkCount& link : difference(*before, *after)) {
    carrying += link.rack == 0 && link.up_bytes >= 50000;
    receiving += link.rack == 1 && link.down_bytes >= 50000;
    EXPECT_LT(link.up_bytes, 60000U);
  }
  EXPECT_EQ(carrying, 1);
  EXPECT_EQ(receiving, 1);
  EXPECT_THAT(utilisation_table(*after, 1, 100), HasSubstr("%"));
}

/// A fabric held by the program; its standard input is ours.
struct Holder {
  pid_t process = 0;
  Fd input;
};

Holder start_holder() {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return {};
  Holder holder;
  holder.process = fork();
  if (holder.process == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execl(MONKEYTREE_FABRIC_PROGRAM, MONKEYTREE_FABRIC_PROGRAM, "up", "--racks", "2", "--hosts",
          "1", nullptr);
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  holder.input = Fd(in[1]);
  const Fd output(out[0]);
  std::string said(64, '\0');
  const ssize_t got = read(output.get(), said.data(), said.size());
  said.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  EXPECT_EQ(said, fmt::format("ready {}\n", holder.process));
  return holder;
}

absl::StatusOr<CommandResult> program(const std::vector<std::string>& arguments) {
  Command command;
  command.arguments = arguments;
  command.arguments.insert(command.arguments.begin(), MONKEYTREE_FABRIC_PROGRAM);
  command.environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
  return run_command(command, steady_clock::now() + seconds(60));
}

/// One end of a cable whose other end is in a namespace: it is gone when that namespace is.
class Witness {
 public:
  bool watch(int space) {
    absl::StatusOr<Fd> made = new_namespace();
    if (!made.ok()) return false;
    own_ = *std::move(made);
    absl::StatusOr<CommandResult> result = absl::UnknownError("");
    const absl::Status entered = inside_namespace(own_.get(), [&] {
      Command command;
      command.arguments = {"ip",
                           "link",
                           "add",
                           "here",
                           "type",
                           "veth",
                           "peer",
                           "name",
                           "there",
                           "netns",
                           fmt::format("/proc/{}/fd/{}", getpid(), space)};
      command.environment = {{"PATH", "/usr/sbin:/usr/bin:/sbin:/bin"}};
      result = run_command(command, steady_clock::now() + seconds(60));
    });
    return entered.ok() && result.ok() && result->exit_code == 0 && stands();
  }
  bool stands() const {
    bool there = false;
    const absl::Status entered =
        inside_namespace(own_.get(), [&] { there = if_nametoindex("here") != 0; });
    return entered.ok() && there;
  }

 private:
  Fd own_;
};

TEST_F(FabricTest, NothingIsLeftWhenItsHolderIsKilled) {
  const Holder holder = start_holder();
  Witness host, spine;
  {
    const auto seen = Fabric::held_by(holder.process);
    ASSERT_TRUE(seen.ok()) << seen.status();
    EXPECT_EQ((*seen)->shape(), (FabricSize{2, 1, 2, 0}));
    const Fd host_space(open((*seen)->path("h1_0").c_str(), O_RDONLY | O_CLOEXEC));
    const Fd spine_space(open((*seen)->path("s1").c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(host.watch(host_space.get()) && spine.watch(spine_space.get()));
  }
  kill(holder.process, SIGKILL);
  waitpid(holder.process, nullptr, 0);
  EXPECT_TRUE(wait_for([&] { return !host.stands() && !spine.stands(); }));
  EXPECT_EQ(Fabric::held_by(holder.process).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(FabricTest, SweepingEndsWhatRanInAFabricThatDied) {
  const Holder holder = start_holder(), living = start_holder();
  Witness witness;
  const auto run_in = [](pid_t fabric) {
    const pid_t child = fork();
    if (child == 0) {
      const std::string id = std::to_string(fabric);
      execl(MONKEYTREE_FABRIC_PROGRAM, MONKEYTREE_FABRIC_PROGRAM, "--fabric", id.c_str(), "exec",
            "h0_0", "sleep", "1000", nullptr);
      _exit(127);
    }
    return child;
  };
  const pid_t stray = run_in(holder.process), other = run_in(living.process);
  {
    const auto seen = Fabric::held_by(holder.process);
    ASSERT_TRUE(seen.ok()) << seen.status();
    const std::string host = (*seen)->path("h0_0");
    const Fd space(open(host.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(witness.watch(space.get()));
    ASSERT_TRUE(wait_for([&] {
      return namespace_number(fmt::format("/proc/{}/ns/net", stray)) == namespace_number(host);
    }));
  }
  kill(holder.process, SIGKILL);
  waitpid(holder.process, nullptr, 0);
  EXPECT_TRUE(witness.stands());
  // Another test may sweep at the same time, so how many this one ended is not told.
  const auto swept = program({"sweep"});
  ASSERT_TRUE(swept.ok()) << swept.status();
  EXPECT_EQ(swept->exit_code, 0) << swept->err;
  int status = 0;
  EXPECT_EQ(waitpid(stray, &status, 0), stray);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_TRUE(wait_for([&] { return !witness.stands(); }));
  // What runs in a fabric that is held is let be.
  EXPECT_EQ(waitpid(other, nullptr, WNOHANG), 0);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  kill(living.process, SIGTERM);
  waitpid(living.process, nullptr, 0);
}

TEST_F(FabricTest, TheProgramServesPeople) {
  const auto all = program({"up", "--racks", "2", "--hosts", "1", "--mbit", "50", "--", "sh", "-ec",
                            "p=" MONKEYTREE_FABRIC_PROGRAM
                            "; $p exec h0_0 ip -o addr; $p fail 0 1; $p table; $p repair 0 1;"
                            " $p names; $p exec nobody true || echo refused; exit 7"});
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->exit_code, 7) << all->err;
  EXPECT_THAT(all->out, HasSubstr("10.0.0.2/24"));
  EXPECT_THAT(all->out, HasSubstr("   0       1        0.0    0%          0.0    0%  failed\n"));
  EXPECT_THAT(all->out, HasSubstr("t1       /proc/"));
  EXPECT_THAT(all->out, HasSubstr("refused"));
  const auto wrong = program({"up", "--racks", "0"});
  ASSERT_TRUE(wrong.ok()) << wrong.status();
  EXPECT_EQ(wrong->exit_code, 1);
  EXPECT_THAT(wrong->err, HasSubstr("expected 1 to 250 racks"));
  const auto nonsense = program({"up", "--racks", "many"});
  ASSERT_TRUE(nonsense.ok()) << nonsense.status();
  EXPECT_EQ(nonsense->exit_code, 2);
  const auto nobody = program({"--fabric", "1", "table"});
  ASSERT_TRUE(nobody.ok()) << nobody.status();
  EXPECT_THAT(nobody->err, HasSubstr("process 1 holds no fabric"));
}

TEST(UtilisationTest, CountersAreReadFromTheKernelsTable) {
  const auto counts = parse_interface_counts(
      "Inter-|   Receive  |  Transmit\n face |bytes    packets errs drop fifo frame\n"
      "    lo:     100       2    0    0    0     0          0         0      100       2    0\n"
      "   up0:7000000000 12 1 2 3 4 5 6 9 10 0 0 0 0 0 0\n  bad: 1 2\n");
  ASSERT_EQ(counts.size(), 2U);
  EXPECT_EQ(counts.at("up0").received_bytes, 7000000000U);
  EXPECT_EQ(counts.at("up0").received_packets, 12U);
  EXPECT_EQ(counts.at("up0").sent_bytes, 9U);
  EXPECT_EQ(counts.at("up0").sent_packets, 10U);
}

TEST(UtilisationTest, TheTableGivesRatesAndShares) {
  EXPECT_EQ(
      utilisation_table({{0, 0, true, 12500000, 1, 0, 0}, {0, 1, false, 0, 0, 6250000, 1}}, 2, 200),
      "rack  uplink  up Mbit/s  used  down Mbit/s  used\n"
      "   0       0       50.0   25%          0.0    0%\n"
      "   0       1        0.0    0%         25.0   12%  failed\n");
}

}  // namespace
}  // namespace monkeytree
