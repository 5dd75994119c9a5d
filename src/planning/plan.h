#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "cluster/snapshot.h"

namespace monkeytree {

/// Stands for the memory of a third machine, in the place of a node.
inline constexpr NodeId kStaging{-2};

/// One worker goes from one node to another.
struct Move {
  GroupId group;
  int worker = 0;  ///< index in Group::workers
  NodeId from;     ///< kStaging in the second half of a staged move
  NodeId to;       ///< kStaging in the first half
  friend auto operator<=>(const Move&, const Move&) = default;
};

/// Moves of one round may run together: every destination is free when the round starts.
using Round = std::vector<Move>;

/// docs/formats.md, "Plan", says what each promises.
enum class PlanStatus { kCompliant, kOptimal, kFeasible, kInfeasible, kUnknown };
std::string_view name_of(PlanStatus status);  ///< "compliant", "optimal", …

struct Plan {
  PlanStatus status = PlanStatus::kUnknown;
  int moves = 0;                   ///< a staged move counts once
  std::optional<int> lower_bound;  ///< on the moves; none for infeasible and unknown
  bool best_effort = false;        ///< as asked for: the bounds need not be met
  bool limited = false;            ///< feasible or unknown because the work or the time was used up
  int excess_before = 0;
  int excess_after = 0;
  std::optional<int> excess_lower_bound;  ///< with best effort, where the least excess is unproved
  double solve_ms = 0;                    ///< filled by the caller: the planner has no clock
  IdVector<RackId, int> bounds;           ///< that the plan was made for
  IdVector<RackId, int> before, after;    ///< fragmentation degrees
  std::vector<Round> rounds;
  std::vector<RackId> conflict;  ///< infeasible: racks whose bounds cannot hold together
};

struct PlanOptions {
  /// Least excess first, then fewest moves, instead of meeting every bound.
  bool best_effort = false;
  /// Search nodes; deterministic. The search ends with the best plan so far when they are used up.
  int64_t work_limit = INT64_MAX;
  /// Asked every few thousand search nodes; true ends the search. The wall clock enters here.
  std::function<bool()> stop;
  /// Told what is known whenever that becomes more: moves of the best plan so far, nullopt before
  /// the first, and the fewest that any plan has. Changes nothing; for people who wait.
  std::function<void(std::optional<int> best, int bound)> progress;
  /// Mend only these racks: any other rack may keep a degree above its bound, but not grow it.
  std::optional<std::vector<RackId>> mend;
};

/// The fewest worker moves that bring every rack within its bound, in rounds (paper §5.2, exact).
/// Deterministic: the same snapshot and options give the same plan unless `stop` cut it short.
Plan plan(const Snapshot& snapshot, const PlanOptions& options = {});

}  // namespace monkeytree
