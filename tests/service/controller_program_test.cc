// `monkeytree controller` and the commands that talk to it, as their users meet them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/eventually.h"
#include "running_controller.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::string kRecorded = "scheduler: {kind: recorded, snapshots: [" +
                              std::string(MONKEYTREE_SOURCE_DIR) +
                              "/examples/four_racks.json]}\npoll_s: 1\n";

void expect_within_80_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

/// Asks again until the output holds `text`.
ProgramRun eventually(const RunningController& controller,
                      const std::vector<std::string>& arguments, const std::string& text) {
  const auto limit = steady_clock::now() + std::chrono::minutes(2);
  ProgramRun run;
  do {
    run = controller.run(arguments);
    if (run.out.find(text) != std::string::npos) return run;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (steady_clock::now() < limit);
  ADD_FAILURE() << "never: " << text << "\n" << run.out << run.err << controller.log();
  return run;
}

/// Which token file, and how it may be read.
std::string token_in(const TemporaryFolder& folder, mode_t mode = 0600) {
  std::string file = folder.write("token", "a-token-of-some-length\n");
  chmod(file.c_str(), mode);
  return file;
}

TEST(ControllerProgram, ObservesAndExplains) {
  RunningController controller(kRecorded);
  ProgramRun run = eventually(controller, {"history", "--plans"}, "proposed");
  EXPECT_THAT(run.out, AllOf(StartsWith("plan  made"), HasSubstr("mode is observe")));
  expect_within_80_columns(run.out);
  run = controller.run({"status"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, AllOf(StartsWith("mode observe, looked at "), HasSubstr("4 racks, 32 nodes"),
                             HasSubstr("R3             3/2")));
  expect_within_80_columns(run.out);
  run = controller.run({"explain", "1"});
  EXPECT_THAT(run.out, AllOf(StartsWith("plan 1: proposed, 2 moves\n"),
                             HasSubstr("R3: degree 3 over a bound of 2"),
                             HasSubstr("Why it was not carried out\n  mode is observe\n")));
  expect_within_80_columns(run.out);
  run = controller.run({"history"});
  EXPECT_THAT(run.out, HasSubstr("over: racks above their bound: R3 3 of 2\n"));
  expect_within_80_columns(run.out);
  EXPECT_EQ(Json::parse(controller.run({"status", "--json"}).out)["mode"], "observe");
  EXPECT_EQ(Json::parse(controller.run({"explain", "1", "--json"}).out)["id"], 1);
  EXPECT_EQ(Json::parse(controller.run({"history", "--limit", "1", "--json"}).out)["events"].size(),
            1U);
  run = controller.run({"explain", "77"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_EQ(run.err, "monkeytree: there is no plan 77\n");
  EXPECT_EQ(controller.run({"explain", "../status"}).exit_code, 2);
}

TEST(ControllerProgram, ChangingNeedsAToken) {
  TemporaryFolder secrets;
  const std::string tokens = secrets.path() + "/tokens", token = secrets.path() + "/ann";
  const auto add = [&](const std::string& name, const std::string& role) {
    return run_program({"token", "add", name, "--role", role, "--tokens", tokens, "--out",
                        secrets.path() + "/" + name});
  };
  EXPECT_EQ(add("ann", "operate").exit_code, 0);
  EXPECT_EQ(add("bob", "approve").exit_code, 0);
  RunningController controller(kRecorded + "tokens: " + tokens + "\n");
  ProgramRun run = controller.run({"pause", "--why", "night"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("MONKEYTREE_TOKEN_FILE names its file"));
  run = controller.run({"pause", "--why", "night", "--token-file", token});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "paused\n");
  EXPECT_THAT(controller.run({"status"}).out, HasSubstr("paused by "));
  setenv("MONKEYTREE_TOKEN_FILE", token.c_str(), 1);
  run = controller.run({"approve", "1"});
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("not waiting"));
  EXPECT_EQ(controller.run({"cancel", "1"}).exit_code, 3);
  unsetenv("MONKEYTREE_TOKEN_FILE");
  // The kill switch outlives the process, also one that was killed.
  controller.signal(SIGKILL);
  EXPECT_EQ(controller.wait(), 128 + SIGKILL);
  controller.start();
  EXPECT_THAT(controller.run({"status"}).out, HasSubstr("paused by "));
  EXPECT_EQ(controller.run({"resume", "--token-file", token}).out, "resumed\n");
  run = controller.run({"pause", "--token-file", secrets.path() + "/bob"});
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("the token of bob may approve"));
  run = controller.run({"history", "--audit"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("nobody from 127.0.0.1: POST /api/v1/pause"),
                             HasSubstr("ann (operate) from 127.0.0.1: POST /api/v1/resume"),
                             HasSubstr("bob (approve) from 127.0.0.1: POST /api/v1/pause")));
  expect_within_80_columns(run.out);
  EXPECT_EQ(Json::parse(controller.run({"history", "--audit", "--json"}).out)["calls"].size(), 6U);
  // Revoked while the controller runs.
  EXPECT_EQ(run_program({"token", "revoke", "ann", "--tokens", tokens}).exit_code, 0);
  run = controller.run({"resume", "--token-file", token});
  EXPECT_THAT(run.err, HasSubstr("not our token"));
  chmod(token.c_str(), 0644);
  run = controller.run({"resume", "--token-file", token});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("others may read"));
}

TEST(TokenProgram, AddsListsAndRevokes) {
  const TemporaryFolder folder;
  const std::string file = folder.path() + "/tokens", out = folder.path() + "/out";
  const auto token = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "token");
    arguments.insert(arguments.end(), {"--tokens", file});
    return run_program(arguments);
  };
  ProgramRun run = token({"list"});
  EXPECT_EQ(run.exit_code, 2);
  EXPECT_THAT(run.err, HasSubstr("token add"));
  run = token({"add", "ann"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("mt-"));
  EXPECT_THAT(folder.read("tokens"), Not(HasSubstr(run.out.substr(0, 67))));
  struct stat info {};
  ASSERT_EQ(stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0640U);
  run = token({"add", "bob", "--role", "operate", "--out", out});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, Not(HasSubstr("mt-")));
  ASSERT_EQ(stat(out.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777U, 0600U);
  run = token({"list"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("ann   read"), HasSubstr("bob   operate")));
  EXPECT_EQ(token({"add", "ann"}).exit_code, 2) << "has one already";
  EXPECT_EQ(token({"add", "x", "--out", out}).exit_code, 2) << "would overwrite";
  EXPECT_EQ(token({"add", "a b"}).exit_code, 2);
  EXPECT_EQ(token({"add", "x", "--role", "root"}).exit_code, 2);
  EXPECT_EQ(token({"revoke", "nobody"}).exit_code, 2);
  EXPECT_EQ(token({"revoke", "ann"}).exit_code, 0);
  EXPECT_THAT(token({"list"}).out, Not(HasSubstr("ann")));
  EXPECT_EQ(run_program({"token", "add", "x", "--tokens", "/no/such/folder/tokens"}).exit_code, 1);
}

TEST(ControllerProgram, EndsCleanlyAndGoesOn) {
  RunningController controller(
      "scheduler: {kind: emulated, racks: 2, nodes_per_rack: 4, first_jobs: 20, every_s: 0.02}\n");
  eventually(controller, {"status"}, "looked at");
  controller.signal(SIGHUP);  // means nothing
  EXPECT_EQ(controller.run({"notify", "something"}).exit_code, 0);
  controller.signal(SIGTERM);
  EXPECT_EQ(controller.wait(), 0) << controller.log();
  EXPECT_THAT(controller.log(), AllOf(HasSubstr("event=hangup"), HasSubstr("event=stopped")));
  controller.start();
  eventually(controller, {"status"}, "looked at");
  controller.signal(SIGINT);
  EXPECT_EQ(controller.wait(), 0);
}

TEST(ControllerProgram, OneControllerHasTheJournal) {
  RunningController first(kRecorded);
  const ProgramRun second =
      run_program({"controller", "--config", first.folder().path() + "/controller.yaml"});
  EXPECT_EQ(second.exit_code, 1);
  EXPECT_THAT(second.err, HasSubstr("/journal.db: "));
}

TEST(ControllerProgram, AConfigurationIsChecked) {
  TemporaryFolder folder;
  const std::string good = folder.write("good.yaml", kRecorded);
  const ProgramRun run = run_program({"controller", "--config", good, "--check"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, AllOf(StartsWith("mode: observe\n"), HasSubstr("  kind: recorded\n")));
  const std::string same = folder.write("same.yaml", run.out);
  EXPECT_EQ(run_program({"controller", "--config", same, "--check"}).out, run.out);
  const std::string away = folder.write(
      "away.yaml",
      "scheduler: {kind: slurm, topology: /nowhere/topology.conf}\njournal: /nowhere/j.db\n"
      "mode: enforce\nlisten: {http: '127.0.0.1:1', agents: '127.0.0.1:1'}\n");
  EXPECT_THAT(run_program({"controller", "--config", away, "--check"}).err,
              AllOf(HasSubstr("journal: there is no /nowhere\n"),
                    HasSubstr("topology: there is no /nowhere/topology.conf\n"),
                    HasSubstr("mode enforce without tokens"),
                    HasSubstr("http and agents are the same address")));
  const std::string bad = folder.write("bad.yaml", kRecorded + "moed: enforce\n");
  const ProgramRun refused = run_program({"controller", "--config", bad});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("bad.yaml:3: /moed: unknown key, expected one of mode, "));
  EXPECT_EQ(run_program({"controller", "--config", folder.path() + "/none"}).exit_code, 2);
  EXPECT_EQ(run_program({"controller"}).exit_code, 2);
}

TEST(ControllerProgram, InsecureWarnsAtEveryStart) {
  RunningController controller(kRecorded + "insecure: true\n");
  EXPECT_THAT(controller.log(), HasSubstr("level=warning event=insecure text=\"insecure: true "));
  EXPECT_THAT(controller.run({"status"}).out, HasSubstr("insecure: true\n"));
}

/// A port on which nobody listens: bound, and not listened on.
class DeafPort {
 public:
  explicit DeafPort(bool listens) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(socket_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (listens) listen(socket_, 1);
    socklen_t size = sizeof address;
    getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }
  ~DeafPort() { close(socket_); }
  DeafPort(const DeafPort&) = delete;
  DeafPort& operator=(const DeafPort&) = delete;
  const std::string& address() const { return address_; }
  int socket() const { return socket_; }

 private:
  int socket_;
  std::string address_;
};

TEST(ControllerProgram, WithoutAControllerThereIsAClearMessage) {
  const DeafPort down(false);
  for (const std::vector<std::string>& verb :
       {std::vector<std::string>{"status"}, {"history"}, {"explain", "1"}, {"pause"}}) {
    std::vector<std::string> arguments = verb;
    arguments.insert(arguments.end(), {"--address", down.address()});
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_THAT(run.err, StartsWith("monkeytree: no controller answers at " + down.address() +
                                    ": Connection refused; is it running"));
  }
  EXPECT_EQ(run_program({"status", "--address", "nowhere"}).exit_code, 2);
}

/// Answers every connection with `answer`, whatever was asked.
class Impostor {
 public:
  explicit Impostor(const std::string& answer) : answer_(answer) {
    thread_ = std::thread([this] { serve(); });
  }
  ~Impostor() {
    shutdown(port_.socket(), SHUT_RDWR);
    thread_.join();
  }
  const std::string& address() const { return port_.address(); }

 private:
  void serve() {
    for (int one = accept(port_.socket(), nullptr, nullptr); one >= 0;
         one = accept(port_.socket(), nullptr, nullptr)) {
      char request[4096];
      recv(one, request, sizeof request, 0);
      send(one, answer_.data(), answer_.size(), MSG_NOSIGNAL);
      shutdown(one, SHUT_WR);
      while (recv(one, request, sizeof request, 0) > 0) {
      }
      close(one);
    }
  }

  const std::string answer_;
  const DeafPort port_{true};
  std::thread thread_;
};

/// A person who pulls the kill switch must not be told that it was pulled when it was not.
TEST(ControllerProgram, WhatIsNoControllerDoesNotPassForOne) {
  const TemporaryFolder folder;
  const std::string token = token_in(folder);
  const std::string head = "HTTP/1.1 200 OK\r\n";
  for (const std::string& answer :
       {head + "\r\nnot json", head + "\r\n{}", head + "\r\n[1, 2]",
        head + "Content-Length: 99999999999\r\n\r\n{\"mode\": \"enforce\"}",
        std::string("SSH-2.0-OpenSSH\r\n")}) {
    const Impostor impostor(answer);
    const std::vector<std::string> where = {"--address", impostor.address()};
    for (std::vector<std::string> command :
         {std::vector<std::string>{"pause", "--token-file", token},
          {"approve", "1", "--token-file", token},
          {"status"},
          {"history"},
          {"explain", "1"}}) {
      command.insert(command.end(), where.begin(), where.end());
      const ProgramRun run = run_program(command);
      EXPECT_EQ(run.exit_code, 1) << answer << run.out;
      EXPECT_THAT(run.err, HasSubstr(impostor.address()));
      EXPECT_EQ(run.out, "");
    }
  }
}

TEST(ControllerProgram, NotifyNeverWaitsAndNeverFails) {
  const DeafPort down(false), hangs(true);
  for (const std::string& address : {down.address(), hangs.address(), std::string("10.255.255.1:1"),
                                     std::string("no.such:1"), std::string("x"), std::string("")}) {
    const auto start = steady_clock::now();
    const ProgramRun run = run_program({"notify", "--address", address, "job", "7", "--odd"});
    // 20 ms is what it allows itself; the machine may be busy.
    EXPECT_LT(steady_clock::now() - start, std::chrono::seconds(5)) << address;
    EXPECT_EQ(run.exit_code, 0) << address;
    EXPECT_THAT(run.out, IsEmpty());
  }
  EXPECT_EQ(run_program({"notify", "--address"}).exit_code, 0);
  EXPECT_THAT(run_program({"notify", "--help"}).out, HasSubstr("PrologSlurmctld"));
}

TEST(ControllerProgram, TheHookForSlurmNeverFails) {
  const std::string hook = std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/slurm-notify.sh";
  for (const std::string& program :
       {std::string(MONKEYTREE_PROGRAM) + "-notify", std::string("/nowhere/monkeytree-notify"),
        std::string("/bin/false")}) {
    std::string line = "MONKEYTREE_NOTIFY=";
    line.append(program).append(" SLURM_JOB_ID=7 ").append(hook);
    EXPECT_EQ(std::system(line.c_str()), 0) << program;
  }
}

TEST(ControllerProgram, NotifyWakesTheController) {
  // Polls once a week: whatever it looks at after the start is for a notification.
  RunningController controller("scheduler: {kind: recorded, snapshots: [" +
                               std::string(MONKEYTREE_SOURCE_DIR) +
                               "/examples/four_racks.json]}\npoll_s: 86400\n");
  const auto observed = [&] {
    return Json::parse(controller.run({"status", "--json"}).out)["observed_s"];
  };
  const auto limit = steady_clock::now() + std::chrono::minutes(2);
  const auto wait_until = [&](const std::function<bool()>& what) {
    while (!what() && steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return what();
  };
  ASSERT_TRUE(wait_until([&] { return observed().is_number(); }));
  const double first = observed();
  // Each may be lost on a busy machine; that is what the poll is for.
  EXPECT_TRUE(wait_until([&] {
    EXPECT_EQ(controller.run({"notify", "job 4711 has ended"}).exit_code, 0);
    return observed().get<double>() > first;
  }));
}

}  // namespace
}  // namespace monkeytree
