#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace monkeytree {

/// A small front to CBC: columns and rows in, the best integer solution out.
class IntegerProgram {
 public:
  enum class Status { kOptimal, kFeasible, kInfeasible, kUnknown };
  using Terms = std::vector<std::pair<int, double>>;  ///< (column, coefficient)

  struct Solution {
    Status status = Status::kUnknown;
    std::vector<int> values;  ///< of the columns, rounded; empty without a solution
    double bound = 0;         ///< no solution is below
  };

  /// An integer column in [low, high]; its number.
  int add_column(int low, int high);
  std::pair<int, int> column(int number) const { return columns_[static_cast<size_t>(number)]; }
  /// low ≤ Σ terms ≤ high. Use kFree for an open end.
  void add_row(double low, double high, Terms terms);
  void set_objective(Terms terms) { objective_ = std::move(terms); }
  static constexpr double kFree = 1e30;

  /// Minimises. CPU seconds. `plain` leaves out preprocessing and all cuts.
  Solution solve(double seconds, bool plain = false) const;
  /// True where the values satisfy every row and column, in integers.
  bool satisfied(const std::vector<int>& values) const;

 private:
  struct Row {
    double low, high;
    Terms terms;
  };
  std::vector<std::pair<int, int>> columns_;
  std::vector<Row> rows_;
  Terms objective_;
};

}  // namespace monkeytree
