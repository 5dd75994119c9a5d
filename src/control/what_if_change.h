#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "cluster/snapshot.h"

/// Changes to a snapshot that a what-if tries, as JSON objects:
///
///     {"do": "uplinks", "uplinks": 3}                  of every rack
///     {"do": "uplinks", "uplinks": 3, "rack": "r1"}    of one
///     {"do": "fail-uplink", "rack": "r1", "spine": 0}  without a spine: the last that works
///     {"do": "drain", "rack": "r1"}                    its up nodes, or one "node"
///     {"do": "add-job", "id": "new", "nodes": 4}       or "gpus"; "groups", "rings"
///     {"do": "remove-job", "job": "4711"}
namespace monkeytree {

inline constexpr int kMaxChanges = 100;

/// Carries the list out, each change on what those before it left, and says each in one sentence.
/// A job that is added takes whole free nodes of one kind (island, class, slots, GPUs) by best fit.
/// Faults are reported with their JSON path; the snapshot is then worth nothing.
std::vector<std::string> apply_changes(const JsonValue& changes, Snapshot& snapshot);

/// Without jobs that have no workers: a snapshot that is kept up to date keeps the places of jobs
/// that have ended. Ids of jobs and groups change.
void drop_ended_jobs(Snapshot& snapshot);

}  // namespace monkeytree
