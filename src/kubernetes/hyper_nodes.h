#pragma once

#include <map>
#include <string>

#include "kubernetes/objects.h"

namespace monkeytree {

/// Racks by Volcano's HyperNodes: for each node the path, from the root, of the HyperNode of tier 1
/// that it is a member of, by name, labels or pattern; the first by its name where there are
/// several. O(HyperNodes · log + nodes · selectors by labels + nodes · size of the patterns).
std::map<std::string, std::string, std::less<>> hyper_node_racks(const KubeFacts& facts);

}  // namespace monkeytree
