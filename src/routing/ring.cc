#include <algorithm>
#include <numeric>

#include "routing/routes.h"

namespace monkeytree {
namespace {

/// Whether the cyclic sequence visits each value in one run.
bool one_run_each(const std::vector<RackId>& racks) {
  std::vector<RackId> runs;  // the rack of each run, cyclically
  for (size_t i = 0; i < racks.size(); ++i) {
    if (racks[i] != racks[i == 0 ? racks.size() - 1 : i - 1]) runs.push_back(racks[i]);
  }
  std::sort(runs.begin(), runs.end());
  return std::adjacent_find(runs.begin(), runs.end()) == runs.end();
}

}  // namespace

std::vector<int> ring_order(const Snapshot& snapshot, GroupId group) {
  const size_t n = snapshot.groups[group].workers.size();
  std::vector<RackId> racks;
  racks.reserve(n);
  for (NodeId node : snapshot.groups[group].workers) racks.push_back(snapshot.nodes[node].rack);
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  if (one_run_each(racks)) return order;

  std::vector<std::pair<RackId, int>> firsts;  // each rack and the first worker in it
  for (size_t i = 0; i < n; ++i) firsts.emplace_back(racks[i], static_cast<int>(i));
  std::sort(firsts.begin(), firsts.end());
  firsts.erase(std::unique(firsts.begin(), firsts.end(),
                           [](const auto& a, const auto& b) { return a.first == b.first; }),
               firsts.end());
  std::vector<int> first_of(n);
  for (size_t i = 0; i < n; ++i) {
    first_of[i] = std::lower_bound(firsts.begin(), firsts.end(), std::pair(racks[i], 0))->second;
  }
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return first_of[static_cast<size_t>(a)] < first_of[static_cast<size_t>(b)];
  });
  return order;
}

IdVector<GroupId, std::vector<int>> ring_orders(const Snapshot& snapshot) {
  IdVector<GroupId, std::vector<int>> orders;
  orders.reserve(snapshot.groups.size());
  for (GroupId group : snapshot.groups.keys()) orders.push_back(ring_order(snapshot, group));
  return orders;
}

std::vector<Flow> flows_between_racks(const Snapshot& snapshot,
                                      const IdVector<GroupId, std::vector<int>>& orders) {
  std::vector<Flow> flows;
  std::vector<Flow> hops;
  for (GroupId group : snapshot.groups.keys()) {
    const std::vector<int>& order = orders[group];
    hops.clear();
    for (size_t i = 0; i < order.size(); ++i) {
      Flow hop{group, 0, order[i], order[i + 1 == order.size() ? 0 : i + 1], {}, {}};
      hop.from_rack = snapshot.rack_of(group, hop.from_worker);
      hop.to_rack = snapshot.rack_of(group, hop.to_worker);
      if (hop.from_rack != hop.to_rack) hops.push_back(hop);
    }
    for (int ring = 0; ring < snapshot.groups[group].rings; ++ring) {
      if (hops.empty()) break;
      for (Flow hop : hops) {
        hop.ring = ring;
        flows.push_back(hop);
      }
    }
  }
  return flows;
}

}  // namespace monkeytree
