#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/statistics.h"
#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

class DistributionDrawing {
 public:
  explicit DistributionDrawing(const DistributionChart& chart) : chart_(chart) {
    for (const DistributionSeries& series : chart.series) {
      std::vector<double> values = series.values;
      std::erase_if(values, [&](double value) { return !Scale::has_place(chart.x.kind, value); });
      std::sort(values.begin(), values.end());
      for (const double value : values) range_.add(value);
      sorted_.push_back(std::move(values));
    }
  }

  Figure draw() {
    Figure figure{
        .title = chart_.title,
        .caption = chart_.caption,
        .summary = summary_text("Cumulative distribution", chart_.series.size(), "series"),
        .width = kChartWidth};
    std::vector<LegendEntry> entries;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const DistributionSeries& series = chart_.series[i];
      entries.push_back(
          {LegendEntry::kStep, series.name, style_of(series.style, i), series.strong});
    }
    const double top = draw_legend(canvas_, entries);
    Scale y({.label = "Share at or below", .unit = "%"}, Range{0, 100}, 0, 0, 5, Ends::kRounded);
    const Plot plot = draw_y_axis(canvas_, y, top, 260);
    const Scale x = x_scale_within(plot, chart_.x, range_);
    figure.height = plot.bottom + draw_x_axis(canvas_, x, plot, true);
    if (range_.empty()) draw_nothing(canvas_, plot);
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_series(i, x, y);
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  /// Steps up at each value; values closer than half a pixel are one step.
  void draw_series(size_t index, const Scale& x, const Scale& y) {
    const std::vector<double>& values = sorted_[index];
    if (values.empty()) return;
    const DistributionSeries& series = chart_.series[index];
    const int style = style_of(series.style, index);
    const auto share = [&](size_t count) {
      return y.at(100 * static_cast<double>(count) / static_cast<double>(values.size()));
    };
    Path path;
    path.move(x.at(values[0]), share(0));
    double before = share(0);
    for (size_t i = 0; i < values.size();) {
      const double at = x.at(values[i]);
      size_t end = i + 1;
      while (end < values.size() && x.at(values[end]) - at < 0.5) ++end;
      path.line(at, before);
      before = share(end);
      path.line(at, before);
      i = end;
    }
    canvas_.path(path, line_look(style, series.strong), series.name);
  }

  DataTable numbers() const {
    constexpr double kShares[] = {0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1};
    DataTable table{.columns = {{""}, {"values"}}};
    for (const char* name : {"p1", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "greatest"}) {
      table.columns.push_back({name, chart_.x.unit});
    }
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      std::vector<DataCell> row = {chart_.series[i].name, sorted_[i].size()};
      for (const double share : kShares) {
        const double value = quantile_of_sorted(sorted_[i], share);
        row.emplace_back(value, decimals_for(value));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const DistributionChart& chart_;
  std::vector<std::vector<double>> sorted_;
  Range range_;
  Canvas canvas_;
};

}  // namespace

Figure draw(const DistributionChart& chart) { return DistributionDrawing(chart).draw(); }

}  // namespace monkeytree
