// `monkeytree view` as its users meet it; web/test has the page.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <string>

#include "program.h"
#include "service/test_client.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

const std::string kFourRacks = std::string(MONKEYTREE_SOURCE_DIR) + "/examples/four_racks.json";

/// The program with a snapshot on standard input, until it is told to end.
class View {
 public:
  View() {
    int output[2];
    EXPECT_EQ(pipe2(output, O_CLOEXEC), 0);
    const int input = open(kFourRacks.c_str(), O_RDONLY | O_CLOEXEC);
    const pid_t parent = getpid();
    process_ = fork();
    if (process_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (getppid() != parent) _exit(1);
      dup2(input, STDIN_FILENO);
      dup2(output[1], STDOUT_FILENO);
      execl(MONKEYTREE_PROGRAM, MONKEYTREE_PROGRAM, "view", "-", nullptr);
      _exit(127);
    }
    close(input);
    close(output[1]);
    for (char c = 0; read(output[0], &c, 1) == 1 && c != '\n';) address_ += c;
    close(output[0]);
    port_ = std::atoi(address_.c_str() + address_.rfind(':') + 1);
  }
  ~View() {
    if (process_ == 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  View(const View&) = delete;
  View& operator=(const View&) = delete;

  const std::string& address() const { return address_; }
  int port() const { return port_; }
  int end(int signal) {
    kill(process_, signal);
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  pid_t process_ = 0;
  std::string address_;
  int port_ = 0;
};

std::string post(int port, const std::string& path, const std::string& body) {
  return ask(port, "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
                       std::to_string(body.size()) + "\r\n\r\n" + body);
}

TEST(ViewProgram, ServesThePageUntilItIsInterrupted) {
  View view;
  EXPECT_THAT(view.address(), MatchesRegex("http://127\\.0\\.0\\.1:[0-9]+/"));
  const std::string page = get(view.port(), "/");
  EXPECT_EQ(status_of(page), 200);
  EXPECT_THAT(page, HasSubstr("\r\nContent-Security-Policy: default-src 'none'; "));
  EXPECT_THAT(body_of(get(view.port(), "/api/v1/status")), HasSubstr("\"mode\":\"view\""));
  // Larger than what other calls may bring.
  const std::string request =
      R"({"changes": [)" + std::string(100'000, ' ') + R"({"do": "uplinks", "uplinks": 1}]})";
  EXPECT_THAT(body_of(post(view.port(), "/api/v1/what-if", request)), HasSubstr("\"moves\":9"));
  EXPECT_EQ(status_of(post(view.port(), "/api/v1/plans/1/approve", "")), 405);
  EXPECT_EQ(view.end(SIGINT), 0);
}

TEST(ViewProgram, EndsCleanlyWhenTerminated) {
  View view;
  EXPECT_EQ(view.end(SIGTERM), 0);
}

TEST(ViewProgram, SaysWhatIsWrong) {
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:80", "here", "127.0.0.1"}) {
    const ProgramRun run = run_program({"view", kFourRacks, "--listen", address});
    EXPECT_EQ(run.exit_code, 2) << address;
    EXPECT_THAT(run.err, StartsWith("monkeytree: --listen " + std::string(address) +
                                    ": expected an address of this machine alone"));
  }
  EXPECT_EQ(run_program({"view", "/nowhere.json"}).exit_code, 2);
  View view;
  const ProgramRun taken =
      run_program({"view", kFourRacks, "--listen", "127.0.0.1:" + std::to_string(view.port())});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_THAT(taken.err, HasSubstr("127.0.0.1"));
}

}  // namespace
}  // namespace monkeytree
