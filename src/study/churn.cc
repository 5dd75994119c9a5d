#include "study/churn.h"

#include <algorithm>
#include <string>

#include "cluster/fragmentation.h"
#include "planning/fill.h"

namespace monkeytree {
namespace {

Snapshot empty_cluster(const FabricShape& fabric) {
  Snapshot cluster;
  cluster.classes.push_back("default");
  cluster.islands.push_back("");
  const int per_rack = fabric.gpus_per_rack / fabric.gpus_per_node;
  const int nodes = fabric.gpus / fabric.gpus_per_node;
  for (int r = 0; r < fabric.racks(); ++r) {
    Rack rack;
    rack.name = "r" + std::to_string(r);
    for (int n = r * per_rack; n < std::min(nodes, (r + 1) * per_rack); ++n) {
      Node node;
      node.name = "n" + std::to_string(n);
      node.rack = RackId(r);
      node.gpus = fabric.gpus_per_node;
      rack.nodes.push_back(cluster.nodes.push_back(std::move(node)));
    }
    cluster.racks.push_back(std::move(rack));
  }
  cluster.set_uplinks(fabric.spines);
  return cluster;
}

}  // namespace

Churn::Churn(const FabricShape& fabric, PlacementRule rule, uint64_t seed)
    : fabric_(fabric),
      rule_(rule),
      random_(seed),
      planner_(empty_cluster(fabric)),
      free_(fabric.racks(), fabric.gpus_per_rack / fabric.gpus_per_node) {
  for (const Model& model : Catalogue::standard().models()) total_weight_ += model.weight;
}

bool Churn::start_job() {
  auto left = static_cast<int>(random_.below(static_cast<uint64_t>(total_weight_)));
  const std::vector<Model>& models = Catalogue::standard().models();
  auto model = models.begin();
  while (left >= model->weight) left -= (model++)->weight;
  const int gpus = model->gpus[random_.below(model->gpus.size())];
  const int wanted = gpus / fabric_.gpus_per_node;
  const std::optional<std::vector<NodeId>> nodes =
      free_.place(wanted, rule_, FillRule::kRemainder, &random_);
  if (!nodes) return false;
  std::vector<Group> groups;
  auto next = nodes->begin();
  for (const RankGroup& ranks : rank_groups(*model, gpus, fabric_.gpus_per_node)) {
    Group group;
    group.rings = std::max(1, ranks.rings);
    for (int i = 0; i < ranks.ranks / fabric_.gpus_per_node; ++i) group.workers.push_back(*next++);
    groups.push_back(std::move(group));
  }
  for (const NodeId node : *nodes) free_.take(node);
  jobs_.push_back(planner_->add_job({}, std::move(groups)));
  return true;
}

void Churn::fill_to(double share) {
  const double most = share * free_.node_count();
  while (free_.node_count() - free_.free_count() < most && start_job()) {
  }
}

void Churn::step(double share) {
  if (!jobs_.empty()) {
    const size_t chosen = random_.below(jobs_.size());
    const JobId job = jobs_[chosen];
    const Job& known = planner_->snapshot().jobs[job];
    for (int g = 0; g < known.group_count; ++g) {
      const GroupId group(known.first_group.value + g);
      for (const NodeId node : planner_->snapshot().groups[group].workers) free_.give(node);
    }
    planner_->remove_job(job);
    jobs_.erase(jobs_.begin() + static_cast<std::ptrdiff_t>(chosen));
  }
  fill_to(share);
}

void Churn::repack() {
  const std::optional<Fill> filled = fill(planner_->snapshot());
  if (!filled) return;
  planner_.emplace(filled->placement);
  refresh();
}

int Churn::highest_degree() const {
  int highest = 0;
  for (const RackId rack : planner_->snapshot().racks.keys()) {
    highest = std::max(highest, planner_->degree(rack));
  }
  return highest;
}

void Churn::refresh() {
  IdVector<NodeId, char> taken(planner_->snapshot().nodes.size(), 0);
  for (const Group& group : planner_->snapshot().groups) {
    for (const NodeId node : group.workers) taken[node] = 1;
  }
  for (const NodeId node : taken.keys()) {
    if (taken[node] != 0 && !free_.is_taken(node)) free_.take(node);
    if (taken[node] == 0 && free_.is_taken(node)) free_.give(node);
  }
}

}  // namespace monkeytree
