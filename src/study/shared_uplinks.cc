#include "study/shared_uplinks.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "routing/color_all.h"
#include "routing/coloring.h"

namespace monkeytree {

std::vector<RackRing> rings_of(const Snapshot& fabric, std::span<const NodeId> nodes, int stages,
                               int rings) {
  std::vector<RackRing> out;
  const size_t each = nodes.size() / static_cast<size_t>(stages);
  for (size_t begin = 0; begin + each <= nodes.size() && each > 0; begin += each) {
    RackRing ring{{}, rings};
    for (NodeId node : nodes.subspan(begin, each)) {
      const RackId rack = fabric.nodes[node].rack;
      if (!ring.racks.empty() && ring.racks.back() == rack) continue;
      if (std::find(ring.racks.begin(), ring.racks.end(), rack) == ring.racks.end()) {
        ring.racks.push_back(rack);
      }
    }
    if (ring.racks.size() > 1) out.push_back(std::move(ring));
  }
  return out;
}

SharedUplinks::SharedUplinks(IdVector<RackId, int> bounds)
    : bounds_(std::move(bounds)), degrees_(bounds_.size(), 0), racks_with_(1, 0) {
  racks_with_[0] = static_cast<int>(bounds_.size());
  for (int bound : bounds_) {
    most_uplinks_ = std::max(most_uplinks_, bound);
    same_bounds_ = same_bounds_ && bound == *bounds_.begin();
  }
}

void SharedUplinks::add(int job, std::vector<RackRing> rings) {
  if (rings.empty()) return;
  for (const RackRing& ring : rings) {
    for (RackId rack : ring.racks) change_degree(rack, ring.rings);
  }
  jobs_[job] = std::move(rings);
  changed_ = true;
}

void SharedUplinks::remove(int job) {
  const auto at = jobs_.find(job);
  if (at == jobs_.end()) return;
  for (const RackRing& ring : at->second) {
    for (RackId rack : ring.racks) change_degree(rack, -ring.rings);
  }
  jobs_.erase(at);
  changed_ = true;
}

void SharedUplinks::change_degree(RackId rack, int delta) {
  int& degree = degrees_[rack];
  const int bound = bounds_[rack];
  excess_ -= std::max(0, degree - bound);
  --racks_with_[static_cast<size_t>(degree)];
  degree += delta;
  excess_ += std::max(0, degree - bound);
  if (racks_with_.size() <= static_cast<size_t>(degree)) {
    racks_with_.resize(static_cast<size_t>(degree) + 1, 0);
  }
  ++racks_with_[static_cast<size_t>(degree)];
  max_degree_ = std::max(max_degree_, degree);
  while (max_degree_ > 0 && racks_with_[static_cast<size_t>(max_degree_)] == 0) --max_degree_;
  if (degree > bound) {
    over_.insert(rack);
  } else {
    over_.erase(rack);
  }
}

const std::vector<SharedUplinks::Sharer>& SharedUplinks::sharers() {
  if (changed_) share_out();
  changed_ = false;
  return sharers_;
}

void SharedUplinks::share_out() {
  sharers_.clear();
  if (over_.empty()) return;
  flows_.clear();
  for (const auto& [job, rings] : jobs_) {
    for (const RackRing& ring : rings) {
      for (size_t i = 0; i < ring.racks.size(); ++i) {
        const RackId to = ring.racks[(i + 1) % ring.racks.size()];
        for (int k = 0; k < ring.rings; ++k) flows_.push_back({job, ring.racks[i], to});
      }
    }
  }
  std::vector<int> color = colors();
  const size_t width = static_cast<size_t>(most_uplinks_);
  std::vector<int> carried(2 * bounds_.size() * width, 0);  // by rack, side, uplink
  const auto up = [&](const Flow& flow, int uplink) -> int& {
    return carried[2 * static_cast<size_t>(flow.from.value) * width + static_cast<size_t>(uplink)];
  };
  const auto down = [&](const Flow& flow, int uplink) -> int& {
    return carried[(2 * static_cast<size_t>(flow.to.value) + 1) * width +
                   static_cast<size_t>(uplink)];
  };
  const auto count = [&](size_t i) {
    ++up(flows_[i], color[i]);
    ++down(flows_[i], color[i]);
  };
  for (size_t i = 0; i < flows_.size(); ++i) {
    if (color[i] >= 0) count(i);
  }
  for (size_t i = 0; i < flows_.size(); ++i) {
    if (color[i] >= 0) continue;
    const int common = std::min(bounds_[flows_[i].from], bounds_[flows_[i].to]);
    int best = INT_MAX;
    for (int c = 0; c < common; ++c) {
      const int fuller = std::max(up(flows_[i], c), down(flows_[i], c));
      if (fuller >= best) continue;
      best = fuller;
      color[i] = c;
    }
    count(i);
  }
  for (size_t i = 0; i < flows_.size(); ++i) {
    const int flows = std::max(up(flows_[i], color[i]), down(flows_[i], color[i]));
    if (flows < 2) continue;
    if (sharers_.empty() || sharers_.back().job != flows_[i].job) {
      sharers_.push_back({flows_[i].job, flows});
    } else {
      sharers_.back().flows = std::max(sharers_.back().flows, flows);
    }
  }
}

std::vector<int> SharedUplinks::colors() const {
  if (same_bounds_) {
    std::vector<RackPair> pairs;
    pairs.reserve(flows_.size());
    for (const Flow& flow : flows_) pairs.push_back({flow.from, flow.to});
    return color_all(pairs, std::vector<int>(bounds_.begin(), bounds_.end()));
  }
  const size_t words = Coloring::words_for(most_uplinks_);
  std::vector<uint64_t> usable(bounds_.size() * words, 0);
  for (RackId rack : bounds_.keys()) {
    for (int c = 0; c < bounds_[rack]; ++c) {
      usable[static_cast<size_t>(rack.value) * words + static_cast<size_t>(c) / 64] |= uint64_t{1}
                                                                                       << (c % 64);
    }
  }
  Coloring coloring(bounds_.size(), most_uplinks_, std::move(usable));
  std::vector<EdgeId> edges;
  for (const Flow& flow : flows_) edges.push_back(coloring.insert(flow.from, flow.to));
  std::vector<int> out;
  for (EdgeId edge : edges) out.push_back(coloring.color(edge));
  return out;
}

}  // namespace monkeytree
