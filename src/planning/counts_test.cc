#include "planning/counts.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "cluster/fragmentation.h"
#include "planning/counts_compare.h"
#include "planning/drawn_instance.h"
#include "planning/order.h"
#include "planning/plan.h"

namespace monkeytree {
namespace {

/// Slots that movable workers of a class take; more than one where it is mixed.
std::map<ClassId, std::set<int>> sizes_by_class(const Snapshot& snapshot) {
  std::map<ClassId, std::set<int>> out;
  for (GroupId g : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[g];
    for (int w = 0; w < static_cast<int>(group.workers.size()); ++w) {
      if (snapshot.immovable(g, w)) continue;
      out[snapshot.nodes[group.workers[static_cast<size_t>(w)]].node_class].insert(group.slots);
    }
  }
  return out;
}

/// Units left on a node for workers that could move there, worker by worker.
int room_on(const Snapshot& snapshot, NodeId id, int unit) {
  const Node& node = snapshot.nodes[id];
  if (node.state != NodeState::kUp) return 0;
  int held = 0;
  int movable = 0;
  for (GroupId g : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[g];
    for (int w = 0; w < static_cast<int>(group.workers.size()); ++w) {
      if (group.workers[static_cast<size_t>(w)] != id) continue;
      (snapshot.immovable(g, w) ? held : movable) += group.slots;
    }
  }
  return (node.slots - held) / unit - movable / unit;
}

void expect_true(const Snapshot& snapshot, const Counts& counts) {
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  const std::map<ClassId, std::set<int>> sizes = sizes_by_class(snapshot);
  EXPECT_EQ(counts.excess(), excess(degrees, bounds(snapshot)));
  for (RackId rack : snapshot.racks.keys()) {
    EXPECT_EQ(counts.rack(rack).degree, degrees[rack]);
    const bool over = degrees[rack] > snapshot.racks[rack].bound();
    EXPECT_EQ(std::binary_search(counts.over().begin(), counts.over().end(), rack), over);
    for (GroupId g : snapshot.groups.keys()) {
      int total = 0;
      for (size_t w = 0; w < snapshot.groups[g].workers.size(); ++w) {
        total += snapshot.rack_of(g, static_cast<int>(w)) == rack;
      }
      EXPECT_EQ(counts.total(g, rack), total);
    }
    for (const auto& [node_class, slots] : sizes) {
      EXPECT_EQ(counts.mixed(node_class), slots.size() > 1);
      const int unit = slots.size() > 1 ? 1 : *slots.begin();
      int free = 0;
      for (NodeId node : snapshot.racks[rack].nodes) {
        if (snapshot.nodes[node].node_class != node_class) continue;
        free += room_on(snapshot, node, unit);
      }
      EXPECT_EQ(counts.free(rack, node_class), free);
    }
  }
}

TEST(Counts, SayWhatTheSnapshotSays) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kSmall);
    expect_true(instance.snapshot, Counts(instance.snapshot));
    if (HasFailure()) FAIL() << fmt::format("seed {}: {}", seed, instance.describe());
  }
}

TEST(Counts, RacksOfAKindAreAlike) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Snapshot snapshot = draw_instance(seed, DrawnSize::kLarge).snapshot;
    const Counts counts(snapshot);
    std::set<RackId> seen;
    for (const auto& [kind, racks] : counts.kinds()) {
      EXPECT_TRUE(std::is_sorted(racks.begin(), racks.end()));
      for (RackId rack : racks) {
        EXPECT_TRUE(seen.insert(rack).second);
        EXPECT_EQ(kind.island, snapshot.racks[rack].island);
        EXPECT_LE(kind.slack, counts.rack(rack).bound - counts.rack(rack).degree);
        for (size_t c = 0; c < counts.class_count(); ++c) {
          EXPECT_EQ(kind.free[c], counts.free(rack, ClassId(c)));
        }
      }
    }
    for (RackId rack : snapshot.racks.keys()) {
      int room = 0;
      for (size_t c = 0; c < counts.class_count(); ++c) {
        room += std::max(0, counts.free(rack, ClassId(c)));
      }
      EXPECT_EQ(seen.count(rack), room > 0 ? 1 : 0);
    }
  }
}

/// A shift gives the counts of the snapshot after the moves.
TEST(Counts, ShiftAsTheMovesDo) {
  int shifted = 0;
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const DrawnInstance instance = draw_instance(seed, DrawnSize::kSmall);
    PlanOptions options = instance.options();
    options.work_limit = 5000;
    const Plan found = plan(instance.snapshot, options);
    const Snapshot after = apply_rounds(instance.snapshot, found.rounds);
    std::map<std::tuple<GroupId, ClassId, RackId>, int> deltas;
    for (GroupId g : after.groups.keys()) {
      for (size_t w = 0; w < after.groups[g].workers.size(); ++w) {
        const NodeId from = instance.snapshot.groups[g].workers[w];
        const NodeId to = after.groups[g].workers[w];
        --deltas[{g, after.nodes[from].node_class, after.nodes[from].rack}];
        ++deltas[{g, after.nodes[to].node_class, after.nodes[to].rack}];
      }
    }
    std::vector<CountChange> changes;
    for (const auto& [key, delta] : deltas) {
      const auto& [group, node_class, rack] = key;
      if (delta != 0) changes.push_back({group, node_class, rack, delta});
    }
    shifted += !changes.empty();
    Counts counts(instance.snapshot);
    counts.shift(changes);
    expect_same_counts(counts, Counts(after));
    if (HasFailure()) FAIL() << fmt::format("seed {}: {}", seed, instance.describe());
  }
  EXPECT_GT(shifted, 100);
}

}  // namespace
}  // namespace monkeytree
