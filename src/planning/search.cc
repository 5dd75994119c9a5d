#include "planning/search.h"

#include <algorithm>
#include <array>
#include <tuple>

namespace monkeytree {
namespace {

/// Search nodes spent on finding a cheaper optimum once one is known.
constexpr int64_t kGrace = 16;
/// Search nodes between two questions whether to stop; one may take a millisecond in large
/// clusters.
constexpr int64_t kStopEvery = 32;
/// Search nodes for one choice of how the degrees are lowered, at first; and how many times as many
/// after all choices have had so much.
constexpr int64_t kPatience = 32;
constexpr int64_t kPatienceGrowth = 4;
/// Racks looked through for options that cost as much as a search node.
constexpr int64_t kRacksPerNode = 64;

}  // namespace

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
  for (patience_ = kPatience;; patience_ *= kPatienceGrowth) {
    impatient_ = false;
    node(budget);
    rewind(0);
    if (found_) return Answer::kFound;
    if (limited_) return Answer::kLimit;
    if (!impatient_) break;
  }
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
  return limited_ || work_ >= grace_ || work_ >= patience_end_;
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
  if (patience_end_ < INT64_MAX) {
    branch_landing(budget);
    return;
  }
  patience_end_ = work_ + patience_;
  branch_landing(budget);
  impatient_ |= work_ >= patience_end_;
  patience_end_ = INT64_MAX;
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
    try_option(option, budget);
    if (done()) break;
  }
  rewind(start);
}

void Search::try_option(const Option& option, int budget) {
  if (!possible(option)) return;  // an earlier sibling has forbidden it
  const size_t before = undo_.size();
  perform(option);
  node(budget - option.cost);
  rewind(before);
  if (!done()) forbid(option);
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
/// part alone would find room, any of them may be the one. Options that cost one move are tried as
/// soon as they are found: in large clusters one of the first racks will often do.
void Search::branch_landing(int budget) {
  const size_t start = undo_.size();
  std::vector<Option> options, dearer;
  if (allowed_ > 0) {
    for (RackId rack : counts_.over()) add_repair_options(rack, dearer);
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
  Outlook outlook = look_out(budget);
  for (RackId rack : outlook.racks) {
    if (++racks_seen_ % kRacksPerNode == 0) ++work_;
    if (done()) break;
    options.clear();
    for (const Pending& part : open) add_opening_options(part, rack, joint, options);
    if (open.size() > 1) drop_repeated(options);
    for (const Option& option : options) {
      if (option.cost > budget || !promises(outlook, option)) {
        cut_ = true;
      } else if (option.cost > 1 || shuffled_) {
        dearer.push_back(option);
      } else {
        try_option(option, budget);
        whole_ = outlook.whole;  // the children note their own
        if (done()) break;
      }
    }
  }
  if (!done()) try_options(dearer, budget);
  rewind(start);
}

/// Different parts may ask for the same action.
void Search::drop_repeated(std::vector<Option>& options) {
  const auto key = [](const Option& option) {
    return std::tuple(option.cost, option.what, option.group, option.entry);
  };
  std::sort(options.begin(), options.end(),
            [&](const Option& a, const Option& b) { return key(a) < key(b); });
  options.erase(std::unique(options.begin(), options.end(),
                            [&](const Option& a, const Option& b) { return key(a) == key(b); }),
                options.end());
}

/// Racks that a short chain of moves leads from to room come first.
Search::Outlook Search::look_out(int budget) {
  Outlook outlook;
  outlook.budget = budget;
  outlook.whole = whole_;
  if (allowed_ == 0) {
    if (budget == 1) outlook.relief = measure_relief();
    if (counts_.class_count() == 1 && !shuffled_) {
      measure_reach(budget - 1);
      outlook.epoch = reach_.epoch;
      outlook.racks = reach_.racks_here;
    }
  }
  std::vector<char> near(counts_.rack_count(), 0);
  for (RackId rack : outlook.racks) near[static_cast<size_t>(rack.value)] = 1;
  outlook.racks.reserve(near.size());
  for (size_t r = 0; r < near.size(); ++r) {
    if (!near[r]) outlook.racks.push_back(RackId(r));
  }
  return outlook;
}

/// May a solution within the budget begin with this option?
bool Search::promises(Outlook& outlook, const Option& option) {
  if (!relieves(outlook.relief, option)) return false;
  if (allowed_ > 0 || counts_.class_count() > 1) return true;
  if (option.what == Option::kComplete || may_be_whole(option.group, outlook.budget)) return true;
  if (outlook.epoch != reach_.epoch) {  // the children measure their own
    measure_reach(outlook.budget - 1);
    outlook.epoch = reach_.epoch;
  }
  return leaves_within(option.group, option.rack, outlook.budget - option.cost);
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
  if (counts_.rack(rack).island != part.island || counts_.capacity(rack, part.node_class) == 0 ||
      closed(g, rack, part.node_class)) {
    return;
  }
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
