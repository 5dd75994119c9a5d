// How many workers must leave before one more worker of a group finds room: a lower bound, by
// breadth first search backwards from the racks that have room now.
//
// A worker of u that leaves its rack lands, in any solution, in another rack t. Either t has room
// now, or some worker v leaves t, which must land in turn. It comes in where u already is, where
// the slack admits its weight, or where enough groups are evicted or completed. reach(u) is the
// length of the shortest such chain when everything else is taken from its best side:
//   level 0: t has room now, and u is there already or fits into the slack;
//   level k: t loses a worker of some v of level k − 1, or has room; u is there already, or the
//   slack
//            with all that can be evicted or completed within k moves admits it.
// A group of which all other workers are taken out within k moves may come in anywhere: it is
// whole. Used for one node class and where no excess may remain.

#include <algorithm>

#include "planning/search.h"

namespace monkeytree {

void Search::Reach::clear(size_t groups, size_t racks) {
  if (best.size() < groups) best.resize(groups);
  if (seen.size() < racks) seen.resize(racks, 0);
  ++epoch;
  open_slack.clear();
  racks_here.clear();
  frontier.clear();
}

/// Level of a group for a worker that leaves `from`.
int Search::Reach::level(GroupId g, RackId from) const {
  const Best& b = best[static_cast<size_t>(g.value)];
  if (b.epoch != epoch) return kFar;
  return b.rack == from ? b.other : b.level;
}

void Search::Reach::improve(GroupId g, RackId rack, int level) {
  Best& b = best[static_cast<size_t>(g.value)];
  if (b.epoch != epoch) {
    b = {epoch, level, kFar, rack};
    frontier.push_back(g);
  } else if (b.rack != rack && level < b.other) {
    b.other = level;
    frontier.push_back(g);
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
  for (GroupId g : r.groups) {
    if (!partial(g, rack)) continue;
    const int evict = evict_cost(g, rack);
    bool gone = evict >= 0 && evict <= level && leaves_within(g, rack, level - evict);
    if (!gone && level >= (room ? 1 : 3)) {
      const int complete = complete_cost(g, rack);
      gone = complete >= 0 && complete <= (room ? level : level - 2);
    }
    if (gone) slack += counts_.group(g).weight;
  }
  return slack;
}

/// Could a worker of the group that leaves the rack be placed at this level?
bool Search::leaves_within(GroupId g, RackId from, int level) const {
  if (level < 0) return false;
  // All of it may come into a rack and be whole there, if the others leave as well.
  if (counts_.group(g).size - pending(g) - 1 <= level) return true;
  if (reach_.level(g, from) <= level) return true;
  const size_t known = std::min(static_cast<size_t>(level) + 1, reach_.open_slack.size());
  return known > 0 && counts_.group(g).weight <= reach_.open_slack[known - 1];
}

void Search::measure_reach(int levels) {
  reach_.clear(counts_.group_count(), counts_.rack_count());
  const auto add_rack = [&](RackId rack) {
    uint32_t& seen = reach_.seen[static_cast<size_t>(rack.value)];
    if (seen == reach_.epoch) return;
    seen = reach_.epoch;
    reach_.racks_here.push_back(rack);
  };
  for (RackId rack : touched_) {
    if (counts_.free(rack, ClassId(0)) > 0) add_rack(rack);
  }
  for (const auto& [kind, racks] : counts_.kinds()) {
    for (RackId rack : racks) {
      if (counts_.free(rack, ClassId(0)) > 0) add_rack(rack);
    }
  }
  size_t done = 0;
  for (int level = 0; level <= levels; ++level) {
    int open = level == 0 ? -1 : reach_.open_slack.back();
    for (RackId rack : reach_.racks_here) open = std::max(open, slack_within(rack, level));
    std::vector<GroupId> before;
    before.swap(reach_.frontier);
    for (; done < reach_.racks_here.size(); ++done) {
      const RackId rack = reach_.racks_here[done];
      for (GroupId g : counts_.rack(rack).groups) {
        if (counts_.total(g, rack) > 0 && !closed(g, rack, ClassId(0))) {
          reach_.improve(g, rack, level);
        }
      }
    }
    // Once any unit group may come in somewhere, the next level is everywhere.
    if (open > 0) open = 1 << 20;
    reach_.open_slack.push_back(open);
    for (GroupId g : reach_.frontier) {
      for (const Counts::Entry& entry : counts_.group(g).entries) {
        if (entry.up > 0 && reach_.level(g, entry.rack) <= level) add_rack(entry.rack);
      }
    }
  }
}

}  // namespace monkeytree
