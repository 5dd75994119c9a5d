#include "network/scratch_network.h"

namespace monkeytree {

StreamId ScratchNetwork::add(std::span<const LinkUse> uses, double max_rate) {
  StreamId id;
  if (free_.empty()) {
    id = flows_.push_back({});
  } else {
    id = free_.back();
    free_.pop_back();
  }
  flows_[id].alive = true;
  flows_[id].rate = 0;
  reroute(id, uses, max_rate);
  return id;
}

void ScratchNetwork::remove(StreamId id) {
  flows_[id].alive = false;
  free_.push_back(id);
  dirty_ = true;
}

void ScratchNetwork::reroute(StreamId id, std::span<const LinkUse> uses, double max_rate) {
  flows_[id].uses.assign(uses.begin(), uses.end());
  flows_[id].max_rate = max_rate;
  dirty_ = true;
}

std::span<const StreamId> ScratchNetwork::settle() {
  changed_.clear();
  if (!dirty_) return changed_;
  dirty_ = false;
  std::vector<StreamId> ids;
  std::vector<MaxMinFlow> flows;
  for (const StreamId id : flows_.keys()) {
    if (!flows_[id].alive) continue;
    ids.push_back(id);
    flows.push_back({flows_[id].uses, flows_[id].max_rate});
  }
  const std::vector<double> rates = max_min(capacities_, flows);
  for (size_t i = 0; i < ids.size(); ++i) {
    if (rates[i] == flows_[ids[i]].rate) continue;
    flows_[ids[i]].rate = rates[i];
    changed_.push_back(ids[i]);
  }
  return changed_;
}

int ScratchNetwork::load(LinkId link) const {
  int flows = 0;
  for (const Flow& flow : flows_) {
    if (!flow.alive) continue;
    for (const LinkUse& use : flow.uses) flows += use.link == link;
  }
  return flows;
}

}  // namespace monkeytree
