#include "report/chart.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <regex>
#include <set>

#include "base/file.h"
#include "report/page.h"
#include "report/sample_charts.h"
#include "report/text.h"
#include "report/well_formed.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Well-formed, of finite numbers, and no text begins or ends outside of the picture.
void expect_sound(const Figure& figure) {
  SCOPED_TRACE(figure.title);
  const std::string svg = svg_file_of(figure);
  EXPECT_EQ(xml_fault(svg), "");
  EXPECT_EQ(xml_fault(svg_of(figure, "f")), "");
  EXPECT_THAT(figure.body, Not(testing::ContainsRegex("nan|inf|[0-9]e[+-]?[0-9]")));
  EXPECT_GT(figure.height, 0);
  EXPECT_LT(figure.height, 20000);
  const std::regex text(
      "<text x=\"([-0-9.]+)\" y=\"([-0-9.]+)\"[^>]*?( text-anchor=\"(end|middle)\")?"
      "( transform=\"[^\"]*\")?>([^<]*)<");
  for (std::sregex_iterator it(figure.body.begin(), figure.body.end(), text), end; it != end;
       ++it) {
    const double x = std::stod((*it)[1]);
    const double y = std::stod((*it)[2]);
    EXPECT_GE(y, 5) << it->str();
    EXPECT_LE(y, figure.height) << it->str();
    if ((*it)[5].matched) continue;
    const double width = text_width(std::string((*it)[6]), 12);
    const std::string anchor = (*it)[4];
    const double left = anchor == "end" ? x - width : anchor == "middle" ? x - width / 2 : x;
    EXPECT_GE(left, -2) << it->str();
    // Escapes make a text longer than it looks.
    if (it->str().find('&') != std::string::npos) continue;
    EXPECT_LE(left + width, 762) << it->str();
  }
}

/// Compares with the picture kept in the tree. MONKEYTREE_WRITE_GOLDEN=1 replaces that.
void expect_golden(const Figure& figure, const std::string& name) {
  const std::string path = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/report/" + name;
  const std::string svg = svg_of(figure, "golden") + csv_of(figure.numbers);
  if (std::getenv("MONKEYTREE_WRITE_GOLDEN") != nullptr) {
    ASSERT_TRUE(write_file(path, svg).ok());
  }
  const auto kept = read_file(path);
  ASSERT_TRUE(kept.ok()) << path;
  EXPECT_EQ(*kept, svg) << "look at the picture; MONKEYTREE_WRITE_GOLDEN=1 accepts it";
}

TEST(Charts, SamplesAreSound) {
  expect_sound(draw(sample_line_chart()));
  expect_sound(draw(sample_bar_chart()));
  expect_sound(draw(sample_heat_map()));
  expect_sound(draw(sample_quantile_chart()));
  expect_sound(draw(sample_step_chart(10)));
  expect_sound(draw(sample_step_chart(20000)));
  expect_sound(draw(sample_distribution_chart()));
  expect_sound(draw(sample_rack_picture()));
}

TEST(Charts, GoldenLine) {
  LineChart chart{.title = "Line", .x = {.label = "Load"}, .y = {.label = "Slowdown", .unit = "×"}};
  chart.series.push_back({.name = "ecmp", .points = {{0.9, 1.4, 1.3, 1.5}, {1, 1.6, 1.5, 1.7}}});
  chart.series.push_back({.name = "monkeytree", .points = {{0.9, 1}, {1, 1.01}}, .strong = true});
  expect_golden(draw(chart), "line.svg");
}

TEST(Charts, GoldenBars) {
  BarChart chart{.title = "Bars", .y = {.label = "Moves"}, .categories = {"a", "b"}};
  chart.series.push_back({.name = "one", .bars = {{3, 2, 4}, {1}}});
  chart.series.push_back({.name = "two", .bars = {{2}}});
  expect_golden(draw(chart), "bars.svg");
}

TEST(Charts, GoldenRacks) {
  RackPicture picture{.title = "Racks"};
  using S = PictureSlot;
  picture.racks = {
      {"r1", 3, 2, {{S::kHeld, "A", "A", true}, {S::kHeld, "B", "B", true}, {S::kHeld, "c"}}},
      {"r2", 1, 2, {{S::kHeld, "A", "A", true}, {}, {S::kClosed}}}};
  expect_golden(draw(picture), "racks.svg");
}

TEST(Charts, NothingSaysSo) {
  const Figure figures[] = {draw(LineChart{}),        draw(BarChart{}),  draw(HeatMap{}),
                            draw(QuantileChart{}),    draw(StepChart{}), draw(RackPicture{}),
                            draw(DistributionChart{})};
  for (const Figure& figure : figures) {
    expect_sound(figure);
    EXPECT_THAT(figure.body, HasSubstr("nothing to show"));
  }
}

TEST(Charts, SeriesWithoutPoints) {
  expect_sound(
      draw(LineChart{.series = {{.name = "a"}, {.name = "b", .points = {{kNoValue, 1}}}}}));
  expect_sound(draw(BarChart{.categories = {"x"}, .series = {{.name = "a"}}}));
  expect_sound(draw(HeatMap{.columns = {"c"}, .rows = {"r"}}));
  expect_sound(draw(HeatMap{.rows = {"r"}}));
  expect_sound(draw(QuantileChart{.strips = {strip_of("a", {})}}));
  expect_sound(draw(StepChart{.series = {{.name = "a"}}}));
  expect_sound(draw(DistributionChart{.series = {{.name = "a"}}}));
  expect_sound(draw(RackPicture{.racks = {{.name = "r"}}}));
}

TEST(Charts, OnePoint) {
  const Figure line = draw(LineChart{.series = {{.name = "a", .points = {{1, 2, 1, 3}}}}});
  expect_sound(line);
  EXPECT_THAT(line.body, HasSubstr("<circle"));
  EXPECT_THAT(line.body, HasSubstr("class=\"err\""));
  const Figure step = draw(StepChart{.series = {{.name = "a", .points = {{5, 7}}}}});
  expect_sound(step);
  EXPECT_THAT(step.body, HasSubstr("<circle"));
  expect_sound(draw(StepChart{.series = {{.name = "a", .points = {{5, 7}}, .end = 9}}}));
  expect_sound(draw(BarChart{.categories = {"x"}, .series = {{.bars = {{0}}}}}));
  expect_sound(draw(HeatMap{.columns = {"c"}, .rows = {"r"}, .values = {{3}}}));
  expect_sound(draw(QuantileChart{.strips = {strip_of("a", {1})}}));
  expect_sound(draw(DistributionChart{.series = {{.name = "a", .values = {4}}}}));
}

TEST(Charts, WhatIsNoNumberIsLeftOut) {
  const Figure line = draw(LineChart{.series = {{.name = "a",
                                                 .points = {{1, 1},
                                                            {2, kNoValue},
                                                            {3, kInfinity},
                                                            {4, 1, kNoValue, 2},
                                                            {5, 2, 1, kInfinity},
                                                            {kInfinity, 1}}}}});
  expect_sound(line);
  // Two runs of one point each and of two: the line is broken at 2 and 3.
  EXPECT_THAT(line.body, testing::ContainsRegex("d=\"M[0-9. ]+M[0-9. ]+L[0-9. ]+\""));
  EXPECT_THAT(text_of(line.numbers), HasSubstr("–"));
  expect_sound(
      draw(BarChart{.categories = {"x", "y"},
                    .series = {{.bars = {{kNoValue}, {kInfinity}}}, {.bars = {{-3}, {5}}}}}));
  expect_sound(
      draw(HeatMap{.columns = {"c", "d"}, .rows = {"r"}, .values = {{kNoValue, -kInfinity}}}));
  expect_sound(draw(StepChart{
      .series = {{.points = {{0, 1}, {1, kNoValue}, {2, 3}, {kNoValue, 3}}, .end = kInfinity}}}));
  expect_sound(draw(DistributionChart{.series = {{.values = {1, kNoValue, kInfinity, 2}}}}));
  expect_sound(draw(QuantileChart{.strips = {strip_of("a", {1, kNoValue, 3})}}));
}

TEST(Charts, OnALogAxisOnlyWhatIsAboveZero) {
  const Axis log{.kind = AxisKind::kLog};
  expect_sound(
      draw(LineChart{.x = log,
                     .y = log,
                     .series = {{.points = {{0, 1}, {1, 0}, {10, 100}, {100, 1000, -1, 2000}}}}}));
  expect_sound(draw(
      BarChart{.y = log, .categories = {"x", "y"}, .series = {{.bars = {{0}, {50, 20, 90}}}}}));
  expect_sound(
      draw(HeatMap{.value = log, .columns = {"c", "d"}, .rows = {"r"}, .values = {{0, 5}}}));
  const Figure none = draw(LineChart{.y = log, .series = {{.points = {{1, -1}, {2, 0}}}}});
  expect_sound(none);
  EXPECT_THAT(none.body, HasSubstr("nothing to show"));
}

TEST(Charts, ExtremeValues) {
  for (const double size : {1e-300, 1e-190, 1e-9, 1e9, 1e15, 1e190, 1e308}) {
    expect_sound(draw(LineChart{.series = {{.points = {{size, size}, {2 * size, -size}}}}}));
    expect_sound(
        draw(BarChart{.categories = {"x"}, .series = {{.bars = {{size, size / 2, size}}}}}));
    expect_sound(draw(StepChart{.series = {{.points = {{size, size}, {2 * size, 3}}}}}));
    expect_sound(draw(DistributionChart{.series = {{.values = {size, 1}}}}));
    expect_sound(draw(HeatMap{.columns = {"c", "d"}, .rows = {"r"}, .values = {{size, 1}}}));
  }
}

TEST(Charts, LongSeriesStaySmallAndKeepTheirPeaks) {
  StepChart chart{.x = {.label = "Time"}, .y = {.label = "Degree"}};
  StepSeries series{.name = "a", .end = 1000000};
  for (int i = 0; i < 1000000; ++i) series.points.push_back({i * 1.0, i == 654321 ? 50.0 : i % 3});
  chart.series = {series};
  const Figure figure = draw(chart);
  expect_sound(figure);
  EXPECT_LT(figure.body.size(), 30000u);
  EXPECT_THAT(csv_of(figure.numbers), HasSubstr("a,0,1.00004"));
  // The band reaches the top of the plot, where 50 is.
  EXPECT_THAT(figure.body, testing::ContainsRegex("L[0-9.]+ 52L"));
}

TEST(Charts, MeanOverTimeCountsTimes) {
  const Figure figure =
      draw(StepChart{.series = {{.name = "a", .points = {{0, 10}, {1, 2}, {3, 0}}, .end = 4}}});
  EXPECT_EQ(figure.numbers.at(0, 2).exact(), "3.5");  // (10 + 4 + 0) / 4
}

TEST(Charts, EachSeriesLooksDifferent) {
  LineChart chart;
  for (int i = 0; i < 35; ++i)
    chart.series.push_back({.name = "s", .points = {{0, 0.0 + i}, {1, 1}}});
  const Figure figure = draw(chart);
  expect_sound(figure);
  // Dash and marker of the legend, without the colour: what is left in grey.
  const std::regex entry("<line [^>]*class=\"l c[0-9]( d[0-9])?\"/>\n<(circle|path d=\"M)([^>]*)>");
  std::set<std::string> looks;
  const std::regex place("[0-9.]+ [0-9.]+");
  for (std::sregex_iterator it(figure.body.begin(), figure.body.end(), entry), end; it != end;
       ++it) {
    const std::string shape = (*it)[3];
    const auto corners = std::distance(std::sregex_iterator(shape.begin(), shape.end(), place), {});
    const bool ring = shape.find("ring") != std::string::npos;
    std::smatch first;
    std::string slant;
    if (std::regex_search(shape, first, std::regex("([0-9.]+) ([0-9.]+)L([0-9.]+) ([0-9.]+)"))) {
      slant = fmt::format("{:.1f} {:.1f}", std::stod(first[3]) - std::stod(first[1]),
                          std::stod(first[4]) - std::stod(first[2]));
    }
    looks.insert(fmt::format("{} {} {} {}", (*it)[1].str(), corners, ring, slant));
  }
  EXPECT_EQ(looks.size(), 35u);
}

/// Long names, many series, many groups, many racks: for looking at too.
Page crowded_page() {
  const std::string name = "a rather long name of a system, number ";
  Page page("Crowded " + std::string(60, 'x'), "MONKEYTREE_CROWDED_PAGE=FILE writes it");
  LineChart line{.title = "Eleven series",
                 .x = {.label = "Bytes", .unit = "B", .kind = AxisKind::kLog},
                 .y = {.label = "Time", .unit = "s", .kind = AxisKind::kLog}};
  BarChart bars{.title = "Eleven by fourteen", .y = {.label = "Cost", .unit = "GPU-hours"}};
  for (int c = 0; c < 14; ++c) bars.categories.push_back(name + std::to_string(c));
  HeatMap map{.title = "Forty by thirty",
              .x = {.label = "Columns of the map"},
              .y = {.label = "Rows"},
              .value = {.label = "Value"}};
  for (int s = 0; s < 11; ++s) {
    line.series.push_back({.name = name + std::to_string(s)});
    bars.series.push_back({.name = "system-" + std::to_string(s)});
    for (int i = 0; i < 14; ++i) {
      line.series.back().points.push_back({std::pow(10.0, i), (s + 1) * std::pow(3.0, i) * 1e-5});
      bars.series.back().bars.push_back({1e7 * (s + 1) / (i + 1)});
    }
  }
  for (int r = 0; r < 30; ++r) map.rows.push_back(name + std::to_string(r));
  for (int c = 0; c < 40; ++c) map.columns.push_back("column " + std::to_string(c));
  map.values.assign(30, std::vector<double>(40, 12.5));
  map.values[3][7] = 99;
  map.values[4][8] = 1;
  RackPicture racks{.title = "Forty racks of 64 slots"};
  for (int r = 0; r < 40; ++r) {
    PictureRack rack{
        .name = "rack-of-a-long-name-" + std::to_string(r), .degree = r % 19, .bound = 16};
    for (int s = 0; s < 64; ++s) {
      const std::string job = std::to_string(4700 + (r * 64 + s) / 24);
      rack.slots.push_back(
          {s % 13 == 0 ? PictureSlot::kFree : PictureSlot::kHeld, job, "", s % 3 > 0});
    }
    racks.racks.push_back(rack);
  }
  RackPicture small{.title = "A hundred small racks"};
  for (int r = 0; r < 100; ++r) {
    PictureRack rack{.name = "r" + std::to_string(r), .degree = r % 4, .bound = 2};
    for (int s = 0; s < 8; ++s) {
      rack.slots.push_back({PictureSlot::kHeld, std::to_string((r * 8 + s) / 7), "", s % 3 > 0});
    }
    small.racks.push_back(rack);
  }
  QuantileChart strips{.title = "Strips", .x = {.label = "Slowdown"}};
  for (int s = 0; s < 8; ++s)
    strips.strips.push_back(strip_of(name + std::to_string(s), {1.0, 2.0 + s, 9}));
  BarChart few{.title = "Names of several words",
               .y = {.label = "Moves"},
               .categories = {"first fit of whole nodes", "best fit, remainder filled", "random"}};
  few.series = {{.bars = {{3, 2, 4}, {-1, -2, 0.5}, {2}}}};
  for (const Figure& figure :
       {draw(line), draw(bars), draw(few), draw(map), draw(strips), draw(racks), draw(small)}) {
    expect_sound(figure);
    page.add(figure);
  }
  return page;
}

TEST(Charts, CrowdedOnesAreSound) {
  const std::string html = crowded_page().html();
  EXPECT_EQ(xml_fault(html), "");
  if (const char* file = std::getenv("MONKEYTREE_CROWDED_PAGE")) std::ofstream(file) << html;
}

}  // namespace
}  // namespace monkeytree
