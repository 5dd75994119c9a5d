#pragma once

#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "planning/counts.h"
#include "planning/order.h"
#include "planning/plan.h"

namespace monkeytree {

/// What is decided before any node or round is chosen.
struct Solution {
  PlanStatus status = PlanStatus::kUnknown;
  std::vector<CountChange> changes;
  int lower_bound = 0;
  int excess_lower_bound = 0;
  std::vector<RackId> conflict;
  bool limited = false;  ///< the limits came before the answer was complete

  int moves() const;
};

/// The fewest moves for the counts as they stand: the exact search with growing budgets, helped
/// where that takes long by a plan from above (rack after rack), bounds from below (cover.h) and a
/// proof that there is no placement at all (sweep.h). `counts` is restored before it returns.
/// `accept` answers whether nodes can take a set of changes; it is asked only where a class is
/// mixed.
Solution solve(Counts& counts, const PlanOptions& options,
               const std::function<bool(std::span<const CountChange>)>& accept);

}  // namespace monkeytree
