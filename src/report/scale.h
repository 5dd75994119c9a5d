#pragma once

#include <optional>
#include <string>
#include <vector>

/// From values to places on an axis.
namespace monkeytree {

enum class AxisKind {
  kLinear,
  kLog,   ///< only values above 0 have a place
  kTime,  ///< values are seconds since 1970-01-01 00:00; ticks at full minutes, hours, days
};

/// What an axis says.
struct Axis {
  std::string label = {};
  std::string unit = {};  ///< stands behind the label in brackets
  AxisKind kind = AxisKind::kLinear;
  /// Values that the axis must reach, whatever the data.
  std::optional<double> low = {};
  std::optional<double> high = {};

  /// "Time (h)", or with a factor "Bytes (10⁹ B)".
  std::string title(const std::string& factor = {}) const;
  /// "1.042 h"
  std::string value_text(double value) const;
};

/// Least and greatest of what has a place on an axis.
struct Range {
  double low = 0;
  double high = -1;

  bool empty() const { return low > high; }
  void add(double value);
};

struct Tick {
  double value = 0;
  std::string label;
};

enum class Ends {
  kExact,    ///< the axis ends where the data do
  kRounded,  ///< at the next tick
};

/// Values mapped linearly, or by their logarithm, from [low, high] to [from, to] in pixels.
class Scale {
 public:
  /// About `wanted` ticks at 1, 2 or 5 times a power of ten. An empty range becomes 0 to 1 (log:
  /// 1 to 10), one value a range around it.
  Scale(const Axis& axis, Range data, double from, double to, int wanted, Ends ends);

  bool has_place(double value) const { return has_place(kind_, value); }
  static bool has_place(AxisKind kind, double value);
  double at(double value) const;
  double low() const { return low_; }
  double high() const { return high_; }
  const std::vector<Tick>& ticks() const { return ticks_; }
  double widest_label(double size) const;
  std::string title() const { return axis_title_; }

  /// The same values between other pixels.
  void place(double from, double to) {
    from_ = from;
    to_ = to;
  }

 private:
  void linear_ticks(int wanted, Ends ends);
  void log_ticks(int wanted, Ends ends);
  void time_ticks(int wanted);
  double position(double value) const;

  AxisKind kind_;
  double low_ = 0, high_ = 1;
  double from_, to_;
  std::vector<Tick> ticks_;
  std::string factor_;
  std::string axis_title_;
};

/// A horizontal scale with as many ticks as fit without touching, at most ten.
Scale fitting_scale(const Axis& axis, Range data, double from, double to, Ends ends, double size);

/// The smallest of 1, 2 or 5 times a power of ten that is at least `span` ÷ `wanted`. `span` > 0.
double tick_step(double span, int wanted);

}  // namespace monkeytree
