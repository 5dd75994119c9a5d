#include "planning/fill.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "cluster/fragmentation.h"

namespace monkeytree {
namespace {

using Pool = std::pair<ClassId, IslandId>;

/// The up nodes of one class and island, rack after rack, filled from the front.
struct Front {
  std::vector<NodeId> nodes;
  size_t next = 0;
};

Pool pool_of(const Snapshot& s, NodeId node) {
  return {s.nodes[node].node_class, s.racks[s.nodes[node].rack].island};
}

std::vector<GroupId> completed(const Snapshot& s, std::span<const GroupId> order) {
  std::vector<GroupId> out;
  IdVector<GroupId, char> listed(s.groups.size(), 0);
  const auto add = [&](GroupId group) {
    if (std::exchange(listed[group], 1) == 0) out.push_back(group);
  };
  for (GroupId group : order) add(group);
  for (GroupId group : largest_first(s)) add(group);
  return out;
}

/// ½ Σ |w − w₀|: workers that some (group, class, rack) loses.
int moves_between(const Snapshot& before, const Snapshot& after) {
  int moves = 0;
  std::map<std::pair<ClassId, RackId>, int> change;
  for (GroupId id : before.groups.keys()) {
    change.clear();
    for (size_t w = 0; w < before.groups[id].workers.size(); ++w) {
      const Node& from = before.nodes[before.groups[id].workers[w]];
      const Node& to = after.nodes[after.groups[id].workers[w]];
      --change[{from.node_class, from.rack}];
      ++change[{to.node_class, to.rack}];
    }
    for (const auto& [where, delta] : change) moves += std::max(0, delta);
  }
  return moves;
}

}  // namespace

std::vector<GroupId> largest_first(const Snapshot& snapshot) {
  std::vector<GroupId> out;
  for (GroupId group : snapshot.groups.keys()) out.push_back(group);
  std::stable_sort(out.begin(), out.end(), [&](GroupId a, GroupId b) {
    return snapshot.groups[a].workers.size() > snapshot.groups[b].workers.size();
  });
  return out;
}

std::optional<Fill> fill(const Snapshot& snapshot, std::span<const GroupId> order) {
  IdVector<NodeId, int> free(snapshot.nodes.size(), 0);
  std::map<Pool, Front> fronts;
  for (const Rack& rack : snapshot.racks) {
    for (NodeId node : rack.nodes) {
      free[node] = snapshot.nodes[node].slots;
      if (snapshot.nodes[node].state != NodeState::kUp) continue;
      fronts[pool_of(snapshot, node)].nodes.push_back(node);
    }
  }
  for (GroupId id : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[id];
    for (size_t w = 0; w < group.workers.size(); ++w) {
      if (snapshot.immovable(id, static_cast<int>(w))) free[group.workers[w]] -= group.slots;
    }
  }

  Fill out;
  out.placement = snapshot;
  for (GroupId id : completed(snapshot, order)) {
    Group& group = out.placement.groups[id];
    for (size_t w = 0; w < group.workers.size(); ++w) {
      if (snapshot.immovable(id, static_cast<int>(w))) continue;
      Front& front = fronts[pool_of(snapshot, group.workers[w])];
      while (front.next < front.nodes.size() && free[front.nodes[front.next]] < group.slots) {
        ++front.next;
      }
      if (front.next == front.nodes.size()) return std::nullopt;
      group.workers[w] = front.nodes[front.next];
      free[group.workers[w]] -= group.slots;
    }
  }
  out.degrees = fragmentation(out.placement);
  out.moves = moves_between(snapshot, out.placement);
  return out;
}

std::optional<Fill> fill(const Snapshot& snapshot) { return fill(snapshot, {}); }

}  // namespace monkeytree
