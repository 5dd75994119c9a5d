#include "planning/cold_state.h"

#include <algorithm>

namespace monkeytree {
namespace {

void negate(std::vector<Counts::Shift>& shifts) {
  for (Counts::Shift& shift : shifts) {
    shift.up = -shift.up;
    shift.stay = -shift.stay;
  }
}

template <class Groups>
void append(const Groups& from, std::vector<GroupId>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

void sort_unique(std::vector<GroupId>& groups) {
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
}

}  // namespace

ColdState::ColdState(Counts& counts) : counts_(counts), racks_(counts.over()) {
  bounds_.assign(counts.rack_count(), -1);
  left_.assign(counts.rack_count(), {});
  departures_.assign(counts.rack_count(), 0);
  moved_.assign(counts.group_count(), {});
  saved_at_.assign(counts.group_count(), 0);
  for (RackId rack : racks_) {
    bounds_[rack] = counts.rack(rack).bound;
    excuse(rack);
  }
}

ColdState::~ColdState() {
  Shifts all;
  for (const Shifts& shifts : moved_) all.insert(all.end(), shifts.begin(), shifts.end());
  counts_.unshift(all);
  for (RackId rack : racks_) set_allowed(rack, bounds_[rack]);
}

std::vector<RackId> ColdState::open_racks() const {
  std::vector<RackId> open;
  for (RackId rack : racks_) {
    if (counts_.rack(rack).degree > bounds_[rack]) open.push_back(rack);
  }
  return open;
}

int ColdState::excess() const {
  int sum = counts_.excess();
  for (RackId rack : racks_) sum += std::max(0, counts_.rack(rack).degree - bounds_[rack]);
  return sum;
}

void ColdState::set_allowed(RackId rack, int allowed) {
  if (counts_.rack(rack).bound != allowed) counts_.set_bound(rack, allowed);
}

void ColdState::demand(RackId rack) {
  if (bounds_[rack] >= 0) set_allowed(rack, bounds_[rack]);
}

void ColdState::excuse(RackId rack) {
  if (bounds_[rack] >= 0) set_allowed(rack, std::max(bounds_[rack], counts_.rack(rack).degree));
}

void ColdState::excuse_all(const Shifts& shifts) {
  for (const Counts::Shift& shift : shifts) excuse(shift.rack);
}

/// Adds the moves of one group to the sums, or takes them out.
void ColdState::count(const Shifts& shifts, int sign) {
  for (const Counts::Shift& shift : shifts) {
    const int delta = shift.up + shift.stay;
    moves_ += sign * std::max(0, delta);
    departures_[shift.rack] += sign * std::max(0, -delta);
  }
}

void ColdState::note(const Counts::Shift& shift) {
  Shifts& known = moved_[shift.group];
  if (saved_at_[shift.group] != mark_) {
    saved_at_[shift.group] = mark_;
    saved_.emplace_back(shift.group, known);
  }
  count(known, -1);
  const auto at = std::find_if(known.begin(), known.end(), [&](const Counts::Shift& s) {
    return s.rack == shift.rack && s.node_class == shift.node_class;
  });
  if (at == known.end()) {
    known.push_back(shift);
  } else {
    at->up += shift.up;
    at->stay += shift.stay;
    if (at->up == 0 && at->stay == 0) known.erase(at);
  }
  count(known, +1);
  if (shift.up + shift.stay < 0) {
    std::vector<GroupId>& left = left_[shift.rack];
    const auto before = std::lower_bound(left.begin(), left.end(), shift.group);
    if (before == left.end() || *before != shift.group) left.insert(before, shift.group);
  }
}

void ColdState::apply(std::span<const CountChange> changes) {
  const Shifts shifts = counts_.shift(changes);
  for (const Counts::Shift& shift : shifts) note(shift);
  excuse_all(shifts);
}

void ColdState::take_back(std::vector<GroupId> groups) {
  while (!groups.empty()) {
    sort_unique(groups);
    Shifts batch;
    for (GroupId g : groups) batch.insert(batch.end(), moved_[g].begin(), moved_[g].end());
    counts_.unshift(batch);
    negate(batch);
    for (const Counts::Shift& shift : batch) note(shift);
    excuse_all(batch);
    groups.clear();
    for (const Counts::Shift& shift : batch) {
      const Counts::RackCounts& rack = counts_.rack(shift.rack);
      const bool crowded = counts_.free(shift.rack, shift.node_class) < 0;
      const bool grown = rack.degree > rack.bound;
      if (crowded || grown) append(comers(shift.rack), groups);
      if (grown) append(leavers(shift.rack), groups);
    }
  }
}

std::vector<GroupId> ColdState::leavers(RackId rack) const {
  std::vector<GroupId> groups;
  for (GroupId g : left_[rack]) {
    const Shifts& shifts = moved_[g];
    const bool left = std::any_of(shifts.begin(), shifts.end(), [&](const Counts::Shift& s) {
      return s.rack == rack && s.up + s.stay < 0;
    });
    if (left) groups.push_back(g);
  }
  return groups;
}

std::vector<GroupId> ColdState::comers(RackId rack) const {
  std::vector<GroupId> groups;
  for (GroupId g : counts_.rack(rack).groups) {
    const Shifts& shifts = moved_[g];
    const bool came = std::any_of(shifts.begin(), shifts.end(), [&](const Counts::Shift& s) {
      return s.rack == rack && s.up > 0;
    });
    if (came) groups.push_back(g);
  }
  return groups;
}

std::vector<CountChange> ColdState::changes() const {
  std::vector<CountChange> changes;
  for (const Shifts& shifts : moved_) {
    for (const Counts::Shift& shift : shifts) {
      const int delta = shift.up + shift.stay;
      if (delta != 0) changes.push_back({shift.group, shift.node_class, shift.rack, delta});
    }
  }
  std::sort(changes.begin(), changes.end());
  return changes;
}

void ColdState::mark() {
  ++mark_;
  saved_.clear();
}

void ColdState::rewind() {
  Shifts batch, back;
  for (const auto& [group, shifts] : saved_) {
    batch.insert(batch.end(), moved_[group].begin(), moved_[group].end());
    back.insert(back.end(), shifts.begin(), shifts.end());
    count(moved_[group], -1);
    count(shifts, +1);
    moved_[group] = shifts;
  }
  negate(back);
  batch.insert(batch.end(), back.begin(), back.end());
  counts_.unshift(batch);
  excuse_all(batch);
  saved_.clear();
  ++mark_;
}

}  // namespace monkeytree
