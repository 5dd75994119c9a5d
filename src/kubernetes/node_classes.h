#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/objects.h"
#include "kubernetes/racks.h"

namespace monkeytree {

/// Nodes are of one class where any pod that may run on one of them may run on all: they agree in
/// all labels that GPU pods select by, apart from those that name a place, and in their taints.
class NodeClasses {
 public:
  NodeClasses(const KubeFacts& facts, const RackFinder& racks, std::string_view gpu_resource);

  /// "H200", or "H200 pool=a taint:team=b"; "default" where nothing tells.
  std::string name_of(const KubeNode& node) const;

 private:
  std::vector<std::string> keys_;  ///< that pods select by, ascending
  std::string product_label_;
  std::string gpu_resource_;
};

}  // namespace monkeytree
