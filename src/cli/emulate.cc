#include "cli/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "cli/common.h"
#include "inventory/emulated_processes.h"
#include "inventory/emulated_scheduler.h"
#include "inventory/emulated_socket.h"

namespace monkeytree {
namespace {

struct EmulateArguments {
  std::string socket, agents = "/run/monkeytree", log;
  int racks = 4, nodes = 8, slots = 8, uplinks = 2, first = 0;
  uint64_t seed = 1;
  double load = 0.9, every_s = 0;
  std::vector<std::string> command;
};

/// SIGINT and SIGTERM are waited for, by all threads that start from here on.
sigset_t held_back_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// False once a signal has come.
bool wait(const sigset_t& signals, double seconds) {
  if (seconds <= 0) return sigwaitinfo(&signals, nullptr) < 0;
  timespec time{};
  time.tv_sec = static_cast<time_t>(seconds);
  time.tv_nsec = static_cast<long>((seconds - std::floor(seconds)) * 1e9);
  return sigtimedwait(&signals, nullptr, &time) < 0;
}

int run_emulate(const EmulateArguments& arguments) {
  const sigset_t signals = held_back_signals();
  EmulatedProcesses processes(arguments.agents, arguments.log);
  EmulatedScheduler cluster(
      uniform_cluster(arguments.racks, arguments.nodes, arguments.slots, arguments.uplinks),
      processes.workers());
  EmulatedChurn::Settings settings;
  settings.load = arguments.load;
  settings.pattern.name = "emulated";
  settings.pattern.command.arguments = arguments.command;
  EmulatedChurn churn(cluster, arguments.seed, settings);
  const absl::StatusOr<std::unique_ptr<EmulatedServer>> server =
      EmulatedServer::open(cluster, arguments.socket);
  if (!server.ok()) {
    print_error(std::string(server.status().message()));
    return kExitFailed;
  }
  for (int i = 0; i < arguments.first; ++i) {
    const std::string line = churn.step();
    if (!line.empty()) print_result(line + "\n", kExitDone);
  }
  print_result(fmt::format("ready: {}\n", cluster.describe()), kExitDone);
  while (wait(signals, arguments.every_s)) {
    const std::string line = churn.step();
    if (!line.empty()) print_result(line + "\n", kExitDone);
  }
  cluster.heal();  // nothing hangs while the server ends
  return kExitDone;
}

}  // namespace

void add_emulate(CLI::App& app, int& exit_code) {
  CLI::App& command = add_command(
      app, "emulate", "a cluster in memory, for trying out the controller",
      "Examples:\n"
      "  monkeytree emulate --socket /tmp/cluster.sock --first 40 --every 2\n"
      "  monkeytree emulate --socket /tmp/cluster.sock --agents /tmp/agents -- train.sh\n"
      "\n"
      "Jobs come and go, drawn from the seed, until it is interrupted; one line each.\n"
      "With a command, each worker is a process that runs it; the agent of node NODE\n"
      "listens at NODE.sock in the folder of --agents. They end with it, unless it is\n"
      "killed outright.");
  const auto arguments = std::make_shared<EmulateArguments>();
  command.add_option("--socket", arguments->socket, "where the controller finds it")
      ->required()
      ->type_name("PATH");
  command.add_option("--racks", arguments->racks, "racks; default 4")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command.add_option("--nodes", arguments->nodes, "nodes of a rack; default 8")
      ->check(CLI::Range(1, 4096))
      ->type_name("N");
  command.add_option("--slots", arguments->slots, "slots of a node; default 8")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  command.add_option("--uplinks", arguments->uplinks, "uplinks of a rack; default 2")
      ->check(CLI::Range(0, 4096))
      ->type_name("N");
  command.add_option("--seed", arguments->seed, "of the jobs; default 1")->type_name("N");
  command.add_option("--load", arguments->load, "share of nodes in use; default 0.9")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("X");
  command.add_option("--first", arguments->first, "jobs that come or go before it is ready")
      ->check(CLI::Range(0, 1000000))
      ->type_name("N");
  command.add_option("--every", arguments->every_s, "seconds from one to the next; 0 is never")
      ->check(CLI::Range(0.0, 86400.0))
      ->type_name("S");
  command.add_option("--agents", arguments->agents, "folder of the agents' sockets")
      ->type_name("DIR");
  command.add_option("--log", arguments->log, "where the workers write to")->type_name("FILE");
  command.add_option("COMMAND", arguments->command, "what each worker runs, behind --")
      ->type_name("");
  command.callback([arguments, &exit_code] { exit_code = run_emulate(*arguments); });
}

}  // namespace monkeytree
