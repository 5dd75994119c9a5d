#include "cluster/snapshot.h"

#include <algorithm>
#include <numeric>

namespace monkeytree {

bool Group::is_pinned(int worker) const {
  return std::binary_search(pinned.begin(), pinned.end(), worker);
}

bool Snapshot::immovable(GroupId group, int worker) const {
  return !jobs[groups[group].job].movable || groups[group].is_pinned(worker);
}

void Snapshot::set_uplinks(int n) {
  for (Rack& rack : racks) {
    rack.uplinks = n;
    rack.spines.resize(static_cast<size_t>(n));
    std::iota(rack.spines.begin(), rack.spines.end(), 0);
    rack.failed.clear();
  }
}

std::string unused_rack_name(const Snapshot& snapshot, std::string name) {
  const auto taken = [&] {
    return std::any_of(snapshot.racks.begin(), snapshot.racks.end(),
                       [&](const Rack& rack) { return rack.name == name; });
  };
  while (taken()) name += "_";
  return name;
}

std::string_view name_of(NodeState state) {
  switch (state) {
    case NodeState::kUp:
      return "up";
    case NodeState::kDrain:
      return "drain";
    case NodeState::kDown:
      return "down";
    case NodeState::kReserved:
      return "reserved";
  }
  return "up";
}

}  // namespace monkeytree
