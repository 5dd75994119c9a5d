// How many other workers must leave if one more worker of a group is to leave its rack: a lower
// bound, by breadth first search backwards from the racks that have room now.
//
// A worker u that leaves its rack lands, in any solution, in another rack t. Either t has room now,
// or some worker v leaves t and lands in turn, and so on. In a solution with the fewest moves such
// a chain from rack to rack ends at room: otherwise the racks that can be reached have no room and
// exchange workers among themselves only, which could be left out. Take a chain that meets no rack
// twice. Each worker on it comes in where its group is already, where the slack admits its weight,
// where enough groups are evicted or completed, or with all of its group, which is then whole. The
// workers moved for that are not on the chain before t: those on it leave other racks, and land in
// others. So the number of others is at least
//   level 0: t has room now, and u is there already or fits into the slack;
//   level k: t has room, or loses a worker of level k − 1; and u is there already, or all other
//            workers of its group leave within k moves, or the slack with all that can be evicted
//            or completed by k moves admits it.
// Where those that are evicted from t go is not asked: they may take the place that u leaves.
// Used for one node class and where no excess may remain.

#include <algorithm>

#include "planning/search.h"

namespace monkeytree {

/// Level of a group for a worker that leaves `from`.
int Search::reach_level(GroupId g, RackId from) const {
  const Counts::ReachMark& mark = counts_.group(g).reach;
  if (mark.epoch != reach_.epoch) return Counts::ReachMark::kFar;
  return mark.rack == from ? mark.other : mark.level;
}

void Search::improve_reach(GroupId g, RackId rack, int level) {
  Counts::ReachMark& mark = counts_.group(g).reach;
  if (mark.epoch != reach_.epoch) {
    mark = {reach_.epoch, level, Counts::ReachMark::kFar, rack};
    reach_.frontier.push_back(g);
  } else if (mark.rack != rack && level < mark.other) {
    mark.other = level;
    reach_.frontier.push_back(g);
  }
}

/// Slack that a rack offers to groups from outside at a level, evictions and completions included.
int Search::slack_within(RackId rack, int level) const {
  const Counts::RackCounts& r = counts_.rack(rack);
  int slack = r.bound - r.degree;
  for (const Whole& whole : whole_) {
    if (whole.rack == rack) slack += counts_.group(whole.group).weight;
  }
  if (level == 0) return slack;
  const bool room = counts_.free(rack, ClassId(0)) > 0;
  const int refill = places_to_fill(rack) - 1;  // the worker that comes in fills one
  for (GroupId g : r.groups) {
    if (!partial(g, rack)) continue;
    const int evict = evict_cost(g, rack);
    bool gone = evict >= 0 && evict <= level;
    if (gone) {
      // Where there is no room yet, a worker that is on the chain leaves: of this group, or
      // besides.
      const int besides = room || leaves_within(g, rack, level - 1) ? 0 : 1;
      const Counts::Entry& entry =
          counts_.group(g).entries[static_cast<size_t>(counts_.find(g, rack))];
      gone = evict + besides + std::max(0, refill + entry.up + besides) <= level;
    }
    if (!gone && level >= (room ? 1 : 2)) {
      const int complete = complete_cost(g, rack);
      gone = complete >= 0 && complete <= (room ? level : level - 1);
    }
    if (gone) slack += counts_.group(g).weight;
  }
  return slack;
}

/// Where the cluster is full, all places must be taken in the end: those in the rack for which
/// other workers must leave theirs, since none that wait may take them. Negative: so many more may
/// stay free.
int Search::places_to_fill(RackId rack) const {
  constexpr int kNone = -(1 << 20);
  const IslandId island = counts_.rack(rack).island;
  const size_t domain = static_cast<size_t>(island.value);
  if (counts_.mixed(ClassId(0)) || domain >= domain_free_.size()) return kNone;
  int places = counts_.free(rack, ClassId(0)) - domain_free_[domain];
  for (const Pending& part : pending_) {
    if (part.island != island || part.count == 0 || committed(part.group).valid()) continue;
    if (closed(part.group, rack, ClassId(0))) places += part.count;  // takes one elsewhere
  }
  return places;
}

/// May all of the group come into one rack and be whole there, with so many moves of its workers?
bool Search::may_be_whole(GroupId g, int moves) const {
  return counts_.group(g).size - pending(g) <= moves;
}

/// Could a worker of the group that leaves the rack be placed at this level?
bool Search::leaves_within(GroupId g, RackId from, int level) const {
  if (level < 0) return false;
  if (may_be_whole(g, level + 1)) return true;
  if (reach_level(g, from) <= level) return true;
  const size_t known = std::min(static_cast<size_t>(level) + 1, reach_.open_slack.size());
  return known > 0 && counts_.group(g).weight <= reach_.open_slack[known - 1];
}

/// The rack has room, or loses a worker, at the next level that is looked at.
void Search::add_to_reach(RackId rack) {
  uint64_t& seen = counts_.rack(rack).reach_epoch;
  if (seen == reach_.epoch) return;
  seen = reach_.epoch;
  reach_.racks_here.push_back(rack);
}

/// Adds the racks that workers of this level leave.
void Search::widen_reach(int level) {
  for (GroupId g : reach_.frontier) {
    for (const Counts::Entry& entry : counts_.group(g).entries) {
      if (entry.up > 0 && reach_level(g, entry.rack) <= level) add_to_reach(entry.rack);
    }
  }
  const auto add_all = [&](GroupId g) {
    for (const Counts::Entry& entry : counts_.group(g).entries) {
      if (entry.up > 0) add_to_reach(entry.rack);
    }
  };
  for (const Pending& part : pending_) {
    if (part.count > 0 && may_be_whole(part.group, level + 1)) add_all(part.group);
  }
  for (GroupId g : counts_.groups_of_size(level + 1)) add_all(g);
}

void Search::measure_reach(int levels) {
  constexpr int kAny = 1 << 20;  // more than any weight
  reach_.epoch = counts_.next_reach_epoch();
  reach_.open_slack.clear();
  reach_.racks_here.clear();
  reach_.frontier.clear();
  for (RackId rack : touched_) {
    if (counts_.free(rack, ClassId(0)) > 0) add_to_reach(rack);
  }
  for (const auto& [kind, racks] : counts_.kinds()) {
    for (RackId rack : racks) {
      if (counts_.free(rack, ClassId(0)) > 0) add_to_reach(rack);
    }
  }
  size_t done = 0;
  int any_from = levels + 1;
  for (int level = 0; level <= levels; ++level) {
    int open = level == 0 ? -1 : level >= any_from ? kAny : reach_.open_slack.back();
    if (open < kAny) {
      for (RackId rack : reach_.racks_here) open = std::max(open, slack_within(rack, level));
    }
    reach_.frontier.clear();
    for (; done < reach_.racks_here.size(); ++done) {
      const RackId rack = reach_.racks_here[done];
      for (GroupId g : counts_.rack(rack).groups) {
        if (counts_.total(g, rack) > 0 && !closed(g, rack, ClassId(0))) {
          improve_reach(g, rack, level);
        }
      }
    }
    reach_.open_slack.push_back(open);
    // Once any unit group may come in somewhere, the next level is everywhere. So it is where
    // groups may come in whole that are not listed by their size. Racks that are reached without
    // that are still worth knowing: they are near.
    if (open > 0 || level + 1 >= Counts::kSmall) any_from = std::min(any_from, level + 1);
    widen_reach(level);
  }
}

}  // namespace monkeytree
