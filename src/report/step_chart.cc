#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/chart.h"
#include "report/frame.h"
#include "report/text.h"

namespace monkeytree {
namespace {

/// Parts of the plot's width of which each shows least, mean and greatest value, where a series has
/// more points than would be legible.
constexpr size_t kBuckets = 180;
constexpr size_t kMostSteps = 2 * kBuckets;

struct Bucket {
  Range range;
  double area = 0;  ///< of value over time
  double time = 0;

  double mean() const { return time > 0 ? area / time : range.low; }
};

class StepDrawing {
 public:
  explicit StepDrawing(const StepChart& chart) : chart_(chart) {}

  Figure draw() {
    Figure figure{.title = chart_.title,
                  .caption = chart_.caption,
                  .summary = summary_text("Chart over time", chart_.series.size(), "series"),
                  .width = kChartWidth};
    std::vector<LegendEntry> entries;
    for (size_t i = 0; i < chart_.series.size(); ++i) {
      const StepSeries& series = chart_.series[i];
      entries.push_back(
          {LegendEntry::kStep, series.name, style_of(series.style, i), series.strong});
    }
    add_references(entries, chart_.references);
    if (std::any_of(chart_.series.begin(), chart_.series.end(), is_long)) {
      entries.push_back({LegendEntry::kBand, "least to greatest around the mean"});
    }
    const double top = draw_legend(canvas_, entries);
    const Range values = y_range();
    Scale y(chart_.y, values, 0, 0, 6, Ends::kRounded);
    const Plot plot = draw_y_axis(canvas_, y, top, 250);
    const Scale x =
        fitting_scale(chart_.x, x_range(), plot.left, plot.right, Ends::kExact, kTextSize);
    figure.height = plot.bottom + draw_x_axis(canvas_, x, plot, false);
    if (values.empty()) draw_nothing(canvas_, plot);
    for (size_t i = 0; i < chart_.series.size(); ++i) draw_series(chart_.series[i], i, x, y);
    draw_references(canvas_, chart_.references, y, plot);
    figure.body = canvas_.take();
    figure.numbers = numbers(x);
    return figure;
  }

 private:
  /// Where the value of the i-th point ends.
  static double end_of(const StepSeries& series, size_t i) {
    if (i + 1 < series.points.size()) return series.points[i + 1].x;
    return std::isfinite(series.end) ? std::max(series.end, series.points[i].x)
                                     : series.points[i].x;
  }

  Range x_range() const {
    Range range;
    for (const StepSeries& series : chart_.series) {
      for (size_t i = 0; i < series.points.size(); ++i) {
        if (Scale::has_place(chart_.x.kind, series.points[i].x)) range.add(series.points[i].x);
        if (Scale::has_place(chart_.x.kind, end_of(series, i))) range.add(end_of(series, i));
      }
    }
    return range;
  }

  Range y_range() const {
    Range range;
    for (const StepSeries& series : chart_.series) {
      for (const StepPoint& point : series.points) {
        if (Scale::has_place(chart_.y.kind, point.y)) range.add(point.y);
      }
    }
    if (range.empty()) return range;
    for (const Reference& reference : chart_.references) {
      if (Scale::has_place(chart_.y.kind, reference.value)) range.add(reference.value);
    }
    return range;
  }

  static bool is_long(const StepSeries& series) { return series.points.size() > kMostSteps; }

  void draw_series(const StepSeries& series, size_t place, const Scale& x, const Scale& y) {
    const int style = style_of(series.style, place);
    if (is_long(series)) {
      draw_buckets(series, style, x, y);
      return;
    }
    Path path;
    bool joined = false;
    for (size_t i = 0; i < series.points.size(); ++i) {
      const StepPoint& point = series.points[i];
      const bool visible = x.has_place(point.x) && y.has_place(point.y);
      if (visible) {
        joined ? path.line(x.at(point.x), y.at(point.y)) : path.move(x.at(point.x), y.at(point.y));
        if (x.has_place(end_of(series, i))) path.line(x.at(end_of(series, i)), y.at(point.y));
      }
      joined = visible;
    }
    canvas_.path(path, line_look(style, series.strong), series.name);
    // One moment has no length, so that a line would not show.
    if (series.points.size() == 1 && joined && end_of(series, 0) == series.points[0].x) {
      canvas_.marker(style, x.at(series.points[0].x), y.at(series.points[0].y), color_of(style),
                     series.name);
    }
  }

  std::vector<Bucket> buckets_of(const StepSeries& series, const Scale& x, const Scale& y) const {
    std::vector<Bucket> buckets(kBuckets);
    const double width = (x.high() - x.low()) / kBuckets;
    const auto bucket_at = [&](double at) {
      return std::min(kBuckets - 1, static_cast<size_t>(std::max(0.0, (at - x.low()) / width)));
    };
    for (size_t i = 0; i < series.points.size(); ++i) {
      const StepPoint& point = series.points[i];
      const double end = end_of(series, i);
      if (!x.has_place(point.x) || !x.has_place(end) || !y.has_place(point.y)) continue;
      for (size_t b = bucket_at(point.x); b <= bucket_at(end); ++b) {
        const double from = std::max(point.x, x.low() + static_cast<double>(b) * width);
        const double to = std::min(end, x.low() + static_cast<double>(b + 1) * width);
        buckets[b].range.add(point.y);
        if (to <= from) continue;
        buckets[b].area += (to - from) * point.y;
        buckets[b].time += to - from;
      }
    }
    return buckets;
  }

  void draw_buckets(const StepSeries& series, int style, const Scale& x, const Scale& y) {
    const std::vector<Bucket> buckets = buckets_of(series, x, y);
    const auto middle = [&](size_t b) {
      return x.at(x.low() + (x.high() - x.low()) * (static_cast<double>(b) + 0.5) / kBuckets);
    };
    Path band;
    Path line;
    for (size_t begin = 0; begin < kBuckets;) {
      size_t end = begin;
      for (; end < kBuckets && !buckets[end].range.empty(); ++end) {
        const double mean = y.at(buckets[end].mean());
        end == begin ? line.move(middle(end), mean) : line.line(middle(end), mean);
        const double high = y.at(buckets[end].range.high);
        end == begin ? band.move(middle(end), high) : band.line(middle(end), high);
      }
      for (size_t b = end; b-- > begin;) band.line(middle(b), y.at(buckets[b].range.low));
      if (end > begin) band.close();
      begin = std::max(end, begin + 1);
    }
    canvas_.path(band, fmt::format("band {}", color_of(style)), series.name);
    canvas_.path(line, line_look(style, series.strong), series.name);
  }

  static double at(const StepSeries& series, double x) {
    const auto after = std::upper_bound(series.points.begin(), series.points.end(), x,
                                        [](double v, const StepPoint& p) { return v < p.x; });
    if (after == series.points.begin()) return kNoValue;
    const auto i = static_cast<size_t>(after - series.points.begin()) - 1;
    return i + 1 == series.points.size() && x > end_of(series, i) ? kNoValue : series.points[i].y;
  }

  DataTable numbers(const Scale& x) const {
    DataTable table{.columns = {{""}}};
    for (const char* name : {"least", "mean", "greatest", "last"}) {
      table.columns.push_back({name, chart_.y.unit});
    }
    for (const Tick& tick : x.ticks()) {
      const std::string unit =
          chart_.x.unit.empty() || chart_.x.kind == AxisKind::kTime ? "" : " " + chart_.x.unit;
      table.columns.push_back({"at " + tick.label + unit, chart_.y.unit, 1});
    }
    for (const StepSeries& series : chart_.series) {
      Range range;
      double area = 0;
      double time = 0;
      for (size_t i = 0; i < series.points.size(); ++i) {
        const double length = end_of(series, i) - series.points[i].x;
        range.add(series.points[i].y);
        if (!std::isfinite(series.points[i].y) || !std::isfinite(length)) continue;
        area += length * series.points[i].y;
        time += length;
      }
      const double last = series.points.empty() ? kNoValue : series.points.back().y;
      const double low = range.empty() ? kNoValue : range.low;
      const double high = range.empty() ? kNoValue : range.high;
      const double mean = time > 0 ? area / time : range.low == range.high ? low : kNoValue;
      std::vector<DataCell> row = {series.name};
      for (const double value : {low, mean, high, last}) {
        row.emplace_back(value, decimals_for(value));
      }
      for (const Tick& tick : x.ticks()) {
        const double value = at(series, tick.value);
        row.emplace_back(value, decimals_for(value));
      }
      table.rows.push_back(std::move(row));
    }
    return table;
  }

  const StepChart& chart_;
  Canvas canvas_;
};

}  // namespace

Figure draw(const StepChart& chart) { return StepDrawing(chart).draw(); }

}  // namespace monkeytree
