#include "world.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

namespace monkeytree {

extern "C" char** environ;

Process::Process(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& log) {
  std::vector<std::string> settings;
  for (char** one = environ; *one != nullptr; ++one) settings.emplace_back(*one);
  for (const auto& [name, value] : environment) settings.push_back(name + "=" + value);
  std::vector<char*> argv, envp;
  for (const std::string& text : arguments) argv.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : settings) envp.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const pid_t parent = getpid();
  // The child holds all our descriptors until it has become the program: wait for that.
  int started[2] = {-1, -1};
  if (pipe2(started, O_CLOEXEC) != 0) std::abort();
  id_ = fork();
  if (id_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execve(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out);
  close(started[1]);
  char byte = 0;
  while (read(started[0], &byte, 1) < 0 && errno == EINTR) {
  }
  close(started[0]);
  ended_ = id_ < 0;
}

Process::Process(Process&& other) noexcept { *this = std::move(other); }

Process& Process::operator=(Process&& other) noexcept {
  std::swap(id_, other.id_);
  std::swap(exit_code_, other.exit_code_);
  std::swap(ended_, other.ended_);
  return *this;
}

Process::~Process() {
  if (!ended_) signal(SIGKILL);
}

void Process::signal(int number) {
  if (ended_) return;
  kill(id_, number);
  if (number == SIGKILL || number == SIGTERM) wait();
}

bool Process::running() {
  if (ended_) return false;
  int status = 0;
  if (waitpid(id_, &status, WNOHANG) == 0) return true;
  ended_ = true;
  exit_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return false;
}

int Process::wait() {
  eventually([this] { return !running(); });
  return exit_code_;
}

bool eventually(const std::function<bool()>& holds) {
  // Once something is wrong nothing more is waited for at length.
  const std::chrono::seconds patience(testing::Test::HasFailure() ? 3 : 90);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

World::World() {
  char name[] = "/tmp/monkeytree-agent-XXXXXX";
  folder_ = mkdtemp(name);
}

void World::remove_folder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

bool World::connected(const std::string& node) {
  for (const AgentReport& report : executor().agents()) {
    if (report.node == node) return report.connected;
  }
  return false;
}

}  // namespace monkeytree
