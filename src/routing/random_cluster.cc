#include "routing/random_cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace monkeytree {
namespace {

uint32_t below(std::mt19937& random, size_t n) {
  return static_cast<uint32_t>(random() % static_cast<uint32_t>(n));
}

void vary_spines(std::mt19937& random, Rack& rack, int uplinks) {
  rack.spines.clear();
  const int count = 1 + static_cast<int>(below(random, static_cast<size_t>(uplinks)));
  for (int spine = 0; spine < count; ++spine) {
    (below(random, 8) == 0 ? rack.failed : rack.spines).push_back(spine);
  }
}

}  // namespace

Snapshot random_cluster(std::mt19937& random, const RandomCluster& shape) {
  Snapshot snapshot;
  snapshot.classes.push_back("default");
  snapshot.islands.push_back("");
  std::vector<NodeId> free;
  for (int r = 0; r < shape.racks; ++r) {
    Rack rack;
    rack.name = fmt::format("r{}", r);
    rack.uplinks = shape.uplinks;
    rack.spines.resize(static_cast<size_t>(shape.uplinks));
    std::iota(rack.spines.begin(), rack.spines.end(), 0);
    if (shape.different_spines) vary_spines(random, rack, shape.uplinks);
    for (int n = 0; n < shape.nodes_per_rack; ++n) {
      Node node;
      node.name = fmt::format("r{}n{}", r, n);
      node.rack = RackId(r);
      rack.nodes.push_back(snapshot.nodes.push_back(node));
      free.push_back(rack.nodes.back());
    }
    snapshot.racks.push_back(std::move(rack));
  }
  std::shuffle(free.begin(), free.end(), random);
  const size_t left =
      static_cast<size_t>((1 - shape.fill) * static_cast<double>(snapshot.nodes.size()));
  while (free.size() > left) {
    Group group;
    group.rings = 1 + static_cast<int>(below(random, static_cast<size_t>(shape.most_rings)));
    const size_t wanted = 1 + below(random, static_cast<size_t>(shape.most_workers));
    for (size_t w = 0; w < wanted && free.size() > left; ++w) {
      group.workers.push_back(free.back());
      free.pop_back();
    }
    Job job;
    job.id = fmt::format("j{}", snapshot.jobs.size());
    job.first_group = GroupId(snapshot.groups.size());
    job.group_count = 1;
    group.job = snapshot.jobs.push_back(job);
    snapshot.groups.push_back(std::move(group));
  }
  return snapshot;
}

void move_workers(std::mt19937& random, Snapshot& snapshot, int moves) {
  std::vector<char> taken(snapshot.nodes.size(), 0);
  for (const Group& group : snapshot.groups) {
    for (NodeId node : group.workers) taken[static_cast<size_t>(node.value)] = 1;
  }
  std::vector<NodeId> free;
  for (NodeId node : snapshot.nodes.keys()) {
    if (!taken[static_cast<size_t>(node.value)]) free.push_back(node);
  }
  for (int i = 0; i < moves && !free.empty() && !snapshot.groups.empty(); ++i) {
    Group& group = snapshot.groups[GroupId(size_t{below(random, snapshot.groups.size())})];
    NodeId& worker = group.workers[below(random, group.workers.size())];
    std::swap(worker, free[below(random, free.size())]);
  }
}

}  // namespace monkeytree
