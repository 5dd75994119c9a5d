#include "planning/random_snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace monkeytree {
namespace {

class Generator {
 public:
  Generator(uint64_t seed, const RandomShape& shape) : random_(seed), shape_(shape) {}

  Snapshot run() {
    s_.name = "random";
    for (int c = 0; c < shape_.classes; ++c) {
      s_.classes.push_back(c == 0 ? "default" : fmt::format("class{}", c));
    }
    for (int i = 0; i < shape_.islands; ++i) {
      s_.islands.push_back(shape_.islands == 1 ? "" : fmt::format("island{}", i));
    }
    add_racks();
    add_jobs();
    for (Node& node : s_.nodes) {
      if (!random_.chance(shape_.drained)) continue;
      constexpr NodeState kOut[] = {NodeState::kDrain, NodeState::kDown, NodeState::kReserved};
      node.state = kOut[random_.below(3)];
    }
    return std::move(s_);
  }

 private:
  void add_racks() {
    const int racks = random_.between(shape_.racks_low, shape_.racks_high);
    const int scale = *std::max_element(shape_.weights.begin(), shape_.weights.end());
    const int common = random_.between(shape_.bound_low, shape_.bound_high);
    for (int r = 0; r < racks; ++r) {
      Rack rack;
      rack.name = fmt::format("r{}", r);
      rack.island = IslandId(r % shape_.islands);
      const int bound =
          shape_.uneven_bounds ? random_.between(shape_.bound_low, shape_.bound_high) : common;
      rack.uplinks = bound * scale;
      rack.spines.resize(static_cast<size_t>(rack.uplinks));
      std::iota(rack.spines.begin(), rack.spines.end(), 0);
      const int nodes = shape_.uneven_racks ? random_.between(1, 2 * shape_.nodes_per_rack)
                                            : shape_.nodes_per_rack;
      for (int n = 0; n < nodes; ++n) {
        Node node;
        node.name = fmt::format("{}n{}", rack.name, n);
        node.rack = RackId(r);
        node.slots = shape_.slots_per_node;
        node.node_class = ClassId(random_.below(shape_.classes));
        rack.nodes.push_back(s_.nodes.push_back(node));
        free_.push_back(node.slots);
      }
      s_.racks.push_back(rack);
    }
  }

  void add_jobs() {
    int total = 0, used = 0;
    for (const Node& node : s_.nodes) total += node.slots;
    const int largest = shape_.largest_group > 0
                            ? shape_.largest_group
                            : shape_.nodes_per_rack * shape_.slots_per_node * 3 / 2;
    const int limit = static_cast<int>(shape_.fill * total);
    for (int failures = 0; used < limit && failures < 20;) {
      Group group;
      group.job = JobId(s_.jobs.size());
      group.rings = shape_.weights[at(random_.below(static_cast<int>(shape_.weights.size())))];
      group.slots =
          shape_.worker_slots[at(random_.below(static_cast<int>(shape_.worker_slots.size())))];
      const int wanted = std::min(random_.between(1, largest), (limit - used) / group.slots);
      if (!seat(group, wanted)) {
        ++failures;
        continue;
      }
      used += group.slots * static_cast<int>(group.workers.size());
      add_job(std::move(group));
    }
  }

  /// Seats up to `wanted` workers: each beside the last one, or anywhere.
  bool seat(Group& group, int wanted) {
    const IslandId island(random_.below(shape_.islands));
    const ClassId wanted_class(random_.below(shape_.classes));
    const bool any_class = random_.chance(0.125);
    std::vector<NodeId> open;
    for (NodeId id : s_.nodes.keys()) {
      const Node& node = s_.nodes[id];
      if (s_.racks[node.rack].island != island) continue;
      if (any_class || node.node_class == wanted_class) open.push_back(id);
    }
    for (int w = 0; w < wanted; ++w) {
      std::erase_if(open, [&](NodeId id) { return free_[id] < group.slots; });
      if (open.empty()) break;
      size_t choice = at(random_.below(static_cast<int>(open.size())));
      if (w > 0 && !random_.chance(shape_.scatter)) {
        const auto next = std::lower_bound(open.begin(), open.end(), group.workers.back());
        choice = next == open.end() ? 0 : static_cast<size_t>(next - open.begin());
      }
      group.workers.push_back(open[choice]);
      free_[open[choice]] -= group.slots;
      if (random_.chance(shape_.pinned)) group.pinned.push_back(w);
    }
    return !group.workers.empty();
  }

  void add_job(Group group) {
    Job job;
    job.id = fmt::format("j{}", s_.jobs.size());
    job.movable = !random_.chance(shape_.immovable_jobs);
    job.state_bytes = random_.between(1, 4) * int64_t{1'000'000'000};
    job.first_group = s_.groups.push_back(std::move(group));
    job.group_count = 1;
    s_.jobs.push_back(std::move(job));
  }

  static size_t at(int i) { return static_cast<size_t>(i); }

  Random random_;
  const RandomShape& shape_;
  Snapshot s_;
  IdVector<NodeId, int> free_;
};

}  // namespace

uint64_t Random::next() {
  state_ += 0x9E3779B97F4A7C15u;
  uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

Snapshot random_snapshot(uint64_t seed, const RandomShape& shape) {
  return Generator(seed, shape).run();
}

}  // namespace monkeytree
