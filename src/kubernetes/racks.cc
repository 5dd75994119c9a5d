#include "kubernetes/racks.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "kubernetes/hyper_nodes.h"

namespace monkeytree {
namespace {

constexpr std::string_view kHostname = "kubernetes.io/hostname";
constexpr std::string_view kKueue = "kueue";
constexpr std::string_view kHyperNode = "hypernode";

const RackPreset* preset_named(std::string_view name) {
  const std::span<const RackPreset> presets = rack_presets();
  const auto found = std::find_if(presets.begin(), presets.end(),
                                  [&](const RackPreset& preset) { return preset.name == name; });
  return found == presets.end() ? nullptr : &*found;
}

bool is_kueue(std::string_view source) { return source == kKueue || source.starts_with("kueue:"); }

/// The topology that "kueue" or "kueue:NAME" means; null where that is none, or not one.
const KubeTopology* kueue_topology(std::string_view source, const KubeFacts& facts) {
  if (source == kKueue) {
    return facts.topologies.size() == 1 ? &facts.topologies.begin()->second : nullptr;
  }
  const auto found = facts.topologies.find(source.substr(kKueue.size() + 1));
  return found == facts.topologies.end() ? nullptr : &found->second;
}

/// Leaf to root, without the level of single nodes.
std::vector<std::string> levels_of(const KubeTopology& topology) {
  std::vector<std::string> labels(topology.levels.rbegin(), topology.levels.rend());
  if (!labels.empty() && labels.front() == kHostname) labels.erase(labels.begin());
  return labels;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + printable(name);
  return out;
}

}  // namespace

std::span<const RackPreset> rack_presets() {
  static const std::vector<RackPreset> kPresets = {
      {"topograph",
       {"fabric.topograph.run/tier-0", "fabric.topograph.run/tier-1", "fabric.topograph.run/tier-2",
        "fabric.topograph.run/tier-3"},
       false,
       true,
       "NVIDIA Topograph, tier 0 is the leaf"},
      {"topograph-network",
       {"network.topology.nvidia.com/leaf", "network.topology.nvidia.com/spine",
        "network.topology.nvidia.com/core"},
       false,
       true,
       "older versions of Topograph"},
      {"eks",
       {"topology.k8s.aws/network-node-layer-4", "topology.k8s.aws/network-node-layer-3",
        "topology.k8s.aws/network-node-layer-2", "topology.k8s.aws/network-node-layer-1"},
       true,
       false,
       "Amazon EKS, layer 1 is the top, the highest present the leaf"},
      {"gke",
       {"cloud.google.com/gce-topology-subblock", "cloud.google.com/gce-topology-block"},
       false,
       false,
       "Google GKE, a subblock is a rack"},
      {"coreweave",
       {"backend.coreweave.cloud/leafgroup", "backend.coreweave.cloud/superpod",
        "backend.coreweave.cloud/fabric"},
       false,
       true,
       "CoreWeave, a leaf group is a rack"},
      {"oci",
       {"oci.oraclecloud.com/host.rack_id", "oci.oraclecloud.com/host.network_block_id"},
       false,
       false,
       "Oracle Cloud"},
  };
  return kPresets;
}

std::string rack_rules_fault(const KubeRackRules& rules) {
  if (!rules.rack_label.empty()) {
    return rules.source.empty() ? "" : "both a source of racks and a rack label, expected one";
  }
  if (!rules.parent_labels.empty()) return "parent labels without a rack label";
  if (preset_named(rules.source) || is_kueue(rules.source) || rules.source == kHyperNode) return "";
  std::vector<std::string> names;
  for (const RackPreset& preset : rack_presets()) names.emplace_back(preset.name);
  return fmt::format("racks: expected a rack label, or one of {}, kueue, hypernode{}",
                     listed(names), rules.source.empty() ? "" : ", found " + quote(rules.source));
}

std::string RackFinder::fault(const KubeRackRules& rules, const KubeFacts& facts) {
  if (std::string fault = rack_rules_fault(rules); !fault.empty()) return fault;
  if (is_kueue(rules.source)) {
    const KubeTopology* topology = kueue_topology(rules.source, facts);
    if (topology != nullptr && !levels_of(*topology).empty()) return "";
    std::vector<std::string> names;
    for (const auto& [name, each] : facts.topologies) names.push_back(name);
    return fmt::format("racks by {}: expected a Topology of Kueue with levels, found {}",
                       printable(rules.source), names.empty() ? "none" : listed(names));
  }
  if (rules.source == kHyperNode && facts.hyper_nodes.empty()) {
    return "racks by hypernode: no HyperNode of Volcano is there";
  }
  return "";
}

RackFinder::RackFinder(const KubeRackRules& rules, const KubeFacts& facts) {
  if (const RackPreset* preset = preset_named(rules.source)) {
    labels_.assign(preset->labels.begin(), preset->labels.end());
    leaf_is_first_present_ = preset->leaf_is_first_present;
    any_depth_ = preset->any_depth;
  } else if (is_kueue(rules.source)) {
    if (const KubeTopology* topology = kueue_topology(rules.source, facts)) {
      labels_ = levels_of(*topology);
    }
  } else if (rules.source == kHyperNode) {
    hyper_ = true;
    hyper_racks_ = hyper_node_racks(facts);
  } else {
    labels_ = {rules.rack_label};
    labels_.insert(labels_.end(), rules.parent_labels.begin(), rules.parent_labels.end());
  }
}

std::string RackFinder::by_hyper_node(const KubeNode& node) const {
  const auto found = hyper_racks_.find(node.name);
  return found == hyper_racks_.end() ? "" : found->second;
}

std::string RackFinder::rack_of(const KubeNode& node) const {
  if (hyper_) return by_hyper_node(node);
  std::string path;
  bool ended = false;
  for (const std::string& label : labels_) {
    const std::string value(node.labels.get(label).value_or(""));
    if (value.empty()) {
      if (path.empty() && leaf_is_first_present_) continue;
      if (path.empty() || !any_depth_) return "";
      ended = true;
      continue;
    }
    if (ended) return "";  // a level is missing in between
    path.insert(0, path.empty() ? value : fmt::format("{}/", value));
  }
  return path;
}

std::vector<std::string> RackFinder::missing(const KubeNode& node) const {
  std::vector<std::string> out;
  // Where the depth differs, a parent may be missing above the last one that is there.
  bool needed = !any_depth_;
  for (auto label = labels_.rbegin(); label != labels_.rend(); ++label) {
    if (node.labels.get(*label).value_or("").empty()) {
      if (needed || std::next(label) == labels_.rend()) out.push_back(*label);
    } else {
      needed = true;
    }
  }
  std::reverse(out.begin(), out.end());
  return out;
}

bool RackFinder::places(std::string_view label) const {
  return label == kHostname || label == "metadata.name" ||
         std::find(labels_.begin(), labels_.end(), label) != labels_.end();
}

std::vector<std::string> presets_seen(const KubeFacts& facts) {
  std::vector<std::string> out;
  for (const RackPreset& preset : rack_presets()) {
    const bool seen = std::any_of(facts.nodes.begin(), facts.nodes.end(), [&](const auto& entry) {
      return std::any_of(preset.labels.begin(), preset.labels.end(), [&](std::string_view label) {
        return entry.second.labels.get(label).has_value();
      });
    });
    if (seen) out.emplace_back(preset.name);
  }
  return out;
}

}  // namespace monkeytree
