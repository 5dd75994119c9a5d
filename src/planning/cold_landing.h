#pragma once

#include <vector>

#include "planning/cold.h"
#include "planning/counts.h"
#include "planning/order.h"

namespace monkeytree {

/// Carries out as much of the removals of `bound` as finds a place for all the workers that leave,
/// without taking any others out and without raising any rack above its bound or, if it is above
/// still, at all. A group for which there is no place stays as it is. Greedy, deterministic;
/// O(groups · racks). Changes of one group stand together.
struct ColdLanding {
  std::vector<CountChange> changes;
  std::vector<ColdAction> dropped;  ///< entries of the groups without a place
};
ColdLanding land_cover(const Counts& counts, const ColdBound& bound);

}  // namespace monkeytree
