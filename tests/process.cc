#include "process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/eventually.h"

namespace monkeytree {

extern "C" char** environ;

Process::Process(const std::vector<std::string>& arguments,
                 const std::map<std::string, std::string>& environment, const std::string& log) {
  std::vector<std::string> settings;
  for (char** one = environ; *one != nullptr; ++one) settings.emplace_back(*one);
  for (const auto& [name, value] : environment)
    settings.push_back(fmt::format("{}={}", name, value));
  std::vector<char*> argv, envp;
  for (const std::string& text : arguments) argv.push_back(const_cast<char*>(text.c_str()));
  for (const std::string& text : settings) envp.push_back(const_cast<char*>(text.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  const pid_t parent = getpid();
  // The child holds all our descriptors until it has become the program: wait for that.
  int started[2] = {-1, -1};
  if (pipe2(started, O_CLOEXEC) != 0) std::abort();
  id_ = fork();
  if (id_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    dup2(nothing, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execvpe(argv[0], argv.data(), envp.data());
    _exit(127);
  }
  close(out);
  close(nothing);
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

int free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(probe, reinterpret_cast<sockaddr*>(&address), length), 0);
  getsockname(probe, reinterpret_cast<sockaddr*>(&address), &length);
  close(probe);
  return ntohs(address.sin_port);
}

}  // namespace monkeytree
