#include "planning/search.h"

#include <algorithm>
#include <array>

namespace monkeytree {
namespace {

constexpr int kImpossible = 1 << 28;
/// Search nodes spent on finding a cheaper optimum once one is known.
constexpr int64_t kGrace = 64;
/// Search nodes between two questions whether to stop; one may take a millisecond in large
/// clusters.
constexpr int64_t kStopEvery = 32;

}  // namespace

/// The least cost of reaching a total gain; gains beyond 64 are asked for as 64.
class Search::Knapsack {
 public:
  explicit Knapsack(int need) : reach_(std::min(need, 64)) {
    least_.fill(kImpossible);
    least_[0] = 0;
  }
  void add(int gain, int cost) {
    for (int k = reach_; k > 0; --k) {
      int& least = least_[static_cast<size_t>(k)];
      least = std::min(least, least_[static_cast<size_t>(std::max(0, k - gain))] + cost);
    }
  }
  int least() const { return std::min(least_[static_cast<size_t>(reach_)], kImpossible); }

 private:
  int reach_;
  std::array<int, 65> least_;
};

void Search::set_limit(int64_t work, std::function<bool()> stop) {
  limit_ = work;
  stop_ = std::move(stop);
}

Search::Answer Search::run(int budget, int allowed_excess) {
  allowed_ = allowed_excess;
  found_ = cut_ = limited_ = refused_ = false;
  grace_ = INT64_MAX;
  best_.clear();
  domain_free_.assign(counts_.class_count(), 0);
  for (const auto& [kind, racks] : counts_.kinds()) {
    const size_t base = static_cast<size_t>(kind.island.value) * counts_.class_count();
    if (domain_free_.size() < base + counts_.class_count()) {
      domain_free_.resize(base + counts_.class_count(), 0);
    }
    for (size_t c = 0; c < kind.free.size(); ++c) {
      domain_free_[base + c] += kind.free[c] * static_cast<int>(racks.size());
    }
  }
  size_t islands = 1;
  for (RackId over : counts_.over()) {
    islands = std::max(islands, static_cast<size_t>(counts_.rack(over).island.value) + 1);
  }
  domain_free_.resize(std::max(domain_free_.size(), islands * counts_.class_count()), 0);
  node(budget);
  rewind(0);
  if (found_) return Answer::kFound;
  if (limited_) return Answer::kLimit;
  return cut_ ? Answer::kNone : Answer::kNever;
}

int Search::root_bound() {
  allowed_ = 0;
  domain_free_.clear();
  return std::min(bound_below(), kImpossible);
}

bool Search::done() {
  if (limited_) return true;
  if (work_ >= limit_ || (stop_ && work_ % kStopEvery == 0 && stop_())) limited_ = true;
  if (work_ >= grace_) return true;
  return limited_;
}

void Search::node(int budget) {
  ++work_;
  if (done()) return;
  const int bound = bound_below();
  if (bound >= kImpossible) return;
  if (bound > budget) {
    cut_ = true;
    return;
  }
  if (counts_.excess() > allowed_) {
    branch_degree(budget);
    return;
  }
  RackId rack;
  ClassId c;
  if (find_overfull(&rack, &c)) {
    branch_overfull(budget, rack, c);
    return;
  }
  note_whole();
  if (land() || done()) return;
  if (budget == 0 || !thorough_) {
    cut_ = true;
    return;
  }
  branch_landing(budget);
}

void Search::shuffle(std::vector<Option>& options) {
  for (size_t i = options.size(); i > 1; --i) {
    seed_ = seed_ * 6364136223846793005u + 1442695040888963407u;
    std::swap(options[i - 1], options[(seed_ >> 33) % i]);
  }
}

void Search::try_options(std::vector<Option>& options, int budget) {
  if (shuffled_) shuffle(options);
  const auto cheaper = [](const Option& a, const Option& b) { return a.cost < b.cost; };
  if (!std::is_sorted(options.begin(), options.end(), cheaper)) {
    std::stable_sort(options.begin(), options.end(), cheaper);
  }
  const size_t start = undo_.size();
  for (const Option& option : options) {
    if (option.cost > budget) {
      cut_ = true;
      break;
    }
    if (!possible(option)) continue;  // an earlier sibling has forbidden it
    const size_t before = undo_.size();
    perform(option);
    node(budget - option.cost);
    rewind(before);
    if (done()) break;
    forbid(option);
  }
  rewind(start);
}

bool Search::possible(const Option& option) const {
  switch (option.what) {
    case Option::kEvict:
      return evict_cost(option.group, option.rack) >= 0;
    case Option::kComplete:
      return complete_cost(option.group, option.rack) >= 0;
    case Option::kTake:
      return may_lose(option.group, option.entry);
  }
  return false;
}

void Search::perform(const Option& option) {
  switch (option.what) {
    case Option::kEvict:
      evict(option.group, option.rack);
      break;
    case Option::kComplete:
      complete(option.group, option.rack);
      break;
    case Option::kTake:
      take(option.group, option.entry, 1);
      break;
  }
}

void Search::forbid(const Option& option) {
  switch (option.what) {
    case Option::kTake:
      mark(option.group, option.entry, kNoLoss);
      return;
    case Option::kEvict:
    case Option::kComplete: {
      const int entry = counts_.find(option.group, option.rack);
      if (entry >= 0) {
        mark(option.group, entry, option.what == Option::kEvict ? kNoEvict : kNoComplete);
      }
    }
  }
}

// -- Branching.

/// Step 1: evict or complete a group that is partly in a rack above its bound.
void Search::branch_degree(int budget) {
  std::vector<Option> options;
  if (allowed_ == 0) {
    constexpr size_t kLook = 8;  // racks to choose from
    std::vector<Option> candidate;
    for (size_t i = 0; i < std::min(kLook, counts_.over().size()); ++i) {
      candidate.clear();
      add_repair_options(counts_.over()[i], candidate);
      if (i == 0 || candidate.size() < options.size()) options.swap(candidate);
    }
  } else {
    for (RackId rack : counts_.over()) add_repair_options(rack, options);
  }
  try_options(options, budget);
}

/// Step 2: one of the workers on up nodes leaves.
void Search::branch_overfull(int budget, RackId rack, ClassId c) {
  std::vector<Option> options;
  add_loss_options(rack, c, options);
  try_options(options, budget);
}

/// Step 4. A part for which there is less room than it has workers must open a rack; where each
/// part alone would find room, any of them may be the one.
void Search::branch_landing(int budget) {
  std::vector<Option> options;
  if (allowed_ > 0) {
    for (RackId rack : counts_.over()) add_repair_options(rack, options);
  }
  const bool joint = short_.empty();
  std::vector<Pending> open = short_;
  if (joint) {
    for (const Part& part : parts_) open.push_back(part.pending);
  }
  const bool tight = allowed_ == 0 && (budget == 1 || deficit_ >= budget);
  if (tight && tight_options(open, budget, options)) {
    cut_ = true;  // more budget would have more options
    try_options(options, budget);
    return;
  }
  for (const Pending& part : open) {
    const IslandId island = part.island;
    for (int r = 0; r < static_cast<int>(counts_.rack_count()); ++r) {
      const RackId rack(r);
      if (counts_.rack(rack).island != island || closed(part.group, rack, part.node_class))
        continue;
      add_opening_options(part, rack, joint, options);
    }
  }
  if (open.size() > 1 || allowed_ > 0) {
    // Different parts may ask for the same action.
    std::sort(options.begin(), options.end(), [](const Option& a, const Option& b) {
      return std::tie(a.cost, a.what, a.rack, a.group, a.entry) <
             std::tie(b.cost, b.what, b.rack, b.group, b.entry);
    });
    options.erase(std::unique(options.begin(), options.end(),
                              [](const Option& a, const Option& b) {
                                return std::tie(a.what, a.rack, a.group, a.entry) ==
                                       std::tie(b.what, b.rack, b.group, b.entry);
                              }),
                  options.end());
  }
  if (tight) keep_relieving(budget, options);
  if (allowed_ == 0 && counts_.class_count() == 1) {
    measure_reach(budget - 1);
    const size_t far = std::erase_if(options, [&](const Option& option) {
      return option.what != Option::kComplete &&
             !leaves_within(option.group, option.rack, budget - option.cost);
    });
    cut_ |= far > 0;
  }
  try_options(options, budget);
}

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
      if (!partial(g, rack) || !receives(all, rack)) continue;
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

/// Of options listed rack by rack where tight_options() was no restriction, those whose workers may
/// come in where tight_options() says they must.
void Search::keep_relieving(int budget, std::vector<Option>& options) {
  if (short_.empty()) return;
  const std::vector<RackId> relieving = relieving_racks();
  int slack = 0;
  for (RackId rack : relieving) slack = std::max(slack, slack_within(rack, 0));
  std::vector<GroupId> groups;
  for (RackId rack : relieving) {
    groups.insert(groups.end(), counts_.rack(rack).groups.begin(), counts_.rack(rack).groups.end());
  }
  std::sort(groups.begin(), groups.end());
  const size_t before = options.size();
  std::erase_if(options, [&](const Option& option) {
    if (option.what == Option::kComplete) return false;
    const Counts::GroupCounts& group = counts_.group(option.group);
    return group.weight > slack && group.size - pending(option.group) > budget &&
           !std::binary_search(groups.begin(), groups.end(), option.group);
  });
  cut_ |= options.size() < before;
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

/// May some of the parts be placed in the rack?
bool Search::receives(const std::vector<Pending>& parts, RackId rack) const {
  return std::any_of(parts.begin(), parts.end(), [&](const Pending& part) {
    return counts_.capacity(rack, part.node_class) > 0 &&
           !closed(part.group, rack, part.node_class);
  });
}

void Search::add_repair_options(RackId rack, std::vector<Option>& options) const {
  for (GroupId g : counts_.rack(rack).groups) {
    if (!partial(g, rack)) continue;
    const int evict = evict_cost(g, rack);
    if (evict >= 0) options.push_back({Option::kEvict, g, rack, 0, evict});
    const int complete = complete_cost(g, rack);
    if (complete >= 0) options.push_back({Option::kComplete, g, rack, 0, complete});
  }
}

void Search::add_loss_options(RackId rack, ClassId c, std::vector<Option>& options) const {
  for (GroupId g : counts_.rack(rack).groups) {
    const int entry = counts_.find(g, rack, c);
    if (entry < 0 || counts_.group(g).entries[static_cast<size_t>(entry)].up == 0) continue;
    if (may_lose(g, entry)) options.push_back({Option::kTake, g, rack, entry, 1});
  }
}

void Search::add_opening_options(const Pending& part, RackId rack, bool joint,
                                 std::vector<Option>& options) const {
  const GroupId g = part.group;
  if (counts_.capacity(rack, part.node_class) == 0) return;
  if (!admits(g, rack)) {
    // Only a lower degree lets it in, or all of the group coming here.
    add_repair_options(rack, options);
    if (counts_.find(g, rack) < 0) {
      const int cost = complete_cost(g, rack);
      if (cost >= 0) options.push_back({Option::kComplete, g, rack, 0, cost});
    }
    return;
  }
  if (!joint) {
    add_loss_options(rack, part.node_class, options);
    return;
  }
  for (GroupId other : counts_.rack(rack).groups) {
    const int first = counts_.find(other, rack);
    const auto& entries = counts_.group(other).entries;
    for (size_t i = static_cast<size_t>(first); i < entries.size() && entries[i].rack == rack;
         ++i) {
      if (may_lose(other, static_cast<int>(i))) {
        options.push_back({Option::kTake, other, rack, static_cast<int>(i), 1});
      }
    }
    if (!partial(other, rack)) continue;
    const int complete = complete_cost(other, rack);
    if (complete > 0) options.push_back({Option::kComplete, other, rack, 0, complete});
  }
}

// -- Actions.

void Search::take(GroupId g, int index, int count) {
  Counts::GroupCounts& group = counts_.group(g);
  Counts::Entry& entry = group.entries[static_cast<size_t>(index)];
  const RackId rack = entry.rack;
  const int before = counts_.total(g, rack);
  const int up = std::min(count, entry.up);
  entry.up -= up;
  entry.stay -= count - up;
  entry.taken += count;
  const int freed = up * counts_.need(g, entry.node_class);
  counts_.free(rack, entry.node_class) += freed;
  const size_t domain =
      static_cast<size_t>(counts_.rack(rack).island.value) * counts_.class_count();
  domain_free_[domain + static_cast<size_t>(entry.node_class.value)] += freed;
  ++counts_.rack(rack).touched;
  touched_.push_back(rack);
  const IslandId island = counts_.rack(rack).island;
  auto part = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
    return p.group == g && p.node_class == entry.node_class && p.island == island;
  });
  if (part == pending_.end()) part = pending_.insert(part, {g, entry.node_class, island, 0});
  part->count += count;
  const int was = before < group.size ? 1 : 0;
  const int is = before - count > 0 ? 1 : 0;
  if (was != is) counts_.add_degree(rack, (is - was) * group.weight);
  undo_.push_back({Undo::kTake, 0, g, index, up, count - up, rack});
}

void Search::evict(GroupId g, RackId rack) {
  const int first = counts_.find(g, rack);
  const auto& entries = counts_.group(g).entries;
  for (size_t i = static_cast<size_t>(first); i < entries.size() && entries[i].rack == rack; ++i) {
    if (entries[i].movable() > 0) take(g, static_cast<int>(i), entries[i].movable());
  }
  mark(g, first, kClosed);
}

void Search::complete(GroupId g, RackId rack) {
  Counts::GroupCounts& group = counts_.group(g);
  for (size_t i = 0; i < group.entries.size(); ++i) {
    if (group.entries[i].rack != rack && group.entries[i].movable() > 0) {
      take(g, static_cast<int>(i), group.entries[i].movable());
    }
  }
  committed_.push_back({g, rack});
  const int here = counts_.total(g, rack);
  if (here > 0 && here < group.size) counts_.add_degree(rack, -group.weight);
  const size_t domain =
      static_cast<size_t>(counts_.rack(rack).island.value) * counts_.class_count();
  for (const Pending& part : pending_) {
    if (part.group != g) continue;
    const int units = part.count * counts_.need(g, part.node_class);
    counts_.free(rack, part.node_class) -= units;
    domain_free_[domain + static_cast<size_t>(part.node_class.value)] -= units;
  }
  ++counts_.rack(rack).touched;
  touched_.push_back(rack);
  undo_.push_back({Undo::kCommit, 0, g, 0, 0, 0, rack});
}

void Search::mark(GroupId g, int index, uint8_t marks) {
  Counts::Entry& entry = counts_.group(g).entries[static_cast<size_t>(index)];
  undo_.push_back({Undo::kMark, entry.marks, g, index, 0, 0, entry.rack});
  entry.marks |= marks;
}

void Search::rewind(size_t to) {
  while (undo_.size() > to) {
    const Undo undo = undo_.back();
    undo_.pop_back();
    Counts::GroupCounts& group = counts_.group(undo.group);
    const size_t domain =
        static_cast<size_t>(counts_.rack(undo.rack).island.value) * counts_.class_count();
    if (undo.what == Undo::kMark) {
      group.entries[static_cast<size_t>(undo.entry)].marks = undo.old_marks;
      continue;
    }
    --counts_.rack(undo.rack).touched;
    touched_.pop_back();
    if (undo.what == Undo::kCommit) {
      for (const Pending& part : pending_) {
        if (part.group != undo.group) continue;
        const int units = part.count * counts_.need(undo.group, part.node_class);
        counts_.free(undo.rack, part.node_class) += units;
        domain_free_[domain + static_cast<size_t>(part.node_class.value)] += units;
      }
      committed_.pop_back();
      const int here = counts_.total(undo.group, undo.rack);
      if (here > 0 && here < group.size) counts_.add_degree(undo.rack, group.weight);
      continue;
    }
    Counts::Entry& entry = group.entries[static_cast<size_t>(undo.entry)];
    const int count = undo.up + undo.stay;
    const int now = counts_.total(undo.group, undo.rack);
    entry.up += undo.up;
    entry.stay += undo.stay;
    entry.taken -= count;
    const int freed = undo.up * counts_.need(undo.group, entry.node_class);
    counts_.free(undo.rack, entry.node_class) -= freed;
    domain_free_[domain + static_cast<size_t>(entry.node_class.value)] -= freed;
    const IslandId island = counts_.rack(undo.rack).island;
    const auto part = std::find_if(pending_.begin(), pending_.end(), [&](const Pending& p) {
      return p.group == undo.group && p.node_class == entry.node_class && p.island == island;
    });
    part->count -= count;
    if (part->count == 0 && part + 1 == pending_.end()) pending_.pop_back();
    const int is = now > 0 ? 1 : 0;
    const int was = now + count < group.size ? 1 : 0;
    if (was != is) counts_.add_degree(undo.rack, (was - is) * group.weight);
  }
}

// -- What is possible and what it costs.

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
      return p.group != g || p.count == 0 || p.island == counts_.rack(entry.rack).island;
    });
    return rest && near ? entry.rack : RackId();
  }
  return RackId();
}

/// May a worker of the group come into the rack as far as degrees go, once every pending group that
/// can become whole there is?
bool Search::admits(GroupId g, RackId rack) const {
  if (counts_.total(g, rack) > 0) return true;
  const int weight = counts_.group(g).weight;
  const Counts::RackCounts& r = counts_.rack(rack);
  int degree = r.degree;
  const auto over = [&](int d) { return std::max(0, d - r.bound); };
  if (counts_.excess() + over(degree + weight) - over(degree) <= allowed_) return true;
  if (pending(g) == counts_.group(g).size) return true;  // all of it may come, and stay whole
  for (const Whole& whole : whole_) {
    if (whole.rack == rack && whole.group != g) degree -= counts_.group(whole.group).weight;
  }
  return counts_.excess() + over(degree + weight) - over(r.degree) <= allowed_;
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

// -- Lower bounds.

/// Moves that any solution below this state still needs. Each move is charged once, or half to each
/// of the two racks that may both profit from it: that of an eviction and that of a completion.
int Search::bound_below() const {
  int sum2 = 0;
  const bool degrees = counts_.excess() > allowed_;
  if (degrees && allowed_ == 0) {
    for (RackId rack : counts_.over()) {
      const int cost = cover2(rack);
      if (cost >= kImpossible) return kImpossible;
      sum2 += cost;
    }
  } else if (degrees) {
    sum2 = cover2_all();
    if (sum2 >= kImpossible) return kImpossible;
  }
  // Losses of overfull racks are different moves for different racks, but may be among those that
  // the degrees ask for.
  int losses = 0;
  for (size_t i = 0; i < committed_.size(); ++i) {
    const RackId rack = committed_[i].second;
    const auto same = [&](const auto& earlier) { return earlier.second == rack; };
    if (std::any_of(committed_.begin(), committed_.begin() + static_cast<ptrdiff_t>(i), same)) {
      continue;
    }
    for (size_t c = 0; c < counts_.class_count(); ++c) {
      const int missing = -counts_.free(rack, ClassId(c));
      if (missing > 0) losses += counts_.mixed(ClassId(c)) ? 1 : missing;
    }
  }
  sum2 = std::max(sum2, 2 * losses);
  int bound = (sum2 + 1) / 2;
  for (const Pending& part : pending_) {
    if (part.count <= 1 || committed(part.group).valid() || counts_.mixed(part.node_class))
      continue;
    const auto& entries = counts_.group(part.group).entries;
    const size_t domain = static_cast<size_t>(part.island.value) * counts_.class_count();
    int room = domain_free_[domain + static_cast<size_t>(part.node_class.value)];
    for (const Counts::Entry& entry : entries) {
      if (entry.node_class == part.node_class && entry.taken > 0 &&
          counts_.rack(entry.rack).island == part.island) {
        room -= counts_.free(entry.rack, part.node_class);
      }
    }
    bound = std::max(bound, part.count - room);
  }
  return bound;
}

/// Twice the least cost of bringing the rack under its bound, by a knapsack over its partial
/// groups.
int Search::cover2(RackId rack) const {
  Knapsack knapsack(counts_.rack(rack).degree - counts_.rack(rack).bound);
  add_to_knapsack(rack, knapsack);
  return knapsack.least();
}

/// Twice the least cost of bringing the excess of all racks together down to what is allowed.
int Search::cover2_all() const {
  Knapsack knapsack(counts_.excess() - allowed_);
  for (RackId rack : counts_.over()) add_to_knapsack(rack, knapsack);
  return knapsack.least();
}

void Search::add_to_knapsack(RackId rack, Knapsack& knapsack) const {
  const Counts::RackCounts& r = counts_.rack(rack);
  for (GroupId g : r.groups) {
    if (!partial(g, rack)) continue;
    const int evict = evict_cost(g, rack);
    const int complete = complete_cost(g, rack);
    if (evict < 0 && complete < 0) continue;
    const int gain = std::min(counts_.group(g).weight, r.degree - r.bound);
    knapsack.add(gain, half_cost(g, rack, evict, complete));
  }
}

int Search::half_cost(GroupId g, RackId rack, int evict, int complete) const {
  const auto is_over = [&](RackId r) { return counts_.rack(r).degree > counts_.rack(r).bound; };
  int cost = kImpossible;
  if (complete >= 0) {
    cost = 0;
    for (const Counts::Entry& entry : counts_.group(g).entries) {
      if (entry.rack != rack) cost += entry.movable() * (is_over(entry.rack) ? 1 : 2);
    }
  }
  if (evict < 0) return cost;
  bool shared = false;
  const Counts::GroupCounts& group = counts_.group(g);
  for (const Counts::Entry& entry : group.entries) {
    if (entry.rack == rack || !is_over(entry.rack)) continue;
    if (complete_cost(g, entry.rack) >= 0) {
      shared = true;
      break;
    }
  }
  return std::min(cost, shared ? evict : 2 * evict);
}

// -- A solution.

void Search::accept() {
  std::vector<CountChange> changes;
  const auto add = [&](GroupId g, ClassId c, RackId rack, int delta) {
    const auto at = std::find_if(changes.begin(), changes.end(), [&](const CountChange& change) {
      return change.group == g && change.node_class == c && change.rack == rack;
    });
    if (at != changes.end()) {
      at->delta += delta;
    } else {
      changes.push_back({g, c, rack, delta});
    }
  };
  for (const Undo& undo : undo_) {
    if (undo.what != Undo::kTake) continue;
    const ClassId c = counts_.group(undo.group).entries[static_cast<size_t>(undo.entry)].node_class;
    add(undo.group, c, undo.rack, -(undo.up + undo.stay));
  }
  for (const Landing& landing : landing_) {
    add(landing.group, landing.node_class, landing.rack, landing.count);
  }
  for (const Pending& part : pending_) {
    const RackId rack = committed(part.group);
    if (rack.valid() && part.count > 0) add(part.group, part.node_class, rack, part.count);
  }
  std::sort(changes.begin(), changes.end());
  int64_t bytes = 0;
  std::vector<JobId> jobs;
  bool mixed = false;
  for (const CountChange& change : changes) {
    const Counts::GroupCounts& group = counts_.group(change.group);
    bytes += std::max(0, change.delta) * group.state_bytes;
    jobs.push_back(group.job);
    mixed |= counts_.mixed(change.node_class);
  }
  if (mixed && accept_ && !accept_(changes)) {
    refused_ = true;
    return;
  }
  std::sort(jobs.begin(), jobs.end());
  const int touched = static_cast<int>(std::unique(jobs.begin(), jobs.end()) - jobs.begin());
  const bool better =
      !found_ || std::tie(bytes, touched, changes) < std::tie(best_bytes_, best_jobs_, best_);
  if (!better) return;
  if (!found_) grace_ = shuffled_ ? work_ : work_ + kGrace;
  found_ = true;
  best_ = std::move(changes);
  best_bytes_ = bytes;
  best_jobs_ = touched;
}

}  // namespace monkeytree
