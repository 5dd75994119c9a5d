#pragma once

#include <span>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Where a flow leaves the fabric's edge and where it enters it again.
struct RackPair {
  RackId from, to;
};

/// Colours all flows at once, where a rack may use colours 0 … bound−1 and both racks of every flow
/// have the same bound, at least 1. Flows that meet on one side of a rack get different colours
/// while there are enough, exactly as many colours as the largest degree; a rack with more flows
/// than its bound gives each colour to ⌊flows ÷ bound⌋ of them or one more. Coloring says how;
/// this is the same thing without what a coloring needs in order to change.
///
/// Deterministic. O(flows · length of a chain); chains stay short unless the racks are full.
std::vector<int> color_all(std::span<const RackPair> flows, const std::vector<int>& bounds);

}  // namespace monkeytree
