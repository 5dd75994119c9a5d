#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

/// The one definition of mean and quantile in this tree: what a summary, a study and a page call
/// p99 is the same number.
namespace monkeytree {

/// Arithmetic mean, summed in the order given; NaN where there is nothing.
inline double mean_of(std::span<const double> values) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

/// The quantile `q` in [0, 1] of ascending values: linear between the two order statistics around
/// position q·(n − 1), counted from 0 (Hyndman and Fan's type 7; numpy's and R's default). NaN
/// where there is nothing. O(1).
inline double quantile_of_sorted(std::span<const double> ascending, double q) {
  if (ascending.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double position = std::clamp(q, 0.0, 1.0) * static_cast<double>(ascending.size() - 1);
  const size_t below = static_cast<size_t>(position);
  const size_t above = std::min(below + 1, ascending.size() - 1);
  const double share = position - static_cast<double>(below);
  return ascending[below] + share * (ascending[above] - ascending[below]);
}

/// quantile_of_sorted() of values in any order. O(n log n).
inline double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, q);
}

}  // namespace monkeytree
