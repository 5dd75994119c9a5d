#include "planning/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "planning/check.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using testing::IsEmpty;

/// Racks r1, r2, … as rows of letters.
Snapshot rows(const std::vector<std::string>& racks, int bound) {
  std::string text;
  for (size_t i = 0; i < racks.size(); ++i) {
    text += "r" + std::to_string(i + 1) + " " + racks[i] + "\n";
  }
  return parse_letters(text, {bound, {}}).value();
}

GroupId group_of(const Snapshot& snapshot, char letter) {
  for (const Job& job : snapshot.jobs) {
    if (job.id[0] == letter) return job.first_group;
  }
  return GroupId();
}

/// Counts per (group, class, rack).
using Placement = std::map<std::tuple<GroupId, ClassId, RackId>, int>;

Placement placement_of(const Snapshot& s) {
  Placement out;
  for (GroupId id : s.groups.keys()) {
    for (NodeId node : s.groups[id].workers) {
      ++out[{id, s.nodes[node].node_class, s.nodes[node].rack}];
    }
  }
  return out;
}

std::vector<CountChange> changes_between(const Placement& before, const Placement& after) {
  Placement delta = after;
  for (const auto& [key, count] : before) delta[key] -= count;
  std::vector<CountChange> out;
  for (const auto& [key, d] : delta) {
    if (d != 0) out.push_back({std::get<0>(key), std::get<1>(key), std::get<2>(key), d});
  }
  return out;
}

CountChange change(const Snapshot& s, char job, int rack, int delta) {
  return {group_of(s, job), ClassId(0), RackId(rack - 1), delta};
}

int move_count(const std::vector<Round>& rounds) {
  std::set<std::pair<GroupId, int>> workers;
  for (const Round& round : rounds) {
    for (const Move& move : round) workers.emplace(move.group, move.worker);
  }
  return static_cast<int>(workers.size());
}

int staged_count(const std::vector<Round>& rounds) {
  int count = 0;
  for (const Round& round : rounds) {
    for (const Move& move : round) count += move.to == kStaging;
  }
  return count;
}

/// What the independent checker says about the legality of the rounds.
std::vector<std::string> violations(const Snapshot& s, const std::vector<Round>& rounds) {
  Plan plan;
  plan.best_effort = true;  // the bounds are not the point here
  plan.bounds = IdVector<RackId, int>(s.racks.size(), 0);
  plan.before = fragmentation(s);
  plan.after = fragmentation(apply_rounds(s, rounds));
  plan.excess_before = excess(plan.before, plan.bounds);
  plan.excess_after = excess(plan.after, plan.bounds);
  plan.moves = move_count(rounds);
  plan.lower_bound = 0;
  plan.status = PlanStatus::kFeasible;
  plan.rounds = rounds;
  std::vector<std::string> out = check_plan(s, record_of(s, plan, ""));
  // Random changes need not lower the excess.
  std::erase_if(out, [](const std::string& v) {
    return v == "the moves make the excess larger" ||
           v.starts_with("every rack is within its bound before");
  });
  return out;
}

/// Workers that move between the racks (from 1), in order of rounds, as "A3:1>2".
std::vector<std::string> journeys(const Snapshot& s, const std::vector<Round>& rounds) {
  std::vector<std::string> out;
  for (const Round& round : rounds) {
    for (const Move& move : round) {
      const auto rack = [&](NodeId node) {
        return node == kStaging ? std::string("@") : std::to_string(s.nodes[node].rack.value + 1);
      };
      out.push_back(s.jobs[s.groups[move.group].job].id + std::to_string(move.worker) + ":" +
                    rack(move.from) + ">" + rack(move.to));
    }
  }
  return out;
}

TEST(Order, OneMoveIntoAFreeNode) {
  const Snapshot s = rows({"AAB.", "BB.."}, 1);
  const auto rounds = order_moves(s, std::vector{change(s, 'B', 1, -1), change(s, 'B', 2, 1)});
  ASSERT_TRUE(rounds);
  ASSERT_EQ(rounds->size(), 1u);
  const Move expected{group_of(s, 'B'), 0, NodeId(2), NodeId(6)};
  EXPECT_EQ(rounds->front(), Round{expected});
  EXPECT_THAT(violations(s, *rounds), IsEmpty());
}

TEST(Order, TheWorkerAtTheEndFacingTheDestinationLeaves) {
  // A's ring: 0 1 2 | 3 4 | 5 6 7 and back to 0.
  const Snapshot s = rows({"AAA.", "AA..", "AAA."}, 2);
  const auto leaves = [&](int from, int to) {
    const auto rounds =
        order_moves(s, std::vector{change(s, 'A', from, -1), change(s, 'A', to, 1)});
    return journeys(s, *rounds).front();
  };
  EXPECT_EQ(leaves(1, 2), "A2:1>2");
  EXPECT_EQ(leaves(1, 3), "A0:1>3");
  EXPECT_EQ(leaves(2, 1), "A3:2>1");
  EXPECT_EQ(leaves(2, 3), "A4:2>3");
  EXPECT_EQ(leaves(3, 1), "A7:3>1");
  EXPECT_EQ(leaves(3, 2), "A5:3>2");
}

TEST(Order, WorkersThatLeaveTogetherAreARun) {
  const Snapshot s = rows({"AAAAAA", "AB....", "......"}, 2);
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, -2), change(s, 'A', 3, 2)});
  ASSERT_TRUE(rounds);
  const auto moved = journeys(s, *rounds);
  // Either end of the run keeps the ring in order; what must not happen is a hole in the middle.
  EXPECT_TRUE(moved == (std::vector<std::string>{"A0:1>3", "A1:1>3"})) << moved[0] << moved[1];
}

TEST(Order, PairsRacksThatFollowOneAnotherInTheRing) {
  // Ring 0 1 | 2 3 | 4 5 | 6 7: racks 1 and 3 lose one each, racks 2 and 4 gain one each.
  const Snapshot s = rows({"AA..", "AA..", "AA..", "AA.."}, 2);
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 3, -1),
                                                 change(s, 'A', 2, 1), change(s, 'A', 4, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(journeys(s, *rounds), (std::vector<std::string>{"A1:1>2", "A5:3>4"}));
}

TEST(Order, AWorkerOnAnUpNodeLeavesFirst) {
  Snapshot s = rows({"AAB", "CCC", "A.."}, 2);
  s.nodes[NodeId(1)].state = NodeState::kDrain;  // worker 1 of A, at the end facing r3
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 3, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(journeys(s, *rounds), std::vector<std::string>{"A0:1>3"});
}

TEST(Order, PinnedWorkersStay) {
  Snapshot s = rows({"AA.", "A.."}, 2);
  s.groups[GroupId(0)].pinned = {1};
  const std::vector<CountChange> one{change(s, 'A', 1, -1), change(s, 'A', 2, 1)};
  EXPECT_EQ(journeys(s, *order_moves(s, one)), std::vector<std::string>{"A0:1>2"});
  const std::vector<CountChange> two{change(s, 'A', 1, -2), change(s, 'A', 2, 2)};
  EXPECT_FALSE(order_moves(s, two));
}

TEST(Order, DrainedAndForeignNodesAreNoDestinations) {
  Snapshot s = rows({"AA", "...."}, 2);
  s.classes.push_back("other");
  s.nodes[NodeId(2)].state = NodeState::kDrain;
  s.nodes[NodeId(3)].node_class = ClassId(1);
  s.nodes[NodeId(4)].state = NodeState::kReserved;
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 2, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->front().front().to, NodeId(5));
  EXPECT_FALSE(order_moves(s, std::vector{change(s, 'A', 1, -2), change(s, 'A', 2, 2)}));
}

TEST(Order, ASwapOnAFullClusterStagesOneWorker) {
  Snapshot s = rows({"AB", "BA"}, 2);
  s.jobs[JobId(0)].state_bytes = 10;
  s.jobs[JobId(1)].state_bytes = 5;
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, 1), change(s, 'A', 2, -1),
                                                 change(s, 'B', 1, -1), change(s, 'B', 2, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(journeys(s, *rounds), (std::vector<std::string>{"B0:1>@", "A1:2>1", "B0:@>2"}));
  EXPECT_EQ(rounds->size(), 3u);
  EXPECT_EQ(move_count(*rounds), 2);
  EXPECT_THAT(violations(s, *rounds), IsEmpty());
}

TEST(Order, ASwapBesideAFreeNodeIsTwoRounds) {
  const Snapshot s = rows({"AB.", "BA"}, 2);
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, 1), change(s, 'A', 2, -1),
                                                 change(s, 'B', 1, -1), change(s, 'B', 2, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(journeys(s, *rounds), (std::vector<std::string>{"A1:2>1", "B0:1>2"}));
  EXPECT_EQ(rounds->size(), 2u);
}

TEST(Order, PairingJoinsAFullSwapWithAFreeRack) {
  // By ring neighbours A would swap r1 with r2 (full, so staged) and go r3 -> r4. Exchanging A's
  // destinations lets everything pass through the free node of r4.
  const Snapshot s = rows({"AAB", "ABB", "AAC", "AC."}, 3);
  const std::vector<CountChange> changes{change(s, 'A', 1, -1), change(s, 'A', 2, 1),
                                         change(s, 'B', 1, 1),  change(s, 'B', 2, -1),
                                         change(s, 'A', 3, -1), change(s, 'A', 4, 1)};
  const auto rounds = order_moves(s, changes);
  ASSERT_TRUE(rounds);
  EXPECT_EQ(staged_count(*rounds), 0);
  EXPECT_THAT(violations(s, *rounds), IsEmpty());
  EXPECT_EQ(move_count(*rounds), 3);
}

TEST(Order, AWorkerPrefersANodeWithoutItsOwnJob) {
  Snapshot s = rows({"AA", "A.", ".."}, 2);
  for (Node& node : s.nodes) node.slots = 2;
  const auto rounds = order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 2, 1)});
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->front().front().to, NodeId(3));  // node 2 hosts a worker of A
}

TEST(Order, MixedSlotsFindANodeOrSaySo) {
  // Nodes of 4 slots; A takes 3, B takes 2.
  Snapshot s = rows({"AB", ".", "."}, 3);
  for (Node& node : s.nodes) node.slots = 4;
  s.groups[group_of(s, 'A')].slots = 3;
  s.groups[group_of(s, 'B')].slots = 2;
  const auto apart = order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 2, 1),
                                                change(s, 'B', 1, -1), change(s, 'B', 3, 1)});
  ASSERT_TRUE(apart);
  EXPECT_THAT(violations(s, *apart), IsEmpty());
  EXPECT_FALSE(order_moves(s, std::vector{change(s, 'A', 1, -1), change(s, 'A', 2, 1),
                                          change(s, 'B', 1, -1), change(s, 'B', 2, 1)}));
}

TEST(Order, CountsThatDoNotAddUpAreRefused) {
  const Snapshot s = rows({"AB", "B."}, 2);
  EXPECT_FALSE(order_moves(s, std::vector{change(s, 'B', 1, -1)}));
  EXPECT_FALSE(order_moves(s, std::vector{change(s, 'B', 1, -2), change(s, 'B', 2, 2)}));
  EXPECT_FALSE(order_moves(s, std::vector{change(s, 'B', 2, -1), change(s, 'B', 1, 1)}));
  EXPECT_TRUE(order_moves(s, {})->empty());
}

/// Takes some movable workers off and seats them anew; empty where they do not fit.
std::optional<Placement> shuffled(Random& random, Snapshot s, double share) {
  Occupancy occupancy(s);
  std::vector<std::pair<GroupId, int>> off;
  for (GroupId id : s.groups.keys()) {
    for (size_t w = 0; w < s.groups[id].workers.size(); ++w) {
      const int worker = static_cast<int>(w);
      if (s.immovable(id, worker) || !random.chance(share)) continue;
      occupancy.remove(s.groups[id].workers[w], {id, worker}, s.groups[id].slots);
      off.emplace_back(id, worker);
    }
  }
  for (const auto& [id, worker] : off) {
    NodeId& node = s.groups[id].workers[static_cast<size_t>(worker)];
    std::vector<NodeId> open;
    for (NodeId to : s.nodes.keys()) {
      if (s.nodes[to].state == NodeState::kUp &&
          s.nodes[to].node_class == s.nodes[node].node_class &&
          s.racks[s.nodes[to].rack].island == s.racks[s.nodes[node].rack].island &&
          occupancy.free_slots(to) >= s.groups[id].slots) {
        open.push_back(to);
      }
    }
    if (open.empty()) return std::nullopt;
    node = open[static_cast<size_t>(random.below(static_cast<int>(open.size())))];
    occupancy.add(node, {id, worker}, s.groups[id].slots);
  }
  return placement_of(s);
}

void expect_legal_orders(const RandomShape& shape, uint64_t seed, int count, double share,
                         bool may_fail) {
  Random random(seed);
  int ordered = 0, staged = 0, failed = 0;
  for (int i = 0; i < count; ++i) {
    const Snapshot s = random_snapshot(random.next(), shape);
    const std::optional<Placement> target = shuffled(random, s, share);
    if (!target) continue;
    const std::vector<CountChange> changes = changes_between(placement_of(s), *target);
    Occupancy occupancy(s);
    const auto rounds = order_moves(s, changes, occupancy);
    for (NodeId node : s.nodes.keys()) {
      ASSERT_EQ(occupancy.seats(node), Occupancy(s).seats(node));
    }
    if (!rounds) {
      ASSERT_TRUE(may_fail) << "seed " << seed << " instance " << i;
      ++failed;
      continue;
    }
    ASSERT_THAT(violations(s, *rounds), IsEmpty()) << "seed " << seed << " instance " << i;
    int moves = 0;
    for (const CountChange& c : changes) moves += std::max(c.delta, 0);
    ASSERT_EQ(move_count(*rounds), moves);
    ASSERT_EQ(changes_between(placement_of(s), placement_of(apply_rounds(s, *rounds))), changes);
    ASSERT_EQ(order_moves(s, changes), rounds);
    ++ordered;
    staged += staged_count(*rounds);
  }
  EXPECT_GT(ordered, count / 8);
  EXPECT_LE(failed, ordered / 4);
  testing::Test::RecordProperty("staged", staged);
}

TEST(Order, RandomChangesAreLegalAndComplete) {
  RandomShape full;
  expect_legal_orders(full, 1, 1000, 0.2, false);
  RandomShape rough;
  rough.fill = 0.9;
  rough.pinned = 0.1;
  rough.drained = 0.1;
  rough.immovable_jobs = 0.1;
  rough.classes = 2;
  rough.islands = 2;
  rough.uneven_racks = true;
  expect_legal_orders(rough, 2, 1000, 0.3, false);
  RandomShape slots;
  slots.slots_per_node = 4;
  slots.worker_slots = {2};
  slots.drained = 0.1;
  slots.pinned = 0.1;
  expect_legal_orders(slots, 3, 500, 0.3, false);
}

TEST(Order, RandomColdPlansAreLegalAndComplete) {
  RandomShape cold;
  cold.racks_low = cold.racks_high = 60;
  cold.nodes_per_rack = 8;
  cold.largest_group = 200;
  cold.fill = 0.97;
  expect_legal_orders(cold, 4, 20, 0.5, false);
}

TEST(Order, RandomMixedSlotsAreLegal) {
  RandomShape mixed;
  mixed.slots_per_node = 4;
  mixed.worker_slots = {1, 2, 3};
  mixed.fill = 0.7;
  expect_legal_orders(mixed, 5, 500, 0.15, true);
}

TEST(Reserve, FreezesJobsAtTheirDestinationAndHoldsBothEnds) {
  const Snapshot s = rows({"AAB.", "BB..", "C..."}, 1);
  const Move move{group_of(s, 'B'), 0, NodeId(2), NodeId(6)};
  const Snapshot r = reserve(s, std::vector{move});
  EXPECT_EQ(fragmentation(r)[RackId(0)], 0);
  EXPECT_EQ(fragmentation(r)[RackId(1)], 0);
  EXPECT_FALSE(r.jobs[JobId(1)].movable);
  EXPECT_TRUE(r.jobs[JobId(0)].movable);
  Occupancy occupancy(r);
  EXPECT_EQ(occupancy.free_slots(NodeId(6)), 0);
  EXPECT_EQ(occupancy.free_slots(NodeId(2)), 0) << "the source is still in use";
  EXPECT_EQ(r.jobs.back().id, "@in-flight");
  EXPECT_FALSE(r.jobs.back().movable);
}

TEST(Reserve, AnExchangeHoldsEachNodeOnce) {
  const Snapshot s = rows({"AB", "BA"}, 2);
  const GroupId a = group_of(s, 'A'), b = group_of(s, 'B');
  const std::vector<Move> moves{
      {b, 0, NodeId(1), kStaging}, {a, 1, NodeId(3), NodeId(1)}, {b, 0, kStaging, NodeId(3)}};
  const Snapshot r = reserve(s, moves);
  EXPECT_EQ(r.groups[a].workers, (std::vector{NodeId(0), NodeId(1)}));
  EXPECT_EQ(r.groups[b].workers, (std::vector{NodeId(3), NodeId(2)}));
  EXPECT_EQ(r.jobs.size(), s.jobs.size()) << "full before and after: nothing left to hold";
  for (int slots : {0, 1, 2, 3}) EXPECT_EQ(Occupancy(r).free_slots(NodeId(slots)), 0);
}

TEST(Reserve, NothingInFlightChangesNothing) {
  const Snapshot s = rows({"AB", "BA"}, 2);
  EXPECT_EQ(reserve(s, {}).jobs.size(), s.jobs.size());
}

}  // namespace
}  // namespace monkeytree
