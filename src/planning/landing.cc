// Step 3 of the search: can all workers taken out be placed without taking out any more?
//
// Depth first over the parts, and for each part over racks: first the racks that are not like any
// other (where the group already is, racks the search has touched, racks that have received a part
// before), then one representative of each kind of untouched rack at a time.

#include <algorithm>

#include "planning/search.h"

namespace monkeytree {
namespace {

/// Steps that cost about as much as a search node.
constexpr int64_t kStepsPerNode = 4;

}  // namespace

bool Search::land() {
  parts_.clear();
  for (const Pending& part : pending_) {
    if (part.count > 0 && !committed(part.group).valid())
      parts_.push_back({part, false, false, {}});
  }
  std::sort(parts_.begin(), parts_.end(), [](const Part& a, const Part& b) {
    return std::tie(a.pending.group, a.pending.node_class, a.pending.island) <
           std::tie(b.pending.group, b.pending.node_class, b.pending.island);
  });
  for (size_t i = 0; i < parts_.size(); ++i) {
    parts_[i].first_of_group = i == 0 || parts_[i - 1].pending.group != parts_[i].pending.group;
  }
  landing_.clear();
  short_ = short_parts();
  if (!short_.empty()) return false;
  const bool placed = land_groups(0);
  while (!landing_.empty()) unput();
  return placed;
}

/// Parts that together have more workers than the racks admitting them have room (Hall's condition,
/// found by augmenting paths); empty where every part finds room if degrees would allow all at
/// once. Racks alike are one place with their room added up.
std::vector<Search::Pending> Search::short_parts() {
  deficit_ = 0;
  if (parts_.size() == 1) {
    const Pending& part = parts_.front().pending;
    if (landable(part, part.count) >= part.count) return {};
  }
  single_.clear();
  for (Part& part : parts_) {
    if (counts_.mixed(part.pending.node_class)) return {};
    list_racks(part);
    single_.insert(single_.end(), part.racks.begin(), part.racks.end());
  }
  for (const Whole& whole : whole_) single_.push_back(whole.rack);
  single_.insert(single_.end(), touched_.begin(), touched_.end());
  std::sort(single_.begin(), single_.end());
  single_.erase(std::unique(single_.begin(), single_.end()), single_.end());
  list_places();
  return match_parts();
}

/// Where the parts may go: the racks of single_ one by one, the others by kind.
void Search::list_places() {
  places_.clear();
  const int classes = static_cast<int>(counts_.class_count());
  for (RackId rack : single_) {
    for (int c = 0; c < classes; ++c) {
      const int room = counts_.free(rack, ClassId(c));
      if (room > 0) places_.push_back({rack, ClassId(c), room, true});
    }
  }
  for (const auto& [kind, racks] : counts_.kinds()) {
    constexpr size_t kEnough = 64;  // room for more than is ever pending
    size_t count = 0;
    RackId any;
    for (RackId rack : racks) {
      if (std::binary_search(single_.begin(), single_.end(), rack)) continue;
      any = rack;
      if (++count > kEnough) break;
    }
    if (count == 0) continue;
    for (int c = 0; c < classes; ++c) {
      const int room = kind.free[static_cast<size_t>(c)] * static_cast<int>(count);
      if (room > 0) places_.push_back({any, ClassId(c), room, false});
    }
  }
}

std::vector<Search::Pending> Search::match_parts() {
  const size_t n = parts_.size();
  open_.assign(places_.size() * n, 0);
  from_.assign(places_.size() * n, 0);
  for (size_t k = 0; k < places_.size(); ++k) {
    const Place& place = places_[k];
    for (size_t i = 0; i < n; ++i) {
      const Pending& part = parts_[i].pending;
      open_[k * n + i] =
          part.node_class == place.node_class && counts_.rack(place.rack).island == part.island &&
          !closed(part.group, place.rack, place.node_class) && admits(part.group, place.rack);
    }
  }
  std::vector<Pending> out;
  for (size_t i = 0; i < n; ++i) {
    for (int k = 0; k < parts_[i].pending.count; ++k) {
      reached_.assign(n, 0);
      if (augment(i)) continue;
      deficit_ += parts_[i].pending.count - k;
      if (!out.empty()) break;
      for (size_t j = 0; j < n; ++j) {
        if (reached_[j]) out.push_back(parts_[j].pending);
      }
      break;
    }
  }
  return out;
}

/// After a match that left workers without room: the places from which room that is left can be
/// reached by moving matched workers on. A worker that is still to leave must come in at one of
/// them.
std::vector<RackId> Search::relieving_racks() const {
  const size_t n = parts_.size();
  std::vector<char> relieves(places_.size(), 0);
  bool more = true;
  for (size_t i = 0; i < places_.size(); ++i) relieves[i] = places_[i].room > 0;
  while (more) {
    more = false;
    for (size_t i = 0; i < places_.size(); ++i) {
      if (relieves[i]) continue;
      for (size_t part = 0; part < n && !relieves[i]; ++part) {
        if (from_[i * n + part] == 0) continue;
        for (size_t k = 0; k < places_.size(); ++k) {
          if (relieves[k] && open_[k * n + part]) relieves[i] = 1;
        }
      }
      more |= relieves[i] != 0;
    }
  }
  std::vector<RackId> racks;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (!relieves[i]) continue;
    racks.push_back(places_[i].rack);
    if (places_[i].single) continue;
    for (const auto& [kind, members] : counts_.kinds()) {
      if (!std::binary_search(members.begin(), members.end(), places_[i].rack)) continue;
      racks.insert(racks.end(), members.begin(), members.end());
    }
  }
  std::sort(racks.begin(), racks.end());
  racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
  return racks;
}

/// Finds room for one more worker of a part, moving others over where that helps.
bool Search::augment(size_t part) {
  const size_t n = parts_.size();
  reached_[part] = 1;
  for (size_t k = 0; k < places_.size(); ++k) {
    if (open_[k * n + part] && places_[k].room > 0) {
      --places_[k].room;
      ++from_[k * n + part];
      return true;
    }
  }
  for (size_t k = 0; k < places_.size(); ++k) {
    if (!open_[k * n + part]) continue;
    for (size_t other = 0; other < n; ++other) {
      if (from_[k * n + other] == 0 || reached_[other]) continue;
      if (!augment(other)) continue;
      --from_[k * n + other];
      ++from_[k * n + part];
      return true;
    }
  }
  return false;
}

/// First the groups that can become whole, since that lowers a degree; each is tried so and
/// otherwise.
bool Search::land_groups(size_t index) {
  while (index < parts_.size() && !parts_[index].first_of_group) ++index;
  if (index == parts_.size()) return land_from(0);
  if (land_whole(index)) return true;
  return !done() && land_groups(index + 1);
}

/// Places parts index, index + 1, …; true once a solution was accepted.
bool Search::land_from(size_t index) {
  while (index < parts_.size() && parts_[index].placed) ++index;
  if (index == parts_.size()) {
    const bool before = refused_;
    refused_ = false;
    accept();
    const bool taken = !refused_;
    refused_ |= before;
    return taken;
  }
  if (++landing_steps_ % kStepsPerNode == 0) ++work_;
  if (done()) return false;
  list_racks(parts_[index]);
  return land_rest(index, parts_[index].pending.count, 0, INT32_MAX);
}

/// Racks that the part must look at one by one.
void Search::list_racks(Part& part) const {
  const GroupId g = part.pending.group;
  const IslandId island = part.pending.island;
  const ClassId c = part.pending.node_class;
  const int need = counts_.need(g, c);
  std::vector<RackId>& racks = part.racks;
  racks.clear();
  const auto add = [&](RackId rack) {
    if (counts_.free(rack, c) >= need && counts_.rack(rack).island == island) racks.push_back(rack);
  };
  for (const Counts::Entry& entry : counts_.group(g).entries) add(entry.rack);
  for (RackId rack : touched_) add(rack);
  for (const Landing& landing : landing_) add(landing.rack);
  std::sort(racks.begin(), racks.end());
  racks.erase(std::unique(racks.begin(), racks.end()), racks.end());
  std::erase_if(racks, [&](RackId rack) { return closed(g, rack, c); });
}

/// All of the group's workers in one rack: it is whole there and adds nothing to the degree.
bool Search::land_whole(size_t index) {
  const GroupId g = parts_[index].pending.group;
  const Counts::GroupCounts& group = counts_.group(g);
  size_t end = index;
  int outside = 0;
  while (end < parts_.size() && parts_[end].pending.group == g) {
    outside += parts_[end++].pending.count;
  }
  if (outside == group.size) {
    list_racks(parts_[index]);
    const std::vector<RackId> racks = parts_[index].racks;
    for (RackId rack : racks) {
      if (land_whole_in(index, end, rack)) return true;
    }
    const IslandId island = parts_[index].pending.island;
    for (const auto& [kind, members] : counts_.kinds()) {
      if (kind.island != island) continue;
      const RackId rack = representative(members, g);
      if (rack.valid() && land_whole_in(index, end, rack)) return true;
    }
    return false;
  }
  for (const Counts::Entry& entry : group.entries) {
    if (entry.total() == 0) continue;
    // The only rack that still holds the group, if any.
    return counts_.total(g, entry.rack) + outside == group.size &&
           land_whole_in(index, end, entry.rack);
  }
  return false;
}

bool Search::land_whole_in(size_t index, size_t end, RackId rack) {
  const GroupId g = parts_[index].pending.group;
  for (size_t i = index; i < end; ++i) {
    const Pending& part = parts_[i].pending;
    if (part.island != counts_.rack(rack).island ||
        part.count * counts_.need(g, part.node_class) > counts_.free(rack, part.node_class) ||
        closed(g, rack, part.node_class)) {
      return false;
    }
  }
  const int delta = counts_.total(g, rack) > 0 ? -counts_.group(g).weight : 0;
  const size_t before = landing_.size();
  bool placed = true;
  for (size_t i = index; i < end && placed; ++i) {
    placed =
        put(g, parts_[i].pending.node_class, rack, parts_[i].pending.count, i == index ? delta : 0);
  }
  if (placed) {
    for (size_t i = index; i < end; ++i) parts_[i].placed = true;
    placed = land_groups(end);
    for (size_t i = index; i < end; ++i) parts_[i].placed = false;
  }
  while (landing_.size() > before) unput();
  return placed;
}

/// The first rack of a kind that nothing has touched and that does not hold the group.
RackId Search::representative(const std::vector<RackId>& racks, GroupId g) const {
  for (RackId rack : racks) {
    if (counts_.rack(rack).touched > 0 || counts_.find(g, rack) >= 0) continue;
    const auto received = [&](const Landing& landing) { return landing.rack == rack; };
    if (std::none_of(landing_.begin(), landing_.end(), received)) return rack;
  }
  return RackId();
}

/// Places `count` workers of a part in racks from the `next`th on; kinds follow after the listed
/// racks, and in each kind the racks receive at most as many as the one before.
bool Search::land_rest(size_t index, int count, size_t next, int at_most) {
  if (count == 0) return land_from(index + 1);
  if (++landing_steps_ % kStepsPerNode == 0) ++work_;
  if (done()) return false;
  if (next >= parts_[index].racks.size()) return land_in_kinds(index, count, next, at_most);
  const RackId rack = parts_[index].racks[next];
  const GroupId g = parts_[index].pending.group;
  const ClassId c = parts_[index].pending.node_class;
  const int most = std::min(count, counts_.free(rack, c) / counts_.need(g, c));
  if (most > 0 && land_here(index, count, rack, next + 1, most, false)) return true;
  return land_rest(index, count, next + 1, INT32_MAX);
}

/// `of_kind`: the rack stands for the `next`th kind, whose other racks receive no more than it
/// does.
bool Search::land_here(size_t index, int count, RackId rack, size_t next, int most, bool of_kind) {
  const GroupId g = parts_[index].pending.group;
  const bool present = counts_.total(g, rack) + landed(g, rack) > 0;
  for (int n = most; n > 0; --n) {
    if (!put(g, parts_[index].pending.node_class, rack, n, present ? 0 : counts_.group(g).weight)) {
      return false;  // fewer would raise the degree just as much
    }
    const bool placed = land_rest(index, count - n, next, of_kind ? n : INT32_MAX);
    unput();
    if (placed) return true;
    if (done()) return false;
  }
  return false;
}

bool Search::land_in_kinds(size_t index, int count, size_t next, int at_most) {
  const GroupId g = parts_[index].pending.group;
  const ClassId c = parts_[index].pending.node_class;
  const int need = counts_.need(g, c);
  const IslandId island = parts_[index].pending.island;
  const size_t listed = parts_[index].racks.size();
  size_t number = listed;
  for (const auto& [kind, racks] : counts_.kinds()) {
    const size_t mine = number++;
    if (mine < next) continue;
    if (kind.island != island || kind.free[static_cast<size_t>(c.value)] < need) continue;
    const RackId rack = representative(racks, g);
    if (!rack.valid()) continue;
    int most = std::min(count, counts_.free(rack, c) / need);
    if (mine == next) most = std::min(most, at_most);
    if (land_here(index, count, rack, mine, most, true)) return true;
    if (done()) return false;
  }
  return false;
}

int Search::landed(GroupId g, RackId rack) const {
  int sum = 0;
  for (const Landing& landing : landing_) {
    if (landing.group == g && landing.rack == rack) sum += landing.count;
  }
  return sum;
}

/// Places workers; false, and nothing done, where the degrees forbid it.
bool Search::put(GroupId g, ClassId c, RackId rack, int count, int degree_delta) {
  if (degree_delta != 0) {
    counts_.add_degree(rack, degree_delta);
    if (counts_.excess() > allowed_) {
      counts_.add_degree(rack, -degree_delta);
      return false;
    }
  }
  counts_.free(rack, c) -= count * counts_.need(g, c);
  landing_.push_back({g, c, rack, count, degree_delta});
  return true;
}

void Search::unput() {
  const Landing landing = landing_.back();
  landing_.pop_back();
  counts_.free(landing.rack, landing.node_class) +=
      landing.count * counts_.need(landing.group, landing.node_class);
  if (landing.degree_delta != 0) counts_.add_degree(landing.rack, -landing.degree_delta);
}

}  // namespace monkeytree
