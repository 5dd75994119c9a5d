#pragma once

#include <cstdint>
#include <map>
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
  int64_t work = 0;                  ///< table cells
};

/// Table cells that cost as much as a search node.
inline constexpr int64_t kCellsPerNode = 1000;

/// O(entries of the groups in those racks), and the work of solve_cover(). Of removals that cost
/// the same, those are chosen with the least strain: what `strains` says of them, and how hard it
/// looks to find a place for them.
ColdBound cold_bound(const Counts& counts, int64_t work_limit,
                     const std::map<ColdAction, int>& strains = {});

}  // namespace monkeytree
