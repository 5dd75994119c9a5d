// What is possible at a state of the search, and what it costs.

#include <algorithm>
#include <array>

#include "planning/search.h"

namespace monkeytree {

bool Search::partial(GroupId g, RackId rack) const {
  const int here = counts_.total(g, rack);
  return here > 0 && here < counts_.group(g).size && committed(g) != rack;
}

int Search::evict_cost(GroupId g, RackId rack) const {
  const int first = counts_.find(g, rack);
  const auto& entries = counts_.group(g).entries;
  if (first < 0 || committed(g) == rack) return -1;
  if (entries[static_cast<size_t>(first)].marks & kNoEvict) return -1;
  int cost = 0;
  for (size_t i = static_cast<size_t>(first); i < entries.size() && entries[i].rack == rack; ++i) {
    if (entries[i].fixed > 0) return -1;
    if (entries[i].movable() > 0 && (entries[i].marks & kNoLoss)) return -1;
    cost += entries[i].movable();
  }
  return cost > 0 ? cost : -1;
}

int Search::complete_cost(GroupId g, RackId rack) const {
  const Counts::GroupCounts& group = counts_.group(g);
  const size_t classes = counts_.class_count();
  if (classes == 1) {  // the common case, and the cheapest refusal
    const int first = counts_.find(g, rack);
    const int own = first < 0 ? 0
                              : group.entries[static_cast<size_t>(first)].stay +
                                    group.entries[static_cast<size_t>(first)].fixed;
    if ((group.size - own) * counts_.need(g, ClassId(0)) > counts_.capacity(rack, ClassId(0))) {
      return -1;
    }
  }
  if (committed(g).valid()) return -1;
  std::array<int, 8> small{};
  std::vector<int> large;
  if (classes > small.size()) large.assign(classes, 0);
  int* incoming = classes > small.size() ? large.data() : small.data();
  int cost = 0;
  for (const Counts::Entry& entry : group.entries) {
    const size_t c = static_cast<size_t>(entry.node_class.value);
    if (entry.rack == rack) {
      if (entry.taken > 0 || (entry.marks & (kNoComplete | kClosed))) return -1;
      incoming[c] += entry.up;
      continue;
    }
    if (entry.fixed > 0) return -1;
    if (entry.movable() > 0 && (entry.marks & (kNoLoss | kNoEvict))) return -1;
    if (counts_.rack(entry.rack).island != counts_.rack(rack).island) return -1;
    cost += entry.movable();
    incoming[c] += entry.movable() + entry.taken;
  }
  for (size_t c = 0; c < classes; ++c) {
    if (incoming[c] > 0 &&
        incoming[c] * counts_.need(g, ClassId(c)) > counts_.capacity(rack, ClassId(c))) {
      return -1;
    }
  }
  return cost;
}

bool Search::may_lose(GroupId g, int index) const {
  const auto& entries = counts_.group(g).entries;
  const Counts::Entry& entry = entries[static_cast<size_t>(index)];
  if (entry.movable() == 0 || (entry.marks & kNoLoss) || committed(g) == entry.rack) return false;
  const int first = counts_.find(g, entry.rack);
  // A worker of another class may come in for the last one.
  const bool keep =
      counts_.class_count() == 1 && (entries[static_cast<size_t>(first)].marks & kNoEvict);
  return !keep || counts_.total(g, entry.rack) > 1;
}

bool Search::closed(GroupId g, RackId rack, ClassId c) const {
  const int first = counts_.find(g, rack);
  if (first < 0) return false;
  const auto& entries = counts_.group(g).entries;
  if (entries[static_cast<size_t>(first)].marks & kClosed) return true;
  const int entry = counts_.find(g, rack, c);
  return entry >= 0 && entries[static_cast<size_t>(entry)].taken > 0;
}

int Search::pending(GroupId g) const {
  int sum = 0;
  for (const Pending& part : pending_) {
    if (part.group == g) sum += part.count;
  }
  return sum;
}

bool Search::find_overfull(RackId* rack, ClassId* c) const {
  for (const auto& [g, r] : committed_) {
    for (size_t i = 0; i < counts_.class_count(); ++i) {
      if (counts_.free(r, ClassId(i)) >= 0) continue;
      *rack = r;
      *c = ClassId(i);
      return true;
    }
  }
  return false;
}

/// Lists the groups that placing their pending workers could make whole, each once.
void Search::note_whole() {
  whole_.clear();
  for (const Pending& part : pending_) {
    if (part.count == 0) continue;
    const RackId rack = completable(part.group);
    const Whole whole{part.group, rack};
    if (rack.valid() && std::find(whole_.begin(), whole_.end(), whole) == whole_.end()) {
      whole_.push_back(whole);
    }
  }
}

/// The rack in which placing the group's pending workers would make it whole and lower the degree.
RackId Search::completable(GroupId g) const {
  if (committed(g).valid()) return RackId();
  const int outside = pending(g);
  for (const Counts::Entry& entry : counts_.group(g).entries) {
    if (entry.total() == 0) continue;
    const bool rest = counts_.total(g, entry.rack) + outside == counts_.group(g).size;
    const bool near = std::all_of(pending_.begin(), pending_.end(), [&](const Pending& p) {
      return p.group != g || p.count == 0 ||
             (p.island == counts_.rack(entry.rack).island && !closed(g, entry.rack, p.node_class));
    });
    return rest && near ? entry.rack : RackId();
  }
  return RackId();
}

/// May a worker of the group come into the rack as far as degrees go, once every pending group that
/// can become whole is?
bool Search::admits(GroupId g, RackId rack) const {
  if (counts_.total(g, rack) > 0) return true;
  const int weight = counts_.group(g).weight;
  const Counts::RackCounts& r = counts_.rack(rack);
  int degree = r.degree;
  const auto over = [&](int d) { return std::max(0, d - r.bound); };
  if (counts_.excess() + over(degree + weight) - over(degree) <= allowed_) return true;
  if (pending(g) == counts_.group(g).size) return true;  // all of it may come, and stay whole
  int elsewhere = 0;
  for (const Whole& whole : whole_) {
    if (whole.group == g) continue;
    (whole.rack == rack ? degree : elsewhere) -= counts_.group(whole.group).weight;
  }
  const int others = std::max(0, counts_.excess() - over(r.degree) + elsewhere);
  return others + over(degree + weight) <= allowed_;
}

/// Workers of the part that could be placed now if it were the only one; counting stops at
/// `enough`.
int Search::landable(const Pending& part, int enough) const {
  const GroupId g = part.group;
  const ClassId c = part.node_class;
  if (pending(g) == counts_.group(g).size) return enough;
  const int need = counts_.need(g, c);
  const IslandId island = part.island;
  int sum = 0;
  const auto add = [&](RackId rack) {
    const int room = counts_.free(rack, c);
    if (counts_.rack(rack).island != island) return;
    if (room >= need && !closed(g, rack, c) && admits(g, rack)) sum += room / need;
  };
  RackId last;
  for (const Counts::Entry& entry : counts_.group(g).entries) {
    if (entry.rack != last) add(entry.rack);
    last = entry.rack;
    if (sum >= enough) return sum;
  }
  for (size_t i = 0; i < touched_.size(); ++i) {
    const RackId rack = touched_[i];
    if (counts_.rack(rack).island != island || counts_.find(g, rack) >= 0) continue;
    if (std::find(touched_.begin(), touched_.begin() + static_cast<ptrdiff_t>(i), rack) ==
        touched_.begin() + static_cast<ptrdiff_t>(i)) {
      add(rack);
    }
  }
  for (const Whole& whole : whole_) {
    if (whole.group == g || counts_.rack(whole.rack).island != island) continue;
    if (counts_.find(g, whole.rack) < 0) add(whole.rack);
  }
  // A rack counted twice only makes this an estimate from above, which is all that callers need.
  for (const auto& [kind, racks] : counts_.kinds()) {
    if (sum >= enough) return sum;
    if (kind.island != island || kind.free[static_cast<size_t>(c.value)] < need) continue;
    for (RackId rack : racks) {
      if (sum >= enough) return sum;
      if (counts_.rack(rack).touched > 0 || counts_.find(g, rack) >= 0) continue;
      if (!admits(g, rack)) break;  // alike racks refuse alike
      add(rack);
    }
  }
  return sum;
}

}  // namespace monkeytree
