#pragma once

#include <vector>

#include "cluster/snapshot.h"
#include "routing/coloring.h"

namespace monkeytree {

/// A flow to be coloured and the colour it had, or -1.
struct FormerColor {
  RackId from, to;
  int color = -1;
};

/// Colours the flows so that few of those that had a colour get another. Flows keep their colour
/// where they can; the others are put in one by one by the cheapest chains, in several orders, and
/// recoloured flows are sent back where that is possible; the best order wins. The fewest
/// recolourings are not promised (finding them is NP-hard in general). -1 marks a flow for which
/// racks with different usable colours left no place. Deterministic.
std::vector<int> recolor(size_t racks, int colors, const std::vector<uint64_t>& usable,
                         const std::vector<FormerColor>& flows);

}  // namespace monkeytree
