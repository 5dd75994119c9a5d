#include "routing/routes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"
#include "routing/random_cluster.h"

namespace monkeytree {
namespace {

Snapshot parse(const std::string& json) {
  Diagnostics diagnostics;
  std::optional<Snapshot> snapshot = parse_snapshot(json, "test.json", diagnostics);
  EXPECT_TRUE(snapshot) << diagnostics.text();
  return snapshot.value_or(Snapshot());
}

/// Racks given as text, a letter a worker ("AAB."); each letter is a job.
Snapshot racks(const std::vector<std::string>& rows, int uplinks) {
  std::string fabric;
  std::map<char, std::string> jobs;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string nodes;
    for (size_t n = 0; n < rows[r].size(); ++n) {
      const std::string name = "\"r" + std::to_string(r) + "n" + std::to_string(n) + "\"";
      nodes += (n == 0 ? "" : ",") + name;
      if (rows[r][n] != '.') jobs[rows[r][n]] += (jobs[rows[r][n]].empty() ? "" : ",") + name;
    }
    fabric += (r == 0 ? "" : ",") + ("{\"name\":\"r" + std::to_string(r)) +
              "\",\"uplinks\":" + std::to_string(uplinks) + ",\"nodes\":[" + nodes + "]}";
  }
  std::string text;
  for (const auto& [letter, workers] : jobs) {
    text += (text.empty() ? "" : ",") + (std::string("{\"id\":\"") + letter) + "\",\"workers\":[" +
            workers + "]}";
  }
  return parse(R"({"schema":"monkeytree/snapshot/v1","fabric":{"racks":[)" + fabric +
               "]},\"jobs\":[" + text + "]}");
}

/// Recomputes from the snapshot everything that routes claim; shares no code with their making.
class Checker {
 public:
  Checker(const Snapshot& snapshot, const Routes& routes) : snapshot_(snapshot), routes_(routes) {}

  void check() {
    check_orders();
    check_flows();
    check_uplinks();
    check_shared();
  }

  int64_t meeting_pairs() const {
    int64_t pairs = 0;
    for (const auto& [link, flows] : links_) {
      pairs += static_cast<int64_t>(flows.size() * (flows.size() - 1) / 2);
    }
    return pairs;
  }

 private:
  using Link = std::tuple<int, int, int>;  // rack, down, spine
  using Hop = std::tuple<int, int, int, int>;

  const std::string& rack_name(GroupId group, int worker) const {
    return snapshot_.racks[snapshot_.rack_of(group, worker)].name;
  }

  void check_orders() {
    ASSERT_EQ(routes_.orders.size(), snapshot_.groups.size());
    for (GroupId group : snapshot_.groups.keys()) {
      const std::vector<int>& order = routes_.orders[group];
      std::vector<int> sorted = order;
      std::sort(sorted.begin(), sorted.end());
      std::vector<int> all(snapshot_.groups[group].workers.size());
      std::iota(all.begin(), all.end(), 0);
      ASSERT_EQ(sorted, all) << "not a permutation";
      std::map<std::string, int> leaves;
      for (size_t i = 0; i < order.size(); ++i) {
        const int to = order[(i + 1) % order.size()];
        if (rack_name(group, order[i]) == rack_name(group, to)) continue;
        ++leaves[rack_name(group, order[i])];
        for (int ring = 0; ring < snapshot_.groups[group].rings; ++ring) {
          expected_.insert({group.value, ring, order[i], to});
        }
      }
      for (const auto& [rack, times] : leaves) ASSERT_EQ(times, 1) << "leaves " << rack;
    }
  }

  void check_flows() {
    std::set<Hop> seen;
    for (const RoutedFlow& routed : routes_.flows) {
      const Flow& f = routed.flow;
      ASSERT_TRUE(seen.insert({f.group.value, f.ring, f.from_worker, f.to_worker}).second);
      ASSERT_EQ(f.from_rack, snapshot_.rack_of(f.group, f.from_worker));
      ASSERT_EQ(f.to_rack, snapshot_.rack_of(f.group, f.to_worker));
    }
    ASSERT_EQ(seen, expected_);
    const auto degrees = fragmentation(snapshot_);
    ASSERT_EQ(routes_.colors,
              degrees.empty() ? 0 : *std::max_element(degrees.begin(), degrees.end()));
  }

  void check_uplinks() {
    for (size_t i = 0; i < routes_.flows.size(); ++i) {
      const RoutedFlow& routed = routes_.flows[i];
      const std::vector<int>& up = snapshot_.racks[routed.flow.from_rack].spines;
      const std::vector<int>& down = snapshot_.racks[routed.flow.to_rack].spines;
      const bool lost =
          std::count(routes_.unroutable.begin(), routes_.unroutable.end(), static_cast<int>(i)) > 0;
      if (lost) {
        ASSERT_EQ(routed.uplink, -1);
        const bool same_island = snapshot_.racks[routed.flow.from_rack].island ==
                                 snapshot_.racks[routed.flow.to_rack].island;
        for (int spine : up) {
          ASSERT_TRUE(!same_island || std::count(down.begin(), down.end(), spine) == 0);
        }
        continue;
      }
      ASSERT_EQ(std::count(up.begin(), up.end(), routed.uplink), 1);
      ASSERT_EQ(std::count(down.begin(), down.end(), routed.uplink), 1);
      links_[{routed.flow.from_rack.value, 0, routed.uplink}].push_back(static_cast<int>(i));
      links_[{routed.flow.to_rack.value, 1, routed.uplink}].push_back(static_cast<int>(i));
    }
  }

  void check_shared() {
    std::map<Link, std::vector<int>> expected;
    for (const auto& [link, flows] : links_) {
      if (flows.size() > 1) expected[link] = flows;
    }
    std::map<Link, std::vector<int>> claimed;
    for (const Shared& shared : routes_.shared) {
      claimed[{shared.rack.value, shared.up ? 0 : 1, shared.uplink}] = shared.flows;
    }
    ASSERT_EQ(claimed, expected);
    ASSERT_EQ(routes_.isolated, expected.empty() && routes_.unroutable.empty());
  }

  const Snapshot& snapshot_;
  const Routes& routes_;
  std::set<Hop> expected_;
  std::map<Link, std::vector<int>> links_;
};

std::vector<int> uplinks_of(const Routes& routes) {
  std::vector<int> out;
  for (const RoutedFlow& routed : routes.flows) out.push_back(routed.uplink);
  return out;
}

int flows_out_of(const std::vector<Flow>& flows, RackId rack) {
  return static_cast<int>(std::count_if(flows.begin(), flows.end(),
                                        [&](const Flow& f) { return f.from_rack == rack; }));
}

// --- ring order -------------------------------------------------------------------------------

/// Diagram A: ranks 0 … 11 over three racks.
Snapshot diagram_a(bool interleaved) {
  Snapshot snapshot = racks({"AAAA", "AAAA", "AAAA"}, 2);
  Group& group = snapshot.groups[GroupId(0)];
  for (int w = 0; w < 12; ++w) {
    const int rack = interleaved ? w % 3 : w / 4, slot = interleaved ? w / 3 : w % 4;
    group.workers[static_cast<size_t>(w)] =
        snapshot.racks[RackId(rack)].nodes[static_cast<size_t>(slot)];
  }
  return snapshot;
}

TEST(RingOrder, DiagramAOrderedLeavesEachRackOnce) {
  const Snapshot snapshot = diagram_a(false);
  std::vector<int> logical(12);
  std::iota(logical.begin(), logical.end(), 0);
  EXPECT_EQ(ring_order(snapshot, GroupId(0)), logical);
  const auto flows = flows_between_racks(snapshot, ring_orders(snapshot));
  for (RackId rack : snapshot.racks.keys()) EXPECT_EQ(flows_out_of(flows, rack), 1);
}

TEST(RingOrder, DiagramAInterleavedLeavesEachRackFourTimesUntilOrdered) {
  const Snapshot snapshot = diagram_a(true);
  IdVector<GroupId, std::vector<int>> given(1);
  given[GroupId(0)].resize(12);
  std::iota(given[GroupId(0)].begin(), given[GroupId(0)].end(), 0);
  const auto flows = flows_between_racks(snapshot, given);
  for (RackId rack : snapshot.racks.keys()) EXPECT_EQ(flows_out_of(flows, rack), 4);

  EXPECT_EQ(ring_order(snapshot, GroupId(0)),
            (std::vector<int>{0, 3, 6, 9, 1, 4, 7, 10, 2, 5, 8, 11}));
  const auto ordered = flows_between_racks(snapshot, ring_orders(snapshot));
  for (RackId rack : snapshot.racks.keys()) EXPECT_EQ(flows_out_of(ordered, rack), 1);
}

TEST(RingOrder, ARunAroundTheEndOfTheRingIsOneRun) {
  Snapshot snapshot = racks({"AA", "AA"}, 2);
  std::vector<NodeId>& workers = snapshot.groups[GroupId(0)].workers;
  std::rotate(workers.begin(), workers.begin() + 1, workers.end());  // racks 0 1 1 0
  EXPECT_EQ(ring_order(snapshot, GroupId(0)), (std::vector<int>{0, 1, 2, 3}));
}

TEST(RingOrder, TheExampleOfTheFormats) {
  // Workers 0 and 2 share a rack, 1 does not: any cyclic order is one run each.
  Snapshot snapshot = racks({"AA", "A"}, 2);
  std::swap(snapshot.groups[GroupId(0)].workers[1], snapshot.groups[GroupId(0)].workers[2]);
  EXPECT_EQ(flows_between_racks(snapshot, ring_orders(snapshot)).size(), 2u);
}

// --- uplinks ----------------------------------------------------------------------------------

TEST(Routes, NothingToRoute) {
  const Routes empty = routes(Snapshot());
  EXPECT_TRUE(empty.isolated);
  EXPECT_EQ(empty.colors, 0);
  const Snapshot local = racks({"AAA", "BB."}, 2);
  const Routes none = routes(local);
  EXPECT_TRUE(none.flows.empty());
  EXPECT_EQ(none.orders.size(), 2u);
  Checker(local, none).check();
}

TEST(Routes, DiagramBAfterItsMovesIsIsolated) {
  const Snapshot over = racks({"AAAAABB.", "AAACCCD.", "AACCCBBD", "CBBDDD.."}, 2);
  const Routes shared = routes(over);
  Checker(over, shared).check();
  EXPECT_EQ(shared.colors, 4);
  EXPECT_FALSE(shared.isolated);
  EXPECT_FALSE(shared.best_effort);

  const Snapshot within = racks({"AAAAABB.", "AAAAACC.", "CCCCCBB.", "BBDDDDD."}, 2);
  const Routes isolated = routes(within);
  Checker(within, isolated).check();
  EXPECT_EQ(isolated.colors, 2);
  EXPECT_TRUE(isolated.isolated);
}

TEST(Routes, ParallelRingsHaveAnUplinkEach) {
  Snapshot snapshot = racks({"AB", "AB"}, 16);
  for (Group& group : snapshot.groups) group.rings = 8;
  const Routes eight = routes(snapshot);
  Checker(snapshot, eight).check();
  EXPECT_EQ(eight.colors, 16);
  EXPECT_TRUE(eight.isolated);
  EXPECT_EQ(eight.flows.size(), 32u);
}

TEST(Routes, FoldingLoadsUplinksEvenlyAndLeavesOthersAlone) {
  // Rack 0 sends five flows over two uplinks; a to e stay within their bound of two.
  const Snapshot snapshot = racks({"ABCDE", "AF", "BF", "C.", "D.", "E."}, 2);
  const Routes folded = routes(snapshot);
  Checker(snapshot, folded).check();
  EXPECT_EQ(folded.colors, 5);
  EXPECT_FALSE(folded.isolated);
  ASSERT_EQ(folded.shared.size(), 4u);  // two up, two down, at rack 0 alone
  for (const Shared& shared : folded.shared) {
    EXPECT_EQ(shared.rack, RackId(0));
    EXPECT_GE(shared.flows.size(), 2u);
    EXPECT_LE(shared.flows.size(), 3u);
  }
}

TEST(Routes, TheSmallestClusterThatIsWithinItsBoundsAndStillShares) {
  Snapshot snapshot = racks({"A", "B", "C", "D", "ABCD"}, 2);
  snapshot.racks[RackId(4)].spines = {0, 1, 2, 3};
  snapshot.racks[RackId(4)].uplinks = 4;
  const auto degrees = fragmentation(snapshot);
  EXPECT_EQ(excess(degrees, bounds(snapshot)), 0);
  const Routes found = routes(snapshot);
  Checker checker(snapshot, found);
  checker.check();
  EXPECT_FALSE(found.isolated);
  EXPECT_TRUE(found.best_effort);
  EXPECT_TRUE(found.proved);
  EXPECT_EQ(checker.meeting_pairs(), 4);  // two flows on each of two uplinks and two downlinks
}

TEST(Routes, NestedSpinesAreIsolatedWherePossible) {
  // Racks 0 and 1 reach two spines, 2 and 3 four. The flows between 2 and 3 must keep off the
  // spines that the others need.
  Snapshot snapshot = racks({"AB", "..", "ABCD", "CD"}, 4);
  snapshot.racks[RackId(0)].spines = {0, 1};
  snapshot.racks[RackId(1)].spines = {0, 1};
  const Routes found = routes(snapshot);
  Checker(snapshot, found).check();
  EXPECT_TRUE(found.isolated);
}

TEST(Routes, FailedUplinksAreNotUsed) {
  const Snapshot snapshot = parse(R"({"schema":"monkeytree/snapshot/v1","fabric":{"racks":[
      {"name":"a","uplinks":3,"failed":[0],"nodes":["a0","a1"]},
      {"name":"b","uplinks":3,"nodes":["b0","b1"]}]},
      "jobs":[{"id":"1","workers":["a0","b0"]},{"id":"2","workers":["a1","b1"]}]})");
  const Routes found = routes(snapshot);
  Checker(snapshot, found).check();
  EXPECT_TRUE(found.isolated);
  EXPECT_TRUE(found.best_effort);
}

TEST(Routes, RacksWithoutACommonSpineAreSaidToBeUnroutable) {
  Snapshot snapshot = racks({"AB", "A.", "B."}, 1);
  snapshot.racks[RackId(1)].spines = {7};
  const Routes found = routes(snapshot);
  Checker(snapshot, found).check();
  EXPECT_EQ(found.unroutable, (std::vector<int>{0, 1}));
  EXPECT_FALSE(found.isolated);
  EXPECT_TRUE(found.shared.empty());
  EXPECT_EQ(found.flows[2].uplink, 0);
}

TEST(Routes, SparseSpineNumbersAreUsedAsTheyAre) {
  Snapshot snapshot = racks({"AB", "AB"}, 2);
  for (Rack& rack : snapshot.racks) rack.spines = {3, 900};
  const Routes found = routes(snapshot);
  Checker(snapshot, found).check();
  EXPECT_TRUE(found.isolated);
  EXPECT_EQ(uplinks_of(found), (std::vector<int>{3, 3, 900, 900}));
}

TEST(Routes, ThousandsOfRandomClusters) {
  std::mt19937 random(1);
  for (int round = 0; round < 4000; ++round) {
    RandomCluster shape;
    shape.racks = 2 + static_cast<int>(random() % 8);
    shape.uplinks = 1 + static_cast<int>(random() % 8);
    shape.most_rings = 1 + static_cast<int>(random() % 3);
    const Snapshot snapshot = random_cluster(random, shape);
    const Routes found = routes(snapshot);
    ASSERT_NO_FATAL_FAILURE(Checker(snapshot, found).check()) << "round " << round;
    const bool over = excess(fragmentation(snapshot), bounds(snapshot)) > 0;
    ASSERT_EQ(found.isolated, !over);
    ASSERT_FALSE(found.best_effort);
    ASSERT_TRUE(found.proved);
    std::set<int> used;
    for (const RoutedFlow& routed : found.flows) used.insert(routed.uplink);
    ASSERT_EQ(used.size(), static_cast<size_t>(std::min(found.colors, shape.uplinks)));
    ASSERT_EQ(uplinks_of(found), uplinks_of(routes(snapshot)));
  }
}

TEST(Routes, RandomClustersWithDifferentSpines) {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    RandomCluster shape;
    shape.racks = 2 + static_cast<int>(random() % 7);
    shape.uplinks = 2 + static_cast<int>(random() % 6);
    shape.fill = 0.5;
    shape.different_spines = true;
    const Snapshot snapshot = random_cluster(random, shape);
    const Routes found = routes(snapshot);
    ASSERT_NO_FATAL_FAILURE(Checker(snapshot, found).check()) << "round " << round;
    ASSERT_EQ(uplinks_of(found), uplinks_of(routes(snapshot)));
  }
}

// --- previous routes ----------------------------------------------------------------------------

TEST(Recolor, NothingChangesWhereNothingChanged) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    RandomCluster shape;
    shape.uplinks = 1 + static_cast<int>(random() % 5);
    shape.different_spines = round % 2 == 1;
    const Snapshot snapshot = random_cluster(random, shape);
    const Routes first = routes(snapshot);
    const std::vector<PreviousRoute> previous = named_routes(snapshot, first);
    const Routes second = routes(snapshot, &previous);
    ASSERT_NO_FATAL_FAILURE(Checker(snapshot, second).check()) << "round " << round;
    ASSERT_EQ(second.recolored, 0) << "round " << round;
    ASSERT_EQ(second.kept, static_cast<int>(first.flows.size() - first.unroutable.size()));
    ASSERT_EQ(uplinks_of(first), uplinks_of(second));
  }
}

TEST(Recolor, AFewMovesRecolorFewFlowsAndStayIsolated) {
  std::mt19937 random(4);
  int64_t recolored = 0, kept = 0;
  for (int round = 0; round < 1000; ++round) {
    RandomCluster shape;
    shape.racks = 10;
    shape.uplinks = 4 + static_cast<int>(random() % 2);
    Snapshot snapshot = random_cluster(random, shape);
    const std::vector<PreviousRoute> previous = named_routes(snapshot, routes(snapshot));
    move_workers(random, snapshot, 1 + static_cast<int>(random() % 2));
    const Routes after = routes(snapshot, &previous);
    ASSERT_NO_FATAL_FAILURE(Checker(snapshot, after).check()) << "round " << round;
    ASSERT_EQ(after.isolated, excess(fragmentation(snapshot), bounds(snapshot)) == 0);
    recolored += after.recolored;
    kept += after.kept;
  }
  EXPECT_LT(recolored * 20, kept);
}

TEST(Recolor, NamesMatchThoughIdsDiffer) {
  const Snapshot before = racks({"ABC", "ABC"}, 3);
  const std::vector<PreviousRoute> previous = named_routes(before, routes(before));
  const Snapshot after = racks({".BC", ".BC"}, 3);  // A has ended: B is job 0 now
  const Routes found = routes(after, &previous);
  EXPECT_EQ(found.kept, 4);
  EXPECT_EQ(uplinks_of(found), (std::vector<int>{1, 1, 2, 2}));
}

TEST(Recolor, RackNamesMatchWhereNodesChanged) {
  const Snapshot before = racks({"AB..", "AB.."}, 3);
  std::vector<PreviousRoute> previous = named_routes(before, routes(before));
  for (PreviousRoute& route : previous) route.uplink = route.job == "A" ? 2 : 1;
  const Snapshot after = racks({".B.A", ".B.A"}, 3);
  EXPECT_EQ(uplinks_of(routes(after, &previous)), (std::vector<int>{2, 2, 1, 1}));
}

TEST(Recolor, AFailedUplinkMovesItsFlowsAlone) {
  Snapshot snapshot = racks({"ABC", "ABC"}, 4);
  const std::vector<PreviousRoute> previous = named_routes(snapshot, routes(snapshot));
  snapshot.racks[RackId(0)].spines = {0, 2, 3};
  snapshot.racks[RackId(0)].failed = {1};
  const Routes found = routes(snapshot, &previous);
  Checker(snapshot, found).check();
  EXPECT_EQ(found.recolored, 2);
  EXPECT_TRUE(found.isolated);
  EXPECT_EQ(uplinks_of(found), (std::vector<int>{0, 0, 3, 3, 2, 2}));
}

TEST(Recolor, AnOverfullRackIsLoadedEvenlyBesideWiderOnes) {
  Snapshot snapshot = racks({"ABC", "ABC", "DEFG", "DEFG"}, 2);
  for (RackId wide : {RackId(2), RackId(3)}) snapshot.racks[wide].spines = {0, 1, 2, 3, 4, 5};
  std::vector<PreviousRoute> previous = named_routes(snapshot, routes(snapshot));
  for (PreviousRoute& route : previous) route.uplink = 0;
  const Routes found = routes(snapshot, &previous);
  Checker checker(snapshot, found);
  checker.check();
  EXPECT_TRUE(found.proved);
  EXPECT_EQ(checker.meeting_pairs(), 4);  // three flows on two links, on four sides of racks
}

TEST(Recolor, PreviousRoutesThatMakeNoSenseDoNoHarm) {
  const Snapshot snapshot = racks({"AB", "AB"}, 2);
  std::vector<PreviousRoute> previous = named_routes(snapshot, routes(snapshot));
  for (PreviousRoute& route : previous) route.uplink = 1;  // two flows on one uplink
  previous.push_back({"nobody", 3, 9, "x", "y", "p", "q", 5});
  previous.push_back({"A", 99, 0, "r0n0", "r1n0", "r0", "r1", 1 << 30});
  const Routes found = routes(snapshot, &previous);
  Checker(snapshot, found).check();
  EXPECT_TRUE(found.isolated);
  EXPECT_EQ(found.recolored, 2);
}

TEST(CheckRoutable, RefusesRingsThatNoClusterHas) {
  Snapshot snapshot = racks({"AB", "AB"}, 2);
  EXPECT_TRUE(check_routable(snapshot).ok());
  snapshot.groups[GroupId(1)].rings = 2'000'000'000;
  const absl::Status status = check_routable(snapshot);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(std::string(status.message()).find("job B"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace monkeytree
