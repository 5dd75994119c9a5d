#include "planning/cold_landing.h"

#include <algorithm>
#include <tuple>

namespace monkeytree {
namespace {

/// Workers of one group in one rack, on nodes of one class.
struct Portion {
  RackId rack;
  ClassId node_class;
  int count = 0;
  int up = 0;  // of them, those whose slots become free
};

/// A group some of whose workers leave their racks.
struct Leaver {
  GroupId group;
  RackId gather;                // completed there, if valid
  std::vector<Portion> out;     // where they leave, and do not arrive
  std::vector<RackId> remain;   // racks that keep workers, ascending
  int makes_room_for = -1;      // the leaver for whose sake alone workers leave, if any
  std::vector<Portion> placed;  // where they arrive
  std::vector<RackId> joined;   // of those racks, the ones that count one group more
  bool whole = false;           // all of it in one rack afterwards
  bool dropped = false;
  int workers = 0;
  int home_room = 0;
};

class Landing {
 public:
  Landing(const Counts& counts, const ColdBound& bound)
      : counts_(counts),
        classes_(counts.class_count()),
        free_(counts.rack_count() * classes_),
        slack_(counts.rack_count()) {
    for (size_t r = 0; r < slack_.size(); ++r) {
      const Counts::RackCounts& rack = counts.rack(RackId(r));
      slack_[r] = rack.bound - rack.degree;
      for (size_t c = 0; c < classes_; ++c)
        free_[r * classes_ + c] = counts.free(RackId(r), ClassId(c));
    }
    list_leavers(bound);
  }

  ColdLanding run() {
    for (Leaver& leaver : leavers_) take_out(leaver, +1);
    // Each round may drop groups and so undo what others have done; no group is dropped twice.
    make_room();
    while (place_all() || drop_useless()) {
    }
    ColdLanding landing;
    std::vector<CountChange>& changes = landing.changes;
    for (const Leaver& leaver : leavers_) {
      if (leaver.dropped) {
        for (const Portion& from : leaver.out) landing.dropped.push_back({leaver.group, from.rack});
        continue;
      }
      for (const Portion& from : leaver.out) {
        changes.push_back({leaver.group, from.node_class, from.rack, -from.count});
      }
      for (const Portion& to : leaver.placed) {
        changes.push_back({leaver.group, to.node_class, to.rack, to.count});
      }
    }
    return landing;
  }

 private:
  int& free(RackId rack, ClassId c) {
    return free_[static_cast<size_t>(rack.value) * classes_ + static_cast<size_t>(c.value)];
  }
  int& slack(RackId rack) { return slack_[static_cast<size_t>(rack.value)]; }

  void list_leavers(const ColdBound& bound) {
    for (const ColdAction& action : bound.evict) {
      if (leavers_.empty() || leavers_.back().group != action.group) {
        leavers_.push_back({});
        leavers_.back().group = action.group;
      }
      Leaver& leaver = leavers_.back();
      for (const Counts::Entry& entry : counts_.group(action.group).entries) {
        if (entry.rack != action.rack) continue;
        leaver.out.push_back({entry.rack, entry.node_class, entry.total(), entry.up});
        leaver.workers += entry.total();
      }
    }
    for (Leaver& leaver : leavers_) {
      const auto at =
          std::lower_bound(bound.complete.begin(), bound.complete.end(), leaver.group,
                           [](const ColdAction& action, GroupId g) { return action.group < g; });
      if (at != bound.complete.end() && at->group == leaver.group) leaver.gather = at->rack;
      list_remaining(leaver);
    }
  }

  /// Takes the workers out of their racks (sign +1), or puts them back there.
  void take_out(const Leaver& leaver, int sign) {
    const Counts::GroupCounts& group = counts_.group(leaver.group);
    RackId last;
    for (const Portion& from : leaver.out) {
      free(from.rack, from.node_class) +=
          sign * from.up * counts_.need(leaver.group, from.node_class);
      if (from.rack == last) continue;
      last = from.rack;
      const bool was_partial = counts_.total(leaver.group, last) < group.size;
      const bool is_partial = std::binary_search(leaver.remain.begin(), leaver.remain.end(), last);
      slack(last) += sign * group.weight * (int{was_partial} - int{is_partial});
    }
  }

  // -- Making room where more workers gather than leave.

  void make_room() {
    const size_t count = leavers_.size();
    for (size_t i = 0; i < count; ++i) {
      const RackId rack = leavers_[i].gather;
      if (!rack.valid()) continue;
      for (const Portion& part : pending(leavers_[i])) {
        free(rack, part.node_class) -=
            part.count * counts_.need(leavers_[i].group, part.node_class);
        while (free(rack, part.node_class) < 0 && displace(rack, part.node_class, i)) {
        }
      }
    }
    for (size_t i = 0; i < count; ++i) {
      const RackId rack = leavers_[i].gather;
      if (!rack.valid()) continue;
      for (const Portion& part : pending(leavers_[i])) {
        free(rack, part.node_class) +=
            part.count * counts_.need(leavers_[i].group, part.node_class);
      }
    }
  }

  /// Lets a few workers leave the rack too, of a group for which that is easiest; false where there
  /// is none.
  bool displace(RackId rack, ClassId c, size_t cause) {
    GroupId best;
    int most = 0, least = 3;
    for (GroupId g : counts_.rack(rack).groups) {
      const int entry = counts_.find(g, rack, c);
      if (entry < 0 || has_part(g, rack)) continue;
      const Counts::GroupCounts& group = counts_.group(g);
      const int need = counts_.need(g, c);
      const int up = group.entries[static_cast<size_t>(entry)].up;
      const int missing = (need - 1 - free(rack, c)) / need;
      const int count = std::min(missing, up);
      const int total = counts_.total(g, rack);
      if (count <= 0 || count == group.size) continue;
      int home = 0;
      for (const Counts::Entry& e : group.entries) {
        if (e.rack != rack && e.node_class == c) home = std::max(home, free(e.rack, c) / need);
      }
      const int trouble = total == group.size ? 2 : home >= count ? 0 : 1;
      if (trouble == 2 &&
          slack(rack) + counts_.group(leavers_[cause].group).weight < group.weight) {
        continue;
      }
      if (trouble > least || (trouble == least && count <= most)) continue;
      best = g;
      most = count;
      least = trouble;
    }
    if (best.valid()) leave_too(best, {rack, c, most, most}, cause);
    return best.valid();
  }

  /// Does the group leave the rack, or gather there, already?
  bool has_part(GroupId g, RackId rack) const {
    return std::any_of(leavers_.begin(), leavers_.end(), [&](const Leaver& leaver) {
      return leaver.group == g && (leaver.gather.valid() || leaver.dropped || leaves(leaver, rack));
    });
  }

  void leave_too(GroupId g, const Portion& from, size_t cause) {
    auto at = std::find_if(leavers_.begin(), leavers_.end(),
                           [&](const Leaver& leaver) { return leaver.group == g; });
    if (at == leavers_.end()) {
      leavers_.push_back({});
      at = leavers_.end() - 1;
      at->group = g;
      at->makes_room_for = static_cast<int>(cause);
    } else {
      take_out(*at, -1);
      at->makes_room_for = -1;
    }
    at->out.push_back(from);
    at->workers += from.count;
    list_remaining(*at);
    take_out(*at, +1);
  }

  void list_remaining(Leaver& leaver) const {
    leaver.remain.clear();
    for (const Counts::Entry& entry : counts_.group(leaver.group).entries) {
      int left = entry.total();
      for (const Portion& p : leaver.out) {
        if (p.rack == entry.rack && p.node_class == entry.node_class) left -= p.count;
      }
      if (left > 0 && (leaver.remain.empty() || leaver.remain.back() != entry.rack)) {
        leaver.remain.push_back(entry.rack);
      }
    }
  }

  // -- Placing.

  /// Places who is not placed; true where somebody had to be dropped.
  bool place_all() {
    std::vector<size_t> order;
    for (size_t i = 0; i < leavers_.size(); ++i) {
      Leaver& leaver = leavers_[i];
      if (leaver.dropped || !leaver.placed.empty()) continue;
      leaver.home_room = 0;
      for (RackId rack : leaver.remain)
        leaver.home_room = std::max(leaver.home_room, room(leaver, rack));
      order.push_back(i);
    }
    const auto rank = [&](size_t i) {
      const Leaver& l = leavers_[i];
      const int step = l.gather.valid() ? 0 : l.home_room >= l.workers ? 1 : 2;
      return std::tuple(step, step == 2 ? -l.workers : 0,
                        step == 2 ? -counts_.group(l.group).weight : 0);
    };
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return rank(a) < rank(b); });
    bool dropped = false;
    for (size_t i : order) {
      if (place(leavers_[i])) continue;
      dropped = true;
      drop(leavers_[i]);
    }
    return dropped;
  }

  /// Puts back who left to make room for a group that stays after all.
  bool drop_useless() {
    bool dropped = false;
    for (Leaver& leaver : leavers_) {
      if (leaver.dropped || leaver.makes_room_for < 0) continue;
      if (!leavers_[static_cast<size_t>(leaver.makes_room_for)].dropped) continue;
      unplace(leaver);
      drop(leaver);
      dropped = true;
    }
    return dropped;
  }

  /// Workers that could come into the rack, of the one class where there are several classes.
  int room(const Leaver& leaver, RackId rack) {
    if (leaves(leaver, rack)) return 0;
    int most = 0;
    for (const Portion& part : leaver.out) {
      most =
          std::max(most, free(rack, part.node_class) / counts_.need(leaver.group, part.node_class));
    }
    return most;
  }

  /// Leaves the group as it was; whoever has taken its slots or its share of the degree must look
  /// for another place.
  void drop(Leaver& leaver) {
    leaver.dropped = true;
    take_out(leaver, -1);
    for (const Portion& from : leaver.out) clear(from.rack);
  }

  void clear(RackId rack) {
    for (Leaver& other : leavers_) {
      bool crowded = false;
      for (const Portion& p : other.placed) {
        crowded |= p.rack == rack && free(rack, p.node_class) < 0;
      }
      const auto& joined = other.joined;
      crowded |= slack(rack) < 0 && std::find(joined.begin(), joined.end(), rack) != joined.end();
      if (crowded) unplace(other);
    }
  }

  bool place(Leaver& leaver) {
    const std::vector<Portion> parts = pending(leaver);
    if (leaver.gather.valid()) return place_whole(leaver, parts, leaver.gather);
    if (leaver.remain.size() == 1 && !leaves(leaver, leaver.remain.front()) &&
        place_whole(leaver, parts, leaver.remain.front()))
      return true;
    if (leaver.remain.empty()) {
      const RackId best = tightest(leaver, parts, 0);
      if (best.valid()) return place_whole(leaver, parts, best);
    }
    for (Portion part : parts) {
      if (place_home(leaver, part) || place_outside(leaver, part)) continue;
      unplace(leaver);
      return false;
    }
    return true;
  }

  /// The workers that leave, by class.
  std::vector<Portion> pending(const Leaver& leaver) const {
    std::vector<Portion> parts;
    for (const Portion& from : leaver.out) {
      const auto same = [&](const Portion& p) { return p.node_class == from.node_class; };
      const auto at = std::find_if(parts.begin(), parts.end(), same);
      if (at == parts.end()) {
        parts.push_back({RackId(), from.node_class, from.count});
      } else {
        at->count += from.count;
      }
    }
    return parts;
  }

  bool fits(const Leaver& leaver, const std::vector<Portion>& parts, RackId rack) {
    return std::all_of(parts.begin(), parts.end(), [&](const Portion& part) {
      return free(rack, part.node_class) >=
             part.count * counts_.need(leaver.group, part.node_class);
    });
  }

  bool place_whole(Leaver& leaver, const std::vector<Portion>& parts, RackId rack) {
    if (!fits(leaver, parts, rack)) return false;
    for (const Portion& part : parts) put(leaver, rack, part.node_class, part.count);
    leaver.whole = true;
    if (!leaver.remain.empty()) slack(rack) += counts_.group(leaver.group).weight;
    return true;
  }

  void put(Leaver& leaver, RackId rack, ClassId c, int count) {
    free(rack, c) -= count * counts_.need(leaver.group, c);
    leaver.placed.push_back({rack, c, count});
  }

  void unplace(Leaver& leaver) {
    for (const Portion& to : leaver.placed) {
      free(to.rack, to.node_class) += to.count * counts_.need(leaver.group, to.node_class);
    }
    const int weight = counts_.group(leaver.group).weight;
    for (RackId rack : leaver.joined) slack(rack) += weight;
    const bool lowered = leaver.whole && !leaver.remain.empty();
    leaver.placed.clear();
    leaver.joined.clear();
    leaver.whole = false;
    if (!lowered) return;
    slack(leaver.remain.front()) -= weight;
    clear(leaver.remain.front());
  }

  /// Into racks where the group is: raises no degree. True once all are placed.
  bool place_home(Leaver& leaver, Portion& part) {
    const int need = counts_.need(leaver.group, part.node_class);
    std::vector<RackId> homes = leaver.remain;
    homes.insert(homes.end(), leaver.joined.begin(), leaver.joined.end());
    // The tightest that takes all, else the roomiest first.
    const auto key = [&](RackId rack) {
      const int left = free(rack, part.node_class) - part.count * need;
      return left >= 0 ? std::tuple(0, left) : std::tuple(1, -left);
    };
    std::stable_sort(homes.begin(), homes.end(),
                     [&](RackId a, RackId b) { return key(a) < key(b); });
    for (RackId rack : homes) {
      const int count = std::min(part.count, free(rack, part.node_class) / need);
      if (count <= 0 || leaves(leaver, rack)) continue;
      put(leaver, rack, part.node_class, count);
      part.count -= count;
      if (part.count == 0) return true;
    }
    return false;
  }

  bool leaves(const Leaver& leaver, RackId rack) const {
    return std::any_of(leaver.out.begin(), leaver.out.end(),
                       [&](const Portion& p) { return p.rack == rack; });
  }

  /// Into racks with slack, as few as can be.
  bool place_outside(Leaver& leaver, Portion& part) {
    const int weight = counts_.group(leaver.group).weight;
    while (part.count > 0) {
      RackId rack = tightest(leaver, {part}, weight);
      if (!rack.valid()) rack = roomiest(leaver, part.node_class, weight);
      if (!rack.valid()) return false;
      const int need = counts_.need(leaver.group, part.node_class);
      const int count = std::min(part.count, free(rack, part.node_class) / need);
      put(leaver, rack, part.node_class, count);
      slack(rack) -= weight;
      leaver.joined.push_back(rack);
      part.count -= count;
    }
    return true;
  }

  bool may_join(const Leaver& leaver, RackId rack, int weight) {
    const auto& entries = counts_.group(leaver.group).entries;
    if (counts_.rack(rack).island != counts_.rack(entries.front().rack).island) return false;
    if (slack(rack) < weight || leaves(leaver, rack)) return false;
    return std::find(leaver.joined.begin(), leaver.joined.end(), rack) == leaver.joined.end() &&
           !std::binary_search(leaver.remain.begin(), leaver.remain.end(), rack);
  }

  /// Of the racks that take all parts, one with the least use for others.
  RackId tightest(const Leaver& leaver, const std::vector<Portion>& parts, int weight) {
    RackId best;
    std::tuple<int, int> least;
    for (size_t r = 0; r < slack_.size(); ++r) {
      const RackId rack(r);
      if (!fits(leaver, parts, rack) || !may_join(leaver, rack, weight)) continue;
      int left = 0;
      for (size_t c = 0; c < classes_; ++c) left += std::max(0, free(rack, ClassId(c)));
      const std::tuple<int, int> key(left, slack(rack));
      if (best.valid() && key >= least) continue;
      best = rack;
      least = key;
    }
    return best;
  }

  RackId roomiest(const Leaver& leaver, ClassId c, int weight) {
    RackId best;
    for (size_t r = 0; r < slack_.size(); ++r) {
      const RackId rack(r);
      if (free(rack, c) < counts_.need(leaver.group, c) || !may_join(leaver, rack, weight))
        continue;
      if (!best.valid() || free(rack, c) > free(best, c)) best = rack;
    }
    return best;
  }

  const Counts& counts_;
  size_t classes_;
  std::vector<int> free_;   // by rack and class
  std::vector<int> slack_;  // bound − degree, by rack
  std::vector<Leaver> leavers_;
};

}  // namespace

ColdLanding land_cover(const Counts& counts, const ColdBound& bound) {
  return Landing(counts, bound).run();
}

}  // namespace monkeytree
