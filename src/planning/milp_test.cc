#include "planning/milp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/check.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using testing::IsEmpty;

/// Tries every placement of counts. Written from the rules of docs/formats.md, not from the
/// program.
class BruteForce {
 public:
  BruteForce(const Snapshot& s, const IdVector<RackId, int>& bounds) : s_(s), bounds_(bounds) {
    for (GroupId id : s.groups.keys()) {
      const Group& group = s.groups[id];
      for (size_t w = 0; w < group.workers.size(); ++w) {
        const Node& node = s.nodes[group.workers[w]];
        ++at_[{id, node.rack}];
        if (s.immovable(id, static_cast<int>(w))) {
          held_[group.workers[w]] += group.slots;
          continue;
        }
        slots_ = group.slots;
        Kind& kind = kinds_[{id, node.node_class, s.racks[node.rack].island}];
        ++kind.now[node.rack];
        --at_[{id, node.rack}];
        if (node.state != NodeState::kUp) ++kind.stay[node.rack];
        ++kind.total;
      }
    }
    for (NodeId id : s.nodes.keys()) {
      if (s.nodes[id].state != NodeState::kUp) continue;
      room_[{s.nodes[id].node_class, s.nodes[id].rack}] += (s.nodes[id].slots - held_[id]) / slots_;
    }
    for (auto& [key, kind] : kinds_) order_.push_back(key);
  }

  /// (excess, moves), least first.
  std::pair<int, int> best() {
    place(0, RackId(0), -1);
    return best_;
  }

 private:
  using Key = std::tuple<GroupId, ClassId, IslandId>;
  struct Kind {
    std::map<RackId, int> now, stay;
    int total = 0;
  };

  void place(size_t index, RackId rack, int left) {
    if (index == order_.size()) return finish();
    const auto& [group, node_class, island] = order_[index];
    Kind& kind = kinds_[order_[index]];
    if (left < 0) left = kind.total;
    if (rack.value == static_cast<int>(s_.racks.size())) {
      if (left == 0) place(index + 1, RackId(0), -1);
      return;
    }
    const RackId next(rack.value + 1);
    if (s_.racks[rack].island != island) return place(index, next, left);
    int& room = room_[{node_class, rack}];
    for (int n = 0; n <= left; ++n) {
      const int used = std::max(0, n - kind.stay[rack]);
      if (used > room) break;
      const int gone = std::max(0, kind.now[rack] - n);
      room -= used;
      moves_ += gone;
      at_[{group, rack}] += n;
      place(index, next, left - n);
      at_[{group, rack}] -= n;
      moves_ -= gone;
      room += used;
    }
  }

  void finish() {
    IdVector<RackId, int> degrees(s_.racks.size(), 0);
    for (const auto& [key, n] : at_) {
      const Group& group = s_.groups[key.first];
      if (n > 0 && n < static_cast<int>(group.workers.size())) degrees[key.second] += group.rings;
    }
    best_ = std::min(best_, std::pair(excess(degrees, bounds_), moves_));
  }

  const Snapshot& s_;
  const IdVector<RackId, int>& bounds_;
  std::map<Key, Kind> kinds_;
  std::vector<Key> order_;
  std::map<std::pair<GroupId, RackId>, int> at_;
  std::map<NodeId, int> held_;
  std::map<std::pair<ClassId, RackId>, int> room_;
  int slots_ = 1;
  int moves_ = 0;
  std::pair<int, int> best_{INT32_MAX, INT32_MAX};
};

void expect_sound(const Snapshot& s, const Plan& plan) {
  ASSERT_THAT(check_plan(s, record_of(s, plan, "")), IsEmpty());
}

std::vector<RandomShape> tiny_shapes() {
  RandomShape plain;
  plain.racks_low = 3;
  plain.racks_high = 4;
  plain.nodes_per_rack = 3;
  plain.bound_low = 0;
  plain.bound_high = 2;
  plain.scatter = 0.7;
  RandomShape weighted = plain;
  weighted.weights = {1, 8};
  weighted.pinned = 0.1;
  weighted.fill = 0.85;
  RandomShape rough = plain;
  rough.pinned = 0.15;
  rough.drained = 0.15;
  rough.immovable_jobs = 0.1;
  rough.uneven_bounds = true;
  RandomShape classes = plain;
  classes.classes = 2;
  classes.drained = 0.1;
  RandomShape islands = plain;
  islands.racks_low = islands.racks_high = 4;
  islands.islands = 2;
  RandomShape slots = plain;
  slots.nodes_per_rack = 2;
  slots.slots_per_node = 4;
  slots.worker_slots = {2};
  slots.largest_group = 5;
  slots.pinned = 0.15;
  slots.drained = 0.15;
  return {plain, weighted, rough, classes, islands, slots};
}

TEST(Milp, EqualsBruteForceOnTinyClusters) {
  Random random(7);
  std::map<PlanStatus, int> seen;
  const std::vector<RandomShape> shapes = tiny_shapes();
  for (int i = 0; i < 600; ++i) {
    const Snapshot s =
        random_snapshot(random.next(), shapes[static_cast<size_t>(i) % shapes.size()]);
    PlanOptions options;
    options.best_effort = i % 4 == 1;
    if (i % 5 == 2) options.mend = std::vector<RackId>{RackId(0), RackId(1)};
    const IdVector<RackId, int> bounds = effective_bounds(s, options);
    const auto [excess, moves] = BruteForce(s, bounds).best();
    const Plan answer = plan_milp(s, options, 60);
    ++seen[answer.status];
    if (answer.excess_before == 0) {
      ASSERT_EQ(answer.status, PlanStatus::kCompliant) << i;
      ASSERT_EQ(moves, 0) << i;
    } else if (excess > 0 && !options.best_effort) {
      ASSERT_EQ(answer.status, PlanStatus::kInfeasible) << i;
    } else {
      ASSERT_EQ(answer.status, PlanStatus::kOptimal) << i;
      ASSERT_EQ(answer.moves, moves) << i;
      ASSERT_EQ(answer.lower_bound, moves) << i;
      ASSERT_EQ(answer.excess_after, excess) << i;
    }
    expect_sound(s, answer);
  }
  EXPECT_GT(seen[PlanStatus::kCompliant], 20);
  EXPECT_GT(seen[PlanStatus::kOptimal], 200);
  EXPECT_GT(seen[PlanStatus::kInfeasible], 20);
}

TEST(Milp, DigestDiagrams) {
  const std::string b = "R1 AAAAABB.\nR2 AAACCCD.\nR3 AACCCBBD\nR4 CBBDDD..\n";
  const std::string c = "R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n";
  const auto moves = [](const std::string& rows, int bound) {
    const Snapshot s = parse_letters(rows, {bound, {}}).value();
    const MilpAnswer answer = milp_answer(s, {}, 60);
    EXPECT_EQ(answer.lower_bound, answer.moves);
    return answer.moves;
  };
  EXPECT_EQ(moves(b, 1), 12);
  EXPECT_EQ(moves(b, 2), 4);
  EXPECT_EQ(moves(b, 3), 1);
  EXPECT_EQ(moves(c, 1), 9);
  EXPECT_EQ(moves(c, 2), 2);
  EXPECT_EQ(moves(c, 3), 0);
}

TEST(Milp, NamesTheRacksInConflict) {
  // Two jobs each larger than a rack share one of three racks: the bound of Theorem 1 is tight.
  const Snapshot s = parse_letters("R1 AAA\nR2 ABB\nR3 BB.\nR4 CC.\n", {1, {}}).value();
  const Plan plan = plan_milp(s, {}, 60);
  EXPECT_EQ(plan.status, PlanStatus::kOptimal);
  Snapshot fixed = s;
  fixed.jobs[JobId(0)].movable = fixed.jobs[JobId(1)].movable = false;
  const Plan none = plan_milp(fixed, {}, 60);
  EXPECT_EQ(none.status, PlanStatus::kInfeasible);
  EXPECT_EQ(none.conflict, std::vector<RackId>{RackId(1)});
  EXPECT_THAT(check_plan(fixed, record_of(fixed, none, "")), IsEmpty());
}

TEST(Milp, AnEmptyClusterIsCompliant) {
  EXPECT_EQ(plan_milp(Snapshot(), {}, 1).status, PlanStatus::kCompliant);
}

TEST(Milp, NoTimeIsUnknown) {
  const Snapshot s = parse_letters("R1 AB\nR2 AB\nR3 ..\n", {1, {}}).value();
  EXPECT_EQ(milp_answer(s, {}, 0).status, PlanStatus::kUnknown);
}

TEST(Milp, MixedSlotsNeverClaimTooMuch) {
  RandomShape mixed;
  mixed.slots_per_node = 4;
  mixed.nodes_per_rack = 2;
  mixed.worker_slots = {1, 2, 3};
  mixed.fill = 0.8;
  mixed.racks_low = mixed.racks_high = 4;
  mixed.bound_low = mixed.bound_high = 1;
  int inexact = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Snapshot s = random_snapshot(seed, mixed);
    inexact += !milp_answer(s, {}, 0).exact;
    expect_sound(s, plan_milp(s, {}, 0.5));
  }
  EXPECT_GT(inexact, 20);
}

}  // namespace
}  // namespace monkeytree
