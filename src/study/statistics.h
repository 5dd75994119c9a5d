#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "base/statistics.h"

/// What several seeds say together. Mean and quantile are those of base/statistics.h.
namespace monkeytree {

/// A mean over seeds and the range that holds the true one with 95 % confidence, by Student's t:
/// mean ± t(0.975, n − 1) · s ÷ √n. With one value the range is unknown (NaN), with none all is.
struct Estimate {
  size_t count = 0;
  double mean = 0;
  double low = 0;
  double high = 0;

  double half_width() const { return high - mean; }
  /// "1.58 ± 0.03"; "1.58" where the range is unknown, "–" where all is.
  std::string text(int decimals) const;
};

Estimate estimate(std::span<const double> values);

/// The mean difference a − b of values taken pairwise with the same seeds, which is far narrower
/// than the two ranges apart suggest: where `high` is below 0, a is below b. What stands beyond the
/// shorter list is left out.
Estimate paired_difference(std::span<const double> a, std::span<const double> b);

/// The values of one run, such as the slowdown of each job.
struct Distribution {
  size_t count = 0;
  double mean = 0;
  double deviation = 0;  ///< of the sample, n − 1 below the root; NaN with fewer than two
  double min = 0;
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
  double max = 0;
};

/// NaN throughout where there is nothing. O(n log n).
Distribution distribution_of(std::span<const double> values);

/// The sample's standard deviation; NaN with fewer than two values.
double deviation_of(std::span<const double> values);

/// The t with P(T ≤ t) = p for `freedom` ≥ 1 degrees of freedom and 0 < p < 1. Exact to 1e-9;
/// beyond kExactFreedom that of kExactFreedom, which is right to 1e-3. O(freedom).
double student_t(double p, int freedom);
inline constexpr int kExactFreedom = 2000;

}  // namespace monkeytree
