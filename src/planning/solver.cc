#include "planning/solver.h"

#include <algorithm>

#include "planning/prover.h"
#include "planning/repair.h"
#include "planning/search.h"

namespace monkeytree {
namespace {

/// Search nodes before anything else is tried: most events need a few dozen.
constexpr int64_t kQuickWork = 4000;
/// Search nodes of the proof that no placement exists, each time it is tried.
constexpr int64_t kProofWork = 2'000'000;
/// Racks up to which that proof is tried by exhaustion.
constexpr size_t kProofRacks = 64;
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
    if (meet_bounds() || !options_.best_effort) return solution_;
    least_excess();
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
  }

  /// Budgets from `from` up to `last` until a placement is found or the work is used up. `excess`
  /// is what may remain. True once the question is answered: found (status set) or never.
  bool deepen(int* from, int last, int excess, int64_t work, bool* never) {
    search_.set_limit(search_.work() + work, options_.stop);
    for (; *from <= last; ++*from) {
      const Search::Answer answer = search_.run(*from, excess);
      uncertain_ |= search_.refused();
      if (answer == Search::Answer::kFound) {
        finish(uncertain_ ? PlanStatus::kFeasible : PlanStatus::kOptimal, search_.changes());
        return true;
      }
      if (answer == Search::Answer::kLimit) return false;
      if (answer == Search::Answer::kNever) {
        *never = !uncertain_;
        return *never;
      }
      if (!uncertain_) solution_.lower_bound = std::max(solution_.lower_bound, *from + 1);
    }
    return false;
  }

  bool infeasible() {
    Prover prover(counts_);
    prover.set_limit(kProofWork, options_.stop);
    solution_.status = PlanStatus::kInfeasible;
    solution_.changes.clear();
    solution_.conflict = prover.conflict();
    return false;
  }

  /// True unless no placement meets the bounds or the limits came first with nothing found.
  bool meet_bounds() {
    const int start = search_.root_bound();
    if (start >= kNoBound) return infeasible();
    int budget = std::max(1, start);
    solution_.lower_bound = budget;
    bool never = false;
    const int64_t quick = counts_.over().size() > kManyOver ? 0 : kQuickWork;
    if (deepen(&budget, kNoBound, 0, share(quick), &never)) return never ? infeasible() : true;

    Prover prover(counts_);
    prover.set_limit(share(kProofWork), options_.stop);
    if (prover.excess_bound() > 0) return infeasible();
    if (counts_.rack_count() <= kProofRacks) {
      const std::optional<bool> feasible = prover.feasible(0);
      used_ += prover.work();
      if (feasible == false) return infeasible();
    }
    Repair repair(counts_, options_.stop, share(INT64_MAX));
    repair.set_accept(accept_);
    const std::optional<std::vector<CountChange>> repaired = repair.run(solution_.lower_bound);
    used_ += repair.work();
    solution_.lower_bound = std::max(solution_.lower_bound, repair.lower_bound());
    budget = std::max(budget, solution_.lower_bound);
    int best = kNoBound;
    if (repaired) {
      finish(PlanStatus::kFeasible, *repaired);
      best = solution_.moves();
    }
    if (!spent() && deepen(&budget, best - 1, 0, share(INT64_MAX), &never)) {
      return never ? infeasible() : true;
    }
    if (!repaired) {
      solution_.status = PlanStatus::kUnknown;
      return false;
    }
    if (budget >= best && !uncertain_) finish(PlanStatus::kOptimal, solution_.changes);
    return true;
  }

  /// Least excess first, then fewest moves.
  void least_excess() {
    const bool proved = solution_.status == PlanStatus::kInfeasible;
    solution_.conflict.clear();
    Prover prover(counts_);
    prover.set_limit(share(kProofWork), options_.stop);
    int excess = std::max(prover.excess_bound(), proved ? 1 : 0);
    bool exact = counts_.rack_count() <= kProofRacks;
    for (; exact && excess < counts_.excess(); ++excess) {
      const std::optional<bool> feasible = prover.feasible(excess);
      exact = feasible.has_value();
      if (!exact || *feasible) break;
    }
    used_ += prover.work();
    solution_.excess_lower_bound = excess;
    solution_.lower_bound = 0;
    if (excess >= counts_.excess()) {
      finish(PlanStatus::kOptimal, {});  // nothing moved is already the least
      return;
    }
    int budget = 1;
    bool never = false;
    // Without a proof of the least excess, the greedy plan says what is surely within reach.
    Repair repair(counts_, options_.stop, share(INT64_MAX));
    repair.set_accept(accept_);
    std::vector<CountChange> greedy = repair.run_best_effort();
    used_ += repair.work();
    const int reached = repair.excess_after();
    int last = kNoBound;
    if (reached == excess) {
      finish(PlanStatus::kFeasible, greedy);
      last = solution_.moves() - 1;
    } else if (!exact && !greedy.empty()) {
      finish(PlanStatus::kFeasible, greedy);
      return;
    }
    if (deepen(&budget, last, excess, share(INT64_MAX), &never)) {
      if (!exact && solution_.status == PlanStatus::kOptimal) {
        solution_.status = PlanStatus::kFeasible;
      }
      return;
    }
    if (reached == excess && budget > last && exact && !uncertain_) {
      finish(PlanStatus::kOptimal, solution_.changes);
    } else if (reached != excess) {
      finish(PlanStatus::kFeasible, greedy);
    }
  }

  Counts& counts_;
  const PlanOptions& options_;
  const std::function<bool(std::span<const CountChange>)>& accept_;
  Search search_;
  Solution solution_;
  int64_t used_ = 0;        // work of the helpers
  bool uncertain_ = false;  // nodes refused a set of counts
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
