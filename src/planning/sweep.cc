#include "planning/sweep.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace monkeytree {
namespace {

constexpr int kAnyMoves = 1 << 28;

bool immovable(const Counts::GroupCounts& group) {
  return std::all_of(group.entries.begin(), group.entries.end(),
                     [](const Counts::Entry& entry) { return entry.movable() == 0; });
}

}  // namespace

Sweep::Sweep(const Counts& counts) : Sweep(counts, IslandId()) {}

Sweep::Sweep(const Counts& counts, IslandId island) : counts_(counts), island_(island) {
  for (size_t r = 0; r < counts.rack_count(); ++r) {
    if (within(RackId(r))) order_.push_back(RackId(r));
    bound_.push_back(counts.rack(RackId(r)).bound);
  }
}

int Sweep::workers_within(const Counts::GroupCounts& group) const {
  int workers = 0;
  for (const Counts::Entry& entry : group.entries) {
    if (within(entry.rack)) workers += entry.total();
  }
  return workers;
}

int Sweep::racks_within(const Counts::GroupCounts& group) const {
  int racks = 0;
  RackId last;
  for (const Counts::Entry& entry : group.entries) {
    racks += entry.rack != last && within(entry.rack);
    last = entry.rack;
  }
  return racks;
}

void Sweep::set_limit(int64_t work, std::function<bool()> stop) {
  limit_ = work;
  stop_ = std::move(stop);
}

/// Degree that groups with immovable workers here cause whatever else happens.
int Sweep::forced_degree(RackId rack) const {
  int degree = 0;
  for (GroupId g : counts_.rack(rack).groups) {
    int fixed = 0;
    for (const Counts::Entry& entry : counts_.group(g).entries) {
      if (entry.rack == rack) fixed += entry.fixed;
    }
    if (fixed > 0 && !counts_.fits_whole(g, rack)) degree += counts_.group(g).weight;
  }
  return degree;
}

/// Racks that a group which fits whole in no rack must span at least; 0 for any other group.
int Sweep::fewest_racks(GroupId g) const {
  const Counts::GroupCounts& group = counts_.group(g);
  const int workers = workers_within(group);
  const bool whole = workers == group.size;  // no island has all of it otherwise
  if (immovable(group)) {
    const int racks = racks_within(group);
    return racks > 1 || !whole ? racks : 0;
  }
  std::vector<int> places;  // workers each rack could hold at most
  for (RackId rack : order_) {
    int most = 0;
    for (const Counts::Entry& entry : group.entries) {
      if (entry.rack == rack) most += entry.stay + entry.fixed;
    }
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      most += counts_.capacity(rack, ClassId(c)) / counts_.need(g, ClassId(c));
    }
    if (most >= group.size && counts_.fits_whole(g, rack)) return 0;
    places.push_back(most);
  }
  std::sort(places.rbegin(), places.rend());
  int left = workers;
  int racks = 0;
  for (int most : places) {
    if (left <= 0) break;
    left -= most;
    ++racks;
  }
  return std::max(whole ? 2 : 1, racks);
}

int Sweep::excess_bound() const {
  int local = 0;
  int64_t room = 0;
  for (RackId rack : order_) {
    local += std::max(0, forced_degree(rack) - bound_[static_cast<size_t>(rack.value)]);
    room += bound_[static_cast<size_t>(rack.value)];
  }
  // Sizes alone decide which groups are worth a look: most fit in the widest rack.
  int widest = 0;
  for (RackId rack : order_) {
    int sum = 0;
    for (size_t c = 0; c < counts_.class_count(); ++c) sum += counts_.capacity(rack, ClassId(c));
    widest = std::max(widest, sum);
  }
  int64_t degrees = 0;
  for (size_t g = 0; g < counts_.group_count(); ++g) {
    const Counts::GroupCounts& group = counts_.group(GroupId(g));
    if (group.size == 0 || workers_within(group) == 0) continue;
    bool large = group.size * (counts_.mixed(ClassId(0)) ? group.slots : 1) > widest;
    for (const Counts::Entry& entry : group.entries) large |= entry.fixed > 0;
    if (large) degrees += static_cast<int64_t>(group.weight) * fewest_racks(GroupId(g));
  }
  return std::max(local, static_cast<int>(std::max<int64_t>(0, degrees - room)));
}

std::optional<bool> Sweep::feasible(int allowed_excess) {
  if (excess_bound() > allowed_excess) return false;
  const std::optional<bool> answer = exhaust(allowed_excess);
  return answer;
}

std::optional<bool> Sweep::exhaust(int allowed_excess) {
  counting_ = false;
  prepare();
  const bool found = fill_rack(0, allowed_excess, kAnyMoves);
  if (limited_) return std::nullopt;
  bool mixed = false;
  for (size_t c = 0; c < counts_.class_count(); ++c) mixed |= counts_.mixed(ClassId(c));
  if (found && mixed) return std::nullopt;
  return found;
}

std::optional<std::vector<CountChange>> Sweep::fewest(int allowed_excess, int* from, int last) {
  counting_ = true;
  prepare();
  for (; *from <= last; ++*from) {
    const bool found = fill_rack(0, allowed_excess, *from);
    if (limited_) return std::nullopt;
    if (!found) continue;
    std::vector<CountChange> changes;
    for (size_t i = 0; i < order_.size(); ++i) {
      for (size_t p = 0; p < parts_.size(); ++p) {
        const int delta = chosen_[i][p] - now_[i][p];
        if (delta != 0) {
          changes.push_back({parts_[p].group, parts_[p].node_class, order_[i], delta});
        }
      }
    }
    std::sort(changes.begin(), changes.end());
    return changes;
  }
  return std::nullopt;
}

/// Lays out parts, racks and what the sums over the racks to come are.
void Sweep::prepare() {
  parts_.clear();
  left_.clear();
  stay_.assign(order_.size(), {});
  free_.assign(order_.size(), {});
  failed_.clear();
  limited_ = false;
  std::stable_sort(order_.begin(), order_.end(), [&](RackId a, RackId b) {
    const auto place = [&](RackId r) {
      return std::pair(counts_.rack(r).island, bound_[static_cast<size_t>(r.value)]);
    };
    return place(a).first < place(b).first;
  });
  using Shape = std::tuple<int, int, int, int, int>;
  std::vector<std::pair<Shape, int>> shapes;
  for (size_t i = 0; i < counts_.group_count(); ++i) {
    const GroupId g(i);
    const Counts::GroupCounts& group = counts_.group(g);
    const int workers = workers_within(group);
    if (workers == 0) continue;
    if (workers == group.size && immovable(group) && racks_within(group) == 1) continue;
    const size_t first = parts_.size();
    bool plain = workers == group.size;
    for (const Counts::Entry& entry : group.entries) {
      if (!within(entry.rack)) continue;
      const IslandId island = counts_.rack(entry.rack).island;
      plain &= entry.fixed == 0 && entry.stay == 0;
      auto part = std::find_if(
          parts_.begin() + static_cast<ptrdiff_t>(first), parts_.end(),
          [&](const Part& p) { return p.node_class == entry.node_class && p.island == island; });
      if (part == parts_.end()) part = parts_.insert(part, {g, entry.node_class, island, 0, -1});
      part->count += entry.movable();
    }
    if (!plain || parts_.size() != first + 1) continue;
    const Shape shape{group.weight, group.slots, group.size, parts_[first].node_class.value,
                      parts_[first].island.value};
    auto known =
        std::find_if(shapes.begin(), shapes.end(), [&](const auto& s) { return s.first == shape; });
    if (known == shapes.end()) {
      known = shapes.insert(known, {shape, static_cast<int>(shapes.size())});
    }
    parts_[first].alike = known->second;
  }
  for (const Part& part : parts_) left_.push_back(part.count);
  for (size_t i = 0; i < order_.size(); ++i) {
    for (const Part& part : parts_) {
      const int entry = counts_.find(part.group, order_[i], part.node_class);
      stay_[i].push_back(
          entry < 0 ? 0 : counts_.group(part.group).entries[static_cast<size_t>(entry)].stay);
    }
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      free_[i].push_back(counts_.capacity(order_[i], ClassId(c)));
    }
  }
  room_.assign(order_.size() + 1, std::vector<int>(counts_.class_count(), 0));
  for (size_t i = order_.size(); i-- > 0;) {
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      const bool last_of_island = i + 1 == order_.size() || counts_.rack(order_[i]).island !=
                                                                counts_.rack(order_[i + 1]).island;
      room_[i][c] = (last_of_island ? 0 : room_[i + 1][c]) + free_[i][c];
    }
  }
  widest_ = free_;
  bounds_left_.assign(order_.size() + 1, 0);
  for (size_t i = order_.size(); i-- > 0;) {
    bounds_left_[i] = bounds_left_[i + 1] + bound_[static_cast<size_t>(order_[i].value)];
    if (i + 1 == order_.size()) continue;
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      widest_[i][c] = std::max(widest_[i][c], widest_[i + 1][c]);
    }
  }
  now_.assign(order_.size(), std::vector<int>(parts_.size(), 0));
  now_after_.assign(order_.size() + 1, std::vector<int>(parts_.size(), 0));
  chosen_ = now_;
  for (size_t i = order_.size(); i-- > 0;) {
    for (size_t p = 0; p < parts_.size(); ++p) {
      const int entry = counts_.find(parts_[p].group, order_[i], parts_[p].node_class);
      if (entry >= 0) {
        now_[i][p] = counts_.group(parts_[p].group).entries[static_cast<size_t>(entry)].movable();
      }
      now_after_[i][p] = now_after_[i + 1][p] + now_[i][p];
    }
  }
}

/// Workers left that do not stand in the racks to come, and so must move there.
int Sweep::arrivals_to_come(size_t rack) const {
  int sum = 0;
  for (size_t p = 0; p < parts_.size(); ++p) sum += std::max(0, left_[p] - now_after_[rack][p]);
  return sum;
}

/// Capacity from this rack on must hold what is left of its island.
bool Sweep::enough_room(size_t rack) const {
  const IslandId island = counts_.rack(order_[rack]).island;
  for (size_t c = 0; c < counts_.class_count(); ++c) {
    int need = 0;
    for (size_t p = 0; p < parts_.size(); ++p) {
      if (parts_[p].node_class != ClassId(c)) continue;
      if (parts_[p].island < island && left_[p] > 0) return false;
      if (parts_[p].island != island) continue;
      int stays = 0;
      for (size_t i = rack; i < order_.size(); ++i) stays += stay_[i][p];
      need += std::max(0, left_[p] - stays) * counts_.need(parts_[p].group, ClassId(c));
    }
    if (need > room_[rack][c]) return false;
  }
  return true;
}

/// Degrees that what is left will cause at least: a group that has workers before this rack, or
/// fits in none of the racks to come, is partly in each rack it still goes to.
bool Sweep::enough_bound(size_t rack, int allowed) const {
  int64_t degrees = 0;
  for (size_t p = 0; p < parts_.size();) {
    const GroupId g = parts_[p].group;
    const Counts::GroupCounts& group = counts_.group(g);
    int left = 0;
    int racks = 0;
    bool fits = true;
    for (; p < parts_.size() && parts_[p].group == g; ++p) {
      if (left_[p] == 0) continue;
      left += left_[p];
      const int need = counts_.need(g, parts_[p].node_class);
      int most = widest_[rack][static_cast<size_t>(parts_[p].node_class.value)] / need;
      int stays = 0;
      for (size_t i = rack; i < order_.size(); ++i) stays = std::max(stays, stay_[i][p]);
      most += stays;
      if (most == 0) return false;
      fits &= left_[p] <= most;
      racks = std::max(racks, (left_[p] + most - 1) / most);
    }
    // Immovable workers in racks to come make this no larger than it is.
    if (left > 0 && (!fits || placed_before(rack, g, left))) {
      degrees += static_cast<int64_t>(group.weight) * racks;
    }
  }
  return degrees <= bounds_left_[rack] + allowed;
}

/// Does the group have workers in a rack before this one?
bool Sweep::placed_before(size_t rack, GroupId g, int left) const {
  int ahead = left;
  for (const Counts::Entry& entry : counts_.group(g).entries) {
    if (entry.fixed == 0) continue;
    for (size_t i = rack; i < order_.size(); ++i) {
      if (order_[i] == entry.rack) ahead += entry.fixed;
    }
  }
  return ahead < counts_.group(g).size;
}

std::string Sweep::key(size_t rack, int allowed) const {
  std::vector<std::pair<int, int>> alike;
  std::string out;
  out.push_back(static_cast<char>(rack & 0xff));
  out.push_back(static_cast<char>(rack >> 8));
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (parts_[p].alike >= 0 && !counting_) {
      alike.emplace_back(parts_[p].alike, left_[p]);
    } else {
      out.push_back(static_cast<char>(left_[p] & 0xff));
      out.push_back(static_cast<char>(left_[p] >> 8));
    }
  }
  if (counting_) out.push_back(static_cast<char>(allowed));
  std::sort(alike.begin(), alike.end());
  for (const auto& [kind, left] : alike) {
    out.push_back(static_cast<char>(left & 0xff));
    out.push_back(static_cast<char>(left >> 8));
  }
  return out;
}

bool Sweep::fill_rack(size_t rack, int allowed, int budget) {
  if (rack == order_.size()) {
    return std::all_of(left_.begin(), left_.end(), [](int n) { return n == 0; });
  }
  if (work_ >= limit_ || (stop_ && work_ % 1024 == 0 && stop_())) limited_ = true;
  ++work_;
  if (limited_ || !enough_room(rack) || !enough_bound(rack, allowed)) return false;
  if (counting_ && arrivals_to_come(rack) > budget) return false;
  const std::string state = key(rack, allowed);
  const int measure = counting_ ? budget : allowed;
  const auto known = failed_.find(state);
  if (known != failed_.end() && known->second >= measure) return false;
  if (choose(rack, 0, 0, 0, allowed, budget)) return true;
  if (!limited_) failed_[state] = measure;
  return false;
}

/// Chooses how many workers of parts index, index + 1, … stand in the rack; `in_group` counts those
/// of the current group so far.
bool Sweep::choose(size_t rack, size_t index, int in_group, int degree, int allowed, int budget) {
  const RackId id = order_[rack];
  const int bound = bound_[static_cast<size_t>(id.value)];
  if (degree - bound > allowed) return false;
  if (index == parts_.size()) {
    return fill_rack(rack + 1, allowed - std::max(0, degree - bound), budget);
  }
  if (++work_ >= limit_) limited_ = true;
  if (limited_) return false;
  const Part& part = parts_[index];
  const Counts::GroupCounts& group = counts_.group(part.group);
  const bool first = index == 0 || parts_[index - 1].group != part.group;
  const bool last = index + 1 == parts_.size() || parts_[index + 1].group != part.group;
  if (first) {
    in_group = 0;
    const int at = counts_.find(part.group, id);
    for (int e = at; e >= 0 && e < static_cast<int>(group.entries.size()); ++e) {
      if (group.entries[static_cast<size_t>(e)].rack != id) break;
      in_group += group.entries[static_cast<size_t>(e)].fixed;
    }
  }
  const size_t c = static_cast<size_t>(part.node_class.value);
  const int need = counts_.need(part.group, part.node_class);
  int most = 0;
  if (part.island == counts_.rack(id).island) {
    most = std::min(left_[index], free_[rack][c] / need + stay_[rack][index]);
  }
  // Where moves count, as many as stand here now come first, then ever more or fewer.
  const int start = counting_ ? std::min(most, now_[rack][index]) : most;
  for (int step = 0; step <= 2 * most + 1; ++step) {
    const int n = step % 2 == 0 ? start - step / 2 : start + (step + 1) / 2;
    if (n < 0 || n > most) continue;
    const int here = in_group + n;
    const int more = last && here > 0 && here < group.size ? group.weight : 0;
    if (degree + more - bound > allowed) continue;
    const int moves = counting_ ? std::max(0, n - now_[rack][index]) : 0;
    if (moves > budget) continue;
    const int units = std::max(0, n - stay_[rack][index]) * need;
    left_[index] -= n;
    free_[rack][c] -= units;
    chosen_[rack][index] = n;
    const bool strays =
        counting_ && std::max(0, left_[index] - now_after_[rack + 1][index]) > budget - moves;
    const bool found =
        !strays && choose(rack, index + 1, here, degree + more, allowed, budget - moves);
    left_[index] += n;
    free_[rack][c] += units;
    if (found) return true;
    if (limited_) return false;
  }
  return false;
}

std::vector<RackId> Sweep::conflict() {
  for (RackId rack : order_) {
    if (forced_degree(rack) > bound_[static_cast<size_t>(rack.value)]) return {rack};
  }
  std::vector<RackId> racks = order_;
  std::sort(racks.begin(), racks.end());
  if (excess_bound() > 0) {
    // The count is over all racks: those with room for a bound of their own take part.
    return racks;
  }
  std::vector<RackId> needed;
  for (RackId rack : racks) {
    int& bound = bound_[static_cast<size_t>(rack.value)];
    const int kept = bound;
    bound = 1 << 20;
    const std::optional<bool> without = feasible(0);
    if (without.has_value() && !*without) continue;  // the conflict stands without this rack
    bound = kept;
    needed.push_back(rack);
  }
  return needed;
}

}  // namespace monkeytree
