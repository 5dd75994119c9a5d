#pragma once

#include <string>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree {

/// Why rounds that were planned for an earlier cluster must not be carried out in this one: a
/// worker that is elsewhere, a destination that is taken, a rack that they would leave above its
/// bound and not below where it is now. One sentence each; empty where they may. Other racks may
/// have changed as they like.
std::vector<std::string> recheck(const Snapshot& now, const std::vector<Round>& rounds);

}  // namespace monkeytree
