#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace monkeytree {

/// The rival that the paper names: a Δ-edge-colouring of a bipartite multigraph by repeated
/// Hopcroft–Karp. The graph is padded to a Δ-regular one, which has a perfect matching; each
/// matching taken out is one colour and leaves a (Δ−1)-regular graph. O(Δ · edges · √vertices).
std::vector<int> color_by_matchings(int vertices,
                                    const std::vector<std::pair<int32_t, int32_t>>& edges);

}  // namespace monkeytree
