#include "running_controller.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kPatience{2};

void a_moment() { std::this_thread::sleep_for(std::chrono::milliseconds(10)); }

}  // namespace

RunningController::RunningController(const std::string& configuration) {
  folder_.write("controller.yaml",
                configuration + "journal: " + folder_.path() +
                    "/journal.db\nlisten: {http: 127.0.0.1:0, agents: 127.0.0.1:0}\n");
  start();
}

RunningController::~RunningController() {
  if (process_ == 0) return;
  kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void RunningController::start() {
  const std::string log = folder_.write("log", "");
  const std::string config = folder_.path() + "/controller.yaml";
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int output = open(log.c_str(), O_WRONLY | O_APPEND);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(MONKEYTREE_PROGRAM, MONKEYTREE_PROGRAM, "controller", "--config", config.c_str(),
          nullptr);
    _exit(127);
  }
  const Clock::time_point limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    const std::string text = this->log();
    const size_t started = text.find("event=started");
    const size_t at = text.find(" http=", started);
    const size_t end = text.find(' ', at + 6);
    if (started != std::string::npos && at != std::string::npos && end != std::string::npos) {
      address_ = text.substr(at + 6, end - at - 6);
      return;
    }
    a_moment();
  }
  ADD_FAILURE() << "the controller has not started:\n" << this->log();
}

void RunningController::signal(int number) const { kill(process_, number); }

int RunningController::wait() {
  const Clock::time_point limit = Clock::now() + kPatience;
  int status = 0;
  while (waitpid(process_, &status, WNOHANG) == 0) {
    if (Clock::now() > limit) return -1;
    a_moment();
  }
  process_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

ProgramRun RunningController::run(std::vector<std::string> arguments) const {
  arguments.insert(arguments.begin() + 1, {"--address", address_});
  return run_program(arguments);
}

}  // namespace monkeytree
