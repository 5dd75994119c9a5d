#pragma once

#include <compare>
#include <string>

namespace monkeytree {

/// A worker by names that outlive a snapshot: ids are positions in one snapshot, these are not.
struct WorkerName {
  std::string job;  ///< Job::id
  int group = 0;    ///< index of the group within its job
  int worker = 0;   ///< index in Group::workers
  friend auto operator<=>(const WorkerName&, const WorkerName&) = default;
};

/// "4711/0/3": job, group, worker. For messages and keys.
std::string to_string(const WorkerName& name);

}  // namespace monkeytree
