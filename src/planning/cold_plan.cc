#include "planning/cold_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "planning/cold_landing.h"
#include "planning/cold_state.h"
#include "planning/search.h"

namespace monkeytree {
namespace {

/// Times that a cover is chosen anew because not all of it finds a place; search nodes that each
/// may cost; and what the lack of a place adds to the strain.
constexpr int kLandingRounds = 24;
constexpr int64_t kCoverNodes = 50'000;
constexpr int kDropStrain = 3;
/// Search nodes for one rack, for one that others must make room for, and for several at once.
constexpr int64_t kRackNodes = 200;
constexpr int64_t kHardNodes = 100;
constexpr int64_t kJointNodes = 600;
/// More moves than any plan has.
constexpr int kNoLimit = 1 << 28;
/// Moves above the least possible that a rack may take: at first, and where that is not enough.
constexpr int kFewMore = 2;
constexpr int kManyMore = 12;
/// Racks that are mended at once.
constexpr size_t kJointRacks = 8;
/// Attempts in vain after which no more are made, for each rack that was over.
constexpr int64_t kPatience = 40;
/// Racks put back at once, besides those that depend on them.
constexpr uint32_t kSeeds = 6;

class ColdPlanner {
 public:
  ColdPlanner(Counts& counts, const ColdBound& bound, const ColdLimits& limits)
      : counts_(counts), bound_(bound), limits_(limits), state_(counts) {
    fair_.assign(counts.rack_count(), 0);
    for (const ColdAction& action : bound.evict) {
      fair_[action.rack] += counts.total(action.group, action.rack);
    }
  }

  ColdPlan run() {
    state_.apply(landed_.changes);
    mend_open(kFewMore, false);
    mend_open(kManyMore, true);
    tell();
    improve();
    ColdPlan plan;
    plan.changes = state_.changes();
    plan.moves = state_.moves();
    plan.excess = state_.excess();
    plan.work = work_;
    return plan;
  }

 private:
  // -- Landing.

  /// What the bound says leaves, but where some of it finds no place, other removals of the same
  /// cost instead, as far as there are any.
  ColdLanding land_best() {
    ColdBound cover = bound_;
    ColdLanding best = land_cover(counts_, cover);
    std::map<ColdAction, int> strains;
    std::vector<ColdAction> dropped = best.dropped;
    for (int round = 1; round < kLandingRounds && !best.dropped.empty() && !stopped(); ++round) {
      if (best.changes.empty() || work_ > limits_.work / 2) break;  // no room, or no more time
      for (const ColdAction& action : dropped) strains[action] += kDropStrain;
      const int64_t nodes = std::min(kCoverNodes, (limits_.work - work_) / 4);
      ColdBound next = cold_bound(counts_, nodes * kCellsPerNode, strains);
      work_ += next.work / kCellsPerNode + 1;
      if (next.evict == cover.evict && next.complete == cover.complete) break;
      cover = std::move(next);
      ColdLanding landing = land_cover(counts_, cover);
      dropped = landing.dropped;
      if (landing.dropped.size() < best.dropped.size()) best = std::move(landing);
    }
    return best;
  }

  bool stopped() const { return work_ >= limits_.work || (limits_.stop && limits_.stop()); }

  // -- Mending.

  void mend_open(int more, bool thorough) {
    for (RackId rack : state_.open_racks()) {
      if (stopped()) return;
      const std::vector<RackId> one{rack};
      mend(one, least(rack) + more, thorough ? kHardNodes : kRackNodes, thorough);
    }
  }

  /// Fewest moves for the rack alone.
  int least(RackId rack) {
    state_.demand(rack);
    const int moves = Search(counts_).root_bound();
    state_.excuse(rack);
    return moves;
  }

  /// Brings the racks under their bounds by the fewest moves, if that is found within the limits.
  bool mend(std::span<const RackId> racks, int most, int64_t nodes, bool thorough) {
    for (RackId rack : racks) state_.demand(rack);
    Search search(counts_);
    search.set_limit(std::min(nodes, limits_.work - work_), limits_.stop);
    search.set_thorough(thorough);
    if (improving_) search.set_seed(draw64());
    Search::Answer answer = Search::Answer::kNone;
    for (int budget = std::max(1, search.root_bound());
         budget <= most && answer == Search::Answer::kNone; ++budget) {
      answer = search.run(budget);
    }
    work_ += search.work() + 1;
    const bool found = answer == Search::Answer::kFound;
    if (found) state_.apply(search.changes());
    for (RackId rack : racks) state_.excuse(rack);
    return found;
  }

  // -- Improving.

  uint64_t draw64() { return seed_ = seed_ * 6364136223846793005u + 1442695040888963407u; }
  uint32_t draw(size_t below) { return static_cast<uint32_t>((draw64() >> 33) % below); }
  RackId draw(const std::vector<RackId>& racks) { return racks[draw(racks.size())]; }

  void improve() {
    improving_ = true;
    const int64_t patience = kPatience * static_cast<int64_t>(state_.racks().size());
    for (int64_t idle = 0; idle < patience && !stopped(); ++idle) {
      const int excess = state_.excess();
      if (excess == 0 && state_.moves() <= bound_.moves) return;
      const std::pair before(excess, state_.moves());
      state_.mark();
      retry(excess == 0 ? state_.moves() : kNoLimit);
      const std::pair after(state_.excess(), state_.moves());
      // While there is no plan, more moves are no reason to stay where no rack can be mended.
      const bool wander = excess > 0 && after.first == excess && draw(8) == 0;
      if (after > before && !wander) state_.rewind();
      if (after < before) {
        idle = 0;
        tell();
      }
    }
  }

  void tell() const {
    if (limits_.found && state_.excess() == 0) limits_.found(state_.moves());
  }

  /// Puts a few racks back as they were and mends them anew, as long as that takes at most so many
  /// moves altogether.
  void retry(int most) {
    std::vector<GroupId> groups;
    for (RackId rack : choose()) {
      const std::vector<GroupId> left = state_.leavers(rack);
      groups.insert(groups.end(), left.begin(), left.end());
    }
    state_.take_back(std::move(groups));
    ++work_;
    std::vector<RackId> order = state_.open_racks();
    if (most < kNoLimit && order.size() <= kJointRacks && draw(2) > 0) {
      mend(order, most - state_.moves(), kJointNodes, false);
      return;
    }
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
    int later = 0;
    std::vector<int> alone;
    for (RackId rack : order) {
      alone.push_back(least(rack));
      later += alone.back();
    }
    for (size_t i = 0; i < order.size(); ++i) {
      later -= alone[i];
      const int left = most - state_.moves() - later;
      const std::vector<RackId> one{order[i]};
      if (mend(one, std::min(left, alone[i] + kFewMore), kRackNodes, false)) continue;
      if (most < kNoLimit) return;
      mend(one, alone[i] + kManyMore, kHardNodes, true);
    }
  }

  /// A rack from which more workers left than the bound has there, and racks near it.
  std::vector<RackId> choose() {
    std::vector<RackId> dear = state_.open_racks();
    for (RackId rack : fair_.keys()) {
      if (state_.departures(rack) > fair_[rack]) dear.push_back(rack);
    }
    if (dear.empty()) dear = state_.racks();
    std::vector<RackId> seeds{draw(dear)};
    const size_t want = 1 + draw(kSeeds);
    for (size_t k = 0; k < seeds.size() && seeds.size() < want; ++k) {
      const std::vector<RackId> near = neighbours(seeds[k]);
      for (int i = 0; i < 2 && seeds.size() < want; ++i) {
        seeds.push_back(!near.empty() && draw(4) > 0 ? draw(near) : draw(state_.racks()));
      }
    }
    return seeds;
  }

  /// Racks that share groups with it, and those from which workers went to such racks.
  std::vector<RackId> neighbours(RackId rack) {
    std::vector<RackId> near;
    for (GroupId g : counts_.rack(rack).groups) {
      for (const Counts::Entry& entry : counts_.group(g).entries) {
        if (state_.departures(entry.rack) > 0) near.push_back(entry.rack);
        for (GroupId other : state_.comers(entry.rack)) {
          for (const Counts::Shift& shift : state_.moved(other)) {
            if (shift.up + shift.stay < 0) near.push_back(shift.rack);
          }
        }
      }
    }
    return near;
  }

  Counts& counts_;
  const ColdBound& bound_;
  const ColdLimits limits_;
  int64_t work_ = 0;
  uint64_t seed_ = 1;
  bool improving_ = false;
  ColdLanding landed_ = land_best();  // of the counts as they were
  ColdState state_;
  IdVector<RackId, int> fair_;  // workers that leave each rack if the bound is met as it says
};

}  // namespace

ColdPlan cold_plan(Counts& counts, const ColdBound& bound, const ColdLimits& limits) {
  return ColdPlanner(counts, bound, limits).run();
}

}  // namespace monkeytree
