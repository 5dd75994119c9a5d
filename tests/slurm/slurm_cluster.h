#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

#include "base/command.h"
#include "slurm_files.h"

namespace monkeytree {

/// A real Slurm cluster that lives as long as this does, and ends as well when the test program
/// crashes: the program slurm_test_cluster keeps it and watches us.
class SlurmCluster {
 public:
  /// Why tests must be skipped on this machine: "" where nothing is missing.
  static std::string missing();
  /// Waits until all nodes are idle.
  static absl::StatusOr<std::unique_ptr<SlurmCluster>> start(const SlurmClusterOptions& options);
  ~SlurmCluster();
  SlurmCluster(const SlurmCluster&) = delete;
  SlurmCluster& operator=(const SlurmCluster&) = delete;

  const std::string& folder() const { return folder_; }
  std::string slurm_conf() const { return folder_ + "/etc/slurm.conf"; }
  std::string topology() const { return folder_ + "/etc/topology.conf"; }

  /// "stop", "kill", "start", "pause" or "continue" one of the daemons: slurmctld, slurmdbd, a
  /// node. A slurmctld that is killed may lose what it had not saved.
  void tell(const std::string& verb, const std::string& name);
  /// Runs a program of Slurm as `user` ("": as we are) and returns what it printed, output and
  /// errors. A failure is a failure of the test.
  std::string run(const std::vector<std::string>& arguments, const std::string& user = "");
  /// The same, where failure may be.
  CommandResult try_run(const std::vector<std::string>& arguments, const std::string& user = "");
  /// Nodes that are not idle, a line with the state of each.
  std::string not_idle();

 private:
  SlurmCluster() = default;
  /// A line that the keeper says; "" at its end.
  std::string hear();

  pid_t keeper_ = 0;
  int to_keeper_ = -1, from_keeper_ = -1;
  std::string heard_, folder_;
};

}  // namespace monkeytree
