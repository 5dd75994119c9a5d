#include "planning/solver.h"

#include <algorithm>
#include <map>

#include "planning/cold.h"
#include "planning/cold_plan.h"
#include "planning/repair.h"
#include "planning/search.h"
#include "planning/sweep.h"

namespace monkeytree {
namespace {

/// Search nodes before anything else is tried: most events need a few dozen.
constexpr int64_t kQuickWork = 1000;
/// The same where one rack alone is over its bound, which nothing else would find sooner.
constexpr int64_t kQuickWorkAlone = 8000;
/// Work of the first turn of each method where several take turns; later turns are kGrowth times
/// it.
constexpr int64_t kTurnWork = 8000;
constexpr int64_t kGrowth = 4;
constexpr int64_t kLongestTurn = int64_t{1} << 50;
/// Steps of a sweep that cost as much as a search node.
constexpr int64_t kStepsPerNode = 40;
/// Work for each question whether some racks' bounds can hold together.
constexpr int64_t kConflictWork = 128'000;
/// Work for each excess that is asked about.
constexpr int64_t kLeastWork = 5'000'000;
/// Racks up to which sweeps over all racks are tried.
constexpr size_t kSweepRacks = 32;
/// Search nodes that the bound for states with many racks over their bound may cost.
constexpr int64_t kColdWork = 50'000;
/// Search nodes spent on a plan for such a state.
constexpr int64_t kColdNodes = 100'000'000;
/// Racks over their bound from which on the search for all at once is not even tried first.
constexpr size_t kManyOver = 12;
/// More moves than any plan has.
constexpr int kNoBound = 1 << 28;

class Solver {
 public:
  Solver(Counts& counts, const PlanOptions& options,
         const std::function<bool(std::span<const CountChange>)>& accept)
      : counts_(counts), options_(options), accept_(accept), search_(counts) {
    search_.set_accept(accept);
  }

  Solution run() {
    if (counts_.excess() == 0) {
      solution_.status = PlanStatus::kCompliant;
      return solution_;
    }
    if (!meet_bounds() && options_.best_effort) least_excess();
    solution_.limited = !settled() && spent();
    return solution_;
  }

 private:
  /// Work still allowed, and at most `most`.
  int64_t share(int64_t most) const {
    return std::max<int64_t>(0, std::min(most, options_.work_limit - used_ - search_.work()));
  }
  bool spent() const { return share(1) == 0 || (options_.stop && options_.stop()); }

  void finish(PlanStatus status, std::vector<CountChange> changes) {
    solution_.status = status;
    solution_.changes = std::move(changes);
    if (status == PlanStatus::kOptimal) solution_.lower_bound = solution_.moves();
    if (options_.progress) tell(solution_.moves());
  }

  /// `best`: moves of a plan that has been found.
  void tell(std::optional<int> best) const {
    if (options_.progress) options_.progress(best, solution_.lower_bound);
  }
  void tell() const {
    const bool found = solution_.status == PlanStatus::kFeasible;
    if (options_.progress) tell(found ? std::optional(solution_.moves()) : std::nullopt);
  }

  /// Budgets from budget_ up to `last` until a placement is found or the work is used up. `excess`
  /// is what may remain. True once the question is answered: found (status set) or never.
  bool deepen(int last, int excess, int64_t work, bool* never) {
    search_.set_limit(search_.work() + work, options_.stop);
    while (budget_ <= last) {
      const Search::Answer answer = search_.run(budget_, excess);
      uncertain_ |= search_.refused();
      if (answer == Search::Answer::kFound) {
        finish(PlanStatus::kFeasible, search_.changes());
        if (!uncertain_ || closed()) finish(PlanStatus::kOptimal, solution_.changes);
        return true;
      }
      if (answer == Search::Answer::kLimit) return false;
      if (answer == Search::Answer::kNever) {
        exhausted_ = true;
        *never = !uncertain_;
        return *never;
      }
      raise(budget_ + 1);
    }
    return false;
  }

  bool infeasible() {
    solution_.status = PlanStatus::kInfeasible;
    solution_.changes.clear();
    solution_.conflict = conflict();
    return false;
  }

  /// Racks of each island that has one above its bound: elsewhere nothing needs to move.
  std::map<IslandId, std::vector<RackId>> islands() const {
    std::map<IslandId, std::vector<RackId>> islands;
    for (RackId rack : counts_.over()) islands[counts_.rack(rack).island];
    for (size_t r = 0; r < counts_.rack_count(); ++r) {
      const auto at = islands.find(counts_.rack(RackId(r)).island);
      if (at != islands.end()) at->second.push_back(RackId(r));
    }
    return islands;
  }

  std::vector<RackId> conflict() {
    std::vector<RackId> all;
    for (const auto& [island, racks] : islands()) {
      Sweep sweep(counts_, island);
      sweep.set_limit(kConflictWork * kStepsPerNode, options_.stop);
      const bool small = racks.size() <= kSweepRacks;
      if (sweep.excess_bound() > 0 || (small && sweep.feasible(0) == false)) {
        return sweep.conflict();
      }
      all.insert(all.end(), racks.begin(), racks.end());
    }
    std::vector<RackId> kept =
        counts_.over();  // most conflicts of large clusters are between these
    if (!conflicting(kept)) return all;
    for (RackId rack : std::vector<RackId>(kept)) {
      std::vector<RackId> fewer = kept;
      std::erase(fewer, rack);
      if (conflicting(fewer)) kept = std::move(fewer);
    }
    return kept;
  }

  /// Does the search prove that no placement meets the bounds of these racks, whatever the others'?
  bool conflicting(const std::vector<RackId>& racks) {
    constexpr int kNone = 1 << 20;
    std::vector<int> bounds;
    for (size_t r = 0; r < counts_.rack_count(); ++r) {
      bounds.push_back(counts_.rack(RackId(r)).bound);
      if (!std::binary_search(racks.begin(), racks.end(), RackId(r))) {
        counts_.set_bound(RackId(r), kNone);
      }
    }
    Search search(counts_);
    search.set_limit(kConflictWork, options_.stop);
    Search::Answer answer = Search::Answer::kNone;
    for (int budget = search.root_bound(); answer == Search::Answer::kNone; ++budget) {
      answer = budget >= kNoBound ? Search::Answer::kNever : search.run(budget);
    }
    for (size_t r = 0; r < bounds.size(); ++r) counts_.set_bound(RackId(r), bounds[r]);
    return answer == Search::Answer::kNever;
  }

  /// True unless no placement meets the bounds or the limits came first with nothing found.
  bool meet_bounds() {
    const int start = search_.root_bound();
    if (start >= kNoBound) return infeasible();
    budget_ = std::max(1, start);
    solution_.lower_bound = budget_;
    tell();
    bool never = false;
    const size_t over = counts_.over().size();
    const int64_t quick = over == 1 ? kQuickWorkAlone : over > kManyOver ? 0 : kQuickWork;
    if (deepen(kNoBound, 0, share(quick), &never)) return never ? infeasible() : true;
    for (const auto& [island, racks] : islands()) {
      if (Sweep(counts_, island).excess_bound() > 0) return infeasible();
    }
    ColdBound cold;
    const bool many = counts_.over().size() > kManyOver;
    if (many) {
      const int64_t quarter = share(INT64_MAX) / 4;  // the rest is for a plan
      cold = cold_bound(counts_, std::min(kColdWork, quarter) * kCellsPerNode);
      used_ += cold.work / kCellsPerNode;
      if (!cold.possible) {
        infeasible();
        if (!cold.conflict.empty()) solution_.conflict = cold.conflict;
        return false;
      }
      raise(cold.moves);
    }
    bool doubtful = true;
    if (!is_feasible(0, kTurnWork, &doubtful)) return infeasible();
    if ((many && plan_cold(cold)) || repair()) doubtful = false;
    take_turns(0, doubtful);
    if (solution_.status == PlanStatus::kInfeasible) return infeasible();
    return solution_.status != PlanStatus::kUnknown;
  }

  bool plan_cold(const ColdBound& cold) {
    ColdLimits limits{options_.stop, share(kColdNodes), {}};
    if (options_.progress) limits.found = [this](int moves) { tell(moves); };
    const ColdPlan plan = cold_plan(counts_, cold, limits);
    used_ += plan.work;
    if (accept_ && !accept_(plan.changes)) return false;
    if (plan.excess > 0) {
      partial_ = {plan.changes, plan.excess};
      return false;
    }
    finish(PlanStatus::kFeasible, plan.changes);
    return true;
  }

  bool repair() {
    Repair repair(counts_, options_.stop, share(INT64_MAX));
    repair.set_accept(accept_);
    const std::optional<std::vector<CountChange>> repaired = repair.run(solution_.lower_bound);
    used_ += repair.work();
    if (repaired) finish(PlanStatus::kFeasible, *repaired);
    return repaired.has_value();
  }

  /// Search and sweep in turns of growing length, until one proves what the other may have found or
  /// the limits come first. `excess` is what may remain.
  void take_turns(int excess, bool doubtful) {
    for (int64_t work = kTurnWork; !settled() && !spent();
         work = std::min(work * kGrowth, kLongestTurn)) {
      const bool small = counts_.rack_count() <= kSweepRacks;
      if (doubtful && !is_feasible(excess, work, &doubtful)) {
        solution_.status = PlanStatus::kInfeasible;
        return;
      }
      bool never = false;
      const int last = solution_.status == PlanStatus::kFeasible ? solution_.moves() - 1 : kNoBound;
      if (budget_ > last) break;
      if (deepen(last, excess, share(work), &never)) {
        if (never) solution_.status = PlanStatus::kInfeasible;
        return;
      }
      if (budget_ > last || exhausted_) break;
      if (!small || spent()) continue;
      if (sweep(excess, last, share(work))) return;
    }
    if (closed()) finish(PlanStatus::kOptimal, solution_.changes);
  }

  /// False where no placement has so little excess; *doubtful becomes false once one is known to
  /// exist.
  bool is_feasible(int excess, int64_t work, bool* doubtful) {
    const auto ask = [&](Sweep sweep) {
      sweep.set_limit(share(work) * kStepsPerNode, options_.stop);
      const std::optional<bool> feasible = sweep.feasible(excess);
      used_ += sweep.work() / kStepsPerNode;
      return feasible;
    };
    std::optional<bool> feasible = true;
    if (excess > 0) {
      feasible = counts_.rack_count() <= kSweepRacks ? ask(Sweep(counts_)) : std::nullopt;
    } else {
      for (const auto& [island, racks] : islands()) {
        std::optional<bool> here;
        if (racks.size() <= kSweepRacks) here = ask(Sweep(counts_, island));
        if (here == false) return false;
        if (!here) feasible = std::nullopt;
      }
    }
    if (feasible == true) *doubtful = false;
    return feasible != false;
  }

  /// Fewest moves by a sweep; true where found, and then proved.
  bool sweep(int excess, int last, int64_t work) {
    Sweep sweep(counts_);
    sweep.set_limit(work * kStepsPerNode, options_.stop);
    int from = budget_;
    const std::optional<std::vector<CountChange>> changes = sweep.fewest(excess, &from, last);
    used_ += sweep.work() / kStepsPerNode;
    if (!changes || uncertain_ || (accept_ && !accept_(*changes))) {
      if (!uncertain_) raise(std::min(from, last + 1));
      return false;
    }
    raise(from);
    finish(PlanStatus::kOptimal, *changes);
    return true;
  }

  void raise(int budget) {
    budget_ = std::max(budget_, budget);
    if (uncertain_ || solution_.lower_bound >= budget_) return;
    solution_.lower_bound = budget_;
    tell();
  }

  /// The plan is as short as what was proved, before nodes refused anything, allows.
  bool closed() const {
    const int bound = std::max(solution_.lower_bound, uncertain_ ? 0 : budget_);
    return solution_.status == PlanStatus::kFeasible && bound >= solution_.moves();
  }

  bool settled() const {
    return solution_.status == PlanStatus::kOptimal || solution_.status == PlanStatus::kInfeasible;
  }

  /// Least excess first, then fewest moves.
  void least_excess() {
    int excess = std::max(Sweep(counts_).excess_bound(),
                          solution_.status == PlanStatus::kInfeasible ? 1 : 0);
    solution_.conflict.clear();
    bool exact = counts_.rack_count() <= kSweepRacks;
    while (exact && excess < counts_.excess()) {
      Sweep sweep(counts_);
      sweep.set_limit(share(kLeastWork) * kStepsPerNode, options_.stop);
      const std::optional<bool> feasible = sweep.feasible(excess);
      used_ += sweep.work() / kStepsPerNode;
      exact = feasible.has_value();
      if (!exact || *feasible) break;
      ++excess;
    }
    solution_.excess_lower_bound = excess;
    solution_.lower_bound = 0;
    solution_.status = PlanStatus::kUnknown;
    if (excess >= counts_.excess()) {
      finish(PlanStatus::kOptimal, {});  // nothing moved is already the least
      return;
    }
    mend_some();
    budget_ = 1;
    if (partial_.excess == excess) finish(PlanStatus::kFeasible, partial_.changes);
    if (exact || solution_.status == PlanStatus::kFeasible) take_turns(excess, false);
    if (settled()) return;
    if (solution_.status == PlanStatus::kUnknown) {
      finish(PlanStatus::kFeasible, partial_.changes);
      solution_.lower_bound = 0;
    }
  }

  /// What lowers the excess most, of what is known.
  void mend_some() {
    if (partial_.excess < counts_.excess()) return;  // many racks, and the work went into that
    if (counts_.over().size() > kManyOver) plan_cold(ColdBound());
    if (partial_.excess < counts_.excess()) return;
    Repair repair(counts_, options_.stop, share(kLeastWork));
    repair.set_accept(accept_);
    partial_.changes = repair.run_best_effort(&partial_.excess);
    used_ += repair.work();
  }

  Counts& counts_;
  const PlanOptions& options_;
  const std::function<bool(std::span<const CountChange>)>& accept_;
  Search search_;
  Solution solution_;
  struct Partial {  // changes that meet some of the bounds
    std::vector<CountChange> changes;
    int excess = 1 << 28;
  };
  Partial partial_;
  int budget_ = 1;          // no plan has fewer moves
  int64_t used_ = 0;        // work of the helpers
  bool uncertain_ = false;  // nodes refused a set of counts
  bool exhausted_ = false;  // the search has met every set of counts
};

}  // namespace

int Solution::moves() const {
  int sum = 0;
  for (const CountChange& change : changes) sum += std::max(0, change.delta);
  return sum;
}

Solution solve(Counts& counts, const PlanOptions& options,
               const std::function<bool(std::span<const CountChange>)>& accept) {
  std::vector<std::pair<RackId, int>> raised;
  if (options.mend) {
    for (RackId rack : std::vector<RackId>(counts.over())) {
      const std::vector<RackId>& mend = *options.mend;
      if (std::find(mend.begin(), mend.end(), rack) != mend.end()) continue;
      raised.emplace_back(rack, counts.rack(rack).bound);
      counts.set_bound(rack, counts.rack(rack).degree);
    }
  }
  Solution solution = Solver(counts, options, accept).run();
  for (const auto& [rack, bound] : raised) counts.set_bound(rack, bound);
  return solution;
}

}  // namespace monkeytree
