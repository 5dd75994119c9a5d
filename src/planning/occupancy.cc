#include "planning/occupancy.h"

#include <algorithm>
#include <cassert>

namespace monkeytree {

Occupancy::Occupancy(const Snapshot& snapshot) {
  size_t workers = 0;
  for (const Group& group : snapshot.groups) workers += group.workers.size();
  entries_.reserve(workers);
  head_.assign(snapshot.nodes.size(), -1);
  free_.reserve(snapshot.nodes.size());
  for (const Node& node : snapshot.nodes) free_.push_back(node.slots);
  for (GroupId id : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[id];
    int worker = 0;
    for (NodeId node : group.workers) {
      entries_.push_back({{id, worker++}, head_[node]});
      head_[node] = static_cast<int32_t>(entries_.size()) - 1;
      free_[node] -= group.slots;
    }
  }
}

std::vector<Occupancy::Seat> Occupancy::seats(NodeId node) const {
  std::vector<Seat> out;
  for_each(node, [&](Seat seat) { out.push_back(seat); });
  std::sort(out.begin(), out.end());
  return out;
}

void Occupancy::add(NodeId node, Seat seat, int slots) {
  int32_t at = unused_;
  if (at >= 0) {
    unused_ = entries_[static_cast<size_t>(at)].next;
  } else {
    at = static_cast<int32_t>(entries_.size());
    entries_.emplace_back();
  }
  entries_[static_cast<size_t>(at)] = {seat, head_[node]};
  head_[node] = at;
  free_[node] -= slots;
}

void Occupancy::remove(NodeId node, Seat seat, int slots) {
  int32_t* link = &head_[node];
  while (*link >= 0 && entries_[static_cast<size_t>(*link)].seat != seat) {
    link = &entries_[static_cast<size_t>(*link)].next;
  }
  assert(*link >= 0 && "the worker must sit on the node");
  if (*link < 0) return;
  const int32_t at = *link;
  *link = entries_[static_cast<size_t>(at)].next;
  entries_[static_cast<size_t>(at)].next = unused_;
  unused_ = at;
  free_[node] += slots;
}

NodeId Occupancy::add_node(int slots) {
  head_.push_back(-1);
  return free_.push_back(slots);
}

}  // namespace monkeytree
