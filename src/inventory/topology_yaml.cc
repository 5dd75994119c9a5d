#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/json.h"
#include "inventory/topology.h"

namespace monkeytree {
namespace {

/// Larger than any real one by far, and small enough for a parser of some MB/s.
constexpr size_t kMaxYamlBytes = size_t{64} << 20;

int line_of(const YAML::Node& node) { return node.Mark().line + 1; }

/// One entry of the list: its name, whether it is the default, and where its parts stand.
struct Entry {
  std::string name;
  int line = 0;
  bool cluster_default = false;
  std::string kind;  ///< "tree", "block", "flat", another key, or "" where there is none
  YAML::Node body;
};

class YamlReader {
 public:
  YamlReader(const std::string& file, Diagnostics& diagnostics)
      : file_(file), diagnostics_(diagnostics) {}

  std::optional<Topology> read(const std::string& text, std::string_view wanted) {
    const size_t before = diagnostics_.error_count();
    const YAML::Node root = YAML::Load(text);
    if (!root.IsSequence() || root.size() == 0) {
      error(1, "expected a list of topologies, each starting with `- topology: NAME`");
      return std::nullopt;
    }
    std::vector<Entry> entries;
    for (const YAML::Node& node : root) read_entry(node, entries);
    if (diagnostics_.error_count() > before) return std::nullopt;
    const Entry* entry = choose(entries, wanted);
    return entry == nullptr ? std::nullopt : read_body(*entry);
  }

 private:
  void error(int line, std::string message) {
    diagnostics_.error(file_, line, "", std::move(message));
  }

  /// Text of a scalar; an error and "" for anything else.
  std::string scalar(const YAML::Node& node, std::string_view key, int line) {
    if (node.IsScalar()) return node.Scalar();
    error(line, fmt::format("{}: expected text", key));
    return "";
  }

  /// Reports keys that are no text or stand there twice, and those not among `known`.
  bool check_keys(const YAML::Node& map, std::initializer_list<std::string_view> known) {
    const size_t before = diagnostics_.error_count();
    std::set<std::string> seen;
    for (const auto& item : map) {
      const std::string key = scalar(item.first, "a key", line_of(item.first));
      if (!seen.insert(key).second) {
        error(line_of(item.first), fmt::format("the key {} is given twice", quote(key)));
      } else if (std::find(known.begin(), known.end(), key) == known.end()) {
        diagnostics_.warning(file_, line_of(item.first), "",
                             fmt::format("unknown key {} is ignored", quote(key)));
      }
    }
    return diagnostics_.error_count() == before;
  }

  void read_entry(const YAML::Node& node, std::vector<Entry>& entries) {
    if (!node.IsMap() || !node["topology"]) {
      return error(line_of(node), "expected a topology: `- topology: NAME` and its fields");
    }
    if (!check_keys(node,
                    {"topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"})) {
      return;
    }
    Entry entry;
    entry.line = line_of(node);
    entry.name = scalar(node["topology"], "topology", entry.line);
    if (const YAML::Node flag = node["cluster_default"]) {
      if (!YAML::convert<bool>::decode(flag, entry.cluster_default)) {
        error(line_of(flag), "cluster_default: expected true or false");
      }
    }
    for (const char* kind : {"tree", "block", "flat", "ring", "torus3d"}) {
      const YAML::Node body = node[kind];
      if (!body) continue;
      bool yes = true;
      if (std::string_view(kind) == "flat" && YAML::convert<bool>::decode(body, yes) && !yes) {
        continue;
      }
      if (!entry.kind.empty()) {
        error(line_of(body), fmt::format("topology {} is {} and {}, expected one of them",
                                         quote(entry.name), entry.kind, kind));
      }
      entry.kind = kind;
      entry.body.reset(body);
    }
    for (const Entry& other : entries) {
      if (other.name != entry.name) continue;
      error(entry.line, fmt::format("topology {} has already been defined at line {}",
                                    quote(entry.name), other.line));
    }
    entries.push_back(std::move(entry));
  }

  const Entry* choose(const std::vector<Entry>& entries, std::string_view wanted) {
    std::string names;
    for (const Entry& entry : entries) {
      if (!wanted.empty() && entry.name == wanted) return &entry;
      names += (names.empty() ? "" : ", ") + quote(entry.name);
    }
    if (!wanted.empty()) {
      error(0, fmt::format("no topology named {}, expected one of {}", quote(wanted), names));
      return nullptr;
    }
    for (const Entry& entry : entries) {
      if (entry.cluster_default) return &entry;
    }
    if (entries.size() > 1) {
      diagnostics_.warning(file_, entries[0].line, "",
                           fmt::format("no topology is the cluster_default; the first of {} is "
                                       "taken, --topology-name picks another",
                                       names));
    }
    return &entries[0];
  }

  std::optional<Topology> read_body(const Entry& entry) {
    const bool blocks = entry.kind == "block";
    if (!blocks && entry.kind != "tree") {
      error(entry.line,
            entry.kind.empty()
                ? fmt::format("topology {} has no tree, block or flat", quote(entry.name))
                : fmt::format("topology {} is {}: it names no racks; expected a tree or blocks, "
                              "which --topology-name can pick",
                              quote(entry.name), entry.kind));
      return std::nullopt;
    }
    const char* const list = blocks ? "blocks" : "switches";
    if (!entry.body.IsMap() || !entry.body[list] || !entry.body[list].IsSequence()) {
      error(entry.line, fmt::format("topology {}: expected a list `{}`", quote(entry.name), list));
      return std::nullopt;
    }
    if (!check_keys(entry.body, {list, "block_sizes"})) return std::nullopt;
    const size_t before = diagnostics_.error_count();
    std::vector<SwitchSpec> specs;
    for (const YAML::Node& node : entry.body[list]) read_switch(node, blocks, specs);
    if (specs.empty() && diagnostics_.error_count() == before) {
      error(entry.line, fmt::format("topology {} holds no {}", quote(entry.name), list));
    }
    if (diagnostics_.error_count() > before) return std::nullopt;
    return check_topology(std::move(specs), blocks, diagnostics_);
  }

  void read_switch(const YAML::Node& node, bool block, std::vector<SwitchSpec>& specs) {
    const char* const what = block ? "block" : "switch";
    if (!node.IsMap() || !node[what]) {
      return error(line_of(node), fmt::format("expected `{}: NAME` and its fields", what));
    }
    const bool good = block ? check_keys(node, {"block", "nodes"})
                            : check_keys(node, {"switch", "nodes", "children", "link_speed"});
    if (!good) return;
    SwitchSpec spec;
    spec.file = file_;
    spec.line = line_of(node);
    spec.name = scalar(node[what], what, spec.line);
    if (const YAML::Node nodes = node["nodes"]) spec.nodes = host_list(nodes, "nodes");
    if (!block && node["children"]) spec.children = host_list(node["children"], "children");
    if (block && !spec.nodes) spec.nodes = "";
    if (spec.nodes && spec.children) {
      return error(spec.line, fmt::format("switch {} has both nodes and children, expected one",
                                          quote(spec.name)));
    }
    if (!spec.nodes && !spec.children) {
      return error(spec.line,
                   fmt::format("switch {} has neither nodes nor children", quote(spec.name)));
    }
    specs.push_back(std::move(spec));
  }

  /// A host list as text, or as a list of such texts.
  std::string host_list(const YAML::Node& node, std::string_view key) {
    if (node.IsNull()) return "";
    if (!node.IsSequence()) return scalar(node, key, line_of(node));
    std::string all;
    for (const YAML::Node& part : node) all += scalar(part, key, line_of(part)) + ",";
    return all;
  }

  const std::string& file_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<Topology> read_topology_yaml(const std::string& text, const std::string& file,
                                           std::string_view name, Diagnostics& diagnostics) {
  if (text.size() > kMaxYamlBytes) {
    diagnostics.error(
        file, 0, "",
        fmt::format("too large for YAML: expected at most {} MiB", kMaxYamlBytes >> 20));
    return std::nullopt;
  }
  try {
    return YamlReader(file, diagnostics).read(text, name);
  } catch (const YAML::Exception& fault) {
    const int line = fault.mark.is_null() ? 0 : fault.mark.line + 1;
    diagnostics.error(file, line, "", fmt::format("not YAML: {}", printable(fault.msg)));
  } catch (const std::exception& fault) {
    diagnostics.error(file, 0, "", fmt::format("not YAML: {}", printable(fault.what())));
  }
  return std::nullopt;
}

}  // namespace monkeytree
