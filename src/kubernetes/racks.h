#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kubernetes/objects.h"

/// Which rack a node is in. Every source labels nodes in its own way, and not all count from the
/// leaf: the configuration names what a rack is, nothing is guessed.
namespace monkeytree {

struct KubeRackRules {
  /// A preset by name, "kueue" or "kueue:TOPOLOGY", or "hypernode"; "" where labels are given.
  std::string source;
  std::string rack_label;                  ///< its value names the rack within its parent
  std::vector<std::string> parent_labels;  ///< leaf to root
  friend bool operator==(const KubeRackRules&, const KubeRackRules&) = default;
};

struct RackPreset {
  std::string_view name;
  std::vector<std::string_view> labels;  ///< leaf to root
  /// The first of the labels that a node has is its rack, for sources whose fabrics differ in
  /// depth; otherwise the node must have the first.
  bool leaf_is_first_present = false;
  /// Parents above the last one that a node has may be missing.
  bool any_depth = false;
  std::string_view what;  ///< a line for people
};
std::span<const RackPreset> rack_presets();

/// "" or what is wrong with the rules themselves, whatever the cluster.
std::string rack_rules_fault(const KubeRackRules& rules);

/// Finds racks for the nodes of one state of a cluster.
class RackFinder {
 public:
  /// "" or what is wrong with the rules, for this cluster.
  static std::string fault(const KubeRackRules& rules, const KubeFacts& facts);

  /// The rules must have no fault(); `facts` must outlive the finder.
  RackFinder(const KubeRackRules& rules, const KubeFacts& facts);

  /// The rack's whole path from the root, "block1/rack7", since names repeat between blocks; ""
  /// where the node does not say.
  std::string rack_of(const KubeNode& node) const;
  /// Of the labels that would tell it, those that the node lacks, leaf to root.
  std::vector<std::string> missing(const KubeNode& node) const;
  /// True where a node is in one rack or another by this label, or by being itself.
  bool places(std::string_view label) const;

 private:
  std::string by_hyper_node(const KubeNode& node) const;

  std::vector<std::string> labels_;  ///< leaf to root
  bool leaf_is_first_present_ = false, any_depth_ = false;
  bool hyper_ = false;
  std::map<std::string, std::string, std::less<>> hyper_racks_;  ///< path by node
};

/// Names of the presets whose labels these nodes have, for the message that no rack was found.
std::vector<std::string> presets_seen(const KubeFacts& facts);

}  // namespace monkeytree
