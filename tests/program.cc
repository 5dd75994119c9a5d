#include "program.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace monkeytree {
namespace {

struct Pipe {
  int read = -1, write = -1;
  Pipe() {
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC) != 0) std::abort();
    read = ends[0];
    write = ends[1];
  }
};

void close_end(int& end) {
  if (end >= 0) close(end);
  end = -1;
}

[[noreturn]] void become_program(const std::vector<std::string>& arguments,
                                 const ProgramSetting& setting, const Pipe& in, const Pipe& out,
                                 const Pipe& err) {
  dup2(in.read, STDIN_FILENO);
  dup2(out.write, STDOUT_FILENO);
  dup2(err.write, STDERR_FILENO);
  if (!setting.output_file.empty()) {
    dup2(open(setting.output_file.c_str(), O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
  }
  signal(SIGPIPE, SIG_DFL);
  std::vector<char*> argv = {const_cast<char*>(MONKEYTREE_PROGRAM)};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(MONKEYTREE_PROGRAM, argv.data());
  _exit(127);
}

bool holds_file(const std::string& folder) {
  std::error_code ignored;
  const std::filesystem::directory_iterator files(folder, ignored), end;
  return std::any_of(files, end,
                     [](const auto& file) { return file.path().extension() == ".json"; });
}

/// Feeds and drains a running program until it closes its output.
class Exchange {
 public:
  Exchange(const ProgramSetting& setting, Pipe& in, Pipe& out, Pipe& err, ProgramRun& run)
      : setting_(setting), in_(in), out_(out), err_(err), run_(run) {}

  void finish(pid_t child) {
    const auto start = std::chrono::steady_clock::now();
    const bool at_time = setting_.interrupt_after_ms > 0;
    bool interrupted = !at_time && setting_.interrupt_once.empty();
    while (out_.read >= 0 || err_.read >= 0) {
      if (in_.write >= 0 && fed_ == setting_.input.size()) close_end(in_.write);
      std::array<pollfd, 3> ends = {pollfd{in_.write, POLLOUT, 0}, pollfd{out_.read, POLLIN, 0},
                                    pollfd{err_.read, POLLIN, 0}};
      poll(ends.data(), ends.size(), 20);
      if (ends[0].revents != 0) feed();
      if (ends[1].revents != 0) drain(out_.read, run_.out);
      if (ends[2].revents != 0) drain(err_.read, run_.err);
      if (run_.out.size() >= setting_.read_at_most) close_end(out_.read);
      const auto elapsed = std::chrono::steady_clock::now() - start;
      const bool now = at_time && elapsed >= std::chrono::milliseconds(setting_.interrupt_after_ms);
      if (!interrupted && (now || holds_file(setting_.interrupt_once))) {
        interrupted = true;
        kill(child, SIGINT);
      }
    }
    close_end(in_.write);
  }

 private:
  void feed() {
    const size_t size = std::min<size_t>(setting_.input.size() - fed_, 1 << 16);
    const ssize_t written = write(in_.write, setting_.input.data() + fed_, size);
    if (written < 0) return close_end(in_.write);
    fed_ += static_cast<size_t>(written);
  }

  static void drain(int& end, std::string& into) {
    std::array<char, 1 << 16> buffer{};
    const ssize_t got = read(end, buffer.data(), buffer.size());
    if (got <= 0) return close_end(end);
    into.append(buffer.data(), static_cast<size_t>(got));
  }

  const ProgramSetting& setting_;
  Pipe &in_, &out_, &err_;
  ProgramRun& run_;
  size_t fed_ = 0;
};

}  // namespace

ProgramRun run_program(const std::vector<std::string>& arguments, const ProgramSetting& setting) {
  signal(SIGPIPE, SIG_IGN);
  Pipe in, out, err;
  const pid_t child = fork();
  if (child == 0) become_program(arguments, setting, in, out, err);
  close_end(in.read);
  close_end(out.write);
  close_end(err.write);
  fcntl(in.write, F_SETFL, O_NONBLOCK);
  ProgramRun run;
  Exchange(setting, in, out, err, run).finish(child);
  int status = 0;
  waitpid(child, &status, 0);
  run.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  close_end(out.read);
  close_end(err.read);
  return run;
}

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "monkeytree_test_XXXXXX";
  if (!mkdtemp(pattern.data())) std::abort();
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view text) const {
  const std::string path = path_ + "/" + name;
  std::ofstream(path, std::ios::binary) << text;
  return path;
}

std::string TemporaryFolder::read(const std::string& name) const {
  std::ifstream in(path_ + "/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<std::string> TemporaryFolder::list() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path_)) {
    names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace monkeytree
