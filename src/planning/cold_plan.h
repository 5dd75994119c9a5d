#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planning/cold.h"
#include "planning/counts.h"
#include "planning/order.h"

namespace monkeytree {

struct ColdLimits {
  std::function<bool()> stop;
  int64_t work = 0;                     ///< in search nodes
  std::function<void(int)> found = {};  ///< told the moves of the first plan and of each better one
};

struct ColdPlan {
  std::vector<CountChange> changes;  ///< ascending
  int moves = 0;
  int excess = 0;  ///< that remains; 0: a plan
  int64_t work = 0;
};

/// A plan from above where many racks are over their bound at once. What `bound` would have leave
/// is placed as far as that costs nothing more; racks that are over still are mended one by one by
/// the search, while no other rack may grow; then, as long as there are more moves than the bound,
/// a few racks at a time are put back as they were together with all that depends on them, and
/// mended anew in another order. Ends at the bound, at the limits,
/// or when many attempts in a row were in vain. Deterministic but for stop().
/// `counts` is changed while it works and restored before it returns.
ColdPlan cold_plan(Counts& counts, const ColdBound& bound, const ColdLimits& limits);

}  // namespace monkeytree
