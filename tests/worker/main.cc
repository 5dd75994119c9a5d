// A stand-in for a training process: does iterations in a ring with the other workers of its job,
// checks every byte of its state, keeps a log that tests can verify, and can be moved.

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "hook.h"
#include "ring.h"
#include "worker_state.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

struct Arguments {
  std::string job, folder, address, agent_socket, node, fault;
  std::string agent_socket_pattern;  ///< as given
  int group = 0, worker = -1, workers = 0;
  int64_t iterations = 0, interval_ms = 10, state_bytes = 1 << 20;
};

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

int number_in_environment(const char* name, int otherwise) {
  const std::string text = environment(name);
  return text.empty() ? otherwise : std::atoi(text.c_str());
}

/// What the command line leaves open: a successor's place, then Slurm's.
void complete(Arguments& a) {
  if (!environment("MONKEYTREE_SUCCESSOR_OF").empty() || a.job.empty()) {
    if (const std::string job = environment("MONKEYTREE_JOB"); !job.empty()) a.job = job;
    a.group = number_in_environment("MONKEYTREE_GROUP", a.group);
    a.worker = number_in_environment("MONKEYTREE_WORKER", a.worker);
  }
  if (a.job.empty()) a.job = environment("SLURM_JOB_ID");
  if (a.worker < 0) a.worker = number_in_environment("SLURM_PROCID", 0);
  if (a.workers <= 0) a.workers = number_in_environment("MONKEYTREE_WORKERS", 0);
  if (a.workers <= 0) a.workers = number_in_environment("SLURM_NTASKS", 1);
  if (a.node.empty()) a.node = environment("SLURMD_NODENAME");
  if (a.agent_socket.empty()) a.agent_socket = environment("MONKEYTREE_AGENT_SOCKET");
  if (a.agent_socket.empty()) a.agent_socket = kDefaultAgentSocket;
  if (const size_t at = a.agent_socket.find("%N"); at != std::string::npos) {
    a.agent_socket.replace(at, 2, a.node);
  }
}

std::string own_program() {
  char path[4096] = {};
  const ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  return length > 0 ? std::string(path, static_cast<size_t>(length)) : "monkeytree-worker";
}

WorkerHello hello_of(const Arguments& a, const Arena& arena) {
  WorkerHello hello;
  hello.name = {a.job, a.group, a.worker};
  hello.successor_of = environment("MONKEYTREE_SUCCESSOR_OF");
  hello.phase = hello.successor_of.empty() ? WorkerPhase::kRunning : WorkerPhase::kWaiting;
  hello.replicas = "all";
  hello.state_bytes = static_cast<int64_t>(arena.payload_bytes());
  // Complete, so that it also works where Slurm numbers things differently.
  hello.command.arguments = {own_program(),
                             "--job",
                             a.job,
                             "--group",
                             std::to_string(a.group),
                             "--worker",
                             std::to_string(a.worker),
                             "--workers",
                             std::to_string(a.workers),
                             "--folder",
                             a.folder,
                             "--iterations",
                             std::to_string(a.iterations),
                             "--interval-ms",
                             std::to_string(a.interval_ms),
                             "--state-bytes",
                             std::to_string(a.state_bytes)};
  if (!a.agent_socket_pattern.empty()) {
    hello.command.arguments.insert(hello.command.arguments.end(),
                                   {"--agent-socket", a.agent_socket_pattern});
  }
  if (!a.address.empty()) {
    hello.command.arguments.insert(hello.command.arguments.end(), {"--address", a.address});
  }
  char folder[4096] = {};
  hello.command.folder = getcwd(folder, sizeof(folder)) ? folder : "/";
  return hello;
}

class StandIn {
 public:
  StandIn(Arguments arguments, TrainingState state)
      : a_(std::move(arguments)),
        state_(std::move(state)),
        hook_(a_.agent_socket, state_.arena(), hello_of(a_, state_.arena())) {}

  absl::Status run() {
    absl::Status status = set_up();
    if (status.ok() && !hook_.now().successor_of.empty()) status = wait_to_take_over();
    if (status.ok()) status = ring_->set_up(hook_.now().generation);
    if (status.ok()) state_.arena().begin_epoch();
    if (status.ok()) watch_node();
    while (status.ok() && !done()) status = iterate();
    if (status.ok()) hook_.say(WorkerBye{});
    return hook_.released() ? absl::OkStatus() : status;
  }

 private:
  bool done() const {
    return hook_.released() || (a_.iterations > 0 && state_.iteration() >= a_.iterations);
  }

  absl::Status set_up() {
    // Where nothing else is known, the agent knows the address that reaches the fabric.
    const auto patience = steady_clock::now() + milliseconds(3000);
    while (a_.address.empty() && steady_clock::now() < patience) {
      hook_.serve(milliseconds(100));
      a_.address = hook_.agent().address;
    }
    if (a_.address.empty()) a_.address = "127.0.0.1";
    absl::StatusOr<Ring> ring = Ring::listen(hook_, a_.folder, a_.address, a_.workers);
    if (!ring.ok()) return ring.status();
    ring_.emplace(*std::move(ring));
    return absl::OkStatus();
  }

  /// Returns when it may run, or is released.
  absl::Status wait_to_take_over() {
    while (!hook_.released()) {
      hook_.serve(milliseconds(1000));
      if (const auto restore = hook_.take_restore()) take_up(*restore);
      if (hook_.take_resume()) return state_.check();
    }
    return absl::CancelledError("released");
  }

  /// A node of Slurm belongs to one training worker at a time: whoever finds another's lock there
  /// says so in a file that must not exist when a test ends.
  void watch_node() {
    const std::string node = environment("SLURMD_NODENAME");
    if (node.empty()) return;
    const std::string path = fmt::format("{}/{}.node", a_.folder, node);
    node_lock_ = Fd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (node_lock_.valid() && flock(node_lock_.get(), LOCK_EX | LOCK_NB) == 0) return;
    const std::string line =
        fmt::format("{} has another worker beside {}/{}/{}\n", node, a_.job, a_.group, a_.worker);
    const std::string found = a_.folder + "/double-booked";
    const Fd out(open(found.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
    if (write(out.get(), line.data(), line.size()) < 0) std::fputs(line.c_str(), stderr);
  }

  void take_up(const AgentRestore& restore) {
    absl::Status status = state_.arena().verify();
    if (status.ok()) status = state_.check();
    if (status.ok() && state_.arena().committed_epoch() != static_cast<uint64_t>(restore.epoch)) {
      status = absl::DataLossError("the arena is of another epoch");
    }
    if (status.ok() && a_.fault == "restore") status = absl::InternalError("as told");
    if (!status.ok()) {
      return hook_.say(WorkerFailed{restore.migration, std::string(status.message())});
    }
    hook_.now().phase = WorkerPhase::kRestored;
    hook_.now().iteration = state_.iteration();
    hook_.say(WorkerRestored{restore.migration, state_.iteration()});
  }

  absl::Status iterate() {
    hook_.serve(milliseconds(0));
    const std::string wanted = hook_.pause_wanted();
    const Ring::Word own{state_.contribution(), wanted.empty() ? 0 : hash_text(wanted)};
    const absl::StatusOr<Ring::Word> total = ring_->reduce(state_.iteration(), own);
    if (!total.ok()) return total.status();
    if (a_.interval_ms > 0) {
      const auto end = steady_clock::now() + milliseconds(a_.interval_ms);
      for (auto now = steady_clock::now(); now < end; now = steady_clock::now()) {
        hook_.serve(std::chrono::ceil<milliseconds>(end - now));
      }
    }
    if (absl::Status status = state_.check(); !status.ok()) return status;
    state_.step(total->sum);
    hook_.now().iteration = state_.iteration();
    if (absl::Status status = write_log(); !status.ok()) return status;
    hook_.stepped();
    tell_progress();
    if (total->largest == 0 || hook_.cancelled(total->largest)) return absl::OkStatus();
    return stand_still();
  }

  void tell_progress() {
    const auto now = steady_clock::now();
    if (now < next_progress_) return;
    next_progress_ = now + milliseconds(1000);
    hook_.say(WorkerProgress{state_.iteration()});
  }

  absl::Status stand_still() {
    state_.arena().commit_with_checksums(static_cast<uint64_t>(state_.iteration()));
    if (a_.fault == "flip") state_.arena().buffer(1)[100] ^= std::byte{1};
    hook_.paused();
    while (!hook_.released() && !hook_.may_go_on()) hook_.serve(milliseconds(1000));
    // Deaf: neither ends nor goes on.
    while (hook_.released() && a_.fault == "deaf") pause();
    if (hook_.released()) return absl::OkStatus();
    if (absl::Status status = state_.check(); !status.ok()) return status;
    if (hook_.take_resume()) {
      absl::Status status = ring_->set_up(hook_.now().generation);
      if (!status.ok()) return status;
    }
    state_.arena().begin_epoch();
    return absl::OkStatus();
  }

  /// One line an iteration: "iteration process node sum".
  absl::Status write_log() {
    const std::string& node = a_.node.empty() ? hook_.agent().node : a_.node;
    const std::string line = fmt::format("{} {} {} {:016x}\n", state_.iteration(), getpid(),
                                         node.empty() ? "-" : node, state_.sum());
    if (!log_.valid()) {
      const std::string path =
          fmt::format("{}/{}.{}.{}.log", a_.folder, a_.job, a_.group, a_.worker);
      log_ = Fd(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    }
    const ssize_t written = write(log_.get(), line.data(), line.size());
    if (written == static_cast<ssize_t>(line.size())) return absl::OkStatus();
    return absl::InternalError("the log cannot be written");
  }

  Arguments a_;
  TrainingState state_;
  Hook hook_;
  std::optional<Ring> ring_;
  Fd log_, node_lock_;
  steady_clock::time_point next_progress_;
};

int run(int argc, char** argv) {
  Arguments a;
  CLI::App app("A stand-in for a training process.", "monkeytree-worker");
  app.add_option("--folder", a.folder, "shared by the job's workers: addresses and logs")
      ->required();
  app.add_option("--job", a.job, "else SLURM_JOB_ID");
  app.add_option("--group", a.group);
  app.add_option("--worker", a.worker, "else SLURM_PROCID");
  app.add_option("--workers", a.workers, "of the group, else MONKEYTREE_WORKERS or SLURM_NTASKS");
  app.add_option("--iterations", a.iterations, "0: until it is killed");
  app.add_option("--interval-ms", a.interval_ms, "of one iteration");
  app.add_option("--state-bytes", a.state_bytes);
  app.add_option("--address", a.address, "to listen at; else what the agent says, else loopback");
  app.add_option("--agent-socket", a.agent_socket,
                 "else MONKEYTREE_AGENT_SOCKET; %N is the node, where several are on one machine");
  app.add_option("--node", a.node, "for the log; else SLURMD_NODENAME, else what the agent says");
  app.add_option("--fault", a.fault, "flip: a byte after the commit; deaf: does not end; restore");
  CLI11_PARSE(app, argc, argv);
  a.agent_socket_pattern = a.agent_socket;
  complete(a);
  absl::StatusOr<TrainingState> state =
      TrainingState::create({a.job, a.group, a.worker}, a.state_bytes);
  absl::Status status = state.status();
  if (status.ok()) status = StandIn(a, *std::move(state)).run();
  if (status.ok()) return 0;
  const std::string line =
      fmt::format("monkeytree-worker {}/{}/{}: {}\n", a.job, a.group, a.worker, status.ToString());
  std::fputs(line.c_str(), stderr);
  return absl::IsDataLoss(status) ? 3 : 1;
}

}  // namespace
}  // namespace monkeytree

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  return monkeytree::run(argc, argv);
}
