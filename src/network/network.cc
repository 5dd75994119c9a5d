#include "network/network.h"

#include <algorithm>
#include <cassert>
#include <limits>

// The essay at the head of max_min.h gives the theory and the names. Here the same filling runs
// on one connected part at a time, and its links stand in a heap by the level at which they fill.
// Fixing a flow never lowers a link's level, so an entry of the heap that lags behind is too low:
// it is found out when it comes to the top, and goes back with its true level.

namespace monkeytree {

LinkId Network::add_link(double capacity) {
  assert(capacity > 0 && capacity <= 0x1p40);
  Link link{};
  link.capacity = capacity;
  link.spare = static_cast<int64_t>(capacity * kRateQuanta);
  link.first = -1;
  return links_.push_back(link);
}

/// What a flow may take of a link, in whole quanta, rounded up; more than all of it counts alike.
int64_t Network::quanta_of(const Use& use, double cap, const Link& link) {
  const double most = std::floor(link.capacity * kRateQuanta) + 1;
  return static_cast<int64_t>(std::min(std::ceil(use.coefficient * cap * kRateQuanta), most));
}

void Network::attach(StreamId id, std::span<const LinkUse> uses, double max_rate) {
  assert(uses.size() <= kMostLinks);
  Flow& flow = flows_[id];
  flow.links = static_cast<int8_t>(uses.size());
  flow.cap = max_rate;
  for (const LinkUse& use : uses) {
    flow.cap = std::min(flow.cap, links_[use.link].capacity / use.coefficient);
  }
  for (size_t i = 0; i < uses.size(); ++i) {
    Link& link = links_[uses[i].link];
    const int32_t place = id.value * kMostLinks + static_cast<int32_t>(i);
    flow.uses[i] = {uses[i].coefficient, uses[i].link, link.first, -1};
    if (link.first >= 0) use(link.first).previous = place;
    link.first = place;
    ++link.load;
    link.spare -= quanta_of(flow.uses[i], flow.cap, link);
  }
}

void Network::detach(StreamId id) {
  Flow& flow = flows_[id];
  for (int8_t i = 0; i < flow.links; ++i) {
    const Use& own = flow.uses[i];
    Link& link = links_[own.link];
    if (link.can_fill() && link.dirty == 0) {
      link.dirty = 1;
      dirty_.push_back(own.link);
    }
    link.spare += quanta_of(own, flow.cap, link);
    --link.load;
    if (own.next >= 0) use(own.next).previous = own.previous;
    if (own.previous >= 0) {
      use(own.previous).next = own.next;
    } else {
      link.first = own.next;
    }
  }
}

void Network::mark_fresh(StreamId id) {
  if (flows_[id].fresh) return;
  flows_[id].fresh = true;
  fresh_.push_back(id);
}

StreamId Network::add(std::span<const LinkUse> uses, double max_rate) {
  StreamId id;
  if (free_.empty()) {
    id = flows_.push_back({});
  } else {
    id = free_.back();
    free_.pop_back();
  }
  flows_[id].alive = true;
  flows_[id].rate = 0;
  attach(id, uses, max_rate);
  mark_fresh(id);
  return id;
}

void Network::remove(StreamId id) {
  assert(flows_[id].alive);
  detach(id);
  flows_[id].alive = false;
  free_.push_back(id);
}

void Network::reroute(StreamId id, std::span<const LinkUse> uses, double max_rate) {
  assert(flows_[id].alive);
  detach(id);
  attach(id, uses, max_rate);
  mark_fresh(id);
}

std::span<const StreamId> Network::settle() {
  changed_.clear();
  begin_epoch();
  for (const LinkId id : dirty_) {
    links_[id].dirty = 0;
    for (int32_t place = links_[id].first; place >= 0; place = use(place).next) {
      settle_part(flow_of(place));
    }
  }
  for (const StreamId id : fresh_) {
    flows_[id].fresh = false;
    if (flows_[id].alive) settle_part(id);
  }
  dirty_.clear();
  fresh_.clear();
  std::sort(changed_.begin(), changed_.end());
  return changed_;
}

void Network::begin_epoch() {
  if (++epoch_ != 0) return;
  for (Flow& flow : flows_) flow.visited = flow.fixed = 0;
  for (Link& link : links_) link.visited = 0;
  epoch_ = 1;
}

void Network::visit(StreamId id) {
  if (flows_[id].visited == epoch_) return;
  flows_[id].visited = epoch_;
  part_.push_back(id);
}

/// Finds the flows that are tied to `seed` and gives them their rates.
void Network::settle_part(StreamId seed) {
  if (flows_[seed].visited == epoch_) return;
  part_.clear();
  part_links_.clear();
  visit(seed);
  for (size_t i = 0; i < part_.size(); ++i) {
    const Flow& flow = flows_[part_[i]];
    for (int8_t k = 0; k < flow.links; ++k) {
      Link& link = links_[flow.uses[k].link];
      if (!link.can_fill() || link.visited == epoch_) continue;
      link.visited = epoch_;
      link.local = static_cast<int32_t>(part_links_.size());
      double weight = 0;
      for (int32_t place = link.first; place >= 0; place = use(place).next) {
        weight += use(place).coefficient;
        visit(flow_of(place));
      }
      part_links_.push_back(
          {flow.uses[k].link, static_cast<int32_t>(link.load), link.capacity, weight});
    }
  }
  if (part_links_.empty()) {
    set_rate(flows_[seed], seed, flows_[seed].cap);
  } else {
    fill();
  }
}

void Network::push_level(double level, int32_t local) {
  levels_.push_back({level, local});
  std::push_heap(levels_.begin(), levels_.end(),
                 [](const Level& a, const Level& b) { return a.level > b.level; });
}

void Network::fill() {
  levels_.clear();
  for (size_t i = 0; i < part_links_.size(); ++i) {
    push_level(part_links_[i].room / part_links_[i].weight, static_cast<int32_t>(i));
  }
  double water = 0;
  while (!levels_.empty()) {
    const Level lowest = levels_.front();
    std::pop_heap(levels_.begin(), levels_.end(),
                  [](const Level& a, const Level& b) { return a.level > b.level; });
    levels_.pop_back();
    const PartLink& link = part_links_[static_cast<size_t>(lowest.local)];
    if (link.unfixed == 0) continue;
    const double level = std::max(water, link.room / link.weight);
    if (level > lowest.level || fix_capped(link, level)) {
      if (link.unfixed > 0) push_level(std::max(water, link.room / link.weight), lowest.local);
      continue;
    }
    water = level;
    fix_all(link, level);
  }
}

/// No link fills below `level`, so flows whose cap lies lower end there. True where there was one.
bool Network::fix_capped(const PartLink& part_link, double level) {
  bool any = false;
  for (int32_t place = links_[part_link.link].first; place >= 0; place = use(place).next) {
    Flow& flow = flows_[flow_of(place)];
    if (flow.fixed == epoch_ || flow.cap >= level) continue;
    fix(flow, flow_of(place), flow.cap);
    any = true;
  }
  return any;
}

void Network::fix_all(const PartLink& part_link, double level) {
  for (int32_t place = links_[part_link.link].first; place >= 0; place = use(place).next) {
    Flow& flow = flows_[flow_of(place)];
    if (flow.fixed != epoch_) fix(flow, flow_of(place), level);
  }
}

void Network::fix(Flow& flow, StreamId id, double rate) {
  flow.fixed = epoch_;
  for (int8_t k = 0; k < flow.links; ++k) {
    const Link& link = links_[flow.uses[k].link];
    if (!link.can_fill()) continue;
    PartLink& part_link = part_links_[static_cast<size_t>(link.local)];
    part_link.room -= flow.uses[k].coefficient * rate;
    part_link.weight -= flow.uses[k].coefficient;
    --part_link.unfixed;
  }
  set_rate(flow, id, rate);
}

void Network::set_rate(Flow& flow, StreamId id, double rate) {
  const double quantized = quantized_rate(rate);
  if (quantized == flow.rate) return;
  flow.rate = quantized;
  changed_.push_back(id);
}

}  // namespace monkeytree
