#include "report/scale.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

#include "report/text.h"

namespace monkeytree {
namespace {

constexpr double kLargest = 1e200;  // so that no sum or product of two overflows
constexpr double kRelative = 1e-9;  // slack where a tick should meet an end

struct Step {
  int digit = 1;  ///< 1, 2 or 5
  int exponent = 0;
  double value() const { return digit * std::pow(10.0, exponent); }
};

Step step_for(double span, int wanted) {
  const double least = span / std::max(wanted, 1);
  Step step{1, static_cast<int>(std::floor(std::log10(least)))};
  for (const int digit : {1, 2, 5, 10}) {
    step.digit = digit;
    if (step.value() >= least * (1 - kRelative)) break;
  }
  if (step.digit == 10) step = {1, step.exponent + 1};
  return step;
}

/// i · step without the error of a product of 0.1.
double multiple(const Step& step, double i) {
  return step.exponent < 0 ? i * step.digit / std::pow(10.0, -step.exponent) : i * step.value();
}

std::string date_label(int64_t second, int64_t step) {
  using std::chrono::days;
  constexpr int64_t kDay = 86400;
  static constexpr const char* kMonths[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                            "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const int64_t day = second >= 0 ? second / kDay : -((-second + kDay - 1) / kDay);
  const int64_t within = second - day * kDay;
  if (step < kDay && within != 0) {
    return within % 60 == 0
               ? fmt::format("{:02}:{:02}", within / 3600, within / 60 % 60)
               : fmt::format("{:02}:{:02}:{:02}", within / 3600, within / 60 % 60, within % 60);
  }
  const std::chrono::year_month_day date{std::chrono::sys_days(days(day))};
  const std::string label = fmt::format("{} {}", static_cast<unsigned>(date.day()),
                                        kMonths[(static_cast<unsigned>(date.month()) - 1) % 12]);
  return step < 91 * kDay ? label : fmt::format("{} {}", label, static_cast<int>(date.year()));
}

}  // namespace

std::string Axis::title(const std::string& factor) const {
  const std::string inside = factor.empty() ? unit : unit.empty() ? factor : factor + " " + unit;
  return inside.empty() ? label : label.empty() ? inside : fmt::format("{} ({})", label, inside);
}

std::string Axis::value_text(double value) const {
  if (kind == AxisKind::kTime && std::isfinite(value) && std::abs(value) < 1e12) {
    const auto second = static_cast<int64_t>(std::floor(value));
    const int64_t day = second - (second % 86400 + 86400) % 86400;
    const std::string date = date_label(day, 86400);
    return second == day ? date + " 00:00" : date + " " + date_label(second, 1);
  }
  return unit.empty() ? short_text(value) : short_text(value) + " " + unit;
}

void Range::add(double value) {
  if (!std::isfinite(value) || std::abs(value) > kLargest) return;
  const bool first = empty();
  low = first ? value : std::min(low, value);
  high = first ? value : std::max(high, value);
}

double tick_step(double span, int wanted) { return step_for(span, wanted).value(); }

bool Scale::has_place(AxisKind kind, double value) {
  if (!std::isfinite(value) || std::abs(value) > kLargest) return false;
  return kind != AxisKind::kLog || value > 1.0 / kLargest;
}

Scale::Scale(const Axis& axis, Range data, double from, double to, int wanted, Ends ends)
    : kind_(axis.kind), from_(from), to_(to) {
  for (const std::optional<double>& end : {axis.low, axis.high}) {
    if (end && has_place(*end)) data.add(*end);
  }
  if (data.empty()) data = kind_ == AxisKind::kLog ? Range{1, 10} : Range{0, 1};
  low_ = data.low;
  high_ = data.high;
  if (kind_ == AxisKind::kLog) {
    if (high_ < low_ * 1.01) {
      low_ /= 2;
      high_ *= 2;
    }
    log_ticks(wanted, ends);
  } else {
    const double size = std::max(std::abs(low_), std::abs(high_));
    const bool dates = kind_ == AxisKind::kTime && size < 1e12;
    if (high_ - low_ <= size * 1e-9) {
      const double around = dates ? 1800 : size > 0 ? size * 0.1 : 0.5;
      low_ -= around;
      high_ += around;
    }
    if (dates) {
      time_ticks(wanted);
    } else {
      linear_ticks(wanted, ends);
    }
  }
  axis_title_ = axis.title(factor_);
}

void Scale::linear_ticks(int wanted, Ends ends) {
  const Step step = step_for(high_ - low_, wanted);
  double first = low_ / step.value();
  double last = high_ / step.value();
  first = ends == Ends::kRounded ? std::floor(first + kRelative) : std::ceil(first - kRelative);
  last = ends == Ends::kRounded ? std::ceil(last - kRelative) : std::floor(last + kRelative);
  if (ends == Ends::kRounded) {
    low_ = std::min(low_, multiple(step, first));
    high_ = std::max(high_, multiple(step, last));
  }
  const double size = std::max(std::abs(low_), std::abs(high_));
  int power = 0;
  if (size >= 1e6 || size < 1e-3) {
    power = static_cast<int>(std::floor((std::log10(size) + kRelative) / 3)) * 3;
  }
  if (power != 0) factor_ = power_of_ten(power);
  const Step shown{step.digit, step.exponent - power};
  const int count = static_cast<int>(last - first) + 1;
  for (int k = 0; k < count; ++k) {
    const double i = first + k;
    ticks_.push_back({multiple(step, i), grouped_text(multiple(shown, i), -shown.exponent)});
  }
}

void Scale::log_ticks(int wanted, Ends ends) {
  const double decades = std::log10(high_ / low_);
  if (decades < 0.7) {  // within a decade: as on a linear axis, only placed otherwise
    linear_ticks(wanted, Ends::kExact);
    return;
  }
  const int first = static_cast<int>(std::floor(std::log10(low_) + kRelative));
  const int last = static_cast<int>(std::ceil(std::log10(high_) - kRelative));
  const bool fine = decades < 2.5;
  const bool plain = first >= -3 && last <= 5;
  std::vector<double> digits = {1};
  if (fine) digits = {1, 2, 5};
  if (decades < 1.3 && wanted > 5) digits = {1, 1.5, 2, 3, 4, 5, 7};
  const int every = fine ? 1 : std::max(1, (last - first + wanted - 1) / std::max(wanted, 1));
  std::vector<Tick> all;
  for (int e = first; e <= last + every - 1; e += every) {
    for (const double digit : digits) {
      const double value = digit * std::pow(10.0, std::min(e, 300));
      const std::string label = plain ? grouped_text(value, std::max(0, (digit == 1.5 ? 1 : 0) - e))
                                : digit == 1 ? power_of_ten(e)
                                             : fmt::format("{}×{}", digit, power_of_ten(e));
      all.push_back({value, label});
    }
  }
  if (ends == Ends::kRounded) {
    double below = low_;
    for (const Tick& tick : all) {
      if (tick.value <= low_ * (1 + kRelative)) below = std::min(low_, tick.value);
    }
    double above = high_;
    for (auto tick = all.rbegin(); tick != all.rend(); ++tick) {
      if (tick->value >= high_ * (1 - kRelative)) above = std::max(high_, tick->value);
    }
    low_ = below;
    high_ = above;
  }
  for (Tick& tick : all) {
    if (tick.value >= low_ * (1 - kRelative) && tick.value <= high_ * (1 + kRelative)) {
      ticks_.push_back(std::move(tick));
    }
  }
}

void Scale::time_ticks(int wanted) {
  constexpr int64_t kDay = 86400;
  static constexpr int64_t kSteps[] = {
      1,     5,     15,   60,       300,      900,       1800,      3600,      10800,
      21600, 43200, kDay, 2 * kDay, 7 * kDay, 14 * kDay, 28 * kDay, 91 * kDay, 364 * kDay};
  const double least = (high_ - low_) / std::max(wanted, 1);
  int64_t step = 3640 * kDay;
  for (const int64_t candidate : kSteps) {
    if (static_cast<double>(candidate) >= least) {
      step = candidate;
      break;
    }
  }
  while (static_cast<double>(step) < least) step *= 10;
  const double width = static_cast<double>(step);
  const auto first = static_cast<int64_t>(std::ceil(low_ / width));
  const auto last = static_cast<int64_t>(std::floor(high_ / width));
  for (int64_t i = first; i <= last; ++i) {
    ticks_.push_back({static_cast<double>(i) * width, date_label(i * step, step)});
  }
}

double Scale::position(double value) const {
  return kind_ == AxisKind::kLog ? std::log(value) : value;
}

double Scale::at(double value) const {
  const double low = position(low_);
  return from_ + (to_ - from_) * (position(value) - low) / (position(high_) - low);
}

double Scale::widest_label(double size) const {
  double widest = 0;
  for (const Tick& tick : ticks_) widest = std::max(widest, text_width(tick.label, size));
  return widest;
}

Scale fitting_scale(const Axis& axis, Range data, double from, double to, Ends ends, double size) {
  constexpr double kGap = 14;
  for (int wanted = 10; wanted > 2; --wanted) {
    Scale scale(axis, data, from, to, wanted, ends);
    bool fits = true;
    const std::vector<Tick>& ticks = scale.ticks();
    for (size_t i = 1; i < ticks.size(); ++i) {
      const double room = std::abs(scale.at(ticks[i].value) - scale.at(ticks[i - 1].value));
      const double need =
          (text_width(ticks[i].label, size) + text_width(ticks[i - 1].label, size)) / 2 + kGap;
      fits = fits && room >= need;
    }
    if (fits) return scale;
  }
  return Scale(axis, data, from, to, 2, ends);
}

}  // namespace monkeytree
