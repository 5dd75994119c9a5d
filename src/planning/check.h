#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cluster/snapshot.h"
#include "planning/plan_json.h"

/// Re-verifies a plan without trusting the planner: this file shares nothing with it but the
/// reading of files, not even the counting of degrees.
namespace monkeytree {

struct CheckOptions {
  /// Of the snapshot's bytes; compared with the plan's where given.
  std::optional<std::string> snapshot_sha256;
  /// The bound of every rack that the plan must meet in place of those it records.
  std::optional<int> uplinks;
};

/// What is wrong with the plan, each in one plain sentence; empty where it holds. Everything is
/// verified but minimality: that bounds and degrees name each rack once and are right; that each
/// move takes a movable worker from where it is to an up node of its class and island with enough
/// slots free when the round starts; that a worker moves once, or twice by way of staging; counts
/// of moves and excess; and that status and bounds agree with all this. Beyond kMaxViolations the
/// rest is counted in a last sentence. O(snapshot + plan).
std::vector<std::string> check_plan(const Snapshot& snapshot, const PlanRecord& plan,
                                    const CheckOptions& options = {});
inline constexpr size_t kMaxViolations = 50;

}  // namespace monkeytree
