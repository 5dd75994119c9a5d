#include "cluster/analysis.h"

#include <algorithm>

#include "cluster/fragmentation.h"

namespace monkeytree {

int64_t gpus_of(const Snapshot& snapshot, GroupId group, NodeId node) {
  const int64_t slots = snapshot.groups[group].slots;
  const Node& home = snapshot.nodes[node];
  if (home.gpus == 0) return slots;
  return slots * home.gpus / home.slots;
}

Analysis analyze(const Snapshot& snapshot) {
  Analysis out;
  out.degrees = fragmentation(snapshot);
  out.bounds = bounds(snapshot);
  out.excess = excess(out.degrees, out.bounds);
  for (RackId rack : snapshot.racks.keys()) {
    if (out.degrees[rack] > out.bounds[rack]) out.over.push_back(rack);
  }
  for (JobId id : snapshot.jobs.keys()) {
    FragmentedJob job;
    job.job = id;
    std::vector<RackId> touched;
    for (int i = 0; i < snapshot.jobs[id].group_count; ++i) {
      const GroupId group(snapshot.jobs[id].first_group.value + i);
      for (NodeId node : snapshot.groups[group].workers) {
        ++job.workers;
        job.gpus += gpus_of(snapshot, group, node);
        if (snapshot.nodes[node].gpus == 0) out.gpus_known = false;
      }
      const std::vector<RackId> racks = racks_of(snapshot, group);
      if (racks.size() < 2) continue;
      ++job.groups;
      job.rings += snapshot.groups[group].rings;
      touched.insert(touched.end(), racks.begin(), racks.end());
    }
    out.gpus += job.gpus;
    if (job.groups == 0) continue;
    out.gpus_fragmented += job.gpus;
    std::sort(touched.begin(), touched.end());
    touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
    job.racks = static_cast<int>(touched.size());
    for (RackId rack : touched) {
      if (out.degrees[rack] > out.bounds[rack]) job.over.push_back(rack);
    }
    out.fragmented.push_back(std::move(job));
  }
  return out;
}

}  // namespace monkeytree
