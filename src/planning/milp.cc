#include "planning/milp.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <tuple>
#include <utility>

#include "cluster/fragmentation.h"
#include "planning/integer_program.h"

namespace monkeytree {
namespace {

using Terms = IntegerProgram::Terms;
using Status = IntegerProgram::Status;

constexpr double kFree = IntegerProgram::kFree;

/// CPU time left of a limit.
class Budget {
 public:
  explicit Budget(double seconds) : limit_(seconds), start_(std::clock()) {}
  double left() const {
    return limit_ - static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC;
  }

 private:
  double limit_;
  std::clock_t start_;
};

/// What stands where, by (group, class, rack).
struct Count {
  int movable = 0;  ///< w₀
  int staying = 0;  ///< d: those of them on nodes that are not refilled
  int column = -1;  ///< w
};

/// Builds the program of a snapshot and reads its solutions.
class Formulation {
 public:
  Formulation(const Snapshot& snapshot, const IdVector<RackId, int>& bounds, bool with_excess)
      : s_(snapshot), bounds_(bounds), with_excess_(with_excess) {
    count();
    add_counts();
    add_capacity();
    add_degrees();
    program_.set_objective(leaving_);
  }

  IntegerProgram& program() { return program_; }
  bool exact() const { return exact_; }
  const Terms& leaving() const { return leaving_; }
  const Terms& excess() const { return excess_; }

  std::vector<CountChange> changes(const std::vector<int>& values) const {
    std::vector<CountChange> out;
    for (const auto& [key, count] : counts_) {
      const auto& [group, node_class, rack] = key;
      const int delta = values[static_cast<size_t>(count.column)] - count.movable;
      if (delta != 0) out.push_back({group, node_class, rack, delta});
    }
    return out;
  }

 private:
  using Key = std::tuple<GroupId, ClassId, RackId>;
  using Pool = std::pair<ClassId, RackId>;

  void count() {
    held_.assign(s_.nodes.size(), 0);
    fixed_.resize(s_.groups.size());
    unit_.assign(s_.classes.size(), 0);
    for (GroupId id : s_.groups.keys()) {
      const Group& group = s_.groups[id];
      for (size_t w = 0; w < group.workers.size(); ++w) {
        const Node& node = s_.nodes[group.workers[w]];
        if (s_.immovable(id, static_cast<int>(w))) {
          held_[group.workers[w]] += group.slots;
          ++fixed_[id][node.rack];
          continue;
        }
        Count& count = counts_[{id, node.node_class, node.rack}];
        ++count.movable;
        if (node.state != NodeState::kUp) ++count.staying;
        int& unit = unit_[node.node_class];
        if (unit != 0 && unit != group.slots) unit = -1;  // mixed
        if (unit == 0) unit = group.slots;
      }
    }
    for (int unit : unit_) exact_ = exact_ && unit >= 0;
    for (const Node& node : s_.nodes) {
      if (node.state == NodeState::kUp) capacity_.try_emplace({node.node_class, node.rack}, 0);
    }
    for (NodeId id : s_.nodes.keys()) {
      const Node& node = s_.nodes[id];
      if (node.state != NodeState::kUp) continue;
      const int unit = unit_[node.node_class];
      capacity_[{node.node_class, node.rack}] += (node.slots - held_[id]) / std::max(unit, 1);
    }
  }

  int capacity(ClassId node_class, RackId rack) const {
    const auto found = capacity_.find({node_class, rack});
    return found == capacity_.end() ? 0 : found->second;
  }

  /// Places, or slots in a class of mixed slots, that one worker takes.
  int need(GroupId group, ClassId node_class) const {
    return unit_[node_class] > 0 ? 1 : s_.groups[group].slots;
  }

  /// Columns w and z, and the sums over islands.
  void add_counts() {
    std::map<std::tuple<GroupId, ClassId, IslandId>, int> sums;
    for (const auto& [key, count] : counts_) {
      const auto& [group, node_class, rack] = key;
      sums[{group, node_class, s_.racks[rack].island}] += count.movable;
    }
    for (const auto& [key, sum] : sums) {
      const auto& [group, node_class, island] = key;
      Terms all;
      for (RackId rack : s_.racks.keys()) {
        if (s_.racks[rack].island != island) continue;
        const auto found = counts_.find({group, node_class, rack});
        const Count now = found == counts_.end() ? Count{} : found->second;
        const int room = capacity(node_class, rack) / need(group, node_class) + now.staying;
        const int most = std::min(sum, room);
        if (most == 0) continue;
        Count& count = counts_[{group, node_class, rack}];
        count.column = program_.add_column(0, most);
        all.emplace_back(count.column, 1);
        if (count.movable == 0) continue;
        const int leaving = program_.add_column(0, count.movable);
        program_.add_row(count.movable, kFree, {{leaving, 1}, {count.column, 1}});
        leaving_.emplace_back(leaving, 1);
      }
      program_.add_row(sum, sum, all);
    }
  }

  void add_capacity() {
    std::map<Pool, Terms> used;
    for (const auto& [key, count] : counts_) {
      const auto& [group, node_class, rack] = key;
      int column = count.column;
      if (count.staying > 0) {
        column = program_.add_column(0, static_cast<int>(s_.groups[group].workers.size()));
        program_.add_row(-count.staying, kFree, {{column, 1}, {count.column, -1}});
      }
      used[{node_class, rack}].emplace_back(column, need(group, node_class));
    }
    for (auto& [pool, terms] : used) {
      program_.add_row(-kFree, capacity(pool.first, pool.second), std::move(terms));
    }
  }

  void add_degrees() {
    IdVector<GroupId, std::map<RackId, Presence>> present(s_.groups.size());
    for (const auto& [key, count] : counts_) {
      const auto& [group, node_class, rack] = key;
      Presence& presence = present[group][rack];
      presence.workers.emplace_back(count.column, 1);
      presence.most += program_.column(count.column).second;
    }
    for (GroupId id : s_.groups.keys()) {
      for (const auto& [rack, fixed] : fixed_[id]) {
        present[id][rack].fixed = fixed;
        present[id][rack].most += fixed;
      }
    }
    IdVector<RackId, Terms> degree(s_.racks.size());
    for (GroupId id : s_.groups.keys()) {
      if (s_.groups[id].workers.size() > 1) add_indicators(id, present[id], degree);
    }
    for (RackId rack : s_.racks.keys()) {
      int largest = 0;
      for (const auto& [column, rings] : degree[rack]) largest += static_cast<int>(rings);
      if (largest <= bounds_[rack]) continue;
      if (with_excess_) {
        const int over = program_.add_column(0, largest - bounds_[rack]);
        excess_.emplace_back(over, 1);
        degree[rack].emplace_back(over, -1);
      }
      program_.add_row(-kFree, bounds_[rack], std::move(degree[rack]));
    }
  }

  /// Of a group in a rack: its movable workers, how many others, and the most there can be in all.
  struct Presence {
    Terms workers;
    int fixed = 0;
    int most = 0;
  };

  /// y, v and q of one group; y is added to the degrees.
  void add_indicators(GroupId group, const std::map<RackId, Presence>& present,
                      IdVector<RackId, Terms>& degree) {
    const int size = static_cast<int>(s_.groups[group].workers.size());
    const int torn = program_.add_column(0, 1);
    Terms somewhere_whole{{torn, 1}}, twice{{torn, -2}};
    for (const auto& [rack, presence] : present) {
      const int partly = program_.add_column(0, 1);
      Terms above = presence.workers, below = presence.workers;
      above.emplace_back(partly, -std::min(size - 1, presence.most));
      below.emplace_back(partly, -1);
      if (presence.most >= size) {
        const int whole = program_.add_column(0, 1);
        above.emplace_back(whole, -size);
        below.emplace_back(whole, -size);
        somewhere_whole.emplace_back(whole, 1);
      }
      program_.add_row(-kFree, -presence.fixed, std::move(above));
      program_.add_row(-presence.fixed, kFree, std::move(below));
      program_.add_row(0, kFree, {{torn, 1}, {partly, -1}});
      twice.emplace_back(partly, 1);
      degree[rack].emplace_back(partly, s_.groups[group].rings);
    }
    program_.add_row(1, 1, std::move(somewhere_whole));
    program_.add_row(0, kFree, std::move(twice));
  }

  const Snapshot& s_;
  const IdVector<RackId, int>& bounds_;
  bool with_excess_;
  bool exact_ = true;
  std::map<Key, Count> counts_;
  IdVector<GroupId, std::map<RackId, int>> fixed_;  ///< P
  IdVector<NodeId, int> held_;                      ///< slots of immovable workers
  IdVector<ClassId, int> unit_;                     ///< slots a worker; 0: none, -1: mixed
  std::map<Pool, int> capacity_;
  Terms leaving_, excess_;
  IntegerProgram program_;
};

/// Solves; what looks infeasible or strange is asked again the plain way.
IntegerProgram::Solution solve(const IntegerProgram& program, const Budget& budget) {
  IntegerProgram::Solution first = program.solve(budget.left());
  if (!first.values.empty()) return first;
  if (budget.left() <= 0) {
    first.status = Status::kUnknown;
    return first;
  }
  return program.solve(budget.left(), /*plain=*/true);
}

int total(const Terms& terms, const std::vector<int>& values) {
  int sum = 0;
  for (const auto& [column, coefficient] : terms) {
    sum += static_cast<int>(coefficient) * values[static_cast<size_t>(column)];
  }
  return sum;
}

int rounded_up(double bound) { return std::max(0, static_cast<int>(std::ceil(bound - 1e-6))); }

/// Fewest moves, with the excess held at `most_excess` where it is a variable.
void fewest_moves(Formulation& formulation, std::optional<int> most_excess, const Budget& budget,
                  MilpAnswer& answer) {
  IntegerProgram& program = formulation.program();
  if (most_excess) program.add_row(-kFree, *most_excess, formulation.excess());
  program.set_objective(formulation.leaving());
  const IntegerProgram::Solution solution = solve(program, budget);
  if (solution.status == Status::kInfeasible) answer.status = PlanStatus::kInfeasible;
  if (solution.values.empty()) return;
  answer.moves = total(formulation.leaving(), solution.values);
  answer.lower_bound = std::min(answer.moves, rounded_up(solution.bound));
  const bool proved = solution.status == Status::kOptimal || *answer.lower_bound == answer.moves;
  if (proved) answer.lower_bound = answer.moves;
  answer.status = proved ? PlanStatus::kOptimal : PlanStatus::kFeasible;
  answer.changes = formulation.changes(solution.values);
  if (most_excess) answer.excess_after = total(formulation.excess(), solution.values);
}

MilpAnswer best_effort(const Snapshot& snapshot, const IdVector<RackId, int>& bounds,
                       const Budget& budget, MilpAnswer answer) {
  Formulation formulation(snapshot, bounds, /*with_excess=*/true);
  answer.exact = formulation.exact();
  formulation.program().set_objective(formulation.excess());
  const IntegerProgram::Solution least = solve(formulation.program(), budget);
  if (least.values.empty()) return answer;
  const int excess = total(formulation.excess(), least.values);
  const int bound = std::min(excess, rounded_up(least.bound));
  const bool proved = least.status == Status::kOptimal || bound == excess;
  fewest_moves(formulation, excess, budget, answer);
  if (answer.status == PlanStatus::kUnknown) {  // no time left: what was found on the way
    answer.changes = formulation.changes(least.values);
    answer.moves = total(formulation.leaving(), least.values);
    answer.lower_bound = 0;
    answer.excess_after = excess;
    answer.status = PlanStatus::kFeasible;
  }
  if (!proved) {
    answer.excess_lower_bound = bound;
    answer.status = PlanStatus::kFeasible;
  }
  return answer;
}

/// Racks whose bounds cannot hold together, none of which can be left out.
std::vector<RackId> conflict_of(const Snapshot& snapshot, IdVector<RackId, int> bounds,
                                const Budget& budget) {
  constexpr int kNoBound = 1'000'000'000;
  std::vector<RackId> out;
  for (RackId rack : snapshot.racks.keys()) {
    const int bound = std::exchange(bounds[rack], kNoBound);
    Formulation formulation(snapshot, bounds, false);
    if (solve(formulation.program(), budget).status == Status::kInfeasible) continue;
    bounds[rack] = bound;
    out.push_back(rack);
  }
  return out;
}

}  // namespace

IdVector<RackId, int> effective_bounds(const Snapshot& snapshot, const PlanOptions& options) {
  IdVector<RackId, int> out = bounds(snapshot);
  if (!options.mend) return out;
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  for (RackId rack : out.keys()) {
    const auto& mend = *options.mend;
    if (std::find(mend.begin(), mend.end(), rack) == mend.end()) {
      out[rack] = std::max(out[rack], degrees[rack]);
    }
  }
  return out;
}

MilpAnswer milp_answer(const Snapshot& snapshot, const PlanOptions& options, double time_limit_s) {
  const Budget budget(time_limit_s);
  const IdVector<RackId, int> limits = effective_bounds(snapshot, options);
  MilpAnswer answer;
  answer.excess_before = answer.excess_after = excess(fragmentation(snapshot), limits);
  if (answer.excess_before == 0) {
    answer.status = PlanStatus::kCompliant;
    answer.lower_bound = 0;
    return answer;
  }
  if (options.best_effort) return best_effort(snapshot, limits, budget, std::move(answer));
  Formulation formulation(snapshot, limits, /*with_excess=*/false);
  answer.exact = formulation.exact();
  fewest_moves(formulation, std::nullopt, budget, answer);
  if (answer.status == PlanStatus::kOptimal || answer.status == PlanStatus::kFeasible) {
    answer.excess_after = 0;
  }
  return answer;
}

Plan plan_milp(const Snapshot& snapshot, const PlanOptions& options, double time_limit_s) {
  const Budget budget(time_limit_s);
  const MilpAnswer answer = milp_answer(snapshot, options, time_limit_s);
  Plan plan;
  plan.status = answer.status;
  plan.limited = plan.status == PlanStatus::kFeasible || plan.status == PlanStatus::kUnknown;
  plan.best_effort = options.best_effort;
  plan.bounds = effective_bounds(snapshot, options);
  plan.before = plan.after = fragmentation(snapshot);
  plan.excess_before = plan.excess_after = answer.excess_before;
  plan.excess_lower_bound = answer.excess_lower_bound;
  plan.lower_bound = answer.lower_bound;
  if (plan.status == PlanStatus::kInfeasible) {
    plan.conflict = conflict_of(snapshot, plan.bounds, budget);
  }
  if (answer.changes.empty()) return plan;
  std::optional<std::vector<Round>> rounds = order_moves(snapshot, answer.changes);
  if (!rounds) {  // mixed slots that no node can take
    plan.status = PlanStatus::kUnknown;
    plan.limited = false;
    plan.lower_bound = std::nullopt;
    plan.excess_lower_bound = std::nullopt;
    return plan;
  }
  plan.moves = answer.moves;
  plan.rounds = std::move(*rounds);
  plan.after = fragmentation(apply_rounds(snapshot, plan.rounds));
  plan.excess_after = excess(plan.after, plan.bounds);
  return plan;
}

}  // namespace monkeytree
