#include "cluster/fragmentation.h"

#include <algorithm>

namespace monkeytree {

std::vector<RackId> racks_of(const Snapshot& snapshot, GroupId group) {
  std::vector<RackId> racks;
  for (NodeId node : snapshot.groups[group].workers) racks.push_back(snapshot.nodes[node].rack);
  std::sort(racks.begin(), racks.end());
  racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
  return racks;
}

IdVector<RackId, int> fragmentation(const Snapshot& snapshot) {
  IdVector<RackId, int> degrees(snapshot.racks.size(), 0);
  for (GroupId group : snapshot.groups.keys()) {
    const std::vector<RackId> racks = racks_of(snapshot, group);
    if (racks.size() < 2) continue;
    for (RackId rack : racks) degrees[rack] += snapshot.groups[group].rings;
  }
  return degrees;
}

IdVector<RackId, int> bounds(const Snapshot& snapshot) {
  IdVector<RackId, int> out;
  out.reserve(snapshot.racks.size());
  for (const Rack& rack : snapshot.racks) out.push_back(rack.bound());
  return out;
}

int excess(const IdVector<RackId, int>& degrees, const IdVector<RackId, int>& bounds) {
  int sum = 0;
  for (RackId rack : degrees.keys()) sum += std::max(0, degrees[rack] - bounds[rack]);
  return sum;
}

}  // namespace monkeytree
