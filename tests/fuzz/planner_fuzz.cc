// Bytes draw a small cluster and what is asked of the planner. Whatever they say, the plan holds
// against the checker, its rounds lead to the degrees it promises, and asking again gives the same.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "bytes.h"
#include "cluster/fragmentation.h"
#include "planning/check.h"
#include "planning/order.h"
#include "planning/plan.h"
#include "planning/plan_json.h"

using namespace monkeytree;

namespace {

void draw_racks(Bytes& bytes, Snapshot& snapshot) {
  snapshot.classes.push_back("default");
  snapshot.classes.push_back("other");
  snapshot.islands.push_back("");
  snapshot.islands.push_back("other");
  const int racks = 2 + bytes.below(6);
  const int slots = 1 + bytes.below(4);
  const int bound = bytes.below(4);
  const bool plain = bytes.below(2) == 0;
  for (int r = 0; r < racks; ++r) {
    Rack rack;
    rack.name = "r" + std::to_string(r);
    if (!plain) rack.island = IslandId(bytes.below(8) == 7 ? 1 : 0);
    const int uplinks = plain ? bound : bound + bytes.below(8);
    for (int spine = 0; spine < uplinks; ++spine) rack.spines.push_back(spine);
    rack.uplinks = uplinks;
    const int nodes = plain ? 4 : 1 + bytes.below(5);
    for (int n = 0; n < nodes; ++n) {
      Node node;
      node.name = rack.name + "n" + std::to_string(n);
      node.rack = RackId(r);
      node.slots = slots;
      if (!plain) {
        const int kind = bytes.below(16);
        if (kind > 12) node.state = static_cast<NodeState>(kind - 12);
        if (kind < 3) node.node_class = ClassId(1);
      }
      rack.nodes.push_back(snapshot.nodes.push_back(node));
    }
    snapshot.racks.push_back(rack);
  }
}

void draw_jobs(Bytes& bytes, Snapshot& snapshot) {
  IdVector<NodeId, int> free;
  for (const Node& node : snapshot.nodes) free.push_back(node.slots);
  while (!bytes.empty() && snapshot.jobs.size() < 24) {
    const int what = bytes.below(256);
    Group group;
    group.job = JobId(snapshot.jobs.size());
    group.rings = what % 4 == 3 ? 8 : 1 + what % 4;
    group.slots = 1 + (what / 4) % 2;
    const int workers = 1 + (what / 8) % 8;
    IslandId island;
    for (int w = 0; w < workers; ++w) {
      const NodeId node(bytes.below(static_cast<int>(snapshot.nodes.size())));
      const IslandId here = snapshot.racks[snapshot.nodes[node].rack].island;
      if (free[node] < group.slots || (!group.workers.empty() && here != island)) continue;
      island = here;
      free[node] -= group.slots;
      if (what > 240) group.pinned.push_back(static_cast<int>(group.workers.size()));
      group.workers.push_back(node);
    }
    if (group.workers.empty()) continue;
    Job job;
    job.id = "j" + std::to_string(snapshot.jobs.size());
    job.movable = what % 64 != 63;
    job.state_bytes = what;
    job.first_group = snapshot.groups.push_back(group);
    job.group_count = 1;
    snapshot.jobs.push_back(job);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  PlanOptions options;
  options.best_effort = bytes.below(3) == 2;
  constexpr int64_t kWork[] = {0, 10, 300, 3000};
  options.work_limit = kWork[bytes.below(4)];
  const bool mend = bytes.below(4) == 3;
  Snapshot snapshot;
  draw_racks(bytes, snapshot);
  draw_jobs(bytes, snapshot);
  if (mend) options.mend = std::vector<RackId>{RackId(0), RackId(1)};
  Plan found = plan(snapshot, options);
  const IdVector<RackId, int> after = fragmentation(apply_rounds(snapshot, found.rounds));
  require(found.after == after);
  require(found.rounds == plan(snapshot, options).rounds);
  if (mend) {  // the checker knows no racks that may stay over
    for (RackId rack : snapshot.racks.keys()) {
      if (rack.value >= 2) found.bounds[rack] = std::max(found.bounds[rack], found.before[rack]);
    }
    found.excess_before = excess(found.before, found.bounds);
    found.excess_after = excess(found.after, found.bounds);
  }
  const std::vector<std::string> violations = check_plan(snapshot, record_of(snapshot, found, ""));
  for (const std::string& violation : violations) std::fprintf(stderr, "%s\n", violation.c_str());
  require(violations.empty());
  return 0;
}
