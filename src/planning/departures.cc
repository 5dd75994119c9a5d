#include "planning/departures.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace monkeytree {
namespace {

/// Up to this many (losing, gaining) pairs of racks, all of them are compared for each worker.
constexpr size_t kComparedPairs = 32;
/// Up to this many moved workers, their new racks are looked up one by one.
constexpr size_t kShortList = 8;

struct Candidate {
  int worker;
  bool up;  ///< its node may be refilled
};

struct Loss {
  RackId rack;
  int count;
  std::vector<Candidate> candidates;  ///< by worker
};

struct Gain {
  RackId rack;
  int count;
};

/// Departures of one group on one class in one island.
class Chooser {
 public:
  Chooser(const Snapshot& snapshot, const Occupancy& occupancy, GroupId group, ClassId node_class,
          int kind)
      : s_(snapshot),
        occupancy_(occupancy),
        group_(group),
        members_(snapshot.groups[group].workers),
        class_(node_class),
        kind_(kind) {}

  bool run(std::span<const CountChange> changes, std::vector<Departure>& out) {
    int balance = 0, moves = 0;
    for (const CountChange& change : changes) {
      balance += change.delta;
      if (change.delta > 0) gains_.push_back({change.rack, change.delta});
      if (change.delta >= 0) continue;
      losses_.push_back({change.rack, -change.delta, candidates(change.rack)});
      moves -= change.delta;
      if (losses_.back().candidates.size() < static_cast<size_t>(-change.delta)) return false;
    }
    if (balance != 0) return false;
    if (static_cast<size_t>(moves) > kShortList) {
      racks_.reserve(members_.size());
      for (NodeId node : members_) racks_.push_back(s_.nodes[node].rack);
    }
    if (losses_.size() * gains_.size() <= kComparedPairs) {
      while (moves-- > 0) take_best(out);
    } else {
      for (Loss& loss : losses_) take_facing(loss, out);
      take_rest(out);
    }
    return true;
  }

 private:
  std::vector<Candidate> candidates(RackId rack) const {
    std::vector<Candidate> out;
    const auto consider = [&](NodeId id, int worker) {
      const Node& node = s_.nodes[id];
      if (node.node_class != class_ || s_.immovable(group_, worker)) return;
      out.push_back({worker, node.state == NodeState::kUp});
    };
    const std::vector<NodeId>& nodes = s_.racks[rack].nodes;
    if (members_.size() <= nodes.size()) {
      for (size_t w = 0; w < members_.size(); ++w) {
        if (s_.nodes[members_[w]].rack == rack) consider(members_[w], static_cast<int>(w));
      }
      return out;
    }
    for (NodeId id : nodes) {
      occupancy_.for_each(id, [&](Occupancy::Seat seat) {
        if (seat.group == group_) consider(id, seat.worker);
      });
    }
    std::sort(out.begin(), out.end(),
              [](const Candidate& a, const Candidate& b) { return a.worker < b.worker; });
    return out;
  }

  /// Where the worker stands after the departures chosen so far.
  RackId rack_now(int worker) const {
    if (!racks_.empty()) return racks_[static_cast<size_t>(worker)];
    for (const auto& [moved, rack] : moved_) {
      if (moved == worker) return rack;
    }
    return s_.nodes[members_[static_cast<size_t>(worker)]].rack;
  }

  RackId neighbour(int worker, int step) const {
    const int n = static_cast<int>(members_.size());
    return rack_now((worker + step + n) % n);
  }

  /// How many more neighbours in the ring would stand in different racks.
  int tear(int worker, RackId from, RackId to) const {
    const RackId before = neighbour(worker, -1), after = neighbour(worker, 1);
    return (before != to) + (after != to) - (before != from) - (after != from);
  }

  /// Index of the best candidate for this destination, and what it tears.
  std::pair<int, size_t> best(const Loss& loss, RackId to) const {
    const bool any_up = std::any_of(loss.candidates.begin(), loss.candidates.end(),
                                    [](const Candidate& c) { return c.up; });
    std::pair<int, size_t> found{INT32_MAX, 0};
    for (size_t i = 0; i < loss.candidates.size(); ++i) {
      if (loss.candidates[i].up != any_up) continue;
      const int torn = tear(loss.candidates[i].worker, loss.rack, to);
      if (torn < found.first) found = {torn, i};
    }
    return found;
  }

  void take(Loss& loss, Gain& gain, size_t candidate, std::vector<Departure>& out) {
    const int worker = loss.candidates[candidate].worker;
    loss.candidates.erase(loss.candidates.begin() + static_cast<ptrdiff_t>(candidate));
    --loss.count;
    --gain.count;
    if (racks_.empty()) {
      moved_.emplace_back(worker, gain.rack);
    } else {
      racks_[static_cast<size_t>(worker)] = gain.rack;
    }
    out.push_back(
        {group_, worker, members_[static_cast<size_t>(worker)], class_, gain.rack, kind_});
  }

  void take_best(std::vector<Departure>& out) {
    Loss* from = nullptr;
    Gain* to = nullptr;
    std::pair<int, size_t> least{INT32_MAX, 0};
    for (Loss& loss : losses_) {
      if (loss.count == 0) continue;
      for (Gain& gain : gains_) {
        if (gain.count == 0) continue;
        const std::pair<int, size_t> found = best(loss, gain.rack);
        if (found.first < least.first) std::tie(from, to, least) = std::tuple(&loss, &gain, found);
      }
    }
    take(*from, *to, least.second, out);
  }

  Gain* gain_at(RackId rack) {
    const auto it = std::lower_bound(gains_.begin(), gains_.end(), rack,
                                     [](const Gain& gain, RackId r) { return gain.rack < r; });
    return it != gains_.end() && it->rack == rack && it->count > 0 ? &*it : nullptr;
  }

  /// Workers whose neighbour in the ring stands in a gaining rack go there.
  void take_facing(Loss& loss, std::vector<Departure>& out) {
    for (bool found = true; found && loss.count > 0;) {
      found = false;
      const bool any_up = std::any_of(loss.candidates.begin(), loss.candidates.end(),
                                      [](const Candidate& c) { return c.up; });
      for (size_t i = 0; i < loss.candidates.size() && !found; ++i) {
        if (loss.candidates[i].up != any_up) continue;
        for (int step : {-1, 1}) {
          Gain* gain = gain_at(neighbour(loss.candidates[i].worker, step));
          if (gain == nullptr) continue;
          if (tear(loss.candidates[i].worker, loss.rack, gain->rack) > 0) continue;
          take(loss, *gain, i, out);
          found = true;
          break;
        }
      }
    }
  }

  void take_rest(std::vector<Departure>& out) {
    auto gain = gains_.begin();
    for (Loss& loss : losses_) {
      while (loss.count > 0) {
        while (gain->count == 0) ++gain;
        take(loss, *gain, best(loss, gain->rack).second, out);
      }
    }
  }

  const Snapshot& s_;
  const Occupancy& occupancy_;
  GroupId group_;
  const std::vector<NodeId>& members_;
  ClassId class_;
  int kind_;
  std::vector<Loss> losses_;
  std::vector<Gain> gains_;                    ///< by rack
  std::vector<std::pair<int, RackId>> moved_;  ///< few departures: worker and new rack
  std::vector<RackId> racks_;                  ///< many: of each worker
};

}  // namespace

std::optional<std::vector<Departure>> choose_departures(const Snapshot& snapshot,
                                                        const Occupancy& occupancy,
                                                        std::span<const CountChange> changes) {
  std::vector<CountChange> sorted(changes.begin(), changes.end());
  const auto kind = [&](const CountChange& c) {
    return std::tuple(c.group, c.node_class, snapshot.racks[c.rack].island);
  };
  std::sort(sorted.begin(), sorted.end(), [&](const CountChange& a, const CountChange& b) {
    return std::tuple(kind(a), a.rack) < std::tuple(kind(b), b.rack);
  });
  size_t kept = 0;  // the same rack named twice counts as one change
  for (const CountChange& change : sorted) {
    if (kept > 0 && sorted[kept - 1].group == change.group &&
        sorted[kept - 1].rack == change.rack && sorted[kept - 1].node_class == change.node_class) {
      sorted[kept - 1].delta += change.delta;
    } else {
      sorted[kept++] = change;
    }
  }
  sorted.resize(kept);
  std::vector<Departure> out;
  int kinds = 0;
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    while (end < sorted.size() && kind(sorted[end]) == kind(sorted[begin])) ++end;
    Chooser chooser(snapshot, occupancy, sorted[begin].group, sorted[begin].node_class, kinds++);
    if (!chooser.run({sorted.data() + begin, end - begin}, out)) return std::nullopt;
  }
  return out;
}

}  // namespace monkeytree
