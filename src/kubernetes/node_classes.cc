#include "kubernetes/node_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "kubernetes/moves.h"

namespace monkeytree {

NodeClasses::NodeClasses(const KubeFacts& facts, const RackFinder& racks,
                         std::string_view gpu_resource)
    : product_label_(fmt::format("{}.product", gpu_resource)), gpu_resource_(gpu_resource) {
  std::set<std::string> keys;
  for (const auto& [name, pod] : facts.pods) {
    for (const std::string& key : pod.selector_keys) {
      if (!racks.places(key)) keys.insert(key);
    }
  }
  keys_.assign(keys.begin(), keys.end());
}

std::string NodeClasses::name_of(const KubeNode& node) const {
  std::string name(node.labels.get(product_label_).value_or(""));
  if (name.empty()) name = node.labels.get("node.kubernetes.io/instance-type").value_or("default");
  for (const std::string& key : keys_) {
    if (key == product_label_) continue;
    if (const auto value = node.labels.get(key)) name += fmt::format(" {}={}", key, *value);
  }
  std::set<std::string> taints;
  for (const KubeTaint& taint : node.taints) {
    // All GPU pods tolerate the first; the others are the node's state.
    if (taint.effect == "PreferNoSchedule" || taint.key == gpu_resource_ ||
        taint.key == kHoldTaint || taint.key.starts_with("node.kubernetes.io/")) {
      continue;
    }
    taints.insert(fmt::format(" taint:{}={}", taint.key, taint.value));
  }
  for (const std::string& taint : taints) name += taint;
  return name;
}

}  // namespace monkeytree
