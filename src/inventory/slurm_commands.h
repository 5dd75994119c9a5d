#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/command.h"
#include "inventory/scheduler.h"

/// Slurm's own programs, run by their arguments.
namespace monkeytree {

/// Names that may go into an argument: letters, digits, '.', '_', '-', no '-' in front, at most 255
/// bytes. InvalidArgument otherwise; `what` is the thing that has the name: "node".
absl::Status check_name(std::string_view name, std::string_view what);
/// A job's id: "4711", "4711_3", "4711+1".
absl::Status check_job_id(std::string_view id);

/// What Slurm's complaint comes to: Unavailable where slurmctld does not answer, NotFound where the
/// job is gone, Aborted where somebody else has the node, else FailedPrecondition. The message is
/// what Slurm wrote, in one line.
absl::Status status_of(std::string_view program, std::string_view complaint);

class SlurmCommands {
 public:
  /// `programs` is their folder, "" those in PATH; `slurm_conf` the configuration file, "" Slurm's
  /// own choice.
  SlurmCommands(std::string programs, std::string slurm_conf);

  /// Runs a program to its end and returns what it printed; status_of() where it failed.
  absl::StatusOr<std::string> query(std::vector<std::string> arguments, Deadline deadline) const;
  /// The same, for its effect; where Slurm says to try again (a job's record is still on its way to
  /// slurmdbd), it does until the deadline.
  absl::Status change(std::vector<std::string> arguments, Deadline deadline) const;
  /// As somebody else; both outputs and the exit code.
  absl::StatusOr<CommandResult> run_as(const std::optional<UserIds>& user,
                                       std::vector<std::string> arguments, Deadline deadline) const;
  /// Starts it in a session of its own. `environment` is added to ours, as far as it does not set
  /// what Slurm's programs take for options.
  absl::StatusOr<pid_t> start_as(const std::optional<UserIds>& user,
                                 std::vector<std::string> arguments, const std::string& folder,
                                 const std::map<std::string, std::string>& environment,
                                 const std::string& log_file) const;

 private:
  Command command(std::vector<std::string> arguments, const std::optional<UserIds>& user) const;

  std::string programs_, slurm_conf_, path_;
};

}  // namespace monkeytree
