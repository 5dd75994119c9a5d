#include "inventory/topology.h"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"
#include "base/json_syntax.h"

namespace monkeytree {
namespace {

/// slurmctld resolves children in passes over the switches in file order and gives up after these.
constexpr int kSlurmPasses = 21;

/// Checks the switches of one topology, each step in its own function.
class Checker {
 public:
  Checker(std::vector<SwitchSpec> specs, bool blocks, Diagnostics& diagnostics)
      : specs_(std::move(specs)),
        what_(blocks ? "block" : "switch"),
        diagnostics_(diagnostics),
        switches_(specs_.size()),
        child_ids_(specs_.size()) {}

  std::vector<TopologySwitch> run() {
    name_switches();
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (specs_[i].nodes) expand_nodes(i);
      if (specs_[i].children) resolve_children(i);
    }
    if (order_children_first()) check_depths();
    find_islands();
    return std::move(switches_);
  }

 private:
  void error(size_t i, std::string message) {
    diagnostics_.error(specs_[i].file, specs_[i].line, "", std::move(message));
  }
  void warning(size_t i, std::string message) {
    diagnostics_.warning(specs_[i].file, specs_[i].line, "", std::move(message));
  }
  void note(size_t i, std::string message) {
    diagnostics_.note(specs_[i].file, specs_[i].line, "", std::move(message));
  }

  void name_switches() {
    for (size_t i = 0; i < specs_.size(); ++i) {
      const SwitchSpec& spec = specs_[i];
      switches_[i].name = spec.name;
      switches_[i].file = spec.file;
      switches_[i].line = spec.line;
      switches_[i].leaf = spec.nodes.has_value();
      if (spec.name.empty()) error(i, fmt::format("a {} without a name", what_));
      if (valid_utf8_prefix(spec.name) != spec.name.size()) {
        error(i, fmt::format("{} {}: the name is not UTF-8", what_, quote(spec.name)));
      } else if (spec.name.find('[') != std::string::npos) {
        warning(i, fmt::format("{} {}: brackets are part of the name here, slurmctld does not "
                               "expand them",
                               what_, quote(spec.name)));
      }
      const auto [first, is_new] = by_name_.emplace(spec.name, i);
      if (is_new || spec.name.empty()) continue;
      const SwitchSpec& before = specs_[first->second];
      error(i, fmt::format("{} {} has already been defined at {}:{}", what_, quote(spec.name),
                           before.file, before.line));
    }
  }

  std::vector<std::string> expand(size_t i, const std::string& list, std::string_view key) {
    absl::StatusOr<std::vector<std::string>> names = expand_hostlist(list, names_left_);
    if (absl::IsResourceExhausted(names.status())) {
      error(i, fmt::format("{} {}: {} {}: with these there are more than {} names in the file, "
                           "expected at most so many",
                           what_, quote(specs_[i].name), key, quote(list), kMaxHosts));
      return {};
    }
    if (!names.ok()) {
      error(i, fmt::format("{} {}: {} {}: {}", what_, quote(specs_[i].name), key, quote(list),
                           std::string(names.status().message())));
      return {};
    }
    names_left_ -= names->size();
    return *std::move(names);
  }

  void expand_nodes(size_t i) {
    std::vector<std::string> taken;
    size_t taken_by = 0;
    for (std::string& node : expand(i, *specs_[i].nodes, "Nodes")) {
      if (valid_utf8_prefix(node) != node.size()) {
        error(i, fmt::format("node {}: the name is not UTF-8", quote(node)));
      } else if (node.find_first_of("\"'\\=") != std::string::npos) {
        warning(i, fmt::format("node {}: an odd name, expected a host's", quote(node)));
      }
      if (number_exceeds_slurm(node)) {
        warning(i, fmt::format("node {}: slurmctld reads its number as 18446744073709551615",
                               quote(node)));
      }
      const auto [first, is_new] = leaf_of_.emplace(node, i);
      if (is_new) {
        switches_[i].nodes.push_back(std::move(node));
      } else if (first->second != i) {
        taken_by = first->second;
        taken.push_back(std::move(node));
      }
    }
    if (!taken.empty()) {
      warning(i, fmt::format("nodes {} of {} {} are already under {} and stay there",
                             printable(compress_hostlist(taken)), what_, quote(specs_[i].name),
                             quote(specs_[taken_by].name)));
    } else if (switches_[i].nodes.empty() && !diagnostics_.has_errors()) {
      note(i, fmt::format("{} {} has no nodes", what_, quote(specs_[i].name)));
    }
  }

  void resolve_children(size_t i) {
    std::vector<size_t>& ids = child_ids_[i];
    for (std::string& child : expand(i, *specs_[i].children, "Switches")) {
      const auto found = by_name_.find(child);
      if (found == by_name_.end() || found->second == i) {
        error(i, fmt::format("switch {} has the child {}, which is {}", quote(specs_[i].name),
                             quote(child), found == by_name_.end() ? "not defined" : "itself"));
        continue;
      }
      ids.push_back(found->second);
      switches_[i].children.push_back(std::move(child));
    }
    drop_repeats(i);
    if (specs_[i].children->find_first_not_of(", \t\r\n") == std::string::npos) {
      error(i, fmt::format("switch {} has no child switches (slurmctld crashes on this)",
                           quote(specs_[i].name)));
    }
  }

  void drop_repeats(size_t i) {
    std::vector<size_t> kept;
    std::vector<std::string> names;
    for (size_t k = 0; k < child_ids_[i].size(); ++k) {
      size_t& seen = seen_by_.emplace(child_ids_[i][k], specs_.size()).first->second;
      if (std::exchange(seen, i) == i) continue;
      kept.push_back(child_ids_[i][k]);
      names.push_back(std::move(switches_[i].children[k]));
    }
    child_ids_[i] = std::move(kept);
    switches_[i].children = std::move(names);
  }

  /// Depth first, without recursion; false, after an error, where there is a cycle.
  bool order_children_first() {
    enum : char { kNew, kOpen, kDone };
    std::vector<char> state(specs_.size(), kNew);
    std::vector<std::pair<size_t, size_t>> stack;
    for (size_t root = 0; root < specs_.size(); ++root) {
      if (state[root] != kNew) continue;
      stack.push_back({root, 0});
      state[root] = kOpen;
      while (!stack.empty()) {
        auto& [i, next] = stack.back();
        if (next == child_ids_[i].size()) {
          state[i] = kDone;
          order_.push_back(i);
          stack.pop_back();
          continue;
        }
        const size_t child = child_ids_[i][next++];
        if (state[child] == kOpen) return report_cycle(stack, child);
        if (state[child] == kDone) continue;
        state[child] = kOpen;
        stack.push_back({child, 0});
      }
    }
    return true;
  }

  bool report_cycle(const std::vector<std::pair<size_t, size_t>>& stack, size_t again) {
    std::string text;
    bool inside = false;
    int named = 0;
    for (const auto& [i, next] : stack) {
      inside = inside || i == again;
      if (inside && ++named <= 8) text += quote(specs_[i].name) + " -> ";
    }
    if (named > 8) text += "... -> ";
    error(again, fmt::format("the switches form a cycle: {}{}", text, quote(specs_[again].name)));
    return false;
  }

  void check_depths() {
    std::vector<int> level(specs_.size(), 0);
    std::vector<int> pass(specs_.size(), 0);
    bool uneven = false;
    bool too_deep = false;
    for (size_t i : order_) {
      for (size_t child : child_ids_[i]) {
        level[i] = std::max(level[i], level[child] + 1);
        pass[i] = std::max({pass[i], 1, pass[child] + (child > i ? 1 : 0)});
      }
      for (size_t child : child_ids_[i]) uneven = uneven || level[child] + 1 != level[i];
      if (pass[i] <= kSlurmPasses || std::exchange(too_deep, true)) continue;
      error(i, fmt::format("switch {}: slurmctld needs {} passes to find its leaves and gives up "
                           "after {}; define children before their parents",
                           quote(specs_[i].name), pass[i], kSlurmPasses));
    }
    if (uneven) note(order_.back(), "leaf switches hang at different depths");
  }

  /// Trees that nothing joins are islands, where any switch stands above the leaves.
  void find_islands() {
    std::vector<size_t> parent(specs_.size());
    std::iota(parent.begin(), parent.end(), size_t{0});
    const auto root_of = [&](size_t i) {
      while (parent[i] != i) i = parent[i] = parent[parent[i]];
      return i;
    };
    std::vector<bool> is_child(specs_.size(), false);
    bool any_upper = false;
    for (size_t i = 0; i < specs_.size(); ++i) {
      for (size_t child : child_ids_[i]) {
        any_upper = is_child[child] = true;
        parent[root_of(child)] = root_of(i);
      }
    }
    std::vector<size_t> head(specs_.size(), specs_.size());  // first switch that is no child
    std::vector<size_t> heads;
    for (size_t i = 0; i < specs_.size(); ++i) {
      if (is_child[i] || head[root_of(i)] != specs_.size()) continue;
      head[root_of(i)] = i;
      heads.push_back(i);
    }
    if (heads.size() < 2 || what_ == "block" || diagnostics_.has_errors()) return;
    if (!any_upper) {
      note(heads[0], fmt::format("no switch joins the {} leaves; they are taken as one fabric",
                                 heads.size()));
      return;
    }
    std::vector<std::string> names;
    for (size_t i : heads) names.push_back(specs_[i].name);
    warning(heads[1],
            fmt::format("no switch reaches all nodes: {} separate trees, each an island here ({})",
                        heads.size(), printable(compress_hostlist(names))));
    for (size_t i = 0; i < specs_.size(); ++i) {
      switches_[i].island = specs_[head[root_of(i)]].name;
    }
  }

  std::vector<SwitchSpec> specs_;
  std::string_view what_;
  Diagnostics& diagnostics_;
  std::vector<TopologySwitch> switches_;
  std::vector<std::vector<size_t>> child_ids_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  absl::flat_hash_map<std::string, size_t> leaf_of_;  ///< first leaf of each node
  absl::flat_hash_map<size_t, size_t> seen_by_;       ///< last parent that named a child
  std::vector<size_t> order_;                         ///< children before parents
  size_t names_left_ = kMaxHosts;
};

/// A YAML topology is a list of maps; no line of topology.conf starts with any of these.
bool looks_like_yaml(const std::string& file, std::string_view text) {
  if (file.ends_with(".yaml") || file.ends_with(".yml")) return true;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
    if (line.empty() || line[0] == '#') continue;
    return line[0] == '-' || line[0] == '[' || line[0] == '%';
  }
  return false;
}

}  // namespace

std::optional<Topology> check_topology(std::vector<SwitchSpec> specs, bool blocks,
                                       Diagnostics& diagnostics) {
  const size_t before = diagnostics.error_count();
  Topology topology;
  topology.blocks = blocks;
  topology.switches = Checker(std::move(specs), blocks, diagnostics).run();
  if (diagnostics.error_count() > before) return std::nullopt;
  return topology;
}

std::optional<Topology> read_topology(const std::string& file, std::string_view name,
                                      const ReadText& read, Diagnostics& diagnostics) {
  absl::StatusOr<std::string> text = read(file);
  if (!text.ok()) {
    diagnostics.error(file, 0, "", std::string(text.status().message()));
    return std::nullopt;
  }
  if (looks_like_yaml(file, *text)) return read_topology_yaml(*text, file, name, diagnostics);
  if (!name.empty()) {
    diagnostics.error(
        file, 0, "",
        fmt::format("--topology-name {}: only topology.yaml holds named topologies", quote(name)));
    return std::nullopt;
  }
  // The text that is already here, once: standard input cannot be read twice.
  const ReadText again = [&](const std::string& wanted) -> absl::StatusOr<std::string> {
    if (wanted == file) return *std::move(text);
    return read(wanted);
  };
  return read_topology_conf(file, again, diagnostics);
}

}  // namespace monkeytree
