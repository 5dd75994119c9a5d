#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "inventory/emulated_scheduler.h"

namespace monkeytree {

/// Worker processes of an emulated cluster, all on this machine. Each gets the variables that a
/// worker under Slurm would: MONKEYTREE_JOB, MONKEYTREE_GROUP, MONKEYTREE_WORKER,
/// MONKEYTREE_WORKERS (of its group), and MONKEYTREE_AGENT_SOCKET, `sockets`/NODE.sock.
/// Thread-safe.
class EmulatedProcesses {
 public:
  /// `log_file`: where all of them write to, "" for nowhere.
  EmulatedProcesses(std::string sockets, std::string log_file);
  /// Ends all of them.
  ~EmulatedProcesses();
  EmulatedProcesses(const EmulatedProcesses&) = delete;
  EmulatedProcesses& operator=(const EmulatedProcesses&) = delete;

  /// For the constructor of EmulatedScheduler, which must not outlive this.
  EmulatedWorkers workers();

 private:
  absl::Status start(const WorkerName& worker, const std::string& node,
                     const WorkerCommand& command);
  void end(const std::string& job, const std::string& node);

  const std::string sockets_, log_file_;
  std::mutex mutex_;
  std::map<std::pair<std::string, std::string>, std::vector<pid_t>> running_;  ///< by job and node
};

}  // namespace monkeytree
