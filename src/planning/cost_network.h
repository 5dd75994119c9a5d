#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace monkeytree {

/// A cost that no choice can pay.
inline constexpr int kNever = std::numeric_limits<int>::max() / 4;

/// What a few variables cost together: one cell for each combination of their values, the first
/// variable of the scope running fastest.
struct CostTable {
  std::vector<int> scope;  ///< variables, each once
  std::vector<int> cost;   ///< ≥ 0; kNever forbids a combination
};

/// Variables with few values each and tables over few variables each; to be minimised is the sum of
/// the tables.
struct CostNetwork {
  std::vector<int> domain;  ///< number of values of each variable, at least 1
  std::vector<CostTable> tables;
};

struct CostMinimum {
  int lower_bound = 0;     ///< no assignment costs less; kNever: none is possible
  int cost = 0;            ///< of `value`; kNever: none found
  std::vector<int> value;  ///< of each variable; anything where cost is kNever
  int largest = 0;         ///< variables of the largest component after reduction
  int64_t work = 0;        ///< table cells touched
  std::vector<int> stuck;  ///< variables of components where nothing is possible, ascending
};

/// The least sum, exactly where the work suffices, by three steps: (1) a value is struck out when
/// another of the same variable is no worse whatever the neighbours do; (2) each connected
/// component is solved by eliminating one variable after another, each replaced by the table of its
/// best replies (cost exponential only in the width of the component, which is small after step 1);
/// (3) where a table would outgrow its share of the work, the bucket is split, which makes the
/// tables a lower bound, and a depth-first search guided by them closes the gap. A component that
/// uses up its work keeps its bound and the best assignment found. Deterministic.
CostMinimum minimise(const CostNetwork& network, int64_t work_limit);

}  // namespace monkeytree
