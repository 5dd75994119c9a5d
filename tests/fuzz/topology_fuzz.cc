// topology.conf and topology.yaml of any bytes, and files that include one another: read or
// refused with a reason. The text up to the first line "----" is the file, what follows is one
// that can be included by any name. A first byte of '@' asks for the YAML reader.

#include <absl/status/status.h>

#include <cstdint>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "inventory/topology.h"

using namespace monkeytree;  // NOLINT: a program of one function

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool yaml = !text.empty() && text[0] == '@';
  if (yaml) text.remove_prefix(1);
  const size_t split = text.find("\n----\n");
  const std::string main(text.substr(0, split));
  const std::string other(split == std::string_view::npos ? "" : text.substr(split + 6));
  const std::string file = yaml ? "topology.yaml" : "topology.conf";
  const ReadText read = [&](const std::string& name) -> absl::StatusOr<std::string> {
    if (name == file) return main;
    if (other.empty()) return absl::NotFoundError("no such file");
    return other;
  };
  Diagnostics diagnostics;
  const std::optional<Topology> topology = read_topology(file, "", read, diagnostics);
  if (topology.has_value() == diagnostics.has_errors()) std::abort();
  if (!topology) return 0;
  std::set<std::string> switches, nodes;
  for (const TopologySwitch& s : topology->switches) {
    if (s.name.empty() || s.line < 1 || !switches.insert(s.name).second) std::abort();
    for (const std::string& node : s.nodes) {
      if (!s.leaf || !nodes.insert(node).second) std::abort();
    }
  }
  for (const TopologySwitch& s : topology->switches) {
    for (const std::string& child : s.children) {
      if (s.leaf || !switches.contains(child)) std::abort();
    }
  }
  return 0;
}
