#include "base/command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { reset(); }

  int get() const { return value_; }
  bool open() const { return value_ >= 0; }
  void reset() {
    if (value_ >= 0) close(value_);
    value_ = -1;
  }

 private:
  int value_ = -1;
};

struct Pipe {
  Descriptor read, write;
};

std::string error_text(int error) { return std::strerror(error); }

absl::Status failed(std::string_view what, int error) {
  return absl::InternalError(fmt::format("{}: {}", what, error_text(error)));
}

absl::StatusOr<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return failed("pipe", errno);
  for (int& end : ends) {
    if (end > STDERR_FILENO) continue;  // ours may be closed; the child's must not meet the pipe's
    const int higher = fcntl(end, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(end);
    end = higher;
  }
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Everything the child needs, laid out before the fork: after it, nothing may be allocated.
class Prepared {
 public:
  explicit Prepared(const Command& command) : command_(command) {
    for (const std::string& argument : command.arguments) argv_.push_back(text(argument));
    argv_.push_back(nullptr);
    for (const auto& [name, value] : command.environment) {
      environment_.push_back(fmt::format("{}={}", name, value));
    }
    for (const std::string& entry : environment_) envp_.push_back(text(entry));
    envp_.push_back(nullptr);
    find_program();
  }

  /// Becomes the program, or writes errno into `report` and ends. Where `dies_with` is not 0, it
  /// ends with that process, its parent. Async-signal-safe.
  [[noreturn]] void become(int report, pid_t dies_with) const {
    prepare_signals();
    const bool good = take_rights() && enter_folder();
    if (dies_with != 0) {  // after taking rights, which forgets it
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != dies_with) _exit(126);
    }
    if (good) execve(program_.c_str(), argv_.data(), envp_.data());
    const int error = errno;
    const ssize_t ignored = write(report, &error, sizeof error);
    _exit(ignored == sizeof error ? 127 : 126);
  }

 private:
  static char* text(const std::string& value) { return const_cast<char*>(value.c_str()); }

  void find_program() {
    const std::string& name = command_.arguments[0];
    const auto path = command_.environment.find("PATH");
    const absl::StatusOr<std::string> found =
        find_in_path(name, path == command_.environment.end() ? "/usr/bin:/bin" : path->second);
    program_ = found.ok() && name.find('/') == std::string::npos ? *found : name;
  }

  static void prepare_signals() {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    signal(SIGHUP, SIG_DFL);
  }

  bool take_rights() const {
    if (!command_.user) return true;
    const UserIds& user = *command_.user;
    // The system calls themselves: the library's functions would look for other threads.
    return syscall(SYS_setgroups, user.groups.size(), user.groups.data()) == 0 &&
           syscall(SYS_setgid, user.gid) == 0 && syscall(SYS_setuid, user.uid) == 0;
  }

  bool enter_folder() const {
    return command_.folder.empty() || chdir(command_.folder.c_str()) == 0;
  }

  const Command& command_;
  std::string program_;
  std::vector<std::string> environment_;
  std::vector<char*> argv_, envp_;
};

absl::Status check(const Command& command) {
  if (command.arguments.empty() || command.arguments[0].empty()) {
    return absl::InternalError("no program to run");
  }
  const auto has_nul = [](const std::string& text) { return text.find('\0') != std::string::npos; };
  bool bad = std::any_of(command.arguments.begin(), command.arguments.end(), has_nul);
  for (const auto& [name, value] : command.environment) {
    bad = bad || has_nul(name) || has_nul(value) || name.find('=') != std::string::npos;
  }
  return bad ? absl::InternalError("a NUL byte in an argument, or an odd name in the environment")
             : absl::OkStatus();
}

/// What the child reported, once it has become the program or ended.
absl::Status read_report(Pipe& report, const Command& command) {
  report.write.reset();
  int error = 0;
  ssize_t got = 0;
  do {
    got = read(report.read.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error) return absl::OkStatus();
  const std::string message = fmt::format("{}: {}", command.arguments[0], error_text(error));
  return error == ENOENT ? absl::NotFoundError(message) : absl::InternalError(message);
}

void wait_for(pid_t child, int* status) {
  while (waitpid(child, status, 0) < 0 && errno == EINTR) {
  }
}

/// A program while it runs: feeds it, drains it, and kills it when it must end.
class Running {
 public:
  Running(pid_t child, Descriptor in, Descriptor out, Descriptor err, const Command& command)
      : child_(child),
        process_(static_cast<int>(syscall(SYS_pidfd_open, child, 0))),
        in_(std::move(in)),
        out_(std::move(out)),
        err_(std::move(err)),
        command_(command) {
    for (const Descriptor* end : {&in_, &out_, &err_}) fcntl(end->get(), F_SETFL, O_NONBLOCK);
  }

  absl::StatusOr<CommandResult> finish(Clock::time_point deadline) {
    absl::Status stopped = exchange(deadline);
    if (!stopped.ok()) kill(-child_, SIGKILL);
    int status = 0;
    wait_for(child_, &status);
    if (!stopped.ok()) return stopped;
    result_.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return std::move(result_);
  }

 private:
  absl::Status exchange(Clock::time_point deadline) {
    while (true) {
      if (in_.open() && fed_ == command_.input.size()) in_.reset();
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
      if (left <= 0) {
        return absl::DeadlineExceededError(
            fmt::format("{} did not end by its deadline", command_.arguments[0]));
      }
      std::array<pollfd, 4> ends = {pollfd{in_.get(), POLLOUT, 0}, pollfd{out_.get(), POLLIN, 0},
                                    pollfd{err_.get(), POLLIN, 0},
                                    pollfd{process_.get(), POLLIN, 0}};
      if (poll(ends.data(), ends.size(), static_cast<int>(std::min<int64_t>(left, 60'000))) < 0 &&
          errno != EINTR) {
        return failed("poll", errno);
      }
      if (ends[0].revents != 0) feed();
      if (ends[1].revents != 0) drain(out_, result_.out);
      if (ends[2].revents != 0) drain(err_, result_.err);
      if (result_.out.size() + result_.err.size() > command_.output_limit) {
        return absl::ResourceExhaustedError(fmt::format(
            "{} wrote more than {} bytes", command_.arguments[0], command_.output_limit));
      }
      const bool ended = ends[3].revents != 0;
      if (ended && ends[1].revents == 0 && ends[2].revents == 0) return absl::OkStatus();
    }
  }

  void feed() {
    const ssize_t put = write(in_.get(), command_.input.data() + fed_,
                              std::min<size_t>(command_.input.size() - fed_, 1 << 16));
    if (put >= 0) {
      fed_ += static_cast<size_t>(put);
    } else if (errno != EAGAIN && errno != EINTR) {
      in_.reset();  // it reads no further
    }
  }

  static void drain(Descriptor& end, std::string& into) {
    std::array<char, 1 << 16> buffer{};
    const ssize_t got = read(end.get(), buffer.data(), buffer.size());
    if (got > 0) {
      into.append(buffer.data(), static_cast<size_t>(got));
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
      end.reset();
    }
  }

  pid_t child_;
  Descriptor process_, in_, out_, err_;
  const Command& command_;
  CommandResult result_;
  size_t fed_ = 0;
};

/// SIGPIPE is held back in this thread while it feeds a program, and taken away if it came.
class NoBrokenPipe {
 public:
  NoBrokenPipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoBrokenPipe() {
    const timespec now{};
    if (!was_pending_) sigtimedwait(&pipe_, nullptr, &now);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoBrokenPipe(const NoBrokenPipe&) = delete;
  NoBrokenPipe& operator=(const NoBrokenPipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

}  // namespace

absl::StatusOr<UserIds> find_user(const std::string& name) {
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(1 << 16);
  getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (!found) return absl::NotFoundError(fmt::format("the system knows no user {}", name));
  UserIds out{name, entry.pw_dir, entry.pw_uid, entry.pw_gid, {}};
  int count = 1024;
  out.groups.resize(static_cast<size_t>(count));
  if (getgrouplist(name.c_str(), out.gid, out.groups.data(), &count) < 0) count = 0;
  out.groups.resize(static_cast<size_t>(count));
  return out;
}

absl::StatusOr<std::string> find_in_path(const std::string& name, const std::string& path) {
  std::string_view folders = path;
  while (!folders.empty()) {
    const size_t end = std::min(folders.find(':'), folders.size());
    const std::string file = fmt::format("{}/{}", folders.substr(0, end), name);
    if (end > 0 && access(file.c_str(), X_OK) == 0) return file;
    folders.remove_prefix(std::min(end + 1, folders.size()));
  }
  return absl::NotFoundError(fmt::format("no program {} in {}", name, path));
}

absl::StatusOr<CommandResult> run_command(const Command& command, Clock::time_point deadline) {
  if (absl::Status good = check(command); !good.ok()) return good;
  const Prepared prepared(command);
  std::array<Pipe, 4> pipes;
  for (Pipe& made : pipes) {
    absl::StatusOr<Pipe> pipe = make_pipe();
    if (!pipe.ok()) return pipe.status();
    made = *std::move(pipe);
  }
  auto& [in, out, err, report] = pipes;
  const NoBrokenPipe held_back;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return failed("fork", errno);
  if (child == 0) {
    setpgid(0, 0);
    dup2(in.read.get(), STDIN_FILENO);
    dup2(out.write.get(), STDOUT_FILENO);
    dup2(err.write.get(), STDERR_FILENO);
    prepared.become(report.write.get(), parent);
  }
  setpgid(child, child);  // here too: a kill may come before the child has done it
  in.read.reset();
  out.write.reset();
  err.write.reset();
  if (absl::Status started = read_report(report, command); !started.ok()) {
    int status = 0;
    wait_for(child, &status);
    return started;
  }
  Running running(child, std::move(in.write), std::move(out.read), std::move(err.read), command);
  return running.finish(deadline);
}

absl::StatusOr<pid_t> start_detached(const Command& command, const std::string& log_file) {
  if (absl::Status good = check(command); !good.ok()) return good;
  const Prepared prepared(command);
  absl::StatusOr<Pipe> report = make_pipe();
  if (!report.ok()) return report.status();
  const Descriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  const char* log = log_file.empty() ? "/dev/null" : log_file.c_str();
  const Descriptor output(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640));
  if (!output.open()) return failed(log, errno);
  absl::StatusOr<Pipe> identity = make_pipe();
  if (!identity.ok()) return identity.status();
  const int self_report = identity->write.get();
  const pid_t child = fork();
  if (child < 0) return failed("fork", errno);
  if (child == 0) {
    setsid();
    // A second time, so that it is nobody's child here and leads no session with a terminal.
    if (fork() != 0) _exit(0);
    const pid_t self = getpid();
    if (write(self_report, &self, sizeof self) != sizeof self) _exit(126);
    dup2(nothing.get(), STDIN_FILENO);
    dup2(output.get(), STDOUT_FILENO);
    dup2(output.get(), STDERR_FILENO);
    prepared.become(report->write.get(), 0);
  }
  int status = 0;
  wait_for(child, &status);
  identity->write.reset();
  pid_t started = 0;
  if (read(identity->read.get(), &started, sizeof started) != sizeof started) {
    return absl::InternalError(fmt::format("{}: could not be started", command.arguments[0]));
  }
  if (absl::Status good = read_report(*report, command); !good.ok()) return good;
  return started;
}

}  // namespace monkeytree
