#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/plan.h"

/// The slow obvious answer for tiny clusters: tries every placement of counts. Written from the
/// rules of docs/formats.md, not from the planner.
namespace monkeytree {

class EveryPlacement {
 public:
  /// Movable workers of a class must take equal slots.
  EveryPlacement(const Snapshot& snapshot, IdVector<RackId, int> bounds)
      : s_(snapshot), bounds_(std::move(bounds)), degrees_(s_.racks.size(), 0) {
    IdVector<NodeId, int> held(s_.nodes.size(), 0);
    std::map<ClassId, int> slots;
    for (GroupId g : s_.groups.keys()) {
      const Group& group = s_.groups[g];
      for (int w = 0; w < static_cast<int>(group.workers.size()); ++w) {
        const NodeId id = group.workers[static_cast<size_t>(w)];
        const Node& node = s_.nodes[id];
        if (s_.immovable(g, w)) {
          held[id] += group.slots;
          ++fixed_[{g, node.rack}];
          continue;
        }
        slots[node.node_class] = group.slots;
        Part& part = parts_[{g, node.node_class, s_.racks[node.rack].island}];
        ++part.now[node.rack];
        part.stay[node.rack] += node.state != NodeState::kUp;
        ++part.count;
      }
    }
    for (NodeId id : s_.nodes.keys()) {
      const Node& node = s_.nodes[id];
      if (node.state != NodeState::kUp || slots.count(node.node_class) == 0) continue;
      room_[{node.node_class, node.rack}] += (node.slots - held[id]) / slots[node.node_class];
    }
    for (const auto& [key, part] : parts_) order_.push_back(key);
    place(0, RackId(0), -1);
  }

  /// Fewest moves to a placement whose excess is at most this; nullopt where there is none.
  std::optional<int> fewest(int excess) const {
    std::optional<int> out;
    for (const auto& [e, moves] : best_) {
      if (e <= excess) out = std::min(out.value_or(moves), moves);
    }
    return out;
  }
  /// False where there were too many placements to try them all: then nothing is said.
  bool complete() const { return steps_ <= kMostSteps; }
  int least_excess() const { return best_.begin()->first; }

 private:
  static constexpr int kMostSteps = 300'000;
  using Key = std::tuple<GroupId, ClassId, IslandId>;
  struct Part {
    std::map<RackId, int> now, stay;
    int count = 0;
  };

  void place(size_t index, RackId rack, int left) {
    if (++steps_ > kMostSteps) return;
    if (index == order_.size()) return finish();
    const auto& [group, node_class, island] = order_[index];
    Part& part = parts_[order_[index]];
    if (left < 0) left = part.count;
    if (rack.value == static_cast<int>(s_.racks.size())) {
      if (left == 0) place(index + 1, RackId(0), -1);
      return;
    }
    const RackId next(rack.value + 1);
    if (s_.racks[rack].island != island) return place(index, next, left);
    int& room = room_[{node_class, rack}];
    for (int n = 0; n <= left; ++n) {
      const int used = std::max(0, n - part.stay[rack]);
      if (used > room) break;
      const int gone = std::max(0, part.now[rack] - n);
      room -= used;
      moves_ += gone;
      moved_[{group, rack}] += n;
      place(index, next, left - n);
      moved_[{group, rack}] -= n;
      moves_ -= gone;
      room += used;
    }
  }

  void finish() {
    std::fill(degrees_.begin(), degrees_.end(), 0);
    std::map<std::pair<GroupId, RackId>, int> at = fixed_;
    for (const auto& [key, n] : moved_) at[key] += n;
    for (const auto& [key, n] : at) {
      const Group& group = s_.groups[key.first];
      const bool part = n > 0 && n < static_cast<int>(group.workers.size());
      if (part) degrees_[key.second] += group.rings;
    }
    const auto [entry, fresh] = best_.try_emplace(excess(degrees_, bounds_), moves_);
    entry->second = std::min(entry->second, moves_);
  }

  const Snapshot& s_;
  IdVector<RackId, int> bounds_, degrees_;
  std::map<Key, Part> parts_;
  std::vector<Key> order_;
  std::map<std::pair<GroupId, RackId>, int> fixed_, moved_;
  std::map<std::pair<ClassId, RackId>, int> room_;
  int moves_ = 0;
  int steps_ = 0;
  std::map<int, int> best_;  ///< excess → fewest moves
};

}  // namespace monkeytree
