#include "bench/snapshots.h"

#include <fmt/format.h>

#include <utility>

namespace monkeytree::bench {

Snapshot empty_cluster(int racks, int nodes_per_rack, int uplinks) {
  Snapshot snapshot;
  snapshot.name = fmt::format("{} racks of {} nodes", racks, nodes_per_rack);
  snapshot.classes.push_back("default");
  snapshot.islands.push_back("");
  for (int r = 1; r <= racks; ++r) {
    const RackId rack_id = snapshot.racks.push_back(Rack());
    Rack& rack = snapshot.racks[rack_id];
    rack.name = fmt::format("r{:04}", r);
    for (int n = 1; n <= nodes_per_rack; ++n) {
      Node node;
      node.name = fmt::format("{}n{}", rack.name, n);
      node.rack = rack_id;
      node.gpus = 8;
      rack.nodes.push_back(snapshot.nodes.push_back(std::move(node)));
    }
  }
  snapshot.set_uplinks(uplinks);
  return snapshot;
}

GroupId add_job(Snapshot& snapshot, std::string id, int rings, std::vector<NodeId> workers) {
  Group group;
  group.job = JobId(snapshot.jobs.size());
  group.rings = rings;
  group.workers = std::move(workers);
  const GroupId group_id = snapshot.groups.push_back(std::move(group));
  Job job;
  job.id = std::move(id);
  job.first_group = group_id;
  job.group_count = 1;
  snapshot.jobs.push_back(std::move(job));
  return group_id;
}

}  // namespace monkeytree::bench
