// Step 4 of the search where each move left must make room: read backwards from the room there is.

#include <algorithm>

#include "planning/search.h"

namespace monkeytree {

/// Step 4 where each move left must give one more worker a place: as many workers lack room as
/// moves are left, or more, or one move is left. Read backwards from the room there is, which is
/// then what the workers that are still to leave must come into, so only groups found there come
/// into question. Besides, what lowers a degree there may help several workers at once. (Take the
/// matching of short_parts() and that of a solution. Their difference leads each worker without
/// room, and each that is still to leave, to a place of one that leaves or, by a rack in
/// relieving_racks(), to room left.) False, and nothing done, where that is no restriction.
bool Search::tight_options(const std::vector<Pending>& open, int budget,
                           std::vector<Option>& options) const {
  std::vector<RackId> roomy;
  if (!list_roomy(roomy)) return false;
  const std::vector<RackId> relieving = short_.empty() ? roomy : relieving_racks();
  const bool by_places = deficit_ <= budget;  // places alone may be enough
  // A lower degree may help a worker that lacks room without being of the parts first found short.
  std::vector<Pending> all;
  for (const Part& part : parts_) all.push_back(part.pending);
  for (RackId rack : relieving) {
    if (by_places && slack_within(rack, 0) > 0) return false;  // any group may come in
  }
  std::vector<GroupId> groups;
  for (RackId rack : relieving) {
    for (GroupId g : counts_.rack(rack).groups) {
      groups.push_back(g);
      const int evict = partial(g, rack) && receives(all, rack) ? evict_cost(g, rack) : -1;
      if (evict > 0 && evict <= budget) options.push_back({Option::kEvict, g, rack, 0, evict});
    }
  }
  for (RackId rack : roomy) {
    for (GroupId g : counts_.rack(rack).groups) {
      // The last move can only help those that wait; an earlier one also workers still to leave.
      if (!partial(g, rack) || (budget == 1 && !receives(all, rack))) continue;
      const int complete = complete_cost(g, rack);
      if (complete > 0 && complete <= budget) {
        options.push_back({Option::kComplete, g, rack, 0, complete});
      }
    }
  }
  add_newcomers(roomy, budget, options);
  if (!by_places) return true;
  std::sort(groups.begin(), groups.end());
  groups.erase(std::unique(groups.begin(), groups.end()), groups.end());
  for (GroupId g : groups) {
    const auto& entries = counts_.group(g).entries;
    for (size_t i = 0; i < entries.size(); ++i) {
      if (receives(open, entries[i].rack) && may_lose(g, static_cast<int>(i))) {
        options.push_back({Option::kTake, g, entries[i].rack, static_cast<int>(i), 1});
      }
    }
  }
  return true;
}

/// What tight_options() says where it was no restriction to lists of racks: where the workers that
/// the last move takes out may come in. (An earlier move might lower the degree there first.)
Search::Relief Search::measure_relief() const {
  Relief relief;
  if (short_.empty()) return relief;
  relief.any = false;
  for (RackId rack : relieving_racks()) {
    relief.slack = std::max(relief.slack, slack_within(rack, 0));
    const auto& here = counts_.rack(rack).groups;
    relief.groups.insert(relief.groups.end(), here.begin(), here.end());
  }
  std::sort(relief.groups.begin(), relief.groups.end());
  return relief;
}

bool Search::relieves(const Relief& relief, const Option& option) const {
  if (relief.any || option.what == Option::kComplete) return true;
  return counts_.group(option.group).weight <= relief.slack || may_be_whole(option.group, 1) ||
         std::binary_search(relief.groups.begin(), relief.groups.end(), option.group);
}

/// Racks with room now; false where they are too many to be worth a list.
bool Search::list_roomy(std::vector<RackId>& roomy) const {
  constexpr size_t kFew = 128;
  roomy = touched_;
  for (const auto& [kind, racks] : counts_.kinds()) {
    if (roomy.size() + racks.size() > kFew) return false;
    roomy.insert(roomy.end(), racks.begin(), racks.end());
  }
  for (const Whole& whole : whole_) roomy.push_back(whole.rack);
  std::sort(roomy.begin(), roomy.end());
  roomy.erase(std::unique(roomy.begin(), roomy.end()), roomy.end());
  std::erase_if(roomy, [&](RackId rack) {
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      if (counts_.free(rack, ClassId(c)) > 0) return false;
    }
    return true;
  });
  return true;
}

/// Groups that may come into a rack with room all together, and so stay whole, within the budget.
void Search::add_newcomers(const std::vector<RackId>& roomy, int budget,
                           std::vector<Option>& options) const {
  const auto add = [&](GroupId g, int outside) {
    for (RackId rack : roomy) {
      int room = 0;
      for (size_t c = 0; c < counts_.class_count(); ++c) {
        room += std::max(0, counts_.free(rack, ClassId(c)));
      }
      if (room + budget - outside < counts_.group(g).size || counts_.find(g, rack) >= 0) continue;
      const int complete = complete_cost(g, rack);
      if (complete > 0 && complete <= budget) {
        options.push_back({Option::kComplete, g, rack, 0, complete});
      }
    }
  };
  for (size_t i = 0; i < pending_.size(); ++i) {
    const GroupId g = pending_[i].group;
    const auto same = [&](const Pending& p) { return p.group == g && p.count > 0; };
    if (pending_[i].count == 0 ||
        std::any_of(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(i), same)) {
      continue;
    }
    const int outside = counts_.group(g).size - pending(g);
    if (outside > 0 && outside <= budget) add(g, outside);
  }
  int widest = 0;
  for (RackId rack : roomy) {
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      widest = std::max(widest, counts_.free(rack, ClassId(c)));
    }
  }
  for (int size = 1; size <= std::min(budget, widest * static_cast<int>(counts_.class_count()));
       ++size) {
    for (GroupId g : counts_.groups_of_size(size)) {
      if (pending(g) == 0) add(g, size);
    }
  }
}

}  // namespace monkeytree
