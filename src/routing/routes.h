#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "cluster/snapshot.h"

/// The uplink of every ring flow (paper §5.4, "Perfect routing").
///
/// A group's ring visits its racks one after the other, so each rack it touches sends one flow and
/// receives one, for each of its parallel rings. A flow goes up from its rack to a spine and down
/// from there; two flows that meet on an uplink or on a downlink slow each other down. Flows are
/// the edges of a bipartite multigraph from sending to receiving racks and spines are colours:
/// where every rack keeps its bound, an edge colouring (Kőnig) gives each flow its own uplink.
namespace monkeytree {

/// One ring's hop that leaves a rack; it goes up from `from_rack` and down to `to_rack` by the same
/// spine, which is its uplink.
struct Flow {
  GroupId group;
  int ring = 0;
  int from_worker = 0, to_worker = 0;  ///< indices in Group::workers
  RackId from_rack, to_rack;
};

struct RoutedFlow {
  Flow flow;
  int uplink = -1;  ///< spine number; -1 where no spine connects the two racks
};

/// Flows that meet on one uplink or downlink.
struct Shared {
  RackId rack;
  int uplink = 0;
  bool up = true;          ///< out of the rack, or into it
  std::vector<int> flows;  ///< indices in Routes::flows, ascending
};

struct Routes {
  int colors = 0;            ///< before folding: the largest degree of the flow graph
  bool isolated = true;      ///< every flow has an uplink and a downlink of its own
  bool best_effort = false;  ///< racks at two ends of a flow reach different spines: list colouring
  bool proved = true;        ///< no other choice of uplinks lets fewer pairs of flows meet
  int recolored = 0;         ///< flows of the previous routes that changed their uplink
  int kept = 0;              ///< flows of the previous routes that kept it
  std::vector<RoutedFlow> flows;  ///< by group, ring, then position in the ring
  std::vector<Shared> shared;     ///< by rack, up before down, then uplink
  std::vector<int> unroutable;    ///< indices in flows: the racks have no spine in common
  IdVector<GroupId, std::vector<int>> orders;  ///< ring order of each group as worker indices
};

/// A flow as it was routed before, by names, since ids may differ between two snapshots.
struct PreviousRoute {
  std::string job;
  int group = 0;  ///< index within the job
  int ring = 0;
  std::string from, to;  ///< nodes
  std::string from_rack, to_rack;
  int uplink = -1;
};

/// Ring order of a group: worker indices arranged so that the ring enters and leaves each rack
/// once. Logical order where it already does so; else the racks in the order in which they first
/// appear, and logical order inside each. O(n log n).
std::vector<int> ring_order(const Snapshot& snapshot, GroupId group);

/// ring_order() of every group.
IdVector<GroupId, std::vector<int>> ring_orders(const Snapshot& snapshot);

/// Every ring flow that leaves a rack, by group, ring, then position in the ring. `orders` may be
/// any order of each group's workers; ring_orders() gives the fewest flows.
std::vector<Flow> flows_between_racks(const Snapshot& snapshot,
                                      const IdVector<GroupId, std::vector<int>>& orders);

/// ResourceExhausted where the snapshot asks for more flows than any real cluster has (a typo in
/// `rings`), with the group that asks for most.
absl::Status check_routable(const Snapshot& snapshot);

/// The uplink of every ring flow. check_routable(snapshot) must hold.
///
/// - Where all racks reach the same spines: exactly as many colours as the largest degree, colour c
///   being the c-th spine. A rack with more flows than uplinks carries ⌊flows ÷ uplinks⌋ or one
///   more on each; racks within their bound share nothing that they send or receive on their own
///   links. Optimal, O(flows · length of a chain).
/// - Where the racks of a flow reach different spines, it needs one that both reach. That is list
///   colouring, NP-hard: chains first, then a search of bounded length for the fewest pairs of
///   flows that meet, exact for small parts of the graph (Routes::proved).
/// - `previous`, where given, keeps as many uplinks as it can. Its flows are matched by job id,
///   group index, ring and node names, then by rack names where nodes changed. Any usable spine may
///   serve then, also where fewer colours would do.
///
/// Deterministic.
Routes routes(const Snapshot& snapshot, const std::vector<PreviousRoute>* previous = nullptr);

/// The flows by names, in their order.
std::vector<PreviousRoute> named_routes(const Snapshot& snapshot, const Routes& routes);

}  // namespace monkeytree
