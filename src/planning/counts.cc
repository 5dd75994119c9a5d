#include "planning/counts.h"

#include <algorithm>

namespace monkeytree {
namespace {

/// Up to here a search by halves costs more than it saves.
constexpr size_t kFewEntries = 8;

template <class Items, class T>
void insert_sorted(Items& items, const T& item) {
  if (items.empty() || items.back() < item) {
    items.push_back(item);
  } else {
    items.insert(std::lower_bound(items.begin(), items.end(), item), item);
  }
}

template <class Items, class T>
void erase_sorted(Items& items, const T& item) {
  const auto at = std::lower_bound(items.begin(), items.end(), item);
  if (at != items.end() && *at == item) items.erase(at);
}

bool before(const Counts::Entry& entry, RackId rack, ClassId c) {
  return entry.rack != rack ? entry.rack < rack : entry.node_class < c;
}

}  // namespace

Counts::Counts(const Snapshot& snapshot)
    : class_count_(std::max<size_t>(1, snapshot.classes.size())),
      racks_(snapshot.racks.size()),
      groups_(snapshot.groups.size()),
      free_(racks_.size() * class_count_, 0),
      capacity_(free_),
      fixed_slots_(snapshot.nodes.size(), 0),
      sizes_(class_count_),
      unit_(class_count_, 1) {
  for (RackId r : racks_.keys()) {
    racks_[r].bound = snapshot.racks[r].bound();
    racks_[r].island = snapshot.racks[r].island;
  }
  for (GroupId g : snapshot.groups.keys()) {
    const Group& group = snapshot.groups[g];
    if (group.workers.empty()) continue;
    count_group(snapshot, g);
    ++weights_[group.rings];
    note_slots(g, +1);
  }
  for (ClassId c : sizes_.keys()) unit_[c] = unit_of(c);
  count_room(snapshot);
}

/// Units that movable workers can use on a node.
int Counts::node_capacity(const Snapshot& snapshot, NodeId id) const {
  const Node& node = snapshot.nodes[id];
  if (node.state != NodeState::kUp) return 0;
  const int left = std::max(0, node.slots - fixed_slots_[id]);
  const int unit = unit_[node.node_class];
  return unit > 0 ? left / unit : left;
}

int Counts::unit_of(ClassId c) const {
  return sizes_[c].empty() ? 1 : sizes_[c].size() == 1 ? sizes_[c].begin()->first : 0;
}

/// Counts the slot sizes of a group's movable workers.
void Counts::note_slots(GroupId g, int sign) {
  const GroupCounts& group = groups_[g];
  for (const Entry& entry : group.entries) {
    if (entry.movable() == 0) continue;
    int& count = sizes_[entry.node_class][group.slots];
    count += sign * entry.movable();
    if (count == 0) sizes_[entry.node_class].erase(group.slots);
  }
}

void Counts::note_weight(int weight, int sign) {
  const auto at = weights_.try_emplace(weight, 0).first;
  at->second += sign;
  if (at->second == 0) weights_.erase(at);
}

void Counts::count_node(const Snapshot& snapshot, NodeId id, int sign) {
  const Node& node = snapshot.nodes[id];
  leave_kind(node.rack);
  const int capacity = node_capacity(snapshot, id);
  capacity_[slot(node.rack, node.node_class)] += sign * capacity;
  free_[slot(node.rack, node.node_class)] += sign * capacity;
  enter_kind(node.rack);
}

void Counts::hold(const Snapshot& snapshot, NodeId id, int slots) {
  const RackId rack = snapshot.nodes[id].rack;
  leave_kind(rack);
  fix_slots(snapshot, id, slots);
  enter_kind(rack);
}

/// Kinds are the caller's business.
void Counts::fix_slots(const Snapshot& snapshot, NodeId id, int slots) {
  const Node& node = snapshot.nodes[id];
  const int before = node_capacity(snapshot, id);
  fixed_slots_[id] += slots;
  const int gain = node_capacity(snapshot, id) - before;
  capacity_[slot(node.rack, node.node_class)] += gain;
  free_[slot(node.rack, node.node_class)] += gain;
}

/// Room and kinds from what is known of workers, as the units stand.
void Counts::count_room(const Snapshot& snapshot) {
  std::fill(capacity_.begin(), capacity_.end(), 0);
  for (NodeId n : snapshot.nodes.keys()) {
    const Node& node = snapshot.nodes[n];
    capacity_[slot(node.rack, node.node_class)] += node_capacity(snapshot, n);
  }
  free_ = capacity_;
  for (GroupId g : groups_.keys()) {
    for (const Entry& entry : groups_[g].entries) {
      free(entry.rack, entry.node_class) -= entry.up * need(g, entry.node_class);
    }
  }
  sort_into_kinds();
}

void Counts::sort_into_kinds() {
  kinds_.clear();
  for (RackId r : racks_.keys()) enter_kind(r);
}

/// The entry, made where there was none.
Counts::Entry& Counts::entry_of(GroupId g, RackId rack, ClassId c) {
  Entries& entries = groups_[g].entries;
  const auto at = std::lower_bound(entries.begin(), entries.end(), 0,
                                   [&](const Entry& e, int) { return before(e, rack, c); });
  if (at != entries.end() && at->rack == rack && at->node_class == c) return *at;
  Entry entry;
  entry.rack = rack;
  entry.node_class = c;
  auto& here = racks_[rack].groups;
  if (!std::binary_search(here.begin(), here.end(), g)) insert_sorted(here, g);
  return *entries.insert(at, entry);
}

void Counts::drop_if_empty(GroupId g, RackId rack, ClassId c) {
  const int at = find(g, rack, c);
  Entries& entries = groups_[g].entries;
  if (at < 0 || entries[static_cast<size_t>(at)].total() > 0) return;
  entries.erase(entries.begin() + at);
  if (find(g, rack) < 0) erase_sorted(racks_[rack].groups, g);
}

std::vector<Counts::Shift> Counts::shift(std::span<const CountChange> changes) {
  std::vector<Shift> shifts;
  for (const CountChange& change : changes) {
    const int at = find(change.group, change.rack, change.node_class);
    const int here = at < 0 ? 0 : groups_[change.group].entries[static_cast<size_t>(at)].up;
    const int up = change.delta > 0 ? change.delta : -std::min(-change.delta, here);
    shifts.push_back({change.group, change.node_class, change.rack, up, change.delta - up});
  }
  add_shifts(shifts, +1);
  return shifts;
}

void Counts::unshift(std::span<const Shift> shifts) { add_shifts(shifts, -1); }

void Counts::add_shifts(std::span<const Shift> shifts, int sign) {
  std::vector<RackId> racks;
  std::vector<GroupId> groups;
  for (const Shift& shift : shifts) {
    if (groups.empty() || groups.back() != shift.group) {
      groups.push_back(shift.group);
      for (const Entry& entry : groups_[shift.group].entries) racks.push_back(entry.rack);
    }
    racks.push_back(shift.rack);
  }
  std::sort(racks.begin(), racks.end());
  racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (RackId r : racks) leave_kind(r);
  for (GroupId g : groups) count_degree(g, -1);
  for (const Shift& shift : shifts) {
    Entry& entry = entry_of(shift.group, shift.rack, shift.node_class);
    entry.up += sign * shift.up;
    entry.stay += sign * shift.stay;
    free(shift.rack, shift.node_class) -= sign * shift.up * need(shift.group, shift.node_class);
  }
  for (const Shift& shift : shifts) drop_if_empty(shift.group, shift.rack, shift.node_class);
  for (GroupId g : groups) count_degree(g, +1);
  for (RackId r : racks) enter_kind(r);
}

void Counts::count_degree(GroupId g, int sign) {
  const GroupCounts& group = groups_[g];
  if (group.entries.empty() || group.entries.front().rack == group.entries.back().rack) return;
  RackId last;
  for (const Entry& entry : group.entries) {
    if (entry.rack != last) add_degree(entry.rack, sign * group.weight);
    last = entry.rack;
  }
}

void Counts::add_group(const Snapshot& snapshot, GroupId g) {
  const Group& group = snapshot.groups[g];
  if (groups_.size() < snapshot.groups.size()) groups_.resize(snapshot.groups.size());
  if (group.workers.empty()) return;
  std::vector<RackId> racks;
  for (NodeId n : group.workers) racks.push_back(snapshot.nodes[n].rack);
  std::sort(racks.begin(), racks.end());
  racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
  for (RackId r : racks) leave_kind(r);
  count_group(snapshot, g);
  for (RackId r : racks) enter_kind(r);
  const int heaviest = max_weight();
  note_weight(group.rings, +1);
  note_slots(g, +1);
  follow_units(snapshot, heaviest);
}

void Counts::remove_group(const Snapshot& snapshot, GroupId g) {
  GroupCounts& counts = groups_[g];
  if (counts.size == 0) return;
  std::vector<RackId> racks;
  for (const Entry& entry : counts.entries) {
    if (racks.empty() || racks.back() != entry.rack) racks.push_back(entry.rack);
  }
  const int heaviest = max_weight();
  note_weight(counts.weight, -1);
  note_slots(g, -1);
  for (RackId r : racks) leave_kind(r);
  count_degree(g, -1);
  for (const Entry& entry : counts.entries) {
    free(entry.rack, entry.node_class) += entry.up * need(g, entry.node_class);
  }
  fix_workers(snapshot, g, -1);
  for (RackId r : racks) erase_sorted(racks_[r].groups, g);
  if (counts.size < kSmall) erase_sorted(small_[static_cast<size_t>(counts.size - 1)], g);
  counts = {};
  for (RackId r : racks) enter_kind(r);
  follow_units(snapshot, heaviest);
}

/// Enters a group's workers, all but the kinds of their racks.
void Counts::count_group(const Snapshot& snapshot, GroupId g) {
  const Group& group = snapshot.groups[g];
  GroupCounts& counts = groups_[g];
  counts.weight = group.rings;
  counts.slots = group.slots;
  counts.size = static_cast<int>(group.workers.size());
  counts.job = group.job;
  counts.state_bytes = snapshot.jobs[group.job].state_bytes;
  list_entries(snapshot, g, counts.entries);
  RackId last;
  for (const Entry& entry : counts.entries) {
    if (entry.rack != last) insert_sorted(racks_[entry.rack].groups, g);
    last = entry.rack;
    free(entry.rack, entry.node_class) -= entry.up * need(g, entry.node_class);
  }
  fix_workers(snapshot, g, +1);
  count_degree(g, +1);
  if (counts.size < kSmall) insert_sorted(small_[static_cast<size_t>(counts.size - 1)], g);
}

/// Where a group's workers stand, by (rack, class).
void Counts::list_entries(const Snapshot& snapshot, GroupId g, Entries& entries) {
  const Group& group = snapshot.groups[g];
  const bool movable = snapshot.jobs[group.job].movable;
  entries.clear();
  const auto at = [&](const Node& node) -> Entry& {
    // Neighbours in logical order are mostly neighbours in the fabric.
    for (size_t k = entries.size(); k-- > entries.size() - std::min(entries.size(), kFewEntries);) {
      if (entries[k].rack == node.rack && entries[k].node_class == node.node_class) {
        return entries[k];
      }
    }
    Entry& entry = entries.emplace_back();
    entry.rack = node.rack;
    entry.node_class = node.node_class;
    return entry;
  };
  for (size_t i = 0; i < group.workers.size(); ++i) {
    const Node& node = snapshot.nodes[group.workers[i]];
    const bool fixed = !movable || group.is_pinned(static_cast<int>(i));
    Entry& entry = at(node);
    ++(fixed ? entry.fixed : node.state == NodeState::kUp ? entry.up : entry.stay);
  }
  const auto less = [](const Entry& a, const Entry& b) { return before(a, b.rack, b.node_class); };
  if (!std::is_sorted(entries.begin(), entries.end(), less)) {
    std::sort(entries.begin(), entries.end(), less);
  }
  size_t kept = 0;
  for (size_t k = 1; k < entries.size(); ++k) {  // more than a few back, an entry was made again
    Entry& entry = entries[kept];
    const Entry& next = entries[k];
    if (less(entry, next)) {
      entries[++kept] = next;
    } else {
      entry.up += next.up;
      entry.stay += next.stay;
      entry.fixed += next.fixed;
    }
  }
  if (!entries.empty()) entries.resize(kept + 1);
}

/// Takes the slots of a group's immovable workers, or gives them back.
void Counts::fix_workers(const Snapshot& snapshot, GroupId g, int sign) {
  const Entries& entries = groups_[g].entries;
  if (std::none_of(entries.begin(), entries.end(), [](const Entry& e) { return e.fixed > 0; })) {
    return;
  }
  const Group& group = snapshot.groups[g];
  for (size_t i = 0; i < group.workers.size(); ++i) {
    if (snapshot.immovable(g, static_cast<int>(i))) {
      fix_slots(snapshot, group.workers[i], sign * group.slots);
    }
  }
}

/// After a change of what all groups together decide: the units of the classes and the greatest
/// weight.
void Counts::follow_units(const Snapshot& snapshot, int heaviest_before) {
  bool same = true;
  for (ClassId c : unit_.keys()) {
    const int unit = unit_of(c);
    same = same && unit == unit_[c];
    unit_[c] = unit;
  }
  if (!same) {
    count_room(snapshot);
  } else if (max_weight() != heaviest_before) {
    sort_into_kinds();
  }
}

void Counts::set_bound(RackId r, int bound) {
  leave_kind(r);
  RackCounts& rack = racks_[r];
  const int degree = rack.degree;
  add_degree(r, -degree);  // a rack of degree 0 is over a negative bound only, and there is none
  rack.bound = bound;
  add_degree(r, degree);
  enter_kind(r);
}

int Counts::find(GroupId g, RackId rack) const {
  const Entries& entries = groups_[g].entries;
  if (entries.size() <= kFewEntries) {  // most groups: looking at each is the fastest
    for (size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].rack == rack) return static_cast<int>(i);
    }
    return -1;
  }
  const auto at = std::lower_bound(entries.begin(), entries.end(), rack,
                                   [](const Entry& e, RackId r) { return e.rack < r; });
  return at != entries.end() && at->rack == rack ? static_cast<int>(at - entries.begin()) : -1;
}

int Counts::find(GroupId g, RackId rack, ClassId c) const {
  const Entries& entries = groups_[g].entries;
  for (int i = find(g, rack); i >= 0 && i < static_cast<int>(entries.size()); ++i) {
    const Entry& entry = entries[static_cast<size_t>(i)];
    if (entry.rack != rack) break;
    if (entry.node_class == c) return i;
  }
  return -1;
}

int Counts::total(GroupId g, RackId rack) const {
  const Entries& entries = groups_[g].entries;
  int sum = 0;
  if (entries.size() <= kFewEntries) {
    for (const Entry& entry : entries) sum += entry.rack == rack ? entry.total() : 0;
    return sum;
  }
  for (int i = find(g, rack); i >= 0 && i < static_cast<int>(entries.size()); ++i) {
    const Entry& entry = entries[static_cast<size_t>(i)];
    if (entry.rack != rack) break;
    sum += entry.total();
  }
  return sum;
}

bool Counts::fits_whole(GroupId g, RackId rack) const {
  std::vector<int> units(class_count_, 0);
  for (const Counts::Entry& entry : groups_[g].entries) {
    if (entry.rack != rack) {
      if (entry.fixed > 0) return false;
      if (racks_[entry.rack].island != racks_[rack].island) return false;
    }
    const int count = entry.rack == rack ? entry.up : entry.movable();
    units[static_cast<size_t>(entry.node_class.value)] += count * need(g, entry.node_class);
  }
  for (size_t c = 0; c < units.size(); ++c) {
    if (units[c] > capacity(rack, ClassId(c))) return false;
  }
  return true;
}

void Counts::add_degree(RackId r, int delta) {
  RackCounts& rack = racks_[r];
  const int was = std::max(0, rack.degree - rack.bound);
  rack.degree += delta;
  const int is = std::max(0, rack.degree - rack.bound);
  excess_ += is - was;
  if (was == 0 && is > 0) insert_sorted(over_, r);
  if (was > 0 && is == 0) erase_sorted(over_, r);
}

Counts::Kind Counts::kind_of(RackId r) const {
  Kind kind;
  kind.island = racks_[r].island;
  int room = 0;
  for (size_t c = 0; c < class_count_; ++c) {
    kind.free.push_back(free_[slot(r, ClassId(c))]);
    room += std::max(0, kind.free.back());
  }
  kind.slack = std::min(racks_[r].bound - racks_[r].degree, room * max_weight());
  return kind;
}

bool Counts::has_room(RackId r) const {
  const auto first = free_.begin() + static_cast<ptrdiff_t>(slot(r, ClassId(0)));
  return std::any_of(first, first + static_cast<ptrdiff_t>(class_count_),
                     [](int n) { return n > 0; });
}

void Counts::leave_kind(RackId r) {
  if (!has_room(r)) return;
  const auto at = kinds_.find(kind_of(r));
  if (at == kinds_.end()) return;
  erase_sorted(at->second, r);
  if (at->second.empty()) kinds_.erase(at);
}

void Counts::enter_kind(RackId r) {
  if (has_room(r)) insert_sorted(kinds_[kind_of(r)], r);
}

}  // namespace monkeytree
