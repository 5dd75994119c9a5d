#include "report/sample_charts.h"

#include <fmt/format.h>

#include <cmath>

namespace monkeytree {
namespace {

const std::vector<std::string> kSystems = {"ecmp", "crux", "sglb", "perfect", "monkeytree"};
constexpr double kExcess[] = {0.58, 0.19, 0.135, 0.17, 0.0076};

/// A number between 0 and 1 that looks like chance and is the same everywhere.
double noise(unsigned n) {
  n = (n ^ 61u) ^ (n >> 16);
  n *= 9;
  n = n ^ (n >> 4);
  n *= 0x27d4eb2du;
  n = n ^ (n >> 15);
  return (n % 10000) / 10000.0;
}

}  // namespace

LineChart sample_line_chart() {
  LineChart chart{.title = "Average slowdown by load",
                  .caption = "Five seeds of 2,400 jobs on 1,024 GPUs, 4:1 oversubscribed.",
                  .x = {.label = "Load"},
                  .y = {.label = "Average slowdown", .low = 1}};
  for (size_t s = 0; s < kSystems.size(); ++s) {
    LineSeries series{.name = kSystems[s], .strong = kSystems[s] == "monkeytree"};
    for (int i = 0; i < 4; ++i) {
      const double load = 0.7 + 0.1 * i;
      const double y = 1 + kExcess[s] * std::pow(load, 6);
      const double half = 0.08 * (y - 1) + 0.002;
      series.points.push_back({load, y, y - half, y + half});
    }
    chart.series.push_back(series);
  }
  return chart;
}

BarChart sample_bar_chart() {
  BarChart chart{.title = "Slowdown at load 1.0",
                 .caption = "Excess over a run alone on an idle fabric.",
                 .y = {.label = "Excess", .unit = "%"},
                 .categories = {"average", "90th percentile", "99th percentile"}};
  for (size_t s = 0; s < kSystems.size(); ++s) {
    BarSeries series{.name = kSystems[s]};
    for (const double factor : {1.0, 2.2, 5.4}) {
      const double value = 100 * kExcess[s] * factor;
      series.bars.push_back({value, value * 0.93, value * 1.07});
    }
    chart.series.push_back(series);
  }
  return chart;
}

HeatMap sample_heat_map() {
  HeatMap map{.title = "Where shared uplinks hurt",
              .caption = "Average slowdown under ecmp.",
              .x = {.label = "Spines"},
              .y = {.label = "GPUs per rack"},
              .value = {.label = "Average slowdown"},
              .columns = {"4", "8", "16", "32", "64"},
              .rows = {"16", "32", "64", "128"}};
  for (int r = 0; r < 4; ++r) {
    map.values.emplace_back();
    for (int c = 0; c < 5; ++c) {
      map.values.back().push_back(c > r + 2 ? kNoValue : 1 + std::pow(2.0, r - c) * 0.31);
    }
  }
  return map;
}

QuantileChart sample_quantile_chart() {
  QuantileChart chart{.title = "Slowdown of jobs",
                      .caption = "All 2,400 jobs of one seed.",
                      .x = {.label = "Slowdown", .kind = AxisKind::kLog, .low = 1}};
  for (size_t s = 0; s < kSystems.size(); ++s) {
    std::vector<double> values;
    for (unsigned i = 0; i < 2400; ++i) {
      values.push_back(1 +
                       kExcess[s] * -std::log(1 - noise(i * 7 + 13 * static_cast<unsigned>(s))));
    }
    chart.strips.push_back(strip_of(kSystems[s], values));
  }
  return chart;
}

StepChart sample_step_chart(int points) {
  constexpr double kStart = 1727740800;  // 1 October 2024
  StepChart chart{.title = "Greatest degree over time",
                  .caption = "Racks above their bound share uplinks.",
                  .x = {.label = "October 2024, UTC", .kind = AxisKind::kTime},
                  .y = {.label = "Flows on the worst rack", .low = 0},
                  .references = {{16, "bound 16"}}};
  for (const bool ours : {false, true}) {
    StepSeries series{
        .name = ours ? "monkeytree" : "as it was", .end = kStart + 7 * 86400.0, .strong = ours};
    double y = 8;
    for (int i = 0; i < points; ++i) {
      y += std::floor(noise(static_cast<unsigned>(i)) * 7) - 3;
      y = std::fmin(std::fmax(y, 0), ours ? 16 : 40);
      series.points.push_back({kStart + i * 7 * 86400.0 / points, y});
    }
    chart.series.push_back(series);
  }
  return chart;
}

DistributionChart sample_distribution_chart() {
  DistributionChart chart{.title = "How long plans take",
                          .caption = "From snapshot to plan, one core.",
                          .x = {.label = "Time", .unit = "ms", .kind = AxisKind::kLog}};
  for (int s = 0; s < 3; ++s) {
    DistributionSeries series{.name = fmt::format("{} racks", 16 << 2 * s)};
    for (unsigned i = 0; i < 500; ++i) {
      series.values.push_back(0.02 *
                              std::pow(8.0, s + 2 * noise(i + 1000u * static_cast<unsigned>(s))));
    }
    chart.series.push_back(series);
  }
  return chart;
}

RackPicture sample_rack_picture() {
  RackPicture picture{.title = "The worst hour: 14 October, 03:00",
                      .caption = "Two racks carry more rings than they have uplinks."};
  const std::vector<std::string> rows = {"AAAAABB.", "AACCCCBB", "CCCDDEEe", "DDffff..",
                                         "EEgggx..", "hhhhhhhh", "iiiijjjj", "kkkk....",
                                         "FFFFGGGG", "FFFFGGll", "GG......", "mmmmmmmm"};
  for (size_t r = 0; r < rows.size(); ++r) {
    PictureRack rack{.name = fmt::format("rack-{:02}", r + 1), .bound = 2};
    char before = 0;
    for (const char c : rows[r]) {
      PictureSlot slot;
      if (c == 'x') {
        slot.state = PictureSlot::kClosed;
      } else if (c != '.') {
        const bool crosses = c >= 'A' && c <= 'Z';
        slot = {PictureSlot::kHeld, fmt::format("job-47{}", static_cast<int>(c)), std::string(1, c),
                crosses};
        rack.degree += crosses && c != before;
      }
      before = c;
      rack.slots.push_back(slot);
    }
    picture.racks.push_back(rack);
  }
  return picture;
}

Page sample_page() {
  Page page("What shared uplinks cost in October", "Cluster gpu1: 128 racks, 1,024 GPUs");
  page.key_figures({{"12 340", "GPU-hours lost to shared uplinks", "2.1 % of all GPU-hours"},
                    {"11 870", "of these saved by MonkeyTree", "with 61 moves"},
                    {"31 %", "of the month above the bound"}});
  page.notice("Rows without a model were given one of the catalogue by size, drawn with seed 1.");
  page.heading("What jobs felt");
  page.paragraph(
      "Each job is compared with itself alone on an idle fabric; see `monkeytree study "
      "slowdown-vs-load`. Less is better, & 1 is best.");
  page.add(draw(sample_line_chart()));
  page.add(draw(sample_bar_chart()));
  page.add(draw(sample_quantile_chart()));
  page.heading("Which fabrics");
  page.add(draw(sample_heat_map()));
  page.heading("Over time");
  page.add(draw(sample_step_chart(5000)));
  page.add(draw(sample_step_chart(60)));
  page.add(draw(sample_rack_picture()));
  page.heading("Planning");
  page.add(draw(sample_distribution_chart()));
  DataTable table{.title = "What could not be used",
                  .columns = {{"reason"}, {"rows"}, {"share", "%"}}};
  table.rows.push_back({"no node list", 1203, DataCell(2.41, 1)});
  table.rows.push_back({"ended before it started", 7, DataCell(0.014, 1)});
  page.add(table);
  page.list({"Times are those of the accounting database, read as UTC.",
             "A node list that names an unknown node leaves its row out."});
  page.code("monkeytree report --sacct october.txt --topology topology.conf -o october.html");
  page.footer("Made by monkeytree 0.1.0 from october.txt (49 871 rows).");
  return page;
}

}  // namespace monkeytree
