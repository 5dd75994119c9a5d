#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

constexpr int kShades = 9;

class HeatDrawing {
 public:
  explicit HeatDrawing(const HeatMap& map) : map_(map) {
    for (size_t r = 0; r < map.rows.size(); ++r) {
      for (size_t c = 0; c < map.columns.size(); ++c) {
        if (Scale::has_place(map.value.kind, value(r, c))) range_.add(value(r, c));
      }
    }
  }

  Figure draw() {
    Figure figure{.title = map_.title,
                  .caption = map_.caption,
                  .summary = fmt::format("Heat map, {} by {}.", count_text(map_.rows.size(), "row"),
                                         count_text(map_.columns.size(), "column")),
                  .width = kChartWidth};
    const Plot plot = place();
    draw_key();
    canvas_.text(0, plot.top - 8, map_.y.title(), "axis");
    if (map_.rows.empty() || map_.columns.empty()) draw_nothing(canvas_, plot);
    for (size_t r = 0; r < map_.rows.size(); ++r) draw_row(r, plot);
    double below = draw_names(canvas_, map_.columns, plot);
    if (!map_.x.title().empty()) {
      below += 16;
      canvas_.text((plot.left + plot.right) / 2, plot.bottom + below - 2, map_.x.title(), "axis",
                   Anchor::kMiddle);
      below += 6;
    }
    figure.height = plot.bottom + below;
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  static constexpr double kWidestName = 180;

  double value(size_t row, size_t column) const {
    if (row >= map_.values.size() || column >= map_.values[row].size()) return kNoValue;
    return map_.values[row][column];
  }

  Plot place() const {
    constexpr double kWidestCell = 96;
    double names = 30;
    for (const std::string& name : map_.rows) {
      names = std::max(names, text_width(shorten(name, kWidestName, kTextSize), kTextSize));
    }
    Plot plot;
    plot.left = std::ceil(names) + 12;
    const double columns = static_cast<double>(std::max<size_t>(1, map_.columns.size()));
    plot.right =
        plot.left + std::min(kWidestCell * columns, kChartWidth - kRightMargin - plot.left);
    plot.top = map_.y.title().empty() ? 44 : 62;
    const double rows = static_cast<double>(std::max<size_t>(1, map_.rows.size()));
    plot.bottom = plot.top + rows * (rows > 24 ? 18 : rows > 12 ? 24 : 34);
    return plot;
  }

  /// 0 to 8.
  int shade(double value) const {
    if (range_.empty() || range_.high <= range_.low) return 0;
    const bool log = map_.value.kind == AxisKind::kLog;
    const double share = log ? std::log(value / range_.low) / std::log(range_.high / range_.low)
                             : (value - range_.low) / (range_.high - range_.low);
    return std::clamp(static_cast<int>(share * kShades), 0, kShades - 1);
  }

  void draw_key() {
    if (range_.empty()) return;
    double x = 0;
    const auto label = [&](const std::string& text, double gap) {
      canvas_.text(x, 20, text, "tick");
      x += text_width(text, kTextSize) + gap;
    };
    if (!map_.value.title().empty()) label(map_.value.title(), 12);
    label(grouped_text(range_.low, map_.decimals), 6);
    const int shades = range_.high > range_.low ? kShades : 1;
    for (int i = 0; i < shades; ++i, x += 18) {
      canvas_.rect(x, 8, 18, 16, fmt::format("heat h{}", i));
    }
    x += 6;
    if (shades > 1) label(grouped_text(range_.high, map_.decimals), 0);
  }

  void draw_row(size_t row, const Plot& plot) {
    const double height = (plot.bottom - plot.top) / static_cast<double>(map_.rows.size());
    const double y = plot.top + height * static_cast<double>(row);
    canvas_.text(plot.left - 8, y + height / 2 + 4, shorten(map_.rows[row], kWidestName, kTextSize),
                 "tick", Anchor::kEnd);
    if (map_.columns.empty()) return;
    const double width = (plot.right - plot.left) / static_cast<double>(map_.columns.size());
    for (size_t c = 0; c < map_.columns.size(); ++c) {
      const double x = plot.left + width * static_cast<double>(c);
      const double found = value(row, c);
      const std::string text = grouped_text(found, map_.decimals);
      const std::string tip = fmt::format("{}, {}: {}", map_.rows[row], map_.columns[c], text);
      const bool shown = Scale::has_place(map_.value.kind, found);
      const std::string look = shown ? fmt::format("h{}", shade(found)) : "none";
      canvas_.rect(x, y, width, height, "heat " + look, tip);
      for (const double size : {12.0, 10.0, 8.5}) {
        if (text_width(text, size) > width - 4) continue;
        const std::string_view sizes = size == 12.0 ? "" : size == 10.0 ? " small" : " tiny";
        canvas_.text(x + width / 2, y + height / 2 + size * 0.36, text,
                     fmt::format("t{}{}", look, sizes), Anchor::kMiddle);
        break;
      }
    }
  }

  DataTable numbers() const {
    std::string corner = map_.y.title();
    if (!map_.x.title().empty()) corner += (corner.empty() ? "" : " \\ ") + map_.x.title();
    DataTable table{.columns = {{corner}}};
    for (const std::string& name : map_.columns) table.columns.push_back({name});
    for (size_t r = 0; r < map_.rows.size(); ++r) {
      std::vector<DataCell> row = {map_.rows[r]};
      for (size_t c = 0; c < map_.columns.size(); ++c) row.emplace_back(value(r, c), map_.decimals);
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const HeatMap& map_;
  Range range_;
  Canvas canvas_;
};

}  // namespace

Figure draw(const HeatMap& map) { return HeatDrawing(map).draw(); }

}  // namespace monkeytree
