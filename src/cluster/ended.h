#pragma once

#include "cluster/snapshot.h"

namespace monkeytree {

/// A kept snapshot (Planner, Mirror) leaves the places of jobs that have ended: their groups are
/// without workers, as no group of a file is. A job that came back has a new place beside the old.
inline bool has_ended(const Snapshot& snapshot, const Job& job) {
  for (int i = 0; i < job.group_count; ++i) {
    if (!snapshot.groups[GroupId(job.first_group.value + i)].workers.empty()) return false;
  }
  return job.group_count > 0;
}

}  // namespace monkeytree
