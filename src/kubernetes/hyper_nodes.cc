#include "kubernetes/hyper_nodes.h"

#include <re2/re2.h>
#include <re2/set.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace monkeytree {
namespace {

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

/// All patterns of a kind, each of one HyperNode, tried at once; as Go reads them, which is how RE2
/// does. One that cannot be read matches nothing.
class Patterns {
 public:
  Patterns() : set_(quiet(), RE2::UNANCHORED) {}
  void add(const std::string& pattern, size_t owner) {
    if (set_.Add(pattern, nullptr) >= 0) owners_.push_back(owner);
  }
  void finish() { ready_ = !owners_.empty() && set_.Compile(); }

  std::vector<size_t> owners_of(const std::string& name) const {
    std::vector<int> matches;
    std::vector<size_t> out;
    if (ready_) set_.Match(name, &matches);
    for (const int match : matches) out.push_back(owners_[static_cast<size_t>(match)]);
    return out;
  }

 private:
  RE2::Set set_;
  std::vector<size_t> owners_;
  bool ready_ = false;
};

class Finder {
 public:
  explicit Finder(const KubeFacts& facts) : facts_(facts) {
    for (const auto& [name, hyper] : facts.hyper_nodes) all_.push_back(&hyper);
    for (size_t i = 0; i < all_.size(); ++i) {
      for (const std::string& name : all_[i]->hyper_nodes) parents_[name] = i;
      for (const std::string& pattern : all_[i]->hyper_patterns) hyper_patterns_.add(pattern, i);
      if (all_[i]->tier != 1) continue;
      for (const std::string& name : all_[i]->nodes) by_name_.emplace(name, i);
      for (const std::string& pattern : all_[i]->node_patterns) node_patterns_.add(pattern, i);
      if (!all_[i]->node_labels.empty()) by_labels_.push_back(i);
    }
    hyper_patterns_.finish();
    node_patterns_.finish();
    for (const KubeHyperNode* hyper : all_) {
      for (const size_t owner : hyper_patterns_.owners_of(hyper->name)) {
        const auto [at, is_new] = parents_.emplace(hyper->name, owner);
        if (!is_new) at->second = std::max(at->second, owner);
      }
    }
  }

  std::map<std::string, std::string, std::less<>> racks() const {
    std::map<std::string, std::string, std::less<>> out;
    for (const auto& [name, node] : facts_.nodes) {
      const size_t leaf = leaf_of(node);
      if (leaf < all_.size()) out.emplace(name, path_of(leaf));
    }
    return out;
  }

 private:
  /// The first that has the node; all_.size() where none has.
  size_t leaf_of(const KubeNode& node) const {
    size_t leaf = all_.size();
    if (const auto named = by_name_.find(node.name); named != by_name_.end()) leaf = named->second;
    for (const size_t hyper : by_labels_) {
      const std::vector<KubeSelector>& selectors = all_[hyper]->node_labels;
      const bool selects =
          std::any_of(selectors.begin(), selectors.end(),
                      [&](const KubeSelector& labels) { return labels.matches(node.labels); });
      if (selects) leaf = std::min(leaf, hyper);
    }
    for (const size_t hyper : node_patterns_.owners_of(node.name)) leaf = std::min(leaf, hyper);
    return leaf;
  }

  std::string path_of(size_t leaf) const {
    std::string path = all_[leaf]->name;
    std::set<size_t> seen = {leaf};
    for (size_t at = leaf;;) {
      const auto parent = parents_.find(all_[at]->name);
      if (parent == parents_.end() || !seen.insert(parent->second).second) return path;
      at = parent->second;
      path.insert(0, all_[at]->name + "/");
    }
  }

  const KubeFacts& facts_;
  std::vector<const KubeHyperNode*> all_;  ///< by name
  std::map<std::string, size_t> parents_, by_name_;
  std::vector<size_t> by_labels_;
  Patterns hyper_patterns_, node_patterns_;
};

}  // namespace

std::map<std::string, std::string, std::less<>> hyper_node_racks(const KubeFacts& facts) {
  return Finder(facts).racks();
}

}  // namespace monkeytree
