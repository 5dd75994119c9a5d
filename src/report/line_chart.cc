#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

class LineDrawing {
 public:
  explicit LineDrawing(const LineChart& chart) : chart_(chart) {}

  Figure draw() {
    Figure figure{.title = chart_.title,
                  .caption = chart_.caption,
                  .summary = summary_text("Line chart", chart_.series.size(), "series"),
                  .width = kChartWidth};
    const double top = draw_legend(canvas_, legend());
    Scale y(chart_.y, y_range(), 0, 0, 6, Ends::kRounded);
    const Plot plot = draw_y_axis(canvas_, y, top, 270);
    const Scale x = x_scale_within(plot, chart_.x, x_range());
    figure.height = plot.bottom + draw_x_axis(canvas_, x, plot, false);
    if (y_range().empty()) draw_nothing(canvas_, plot);
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_band(chart_.series[i], i, x, y);
    draw_references(canvas_, chart_.references, y, plot);
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_line(chart_.series[i], i, x, y);
    figure.body = canvas_.take();
    figure.numbers = numbers();
    return figure;
  }

 private:
  bool visible(const LinePoint& point) const {
    return Scale::has_place(chart_.x.kind, point.x) && Scale::has_place(chart_.y.kind, point.y);
  }

  bool has_band(const LinePoint& point) const {
    return visible(point) && Scale::has_place(chart_.y.kind, point.low) &&
           Scale::has_place(chart_.y.kind, point.high) && point.low < point.high;
  }

  bool has_band(const LineSeries& series) const {
    return std::any_of(series.points.begin(), series.points.end(),
                       [&](const LinePoint& point) { return has_band(point); });
  }

  std::vector<LegendEntry> legend() const {
    std::vector<LegendEntry> entries;
    bool bands = false;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const LineSeries& series = chart_.series[i];
      entries.push_back(
          {LegendEntry::kLine, series.name, style_of(series.style, i), series.strong});
      bands = bands || has_band(series);
    }
    if (bands) entries.push_back({LegendEntry::kBand, chart_.band});
    add_references(entries, chart_.references);
    return entries;
  }

  Range x_range() const {
    Range range;
    for (const LineSeries& series : chart_.series) {
      for (const LinePoint& point : series.points) {
        if (visible(point)) range.add(point.x);
      }
    }
    return range;
  }

  Range y_range() const {
    Range range;
    for (const LineSeries& series : chart_.series) {
      for (const LinePoint& point : series.points) {
        if (!visible(point)) continue;
        range.add(point.y);
        if (!has_band(point)) continue;
        range.add(point.low);
        range.add(point.high);
      }
    }
    if (range.empty()) return range;
    for (const Reference& reference : chart_.references) {
      if (Scale::has_place(chart_.y.kind, reference.value)) range.add(reference.value);
    }
    return range;
  }

  /// Bands over each run of points that have one; a lone one is an error bar.
  void draw_band(const LineSeries& series, size_t place, const Scale& x, const Scale& y) {
    const std::string look = fmt::format("band {}", color_of(style_of(series.style, place)));
    for (size_t begin = 0; begin < series.points.size();) {
      size_t end = begin;
      while (end < series.points.size() && has_band(series.points[end])) ++end;
      if (end == begin + 1) {
        const LinePoint& point = series.points[begin];
        draw_error_bar(canvas_, x.at(point.x), y.at(point.low), y.at(point.high), 4);
      } else if (end > begin) {
        Path path;
        path.move(x.at(series.points[begin].x), y.at(series.points[begin].high));
        for (size_t i = begin + 1; i < end; ++i) {
          path.line(x.at(series.points[i].x), y.at(series.points[i].high));
        }
        for (size_t i = end; i-- > begin;) {
          path.line(x.at(series.points[i].x), y.at(series.points[i].low));
        }
        path.close();
        canvas_.path(path, look);
      }
      begin = std::max(end, begin + 1);
    }
  }

  void draw_line(const LineSeries& series, size_t place, const Scale& x, const Scale& y) {
    constexpr size_t kMostMarkers = 40;
    const int style = style_of(series.style, place);
    Path path;
    bool joined = false;
    for (const LinePoint& point : series.points) {
      if (visible(point)) {
        joined ? path.line(x.at(point.x), y.at(point.y)) : path.move(x.at(point.x), y.at(point.y));
      }
      joined = visible(point);
    }
    canvas_.path(path, line_look(style, series.strong));
    if (series.points.size() > kMostMarkers) return;
    for (const LinePoint& point : series.points) {
      if (!visible(point)) continue;
      std::string tip = fmt::format("{}{}{}: {}", series.name, series.name.empty() ? "" : ", ",
                                    chart_.x.value_text(point.x), chart_.y.value_text(point.y));
      if (has_band(point)) {
        tip += fmt::format(" ({} – {})", short_text(point.low), short_text(point.high));
      }
      canvas_.marker(style, x.at(point.x), y.at(point.y), color_of(style), tip);
    }
  }

  /// A row for each x; each series has a column, three where it has bands.
  DataTable numbers() const {
    DataTable table{.columns = {{chart_.x.label.empty() ? "x" : chart_.x.label, chart_.x.unit}}};
    std::set<double> places;
    std::vector<std::map<double, LinePoint>> by_place(chart_.series.size());
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const LineSeries& series = chart_.series[i];
      const std::string name = series.name.empty() ? chart_.y.label : series.name;
      table.columns.push_back({name, chart_.y.unit});
      if (has_band(series)) {
        table.columns.push_back({name + " low", chart_.y.unit, 1});
        table.columns.push_back({name + " high", chart_.y.unit, 1});
      }
      for (const LinePoint& point : series.points) {
        if (point.x != point.x) continue;
        places.insert(point.x);
        by_place[i].emplace(point.x, point);
      }
    }
    for (const double place : places) {
      std::vector<DataCell> row = {chart_.x.kind == AxisKind::kTime
                                       ? DataCell(chart_.x.value_text(place))
                                       : DataCell(place, decimals_for(place))};
      for (size_t i = 0; i < chart_.series.size(); ++i) {
        const auto found = by_place[i].find(place);
        const LinePoint point =
            found == by_place[i].end() ? LinePoint{place, kNoValue} : found->second;
        row.emplace_back(point.y, decimals_for(point.y));
        if (!has_band(chart_.series[i])) continue;
        row.emplace_back(point.low, decimals_for(point.y));
        row.emplace_back(point.high, decimals_for(point.y));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const LineChart& chart_;
  Canvas canvas_;
};

}  // namespace

Figure draw(const LineChart& chart) { return LineDrawing(chart).draw(); }

}  // namespace monkeytree
