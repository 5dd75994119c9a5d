#include "planning/repair.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace monkeytree {
namespace {

/// Search nodes for one rack: in the first round, and in each later one times kPatience.
constexpr int64_t kRackWork = 2000;
constexpr int64_t kPatience = 16;
constexpr int kRounds = 2;

}  // namespace

Repair::Repair(const Counts& counts, std::function<bool()> stop, int64_t work_limit)
    : before_(counts), after_(counts), stop_(std::move(stop)), limit_(work_limit) {
  for (size_t r = 0; r < counts.rack_count(); ++r) bound_.push_back(counts.rack(RackId(r)).bound);
}

std::optional<std::vector<CountChange>> Repair::run(int lower_bound) {
  lower_bound_ = lower_bound;
  mend_all();
  if (excess_after_ > 0) return std::nullopt;
  std::vector<CountChange> changes = difference();
  if (accept_ && !accept_(changes)) return std::nullopt;
  return changes;
}

std::vector<CountChange> Repair::run_best_effort() {
  mend_all();
  std::vector<CountChange> changes = difference();
  if (accept_ && !accept_(changes)) {
    excess_after_ = before_.excess();
    changes.clear();
  }
  return changes;
}

void Repair::mend_all() {
  std::vector<RackId> left = before_.over();
  // Until its turn, a rack may keep its degree.
  for (RackId rack : left) after_.set_bound(rack, after_.rack(rack).degree);
  int64_t nodes = kRackWork;
  for (int round = 0; round < kRounds && !left.empty(); ++round) {
    std::vector<RackId> again;
    for (RackId rack : left) {
      if (!mend(rack, nodes)) again.push_back(rack);
    }
    left.swap(again);
    nodes *= kPatience;
  }
  for (size_t r = 0; r < bound_.size(); ++r) {
    if (after_.rack(RackId(r)).bound != bound_[r]) after_.set_bound(RackId(r), bound_[r]);
  }
  excess_after_ = after_.excess();
}

/// Brings one rack under its bound by the fewest moves, if that is found within the work.
bool Repair::mend(RackId rack, int64_t nodes) {
  after_.set_bound(rack, bound_[static_cast<size_t>(rack.value)]);
  if (after_.excess() == 0) return true;
  Search search(after_);
  search.set_limit(std::min(nodes, limit_ - work_), stop_);
  search.set_accept(accept_);
  for (int budget = std::max(1, search.root_bound()); budget < (1 << 20); ++budget) {
    const Search::Answer answer = search.run(budget);
    if (answer == Search::Answer::kNone) continue;
    work_ += search.work();
    if (answer != Search::Answer::kFound) break;
    const std::vector<CountChange> changes = search.changes();
    after_.shift(changes);
    for (const CountChange& change : changes) tighten(change.rack);
    return true;
  }
  after_.set_bound(rack, after_.rack(rack).degree);
  return false;
}

/// A rack that waits for its turn and has become lower may not grow back.
void Repair::tighten(RackId rack) {
  const int bound = std::max(bound_[static_cast<size_t>(rack.value)], after_.rack(rack).degree);
  if (bound != after_.rack(rack).bound) after_.set_bound(rack, bound);
}

/// What differs between the copy and the counts it was made from.
std::vector<CountChange> Repair::difference() const {
  std::vector<CountChange> changes;
  for (size_t i = 0; i < before_.group_count(); ++i) {
    const GroupId g(i);
    const auto& a = before_.group(g).entries;
    const auto& b = after_.group(g).entries;
    size_t x = 0, y = 0;
    const auto place = [](const Counts::Entry& e) { return std::tie(e.rack, e.node_class); };
    while (x < a.size() || y < b.size()) {
      const bool left = y == b.size() || (x < a.size() && place(a[x]) <= place(b[y]));
      const bool right = x == a.size() || (y < b.size() && place(b[y]) <= place(a[x]));
      const Counts::Entry& entry = left ? a[x] : b[y];
      const int delta = (right ? b[y].movable() : 0) - (left ? a[x].movable() : 0);
      if (delta != 0) changes.push_back({g, entry.node_class, entry.rack, delta});
      x += left ? 1 : 0;
      y += right ? 1 : 0;
    }
  }
  return changes;
}

}  // namespace monkeytree
