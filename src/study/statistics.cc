#include "study/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace monkeytree {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

/// P(|T| ≤ t): the finite series for whole degrees of freedom (Abramowitz and Stegun 26.7.3 and
/// 26.7.4), with θ = arctan(t ÷ √freedom).
double within(double t, int freedom) {
  const double theta = std::atan(t / std::sqrt(freedom));
  const double cosine = std::cos(theta);
  const double sine = std::sin(theta);
  const bool odd = freedom % 2 == 1;
  double term = odd ? cosine : 1;
  double sum = 0;
  for (int k = odd ? 1 : 0; k <= freedom - 2; k += 2) {
    sum += term;
    term *= cosine * cosine * (k + 1) / (k + 2);
  }
  return odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
}

}  // namespace

double student_t(double p, int freedom) {
  if (!(p > 0 && p < 1) || freedom < 1) return kUnknown;
  if (p < 0.5) return -student_t(1 - p, freedom);
  freedom = std::min(freedom, kExactFreedom);
  const double wanted = 2 * p - 1;
  double high = 1;
  while (within(high, freedom) < wanted && high < 1e300) high *= 2;
  double low = 0;
  for (int step = 0; step < 200 && low < high; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (within(middle, freedom) < wanted ? low : high) = middle;
  }
  return high;
}

double deviation_of(std::span<const double> values) {
  if (values.size() < 2) return kUnknown;
  const double mean = mean_of(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / static_cast<double>(values.size() - 1));
}

Estimate estimate(std::span<const double> values) {
  Estimate result{values.size(), mean_of(values), kUnknown, kUnknown};
  if (values.size() < 2) return result;
  const double n = static_cast<double>(values.size());
  const double half =
      student_t(0.975, static_cast<int>(std::min(values.size() - 1, size_t{1} << 20))) *
      deviation_of(values) / std::sqrt(n);
  result.low = result.mean - half;
  result.high = result.mean + half;
  return result;
}

Estimate paired_difference(std::span<const double> a, std::span<const double> b) {
  std::vector<double> differences(std::min(a.size(), b.size()));
  for (size_t i = 0; i < differences.size(); ++i) differences[i] = a[i] - b[i];
  return estimate(differences);
}

Distribution distribution_of(std::span<const double> values) {
  std::vector<double> sorted(values.begin(), values.end());
  std::sort(sorted.begin(), sorted.end());
  return {.count = sorted.size(),
          .mean = mean_of(values),
          .deviation = deviation_of(values),
          .min = quantile_of_sorted(sorted, 0),
          .p50 = quantile_of_sorted(sorted, 0.5),
          .p90 = quantile_of_sorted(sorted, 0.9),
          .p99 = quantile_of_sorted(sorted, 0.99),
          .max = quantile_of_sorted(sorted, 1)};
}

std::string Estimate::text(int decimals) const {
  if (std::isnan(mean)) return "–";
  if (std::isnan(low)) return fmt::format("{:.{}f}", mean, decimals);
  return fmt::format("{:.{}f} ± {:.{}f}", mean, decimals, half_width(), decimals);
}

}  // namespace monkeytree
