#include "planning/repair.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace monkeytree {
namespace {

/// Search nodes for one rack: in the first round, and in each later one times kPatience.
constexpr int64_t kRackWork = 400;
constexpr int64_t kPatience = 16;
constexpr int kRounds = 2;
/// Racks over their bound up to which more than one order is tried.
constexpr size_t kFewRacks = 64;

}  // namespace

Repair::Repair(Counts& counts, std::function<bool()> stop, int64_t work_limit)
    : counts_(counts), stop_(std::move(stop)), limit_(work_limit) {
  for (RackId rack : counts.over()) bounds_.emplace_back(rack, counts.rack(rack).bound);
}

std::optional<std::vector<CountChange>> Repair::run(int lower_bound) {
  std::vector<RackId> order = counts_.over();
  std::optional<Attempt> best;
  const auto attempt_in = [&](std::vector<RackId> racks) {
    Attempt next = attempt(std::move(racks));
    if (next.excess > 0 || (accept_ && !accept_(next.changes))) return;
    if (!best || next.moves < best->moves) best = std::move(next);
  };
  attempt_in(order);
  const auto settled = [&] { return best && best->moves <= lower_bound; };
  if (order.size() > 1 && order.size() <= kFewRacks) {
    if (!settled()) attempt_in({order.rbegin(), order.rend()});
    for (size_t turn = 1; turn < std::min<size_t>(order.size(), 4) && !settled(); ++turn) {
      std::rotate(order.begin(), order.begin() + 1, order.end());
      attempt_in(order);
    }
  }
  if (!best) return std::nullopt;
  return std::move(best->changes);
}

std::vector<CountChange> Repair::run_best_effort(int* excess) {
  const int before = counts_.excess();
  Attempt result = attempt(counts_.over());
  *excess = result.excess;
  if (accept_ && !accept_(result.changes)) {
    *excess = before;
    result.changes.clear();
  }
  return std::move(result.changes);
}

/// Mends the racks in this order as far as it can.
Repair::Attempt Repair::attempt(std::vector<RackId> order) {
  // Until its turn, a rack may keep its degree.
  for (RackId rack : order) counts_.set_bound(rack, counts_.rack(rack).degree);
  int64_t nodes = kRackWork;
  for (int round = 0; round < kRounds && !order.empty(); ++round) {
    std::erase_if(order, [&](RackId rack) { return mend(rack, nodes); });
    nodes *= kPatience;
  }
  for (const auto& [rack, bound] : bounds_) counts_.set_bound(rack, bound);
  Attempt result;
  result.excess = counts_.excess();
  result.changes = difference();
  for (const CountChange& change : result.changes) result.moves += std::max(0, change.delta);
  while (!done_.empty()) {
    counts_.unshift(done_.back());
    done_.pop_back();
  }
  return result;
}

/// Brings one rack within its bound by the fewest moves, if that is found within the work.
bool Repair::mend(RackId rack, int64_t nodes) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), std::pair(rack, 0));
  counts_.set_bound(rack, at->second);
  if (counts_.excess() == 0) return true;
  Search search(counts_);
  search.set_limit(std::min(nodes, limit_ - work_), stop_);
  search.set_accept(accept_);
  for (int budget = std::max(1, search.root_bound());; ++budget) {
    const Search::Answer answer = search.run(budget);
    if (answer == Search::Answer::kNone) continue;
    work_ += search.work();
    if (answer != Search::Answer::kFound) break;
    const std::vector<CountChange> changes = search.changes();
    done_.push_back(counts_.shift(changes));
    for (const CountChange& change : changes) tighten(change.rack);
    return true;
  }
  counts_.set_bound(rack, counts_.rack(rack).degree);
  return false;
}

/// A rack that waits for its turn and has become lower may not grow back.
void Repair::tighten(RackId rack) {
  const auto at = std::lower_bound(bounds_.begin(), bounds_.end(), std::pair(rack, 0));
  if (at == bounds_.end() || at->first != rack) return;
  const int bound = std::max(at->second, counts_.rack(rack).degree);
  if (bound < counts_.rack(rack).bound) counts_.set_bound(rack, bound);
}

/// The sum of all that was done.
std::vector<CountChange> Repair::difference() const {
  std::map<std::tuple<GroupId, ClassId, RackId>, int> sum;
  for (const std::vector<Counts::Shift>& shifts : done_) {
    for (const Counts::Shift& shift : shifts) {
      sum[{shift.group, shift.node_class, shift.rack}] += shift.up + shift.stay;
    }
  }
  std::vector<CountChange> changes;
  for (const auto& [place, delta] : sum) {
    const auto& [group, node_class, rack] = place;
    if (delta != 0) changes.push_back({group, node_class, rack, delta});
  }
  return changes;
}

}  // namespace monkeytree
