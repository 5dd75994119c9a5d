#include "study/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "simulation/scenario.h"

namespace monkeytree {
namespace {

constexpr std::array kMetrics = {
    Metric{"slowdown_avg", "average slowdown", "", 3},
    Metric{"slowdown_p50", "median slowdown", "", 3},
    Metric{"slowdown_p90", "p90 slowdown", "", 3},
    Metric{"slowdown_p99", "p99 slowdown", "", 3},
    Metric{"slowdown_max", "worst slowdown", "", 2},
    Metric{"wait_avg_s", "average wait", "s", 0},
    Metric{"gpu_hours", "GPU-hours", "h", 0},
    Metric{"gpu_hours_lost", "GPU-hours lost", "h", 1},
    Metric{"gpu_hours_saved", "GPU-hours saved against ecmp", "h", 1},
    Metric{"lost_share", "GPU time lost", "%", 2},
    Metric{"ended", "jobs ended", "", 0},
    Metric{"simulated_h", "simulated time", "h", 1},
    Metric{"plans", "plans", "", 0},
    Metric{"plans_failed", "plans that found nothing", "", 0},
    Metric{"moves", "workers moved", "", 0},
    Metric{"moves_staged", "moves by a third machine", "", 0},
    Metric{"jobs_moved", "jobs moved", "", 0},
    Metric{"paused_s", "stopped for moves, a moved job", "s", 1},
    Metric{"plans_of_one", "plans that move one worker", "share", 3},
    Metric{"plans_of_two", "plans that move two workers", "share", 3},
    Metric{"degree_avg", "highest degree, mean over time", "", 1},
    Metric{"degree_max", "highest degree ever", "", 0},
    Metric{"time_over", "time with a rack above its bound", "share", 3},
    Metric{"complying_8", "placements that comply with λ = 8", "share", 3},
    Metric{"complying_16", "placements that comply with λ = 16", "share", 3},
    Metric{"complying_32", "placements that comply with λ = 32", "share", 3},
    Metric{"lasting_16", "departures until λ = 16 breaks", "", 1},
    Metric{"lasting_32", "departures until λ = 32 breaks", "", 1},
    Metric{"planned", "plans", "", 0},
    Metric{"unsolved", "given up", "", 1},
    Metric{"plan_ms_avg", "average", "ms", 3},
    Metric{"plan_ms_p50", "median", "ms", 3},
    Metric{"plan_ms_p90", "p90", "ms", 3},
    Metric{"plan_ms_p99", "p99", "ms", 3},
    Metric{"plan_ms_max", "longest", "ms", 2},
    Metric{"tensor_bytes", "tensor parallel", "B", 0},
    Metric{"data_bytes", "data parallel", "B", 0},
    Metric{"pipeline_bytes", "pipeline parallel", "B", 0},
};

constexpr std::array kAxes = {
    Metric{"load", "load"},
    Metric{"system", "system"},
    Metric{"spines", "uplinks of a rack"},
    Metric{"gpus", "GPUs of the cluster"},
    Metric{"gpus_per_rack", "GPUs of a rack"},
    Metric{"threshold", "bound λ"},
    Metric{"pause_s", "pause", "s"},
    Metric{"state", "state rule"},
    Metric{"state_scale", "state, times the usual"},
    Metric{"fill", "share of nodes taken", "%"},
    Metric{"model", "model"},
    Metric{"scheduler", "front-end scheduler"},
};

/// With blanks at which no line breaks.
std::string unbroken(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == ' ' ? std::string("\u00a0") : std::string(1, c);
  return out;
}

double number_of(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? value : kNoValue;
}

Axis chart_axis(const Metric& metric) {
  std::string label(metric.label);
  if (!label.empty() && label[0] >= 'a' && label[0] <= 'z') {
    label[0] = static_cast<char>(label[0] - 'a' + 'A');
  }
  return {.label = std::move(label), .unit = std::string(metric.unit)};
}

DataCell cell_of(const std::string& text) {
  const double value = number_of(text);
  const size_t point = text.find('.');
  const size_t decimals = point == std::string::npos ? 0 : text.size() - point - 1;
  return std::isnan(value) ? DataCell(text) : DataCell(value, static_cast<int>(decimals));
}

std::vector<std::string> values_of(const StudyResults& results, const std::string& axis) {
  const StudyAxis* found = results.axis(axis);
  return found == nullptr ? std::vector<std::string>{""} : found->values;
}

Selection with(Selection where, const std::string& axis, const std::string& value) {
  if (!axis.empty()) where.emplace_back(axis, value);
  return where;
}

}  // namespace

int style_of_system(std::string_view name) {
  constexpr std::array<std::string_view, 8> kOrder = {
      "monkeytree", "ecmp", "crux", "sglb", "perfect", "repack", "spray", "full-bisection"};
  const auto at = std::find(kOrder.begin(), kOrder.end(), name);
  return at == kOrder.end() ? -1 : static_cast<int>(at - kOrder.begin());
}

Metric metric_of(std::string_view name) {
  const auto at = std::find_if(kMetrics.begin(), kMetrics.end(),
                               [&](const Metric& it) { return it.name == name; });
  return at == kMetrics.end() ? Metric{name, name} : *at;
}

Metric axis_of(std::string_view name) {
  const auto at =
      std::find_if(kAxes.begin(), kAxes.end(), [&](const Metric& it) { return it.name == name; });
  return at == kAxes.end() ? Metric{name, name} : *at;
}

StudyResults::StudyResults(const StudyPlan& plan, const GridResult& grid) : plan_(plan) {
  for (size_t i = 0; i < plan.cells.size(); ++i) {
    const bool there = i < grid.cells.size() && grid.cells[i].ok();
    absl::StatusOr<Measurements> found = absl::NotFoundError("");
    if (there) found = measurements_of(grid.cells[i].json);
    if (found.ok()) {
      rows_.push_back({&plan.cells[i], *std::move(found)});
    } else {
      missing_.push_back(plan.cells[i].key());
    }
  }
  add_savings();
}

void StudyResults::add_savings() {
  const auto others = [](const StudyCell& cell) {
    std::string key;
    for (const auto& [axis, value] : cell.at()) {
      if (axis != "system") key += fmt::format("{}={}\n", axis, value);
    }
    return key;
  };
  const auto system_of = [](const StudyCell& cell) -> std::string {
    const auto at = cell.settings().find("system");
    return at == cell.settings().end() ? "" : at->second.text;
  };
  std::map<std::string, double> lost;
  for (const Row& row : rows_) {
    if (system_of(*row.cell) == "ecmp") {
      lost[others(*row.cell)] = row.found.value("gpu_hours_lost");
    }
  }
  for (Row& row : rows_) {
    const auto at = lost.find(others(*row.cell));
    const double here = row.found.value("gpu_hours_lost");
    if (std::isnan(here)) continue;
    std::vector<std::pair<std::string, double>>& values = row.found.values;
    const auto after = std::find_if(values.begin(), values.end(),
                                    [](const auto& it) { return it.first == "gpu_hours_lost"; });
    const double share = 100 * here / row.found.value("gpu_hours");
    auto place = values.insert(after + 1, {"lost_share", share});
    if (at != lost.end()) values.insert(place + 1, {"gpu_hours_saved", at->second - here});
  }
}

const StudyAxis* StudyResults::axis(std::string_view name) const {
  for (const StudyAxis& axis : plan_.axes) {
    if (axis.name == name) return &axis;
  }
  return nullptr;
}

bool StudyResults::matches(const Row& row, const Selection& where) const {
  return std::all_of(where.begin(), where.end(),
                     [&](const auto& it) { return row.cell->text(it.first) == it.second; });
}

std::vector<double> StudyResults::values(std::string_view metric, const Selection& where) const {
  std::vector<double> out;
  for (const Row& row : rows_) {
    if (!matches(row, where)) continue;
    const double value = row.found.value(metric);
    if (std::isfinite(value)) out.push_back(value);
  }
  return out;
}

Estimate StudyResults::estimate(std::string_view metric, const Selection& where) const {
  return monkeytree::estimate(values(metric, where));
}

std::vector<std::vector<double>> StudyResults::lists(std::string_view name,
                                                     const Selection& where) const {
  std::vector<std::vector<double>> out;
  for (const Row& row : rows_) {
    if (matches(row, where)) out.push_back(row.found.list(name));
  }
  return out;
}

std::vector<double> StudyResults::summed(std::string_view name, const Selection& where) const {
  std::vector<double> sum;
  for (const std::vector<double>& list : lists(name, where)) {
    if (sum.size() < list.size()) sum.resize(list.size(), 0);
    for (size_t i = 0; i < list.size(); ++i) sum[i] += list[i];
  }
  return sum;
}

std::vector<std::string> StudyResults::metrics() const {
  std::vector<std::string> names;
  for (const Row& row : rows_) {
    for (size_t i = 0; i < row.found.values.size(); ++i) {
      const std::string& name = row.found.values[i].first;
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      names.insert(names.begin() + static_cast<std::ptrdiff_t>(std::min(i, names.size())), name);
    }
  }
  return names;
}

DataTable StudyResults::table(const std::vector<std::string>& metrics, Reader reader) const {
  const bool for_programs = reader == Reader::kProgram;
  DataTable table;
  std::vector<Selection> points = {{}};
  for (const StudyAxis& axis : plan_.axes) {
    if (axis.name == kSeedAxis) continue;
    std::vector<Selection> next;
    for (const Selection& point : points) {
      for (const std::string& value : axis.values) next.push_back(with(point, axis.name, value));
    }
    points = std::move(next);
    const Metric label = axis_of(axis.name);
    table.columns.push_back(for_programs
                                ? DataColumn{axis.name}
                                : DataColumn{std::string(label.label), std::string(label.unit)});
  }
  if (plan_.study.seeded) table.columns.push_back({.name = "seeds", .rank = 9});
  int rank = 0;
  for (const std::string& name : metrics) {
    const Metric metric = metric_of(name);
    if (for_programs) {
      for (const char* end : {"", "_low", "_high"}) {
        if (*end == '\0' || plan_.study.seeded) table.columns.push_back({name + end});
      }
    } else {
      table.columns.push_back(
          {.name = std::string(metric.label), .unit = std::string(metric.unit), .rank = rank++});
    }
  }
  for (const Selection& point : points) {
    const bool there = std::any_of(rows_.begin(), rows_.end(),
                                   [&](const Row& row) { return matches(row, point); });
    if (!there) continue;
    std::vector<DataCell> row;
    for (const auto& [axis, value] : point) row.push_back(cell_of(value));
    if (plan_.study.seeded) {
      row.emplace_back(std::count_if(rows_.begin(), rows_.end(),
                                     [&](const Row& it) { return matches(it, point); }));
    }
    for (const std::string& name : metrics) {
      const Estimate found = estimate(name, point);
      const int decimals = metric_of(name).decimals;
      if (reader == Reader::kPage && plan_.study.seeded) {
        row.push_back(unbroken(found.text(decimals)));
        continue;
      }
      row.emplace_back(found.mean, decimals);
      if (!for_programs || !plan_.study.seeded) continue;
      row.emplace_back(found.low, decimals);
      row.emplace_back(found.high, decimals);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

DataTable StudyResults::cells() const {
  DataTable table;
  for (const StudyAxis& axis : plan_.axes) table.columns.push_back({axis.name});
  const std::vector<std::string> names = metrics();
  for (const std::string& name : names) table.columns.push_back({name});
  for (const Row& it : rows_) {
    std::vector<DataCell> row;
    for (const auto& [axis, value] : it.cell->at()) row.push_back(cell_of(value));
    for (const std::string& name : names) {
      row.emplace_back(it.found.value(name), metric_of(name).decimals);
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Figure lines(const StudyResults& results, const Drawing& drawing) {
  LineChart chart{.title = drawing.title,
                  .caption = drawing.caption,
                  .x = chart_axis(axis_of(drawing.x)),
                  .y = chart_axis(metric_of(drawing.metric))};
  if (std::isfinite(drawing.low)) chart.y.low = drawing.low;
  for (const std::string& name : values_of(results, drawing.series)) {
    LineSeries line{.name = name, .style = style_of_system(name), .strong = name == "monkeytree"};
    for (const std::string& x : values_of(results, drawing.x)) {
      const Estimate y = results.estimate(
          drawing.metric, with(with(drawing.where, drawing.series, name), drawing.x, x));
      // An interval may reach below what is possible; the picture does not.
      const double low = std::isfinite(drawing.low) ? std::max(y.low, drawing.low) : y.low;
      line.points.push_back({number_of(x), y.mean, low, y.high});
    }
    chart.series.push_back(std::move(line));
  }
  return draw(chart);
}

Figure bars(const StudyResults& results, const Drawing& drawing) {
  BarChart chart{.title = drawing.title,
                 .caption = drawing.caption,
                 .y = chart_axis(metric_of(drawing.metric)),
                 .categories = values_of(results, drawing.x)};
  for (const std::string& name : values_of(results, drawing.series)) {
    BarSeries series{.name = name, .style = style_of_system(name)};
    for (const std::string& x : chart.categories) {
      const Estimate y = results.estimate(
          drawing.metric, with(with(drawing.where, drawing.series, name), drawing.x, x));
      series.bars.push_back({y.mean, std::max(y.low, 0.0), y.high});
    }
    chart.series.push_back(std::move(series));
  }
  return draw(chart);
}

Figure heat_map(const StudyResults& results, const Drawing& drawing) {
  const Metric metric = metric_of(drawing.metric);
  HeatMap map{.title = drawing.title,
              .caption = drawing.caption,
              .x = chart_axis(axis_of(drawing.x)),
              .y = chart_axis(axis_of(drawing.series)),
              .value = chart_axis(metric),
              .columns = values_of(results, drawing.x),
              .rows = values_of(results, drawing.series),
              .decimals = metric.decimals};
  for (const std::string& row : map.rows) {
    std::vector<double> values;
    for (const std::string& column : map.columns) {
      values.push_back(results
                           .estimate(drawing.metric, with(with(drawing.where, drawing.series, row),
                                                          drawing.x, column))
                           .mean);
    }
    map.values.push_back(std::move(values));
  }
  return draw(map);
}

}  // namespace monkeytree
