#pragma once

#include <string>
#include <vector>

#include "cluster/snapshot.h"

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
  int uplink = -1;  ///< spine number
};

/// Flows that meet on one uplink or downlink.
struct Shared {
  RackId rack;
  int uplink = 0;
  bool up = true;          ///< out of the rack, or into it
  std::vector<int> flows;  ///< indices in Routes::flows, ascending
};

struct Routes {
  int colors = 0;                 ///< before folding: the largest degree of the flow graph
  bool isolated = true;           ///< no two flows share an uplink or a downlink
  bool best_effort = false;       ///< racks reach different spines: list colouring, not promised
  int recolored = 0;              ///< flows of the previous routes that changed their uplink
  std::vector<RoutedFlow> flows;  ///< by group, ring, then position in the ring
  std::vector<Shared> shared;     ///< empty when isolated
  IdVector<GroupId, std::vector<int>> orders;  ///< ring order of each group as worker indices
};

/// Ring order of a group: worker indices arranged so that the ring enters and leaves each rack
/// once; logical order is kept where it already does so, and inside racks.
std::vector<int> ring_order(const Snapshot& snapshot, GroupId group);

/// Every ring flow that leaves a rack.
std::vector<Flow> flows_between_racks(const Snapshot& snapshot,
                                      const IdVector<GroupId, std::vector<int>>& orders);

/// The uplink of every ring flow (paper §5.4): bipartite edge colouring with exactly the largest
/// degree of colours. `previous`, where given, keeps as many uplinks as can be kept; its flows are
/// matched by job id, group index, ring and node names.
struct PreviousRoute;
Routes routes(const Snapshot& snapshot, const std::vector<PreviousRoute>* previous = nullptr);

}  // namespace monkeytree
