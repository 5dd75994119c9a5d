#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "state/layout.h"

/// State of which several workers hold copies need not all come from the one that leaves.
namespace monkeytree {

/// Whether workers that are replicas of each other hold the same in this buffer: what begins with
/// model/ or optimizer/, the number of a rank within its worker before it (docs/training.md).
bool is_replicated(std::string_view buffer);

/// The buffers (indices, ascending) of one of `shares` shares: the 0th is that of the worker that
/// leaves and holds what only that one has; the replicated buffers are shared out so that all send
/// about as much. The same for equal layouts; every buffer is in one share. O(n log n).
std::vector<size_t> share_of(const Layout& layout, int share, int shares);

}  // namespace monkeytree
