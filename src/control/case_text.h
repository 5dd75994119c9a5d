#pragma once

#include <string>

#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// The cluster and what the planner made of it as a text case (tests/cases/README.md), for bug
/// reports. Where all nodes have one slot, all jobs one group, and names are plain, racks are
/// drawn; elsewhere the case names `snapshot.json`, which must lie beside it.
std::string case_text(const Snapshot& snapshot, const Plan& plan);

}  // namespace monkeytree
