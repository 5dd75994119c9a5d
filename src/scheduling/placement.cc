#include "scheduling/placement.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <iterator>

namespace monkeytree {
namespace {

IdVector<NodeId, RackId> even_racks(int racks, int nodes_per_rack) {
  IdVector<NodeId, RackId> rack_of;
  for (int rack = 0; rack < racks; ++rack) {
    for (int i = 0; i < nodes_per_rack; ++i) rack_of.push_back(RackId(rack));
  }
  return rack_of;
}

std::vector<NodeId> random_nodes(const std::set<NodeId>& free, int wanted, RandomSequence& random) {
  std::vector<NodeId> nodes(free.begin(), free.end());
  for (size_t i = 0; i < static_cast<size_t>(wanted); ++i) {
    std::swap(nodes[i], nodes[i + random.below(nodes.size() - i)]);
  }
  nodes.resize(static_cast<size_t>(wanted));
  return nodes;
}

}  // namespace

FreeNodes::FreeNodes(int racks, int nodes_per_rack)
    : FreeNodes(even_racks(racks, nodes_per_rack)) {}

FreeNodes::FreeNodes(IdVector<NodeId, RackId> rack_of) {
  size_t most = 0;
  for (NodeId node : rack_of.keys()) {
    const RackId rack = rack_of[node];
    if (!free_in_.contains(rack)) free_in_.resize(static_cast<size_t>(rack.value) + 1);
    nodes_.push_back({rack});
    free_.insert(free_.end(), node);
    free_in_[rack].insert(free_in_[rack].end(), node);
    most = std::max(most, free_in_[rack].size());
  }
  racks_with_.resize(most + 1);
  for (RackId rack : free_in_.keys()) racks_with_[free_in_[rack].size()].insert(rack);
}

void FreeNodes::take(NodeId node) {
  assert(!is_taken(node));
  const bool was_free = is_free(node);
  nodes_[node].taken = true;
  update(node, was_free);
}

void FreeNodes::give(NodeId node) {
  assert(is_taken(node));
  nodes_[node].taken = false;
  update(node, false);
}

void FreeNodes::hold(NodeId node) {
  assert(!is_held(node));
  const bool was_free = is_free(node);
  nodes_[node].held = true;
  update(node, was_free);
}

void FreeNodes::release(NodeId node) {
  assert(is_held(node));
  nodes_[node].held = false;
  update(node, false);
}

void FreeNodes::update(NodeId node, bool was_free) {
  if (was_free == is_free(node)) return;
  const RackId rack = rack_of(node);
  std::set<NodeId>& in_rack = free_in_[rack];
  racks_with_[in_rack.size()].erase(rack);
  if (was_free) {
    in_rack.erase(node);
    free_.erase(node);
  } else {
    in_rack.insert(node);
    free_.insert(node);
  }
  racks_with_[in_rack.size()].insert(rack);
}

std::vector<NodeId> FreeNodes::best_fit(int wanted, FillRule fill) const {
  std::vector<NodeId> chosen;
  size_t rest = static_cast<size_t>(wanted);
  const auto take_from = [&](RackId rack) {
    const size_t count = std::min(rest, free_in_[rack].size());
    const auto first = free_in_[rack].begin();
    chosen.insert(chosen.end(), first, std::next(first, static_cast<ptrdiff_t>(count)));
    rest -= count;
  };
  // `level` is the most free nodes that a rack not used yet has, `next` the first such rack.
  size_t level = racks_with_.size() - 1;
  auto next = racks_with_[level].begin();
  bool whole = true;
  while (rest > 0) {
    while (next == racks_with_[level].end()) next = racks_with_[--level].begin();
    if (whole && rest <= level) {
      size_t fit = rest;
      while (fit < level && racks_with_[fit].empty()) ++fit;
      take_from(fit == level ? *next : *racks_with_[fit].begin());
    } else {
      take_from(*next++);
    }
    whole = fill == FillRule::kRemainder;
  }
  return chosen;
}

std::optional<std::vector<NodeId>> FreeNodes::place(int wanted, PlacementRule rule, FillRule fill,
                                                    RandomSequence* random) const {
  assert(wanted >= 1);
  if (wanted > free_count()) return std::nullopt;
  std::vector<NodeId> nodes;
  switch (rule) {
    case PlacementRule::kBestFit:
      nodes = best_fit(wanted, fill);
      break;
    case PlacementRule::kFirstFit:
      nodes.assign(free_.begin(), std::next(free_.begin(), wanted));
      break;
    case PlacementRule::kRandom:
      assert(random != nullptr);
      nodes = random_nodes(free_, wanted, *random);
      break;
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

}  // namespace monkeytree
