// Lower bounds of the search.

#include <algorithm>
#include <array>

#include "planning/search.h"

namespace monkeytree {

/// The least cost of reaching a total gain; gains beyond 64 are asked for as 64.
class Search::Knapsack {
 public:
  explicit Knapsack(int need) : reach_(std::min(need, 64)) {
    least_.fill(kImpossible);
    least_[0] = 0;
  }
  void add(int gain, int cost) {
    for (int k = reach_; k > 0; --k) {
      int& least = least_[static_cast<size_t>(k)];
      least = std::min(least, least_[static_cast<size_t>(std::max(0, k - gain))] + cost);
    }
  }
  int least() const { return std::min(least_[static_cast<size_t>(reach_)], kImpossible); }

 private:
  int reach_;
  std::array<int, 65> least_;
};

/// Moves that any solution below this state still needs. Each move is charged once, or half to each
/// of the two racks that may both profit from it: that of an eviction and that of a completion.
int Search::bound_below() const {
  int sum2 = 0;
  const bool degrees = counts_.excess() > allowed_;
  if (degrees && allowed_ == 0) {
    for (RackId rack : counts_.over()) {
      const int cost = cover2(rack);
      if (cost >= kImpossible) return kImpossible;
      sum2 += cost;
    }
  } else if (degrees) {
    sum2 = cover2_all();
    if (sum2 >= kImpossible) return kImpossible;
  }
  // Losses of overfull racks are different moves for different racks, but may be among those that
  // the degrees ask for.
  int losses = 0;
  for (size_t i = 0; i < committed_.size(); ++i) {
    const RackId rack = committed_[i].second;
    const auto same = [&](const auto& earlier) { return earlier.second == rack; };
    if (std::any_of(committed_.begin(), committed_.begin() + static_cast<ptrdiff_t>(i), same)) {
      continue;
    }
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      const int missing = -counts_.free(rack, ClassId(c));
      if (missing > 0) losses += counts_.mixed(ClassId(c)) ? 1 : missing;
    }
  }
  sum2 = std::max(sum2, 2 * losses);
  int bound = (sum2 + 1) / 2;
  for (const Pending& part : pending_) {
    if (part.count <= 1 || committed(part.group).valid() || counts_.mixed(part.node_class))
      continue;
    const auto& entries = counts_.group(part.group).entries;
    const size_t domain = static_cast<size_t>(part.island.value) * counts_.class_count();
    int room = domain_free_[domain + static_cast<size_t>(part.node_class.value)];
    for (const Counts::Entry& entry : entries) {
      if (entry.node_class == part.node_class && entry.taken > 0 &&
          counts_.rack(entry.rack).island == part.island) {
        room -= counts_.free(entry.rack, part.node_class);
      }
    }
    bound = std::max(bound, part.count - room);
  }
  return bound;
}

/// Twice the least cost of bringing the rack within its bound, by a knapsack over its partial
/// groups.
int Search::cover2(RackId rack) const {
  Knapsack knapsack(counts_.rack(rack).degree - counts_.rack(rack).bound);
  add_to_knapsack(rack, knapsack);
  return knapsack.least();
}

/// Twice the least cost of bringing the excess of all racks together down to what is allowed.
int Search::cover2_all() const {
  Knapsack knapsack(counts_.excess() - allowed_);
  for (RackId rack : counts_.over()) add_to_knapsack(rack, knapsack);
  return knapsack.least();
}

void Search::add_to_knapsack(RackId rack, Knapsack& knapsack) const {
  const Counts::RackCounts& r = counts_.rack(rack);
  for (GroupId g : r.groups) {
    if (!partial(g, rack)) continue;
    const int evict = evict_cost(g, rack);
    const int complete = complete_cost(g, rack);
    if (evict < 0 && complete < 0) continue;
    const int gain = std::min(counts_.group(g).weight, r.degree - r.bound);
    knapsack.add(gain, half_cost(g, rack, evict, complete));
  }
}

int Search::half_cost(GroupId g, RackId rack, int evict, int complete) const {
  const auto is_over = [&](RackId r) { return counts_.rack(r).degree > counts_.rack(r).bound; };
  int cost = kImpossible;
  if (complete >= 0) {
    cost = 0;
    for (const Counts::Entry& entry : counts_.group(g).entries) {
      if (entry.rack != rack) cost += entry.movable() * (is_over(entry.rack) ? 1 : 2);
    }
  }
  if (evict < 0) return cost;
  bool shared = false;
  const Counts::GroupCounts& group = counts_.group(g);
  for (const Counts::Entry& entry : group.entries) {
    if (entry.rack == rack || !is_over(entry.rack)) continue;
    if (complete_cost(g, entry.rack) >= 0) {
      shared = true;
      break;
    }
  }
  return std::min(cost, shared ? evict : 2 * evict);
}

}  // namespace monkeytree
