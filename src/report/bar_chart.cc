#include <fmt/format.h>

#include <algorithm>

#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

class BarDrawing {
 public:
  explicit BarDrawing(const BarChart& chart) : chart_(chart) {}

  Figure draw() {
    Figure figure{
        .title = chart_.title,
        .caption = chart_.caption,
        .summary = fmt::format("Bar chart, {}, {}.", count_text(chart_.categories.size(), "group"),
                               count_text(chart_.series.size(), "bar") + " each"),
        .width = kChartWidth};
    const Range range = values();
    const double top = draw_legend(canvas_, legend());
    Scale y(axis(range), range, 0, 0, 6, Ends::kRounded);
    const Plot plot = draw_y_axis(canvas_, y, top, 260);
    if (range.empty()) draw_nothing(canvas_, plot);
    const double base = floor(y);
    for (size_t c = 0; c < chart_.categories.size(); ++c) draw_group(c, y, base, plot);
    canvas_.line(plot.left, y.at(base), plot.right, y.at(base), "base");
    figure.height = plot.bottom + draw_names(canvas_, chart_.categories, plot);
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  /// A bar's length is its value, so the axis starts at 0; a logarithmic one has no 0.
  Axis axis(const Range& range) const {
    Axis axis = chart_.y;
    if (axis.kind != AxisKind::kLog && !range.empty()) {
      axis.low = std::min(axis.low.value_or(0), 0.0);
      axis.high = std::max(axis.high.value_or(0), 0.0);
    }
    return axis;
  }

  static double floor(const Scale& y) { return std::clamp(0.0, y.low(), y.high()); }

  const Bar* bar(size_t series, size_t category) const {
    const std::vector<Bar>& bars = chart_.series[series].bars;
    if (category >= bars.size() || !Scale::has_place(chart_.y.kind, bars[category].value)) {
      return nullptr;
    }
    return &bars[category];
  }

  bool has_error(const Bar& bar) const {
    return Scale::has_place(chart_.y.kind, bar.low) && Scale::has_place(chart_.y.kind, bar.high) &&
           bar.low < bar.high;
  }

  template <class Each>
  void for_each_bar(Each each) const {
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      for (size_t c = 0; c < chart_.categories.size(); ++c) {
        if (const Bar* found = bar(s, c)) each(*found);
      }
    }
  }

  Range values() const {
    Range range;
    for_each_bar([&](const Bar& bar) {
      range.add(bar.value);
      if (!has_error(bar)) return;
      range.add(bar.low);
      range.add(bar.high);
    });
    return range;
  }

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries;
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      const BarSeries& series = chart_.series[s];
      entries.push_back({LegendEntry::kBar, series.name, style_of(series.style, s)});
    }
    bool errors = false;
    for_each_bar([&](const Bar& bar) { errors = errors || has_error(bar); });
    if (errors) entries.push_back({LegendEntry::kErrorBar, chart_.band});
    return entries;
  }

  void draw_group(size_t category, const Scale& y, double base, const Plot& plot) {
    constexpr double kWidest = 64;
    constexpr double kRoomForValue = 30;
    const double count = static_cast<double>(std::max<size_t>(1, chart_.series.size()));
    const double room = (plot.right - plot.left) /
                        static_cast<double>(std::max<size_t>(1, chart_.categories.size()));
    const double width = std::min(kWidest, room * 0.8 / count);
    double x = plot.left + room * (static_cast<double>(category) + 0.5) - width * count / 2;
    for (size_t s = 0; s < chart_.series.size(); ++s, x += width) {
      const Bar* found = bar(s, category);
      if (found == nullptr) continue;
      const double from = std::min(y.at(base), y.at(found->value));
      const double to = std::max(y.at(base), y.at(found->value));
      const double gap = std::min(1.5, width / 6);
      draw_bar(canvas_, x + gap, from, std::max(0.3, width - 2 * gap), to - from,
               style_of(chart_.series[s].style, s), tip(s, category, *found));
      double above = from;
      if (has_error(*found)) {
        draw_error_bar(canvas_, x + width / 2, y.at(found->low), y.at(found->high),
                       std::min(5.0, width / 4));
        above = std::min(above, y.at(found->high));
      }
      const std::string value = short_text(found->value, 3);
      if (width >= kRoomForValue && text_width(value, kTextSize) <= width + 4) {
        canvas_.text(x + width / 2, std::max(above - 5, plot.top - 2), value, "value",
                     Anchor::kMiddle);
      }
    }
  }

  std::string tip(size_t series, size_t category, const Bar& bar) const {
    std::string tip = chart_.categories[category];
    if (!chart_.series[series].name.empty()) tip += ", " + chart_.series[series].name;
    tip += ": " + chart_.y.value_text(bar.value);
    if (has_error(bar)) tip += fmt::format(" ({} – {})", short_text(bar.low), short_text(bar.high));
    return tip;
  }

  DataTable numbers() const {
    DataTable table{.columns = {{""}}};
    std::vector<bool> errors(chart_.series.size());
    for (size_t s = 0; s < chart_.series.size(); ++s) {
      for (size_t c = 0; c < chart_.categories.size(); ++c) {
        if (const Bar* found = bar(s, c)) errors[s] = errors[s] || has_error(*found);
      }
      const std::string& own = chart_.series[s].name;
      const std::string name = own.empty() ? chart_.y.label : own;
      table.columns.push_back({name, chart_.y.unit});
      if (!errors[s]) continue;
      table.columns.push_back({name + " low", chart_.y.unit, 1});
      table.columns.push_back({name + " high", chart_.y.unit, 1});
    }
    for (size_t c = 0; c < chart_.categories.size(); ++c) {
      std::vector<DataCell> row = {chart_.categories[c]};
      for (size_t s = 0; s < chart_.series.size(); ++s) {
        const std::vector<Bar>& bars = chart_.series[s].bars;
        const Bar shown = c < bars.size() ? bars[c] : Bar{};
        row.emplace_back(shown.value, decimals_for(shown.value));
        if (!errors[s]) continue;
        row.emplace_back(shown.low, decimals_for(shown.value));
        row.emplace_back(shown.high, decimals_for(shown.value));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const BarChart& chart_;
  Canvas canvas_;
};

}  // namespace

Figure draw(const BarChart& chart) { return BarDrawing(chart).draw(); }

}  // namespace monkeytree
