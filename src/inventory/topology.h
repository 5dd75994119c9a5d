#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "inventory/slurm_conf.h"

/// What Slurm knows of the network: topology.conf (tree or block) and topology.yaml (25.05).
namespace monkeytree {

/// A switch or a block. A leaf (a switch with nodes, or a block) is a rack.
struct TopologySwitch {
  std::string name;
  std::string file;  ///< where it is defined
  int line = 0;
  bool leaf = false;
  std::vector<std::string> nodes;     ///< of a leaf, in file order, each in its first leaf only
  std::vector<std::string> children;  ///< of any other, in file order, no repeats
  std::string island;                 ///< a root above it; "" where all switches are one fabric
};

struct Topology {
  bool blocks = false;
  std::vector<TopologySwitch> switches;  ///< in file order
};

/// Reads `file` through `read`, as slurmctld would. nullopt exactly when there was an error; an
/// error is what slurmctld refuses or stumbles over, each with file, line and reason. Legal and
/// remarked on: a node under two leaves (the first wins), an empty leaf or block, several trees
/// (islands, where there is a switch above the leaves), leaves at different depths, a key given
/// twice (the last counts). `name` picks a topology of a YAML file; "" is its default.
/// O(bytes + names), near enough.
std::optional<Topology> read_topology(const std::string& file, std::string_view name,
                                      const ReadText& read, Diagnostics& diagnostics);

/// A switch or block as it is written; what both readers hand to check_topology().
struct SwitchSpec {
  std::string name;
  std::string file;
  int line = 0;
  std::optional<std::string> nodes;     ///< host list
  std::optional<std::string> children;  ///< host list
};

/// Expands the lists and checks names, children and cycles; the part of read_topology() that does
/// not depend on the syntax.
std::optional<Topology> check_topology(std::vector<SwitchSpec> specs, bool blocks,
                                       Diagnostics& diagnostics);

/// The two syntaxes; nullopt exactly when there was an error.
std::optional<Topology> read_topology_conf(const std::string& file, const ReadText& read,
                                           Diagnostics& diagnostics);
std::optional<Topology> read_topology_yaml(const std::string& text, const std::string& file,
                                           std::string_view name, Diagnostics& diagnostics);

}  // namespace monkeytree
