#pragma once

#include <cstdint>
#include <vector>

#include "planning/counts.h"

namespace monkeytree {

/// A group that leaves a rack altogether, or gathers there.
struct ColdAction {
  GroupId group;
  RackId rack;
  friend auto operator<=>(const ColdAction&, const ColdAction&) = default;
};

/// What must happen at least where many racks are over their bound at once; see cover.h.
struct ColdBound {
  int moves = 0;
  bool possible = true;          ///< false: no plan exists
  std::vector<RackId> conflict;  ///< then: racks that cannot all come under their bounds
  // Removals that cost so many moves, or few more, if all that leaves found a place.
  std::vector<ColdAction> evict;     ///< with those that completions ask for; ascending
  std::vector<ColdAction> complete;  ///< ascending
};

/// O(entries of the groups in those racks), and the work of solve_cover().
ColdBound cold_bound(const Counts& counts, int64_t work_limit);

}  // namespace monkeytree
