#pragma once

#include <absl/status/statusor.h>

#include <string>

#include "inventory/scheduler.h"

/// slurmrestd's answers, which are those of `squeue --json` and `scontrol show nodes --json` in
/// less than half their time. Only looking goes this way: what changes something needs the exit
/// codes and messages of the programs.
namespace monkeytree {

class SlurmRest {
 public:
  /// `socket` is slurmrestd's unix socket, `version` that of its interface: "v0.0.38".
  SlurmRest(std::string socket, std::string version);

  /// The page `what`, "jobs" or "nodes". Unavailable, with what slurmrestd says, where it does not
  /// answer, or answers that slurmctld does not. Pages above 512 MiB are refused.
  absl::StatusOr<std::string> get(const std::string& what, Deadline deadline) const;

 private:
  std::string socket_, version_;
};

}  // namespace monkeytree
