#include "planning/cold.h"

#include <algorithm>
#include <utility>

#include "planning/cover.h"

namespace monkeytree {
namespace {

/// The groups that are partly in a rack over its bound, ascending.
std::vector<GroupId> concerned_groups(const Counts& counts) {
  std::vector<GroupId> groups;
  for (RackId rack : counts.over()) {
    for (GroupId g : counts.rack(rack).groups) {
      if (counts.total(g, rack) < counts.group(g).size) groups.push_back(g);
    }
  }
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  return groups;
}

/// How hard it is to find a place for the workers of an entry: none where another rack of the group
/// has room for them, since that raises no degree.
int strain(const Counts& counts, GroupId g, const CoverEntry& from) {
  int most = 0;
  for (const Counts::Entry& entry : counts.group(g).entries) {
    if (entry.rack.value == from.rack) continue;
    most = std::max(most,
                    counts.free(entry.rack, entry.node_class) / counts.need(g, entry.node_class));
  }
  return most >= from.workers ? 0 : 1 + from.workers;
}

CoverGroup cover_group(const Counts& counts, GroupId g) {
  CoverGroup group;
  group.weight = counts.group(g).weight;
  for (const Counts::Entry& entry : counts.group(g).entries) {
    const int rack = entry.rack.value;
    if (group.entries.empty() || group.entries.back().rack != rack) {
      group.entries.push_back({});
      group.entries.back().rack = rack;
      group.entries.back().workers = 0;
      group.entries.back().can_hold_all = counts.fits_whole(g, entry.rack);
    }
    group.entries.back().workers += entry.total();
    if (entry.fixed > 0) group.entries.back().can_empty = false;
  }
  for (CoverEntry& entry : group.entries) entry.strain = strain(counts, g, entry);
  return group;
}

}  // namespace

ColdBound cold_bound(const Counts& counts, int64_t work_limit,
                     const std::map<ColdAction, int>& strains) {
  std::vector<CoverRack> racks(counts.rack_count());
  for (size_t r = 0; r < racks.size(); ++r) {
    const Counts::RackCounts& rack = counts.rack(RackId(r));
    racks[r].demand = std::max(0, rack.degree - rack.bound);
    for (size_t c = 0; c < counts.class_count(); ++c) {
      racks[r].free_slots += std::max(0, counts.free(RackId(r), ClassId(c)));
    }
  }
  std::vector<CoverGroup> groups;
  const std::vector<GroupId> ids = concerned_groups(counts);
  for (GroupId g : ids) groups.push_back(cover_group(counts, g));
  if (!strains.empty()) {
    for (size_t i = 0; i < ids.size(); ++i) {
      for (CoverEntry& entry : groups[i].entries) {
        const auto at = strains.find({ids[i], RackId(entry.rack)});
        if (at != strains.end()) entry.strain += at->second;
      }
    }
  }
  const CoverResult result = solve_cover(racks, groups, work_limit);
  ColdBound bound;
  bound.possible = result.lower_bound < kNever;
  bound.work = result.work;
  bound.moves = bound.possible ? result.lower_bound : 0;
  for (int rack : result.conflict) bound.conflict.push_back(RackId(rack));
  for (const auto& [from, to] :
       {std::pair(&result.evict, &bound.evict), std::pair(&result.complete, &bound.complete)}) {
    for (const CoverAction& action : *from) {
      to->push_back({ids[static_cast<size_t>(action.group)], RackId(action.rack)});
    }
  }
  return bound;
}

}  // namespace monkeytree
