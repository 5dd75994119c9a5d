#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"

namespace monkeytree {

struct WhatIfLimits {
  int64_t work_limit = 2'000'000;  ///< search nodes; a request may ask for less
  std::function<bool()> stop;      ///< as in PlanOptions
};

/// What would be: changes to a cluster, the fewest moves and the uplinks of all flows then. Changes
/// nothing. The policy of a controller (cool-down, budgets) is not asked.
///
/// `request` is JSON, {"snapshot": {…}, "changes": […], "best_effort": true, "work_limit": N}, of
/// which all may be left out; without a snapshot it is about `live`, null where nothing is known.
/// The answer is JSON:
///
///     schema        "monkeytree/what-if/v1"
///     changes       each change, a sentence
///     status, moves, lower_bound    of the plan
///     gain          GPU hours regained and paused, estimated
///     explanation   text
///     routes_before, routes_after   `monkeytree/routes/v1`, of the changed cluster before the
///     moves
///                   and after them; null where there are more flows than any real cluster has
///     files         texts as the command line reads them: "snapshot" (the changed one), "plan",
///                   "case"
///
/// nullopt exactly when there was an error; findings are those of the request, by JSON path.
std::optional<std::string> what_if(std::string_view request, const Snapshot* live,
                                   const WhatIfLimits& limits, Diagnostics& diagnostics);

}  // namespace monkeytree
