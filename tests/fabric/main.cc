/// A leaf-spine fabric of network namespaces on this machine, for tests and demonstrations.
///
///     monkeytree-fabric up [--racks N] [--hosts N] [--spines N] [--mbit N] [-- COMMAND...]
///         until the command ends, or without one until standard input ends or a signal comes;
///         prints "ready ID" first. The command finds ID in MONKEYTREE_FABRIC.
///     monkeytree-fabric exec NAME COMMAND...      in a host (h1_0), router (t1) or spine (s0)
///     monkeytree-fabric fail RACK SPINE           takes the cable out
///     monkeytree-fabric repair RACK SPINE         puts it back
///     monkeytree-fabric table [SECONDS]           what uplinks carry, over that time
///     monkeytree-fabric names                     each name, and its path for nsenter --net=PATH
///     monkeytree-fabric sweep                     ends what was left running by fabrics that died
///
/// All but up and sweep mean the fabric of `--fabric ID`, else of MONKEYTREE_FABRIC.
/// Exit codes: 0 done, 1 failed, 2 bad usage, 77 this machine allows no network namespaces; of exec
/// and of `up -- COMMAND`: the command's own.
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <span>
#include <thread>

#include "base/status.h"
#include "fabric.h"

namespace monkeytree {
namespace {

constexpr int kFailed = 1, kBadUsage = 2, kSkipped = 77;

constexpr const char* kUsage =
    "monkeytree-fabric up [--racks N] [--hosts N] [--spines N] [--mbit N] [-- COMMAND...]\n"
    "monkeytree-fabric [--fabric ID] exec NAME COMMAND...\n"
    "monkeytree-fabric [--fabric ID] fail|repair RACK SPINE\n"
    "monkeytree-fabric [--fabric ID] table [SECONDS]\n"
    "monkeytree-fabric [--fabric ID] names\n"
    "monkeytree-fabric sweep\n";

using Words = std::span<char* const>;

int complain(std::string_view message, int exit_code) {
  fmt::print(stderr, "monkeytree-fabric: {}\n", message);
  return exit_code;
}

int bad_usage() {
  fmt::print(stderr, "{}", kUsage);
  return kBadUsage;
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// Options of `up`; what remains of `words` is the command.
std::optional<FabricSize> parse_shape(Words& words) {
  FabricSize shape;
  while (!words.empty()) {
    const std::string_view word = words.front();
    words = words.subspan(1);
    if (word == "--") return words.empty() ? std::nullopt : std::optional(shape);
    if (words.empty()) return std::nullopt;
    const std::optional<int> value = number(words.front());
    words = words.subspan(1);
    int* field = word == "--racks"    ? &shape.racks
                 : word == "--hosts"  ? &shape.hosts
                 : word == "--spines" ? &shape.spines
                 : word == "--mbit"   ? &shape.uplink_mbit
                                      : nullptr;
    if (field == nullptr || !value) return std::nullopt;
    *field = *value;
  }
  return shape;
}

[[noreturn]] void become(Words command) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvp(command.front(), command.data());
  std::perror(command.front());
  _exit(127);
}

int exit_code_of(int status) {
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// Until the command, standard input or we are ended.
int hold(Words command) {
  sigset_t watched;
  sigemptyset(&watched);
  for (const int signal : {SIGCHLD, SIGTERM, SIGINT, SIGHUP}) sigaddset(&watched, signal);
  sigprocmask(SIG_BLOCK, &watched, nullptr);
  const Fd signals(signalfd(-1, &watched, SFD_CLOEXEC));
  const pid_t parent = getpid();
  const pid_t child = command.empty() ? -1 : fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(126);
    become(command);
  }
  while (true) {
    pollfd ends[2] = {{child < 0 ? STDIN_FILENO : -1, POLLIN, 0}, {signals.get(), POLLIN, 0}};
    poll(ends, 2, -1);
    if (ends[1].revents != 0) {
      signalfd_siginfo info{};
      if (read(signals.get(), &info, sizeof info) != sizeof info) continue;
      if (info.ssi_signo != SIGCHLD) return 128 + static_cast<int>(info.ssi_signo);
      int status = 0;
      if (child > 0 && waitpid(child, &status, WNOHANG) == child) return exit_code_of(status);
    }
    char ignored[256];
    if (ends[0].revents != 0 && read(STDIN_FILENO, ignored, sizeof ignored) <= 0) return 0;
  }
}

int up(Words words) {
  const std::optional<FabricSize> shape = parse_shape(words);
  if (!shape) return bad_usage();
  const std::string missing = Fabric::missing();
  if (!missing.empty()) return complain(missing, kSkipped);
  sweep_fabrics();
  const absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::up(*shape);
  if (!fabric.ok()) return complain(message_of(fabric.status()), kFailed);
  setenv("MONKEYTREE_FABRIC", std::to_string(getpid()).c_str(), 1);
  fmt::print("ready {}\n", getpid());
  std::fflush(stdout);
  return hold(words);
}

int exec_in(const Fabric& fabric, Words words) {
  if (words.size() < 2) return bad_usage();
  const std::string path = fabric.path(words.front());
  if (path.empty()) return complain(fmt::format("no {} in this fabric", words.front()), kFailed);
  const Fd space(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (setns(space.get(), CLONE_NEWNET) != 0) return complain("cannot enter it", kFailed);
  become(words.subspan(1));
}

int change(Fabric& fabric, bool fails, Words words) {
  if (words.size() != 2) return bad_usage();
  const std::optional<int> rack = number(words[0]), spine = number(words[1]);
  if (!rack || !spine) return bad_usage();
  const absl::Status done = fails ? fabric.fail(*rack, *spine) : fabric.repair(*rack, *spine);
  return done.ok() ? 0 : complain(message_of(done), kFailed);
}

int table(const Fabric& fabric, Words words) {
  const std::optional<int> seconds = words.empty() ? 1 : number(words.front());
  if (!seconds || *seconds == 0 || words.size() > 1) return bad_usage();
  const absl::StatusOr<std::vector<UplinkCount>> before = fabric.counts();
  const auto begin = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(std::chrono::seconds(*seconds));
  const absl::StatusOr<std::vector<UplinkCount>> after = fabric.counts();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
  if (!before.ok()) return complain(message_of(before.status()), kFailed);
  if (!after.ok()) return complain(message_of(after.status()), kFailed);
  fmt::print("{}", utilisation_table(difference(*before, *after), passed.count(),
                                     fabric.shape().uplink_mbit));
  return 0;
}

int names(const Fabric& fabric, pid_t holder) {
  // Paths of the holder, since ours end with us.
  for (const std::string& path : held_namespaces(holder)) {
    for (const std::string& name : fabric.names()) {
      if (namespace_number(fabric.path(name)) == namespace_number(path)) {
        fmt::print("{:8} {}\n", name, path);
      }
    }
  }
  return 0;
}

int run(Words words) {
  const char* given = getenv("MONKEYTREE_FABRIC");
  std::string id = given == nullptr ? "" : given;
  if (words.size() >= 2 && std::string_view(words.front()) == "--fabric") {
    id = words[1];
    words = words.subspan(2);
  }
  if (words.empty()) return bad_usage();
  const std::string_view verb = words.front();
  words = words.subspan(1);
  if (verb == "up") return up(words);
  if (verb == "sweep") {
    fmt::print("{} processes ended\n", sweep_fabrics());
    return 0;
  }
  const std::optional<int> holder = number(id);
  if (!holder)
    return complain("which fabric? expected --fabric ID or MONKEYTREE_FABRIC", kBadUsage);
  const absl::StatusOr<std::unique_ptr<Fabric>> fabric = Fabric::held_by(*holder);
  if (!fabric.ok()) return complain(message_of(fabric.status()), kFailed);
  if (verb == "exec") return exec_in(**fabric, words);
  if (verb == "fail" || verb == "repair") return change(**fabric, verb == "fail", words);
  if (verb == "table") return table(**fabric, words);
  if (verb == "names") return names(**fabric, *holder);
  return bad_usage();
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  return monkeytree::run({argv + 1, static_cast<size_t>(argc - 1)});
}
