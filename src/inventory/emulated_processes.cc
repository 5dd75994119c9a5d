#include "inventory/emulated_processes.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "base/command.h"

namespace monkeytree {
namespace {

/// The process and what it has started, as far as that stayed in its group.
void end_process(pid_t process) {
  const pid_t group = getpgid(process);
  if (group > 1 && group != getpgrp()) kill(-group, SIGKILL);
}

}  // namespace

EmulatedProcesses::EmulatedProcesses(std::string sockets, std::string log_file)
    : sockets_(std::move(sockets)), log_file_(std::move(log_file)) {}

EmulatedProcesses::~EmulatedProcesses() {
  for (const auto& [place, processes] : running_) {
    for (pid_t process : processes) end_process(process);
  }
}

EmulatedWorkers EmulatedProcesses::workers() {
  EmulatedWorkers out;
  out.start = [this](const WorkerName& worker, const std::string& node,
                     const WorkerCommand& command,
                     bool /*successor*/) { return start(worker, node, command); };
  out.end = [this](const std::string& job, const std::string& node) { end(job, node); };
  return out;
}

absl::Status EmulatedProcesses::start(const WorkerName& worker, const std::string& node,
                                      const WorkerCommand& command) {
  Command what;
  what.arguments = command.arguments;
  what.folder = command.folder;
  const char* path = std::getenv("PATH");
  what.environment = {{"PATH", path ? path : "/usr/bin:/bin"}};
  for (const auto& [name, value] : command.environment) what.environment[name] = value;
  what.environment["MONKEYTREE_JOB"] = worker.job;
  what.environment["MONKEYTREE_GROUP"] = fmt::format("{}", worker.group);
  what.environment["MONKEYTREE_WORKER"] = fmt::format("{}", worker.worker);
  what.environment["MONKEYTREE_AGENT_SOCKET"] = fmt::format("{}/{}.sock", sockets_, node);
  const absl::StatusOr<pid_t> process = start_detached(what, log_file_);
  if (!process.ok()) return process.status();
  const std::lock_guard lock(mutex_);
  running_[{worker.job, node}].push_back(*process);
  return absl::OkStatus();
}

void EmulatedProcesses::end(const std::string& job, const std::string& node) {
  std::vector<pid_t> ending;
  {
    const std::lock_guard lock(mutex_);
    const auto found = running_.find({job, node});
    if (found == running_.end()) return;
    ending = std::move(found->second);
    running_.erase(found);
  }
  for (pid_t process : ending) end_process(process);
}

}  // namespace monkeytree
