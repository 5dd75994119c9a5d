// Text is read as `monkeytree/routes/v1` or refused, and what was read may be given to any snapshot
// as its previous routes. Other bytes draw a small cluster: the spines of its racks, its jobs, and
// the uplinks that its flows had.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bytes.h"
#include "cluster/fragmentation.h"
#include "routing/routes.h"
#include "routing/routes_json.h"

using monkeytree::Bytes;
using monkeytree::Diagnostics;
using monkeytree::GroupId;
using monkeytree::JobId;
using monkeytree::PreviousRoute;
using monkeytree::RackId;
using monkeytree::require;
using monkeytree::RoutedFlow;
using monkeytree::Routes;
using monkeytree::Snapshot;

namespace {

constexpr int kNodesPerRack = 4;

/// Racks r0, r1, … with nodes r0n0, …; a job for each letter a, b, ….
Snapshot draw_cluster(Bytes& bytes) {
  Snapshot snapshot;
  snapshot.classes.push_back("default");
  snapshot.islands.push_back("");
  snapshot.islands.push_back("other");
  const int racks = 2 + bytes.below(5);
  const bool alike = bytes.below(2) == 0;
  const int mask_of_all = 1 + bytes.below(31);
  for (int r = 0; r < racks; ++r) {
    monkeytree::Rack rack;
    rack.name = "r" + std::to_string(r);
    rack.island = monkeytree::IslandId(!alike && bytes.below(16) == 0 ? 1 : 0);
    const int mask = alike ? mask_of_all : bytes.below(32);
    for (int spine = 0; spine < 5; ++spine) {
      if ((mask >> spine) & 1) rack.spines.push_back(spine);
    }
    for (int n = 0; n < kNodesPerRack; ++n) {
      monkeytree::Node node;
      node.name = rack.name + "n" + std::to_string(n);
      node.rack = RackId(r);
      rack.nodes.push_back(snapshot.nodes.push_back(node));
    }
    snapshot.racks.push_back(rack);
  }
  const int jobs = bytes.below(6);
  for (int j = 0; j < jobs; ++j) {
    monkeytree::Job job;
    job.id = std::string(1, static_cast<char>('a' + j));
    job.first_group = GroupId(j);
    job.group_count = 1;
    monkeytree::Group group;
    group.job = snapshot.jobs.push_back(job);
    group.rings = 1 + bytes.below(3);
    const int workers = 1 + bytes.below(6);
    for (int w = 0; w < workers; ++w) {
      group.workers.push_back(monkeytree::NodeId(bytes.below(racks * kNodesPerRack)));
    }
    snapshot.groups.push_back(group);
  }
  return snapshot;
}

bool reaches(const Snapshot& snapshot, RackId rack, int spine) {
  const std::vector<int>& spines = snapshot.racks[rack].spines;
  return std::find(spines.begin(), spines.end(), spine) != spines.end();
}

void check(const Snapshot& snapshot, const Routes& routes) {
  std::map<std::tuple<RackId, bool, int>, int> loads;
  bool alike = true;
  for (const RoutedFlow& routed : routes.flows) {
    alike &=
        snapshot.racks[routed.flow.from_rack].spines == snapshot.racks[routed.flow.to_rack].spines;
    if (routed.uplink < 0) continue;
    require(reaches(snapshot, routed.flow.from_rack, routed.uplink));
    require(reaches(snapshot, routed.flow.to_rack, routed.uplink));
    ++loads[{routed.flow.from_rack, true, routed.uplink}];
    ++loads[{routed.flow.to_rack, false, routed.uplink}];
  }
  size_t shared = 0;
  for (const auto& [link, load] : loads) shared += load > 1;
  require(routes.shared.size() == shared);
  require(routes.isolated == (shared == 0 && routes.unroutable.empty()));
  const bool within = monkeytree::excess(fragmentation(snapshot), bounds(snapshot)) == 0;
  if (alike && within && routes.unroutable.empty()) require(routes.isolated);
}

/// The flows of `routes` by name, each with a drawn uplink.
std::vector<PreviousRoute> draw_previous(const Snapshot& snapshot, const Routes& routes,
                                         Bytes& bytes) {
  std::vector<PreviousRoute> previous;
  for (const RoutedFlow& routed : routes.flows) {
    const monkeytree::Group& group = snapshot.groups[routed.flow.group];
    PreviousRoute route;
    route.job = snapshot.jobs[group.job].id;
    route.ring = routed.flow.ring;
    route.from_rack = snapshot.racks[routed.flow.from_rack].name;
    route.to_rack = snapshot.racks[routed.flow.to_rack].name;
    route.uplink = bytes.below(7) - 1;
    previous.push_back(route);
  }
  return previous;
}

void try_text(std::string_view text) {
  Diagnostics diagnostics;
  const std::optional<std::vector<PreviousRoute>> previous =
      monkeytree::parse_routes(text, "fuzz", diagnostics);
  require(previous.has_value() == !diagnostics.has_errors());
  if (!previous) return;
  constexpr uint8_t kCluster[] = {4, 0, 2, 4, 1, 3, 0, 4, 8, 12, 2, 2, 1, 5, 9, 1, 2, 2, 6, 10};
  Bytes bytes(kCluster, sizeof(kCluster));
  const Snapshot snapshot = draw_cluster(bytes);
  const Routes found = monkeytree::routes(snapshot, &*previous);
  check(snapshot, found);
  Diagnostics again;
  require(monkeytree::parse_routes(write_routes(snapshot, found), "again", again).has_value());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 0 && data[0] == '{') {
    try_text(std::string_view(reinterpret_cast<const char*>(data), size));
    return 0;
  }
  Bytes bytes(data, size);
  const Snapshot snapshot = draw_cluster(bytes);
  const Routes found = monkeytree::routes(snapshot);
  check(snapshot, found);
  const std::vector<PreviousRoute> previous = draw_previous(snapshot, found, bytes);
  check(snapshot, monkeytree::routes(snapshot, &previous));
  return 0;
}
