#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/statistics.h"
#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

constexpr double kRowHeight = 34;

class QuantileDrawing {
 public:
  explicit QuantileDrawing(const QuantileChart& chart) : chart_(chart) {}

  Figure draw() {
    Figure figure{.title = chart_.title,
                  .caption = chart_.caption,
                  .summary = summary_text("Quantile chart", chart_.strips.size(), "distributions"),
                  .width = kChartWidth};
    const double top = draw_key();
    Plot plot;
    plot.left = name_width() + 14;
    plot.right = kChartWidth - kRightMargin;
    plot.top = top;
    plot.bottom = top + kRowHeight * static_cast<double>(std::max<size_t>(2, chart_.strips.size()));
    const Scale x = x_scale_within(plot, chart_.x, values());
    figure.height = plot.bottom + draw_x_axis(canvas_, x, plot, true);
    if (values().empty()) draw_nothing(canvas_, plot);
    for (size_t i = 0; i < chart_.strips.size(); ++i) {
      draw_strip(chart_.strips[i], x, plot, top + kRowHeight * (static_cast<double>(i) + 0.5));
    }
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  static constexpr double kWidestName = 190;

  static std::vector<double> all_of(const Strip& s) {
    return {s.p5, s.p25, s.p50, s.p75, s.p95, s.p99, s.max, s.mean};
  }

  Range values() const {
    Range range;
    for (const Strip& strip : chart_.strips) {
      for (const double value : all_of(strip)) {
        if (Scale::has_place(chart_.x.kind, value)) range.add(value);
      }
    }
    return range;
  }

  double name_width() const {
    double widest = 20;
    for (const Strip& strip : chart_.strips) {
      widest = std::max(widest, text_width(shorten(strip.name, kWidestName, kTextSize), kTextSize));
    }
    return std::ceil(widest);
  }

  double draw_key() {
    canvas_.line(0, 14, 44, 14, "whisker");
    canvas_.rect(12, 8, 20, 12, "box");
    canvas_.line(22, 8, 22, 20, "median");
    canvas_.text(50, 18, "p5, p25, median, p75, p95", "");
    double x = 50 + text_width("p5, p25, median, p75, p95", kTextSize) + 24;
    canvas_.marker(3, x, 14, "c1");
    canvas_.text(x + 10, 18, "mean", "");
    x += 10 + text_width("mean", kTextSize) + 24;
    canvas_.marker(0, x, 14, "c0");
    canvas_.text(x + 10, 18, "p99", "");
    x += 10 + text_width("p99", kTextSize) + 24;
    canvas_.marker(6, x, 14, "c0");
    canvas_.text(x + 10, 18, "greatest", "");
    return 36;
  }

  void draw_strip(const Strip& strip, const Scale& x, const Plot& plot, double y) {
    canvas_.text(plot.left - 10, y + 4, shorten(strip.name, kWidestName, kTextSize), "tick",
                 Anchor::kEnd);
    const auto between = [&](double low, double high, auto drawn) {
      if (x.has_place(low) && x.has_place(high)) drawn(x.at(low), x.at(high));
    };
    const std::string tip = fmt::format(
        "{}: p5 {}, p25 {}, median {}, p75 {}, p95 {}", strip.name, short_text(strip.p5),
        short_text(strip.p25), short_text(strip.p50), short_text(strip.p75), short_text(strip.p95));
    between(strip.p5, strip.p95, [&](double a, double b) { canvas_.line(a, y, b, y, "whisker"); });
    between(strip.p25, strip.p75, [&](double a, double b) {
      canvas_.rect(a, y - 8, std::max(1.0, b - a), 16, "box", tip);
    });
    between(strip.p50, strip.p50,
            [&](double a, double) { canvas_.line(a, y - 8, a, y + 8, "median"); });
    const auto point = [&](double value, int shape, std::string_view color, std::string_view what) {
      if (!x.has_place(value)) return;
      canvas_.marker(shape, x.at(value), y, color,
                     fmt::format("{}: {} {}", strip.name, what, chart_.x.value_text(value)));
    };
    point(strip.p99, 0, "c0", "p99");
    point(strip.max, 6, "c0", "greatest");
    point(strip.mean, 3, "c1", "mean");
  }

  DataTable numbers() const {
    DataTable table{.columns = {{""}}};
    for (const char* name : {"p5", "p25", "median", "p75", "p95", "p99", "greatest", "mean"}) {
      table.columns.push_back({name, chart_.x.unit});
    }
    for (const Strip& strip : chart_.strips) {
      std::vector<DataCell> row = {strip.name};
      for (const double value : all_of(strip)) row.emplace_back(value, decimals_for(value));
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const QuantileChart& chart_;
  Canvas canvas_;
};

}  // namespace

Strip strip_of(std::string name, std::vector<double> values) {
  std::erase_if(values, [](double value) { return !std::isfinite(value); });
  std::sort(values.begin(), values.end());
  const auto q = [&](double share) { return quantile_of_sorted(values, share); };
  return {std::move(name), q(0.05), q(0.25), q(0.5),         q(0.75),
          q(0.95),         q(0.99), q(1),    mean_of(values)};
}

Figure draw(const QuantileChart& chart) { return QuantileDrawing(chart).draw(); }

}  // namespace monkeytree
