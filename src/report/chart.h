#pragma once

#include <limits>
#include <string>
#include <vector>

#include "report/figure.h"
#include "report/scale.h"

/// The charts of a page: plain data in, a picture with the table of its numbers out.
///
///     LineChart chart{.title = "Slowdown by load",
///                     .x = {.label = "Load"},
///                     .y = {.label = "Average slowdown", .low = 1}};
///     chart.series.push_back({.name = "ecmp", .points = {{0.9, 1.42, 1.38, 1.46},
///                                                        {1.0, 1.58, 1.52, 1.64}}});
///     page.add(draw(chart));
///
/// What is NaN, infinite or has no place on a logarithmic axis is left out of the picture (a line
/// is broken there) and stands as "–" in the table. A chart without anything to draw says so. The
/// same data give the same bytes. Series can be told apart by colour, by dash and by marker;
/// `style` keeps a system's look the same in all charts of a study, -1 takes its place in the list.
namespace monkeytree {

inline constexpr double kNoValue = std::numeric_limits<double>::quiet_NaN();

/// A line across the chart at a value of its y axis, such as a bound.
struct Reference {
  double value = 0;
  std::string label = {};
};

struct LinePoint {
  double x = 0;
  double y = 0;
  double low = kNoValue;  ///< of the band around y, such as a confidence interval
  double high = kNoValue;
};

struct LineSeries {
  std::string name = {};
  std::vector<LinePoint> points = {};  ///< joined in this order
  int style = -1;
  bool strong = false;  ///< drawn thicker: the one the reader should look at
};

struct LineChart {
  std::string title = {};
  std::string caption = {};
  Axis x = {};
  Axis y = {};
  std::vector<LineSeries> series = {};
  std::vector<Reference> references = {};
  std::string band = "95 % confidence interval";  ///< what the bands are, for the legend
};
Figure draw(const LineChart& chart);

struct Bar {
  double value = kNoValue;
  double low = kNoValue;  ///< of the error bar
  double high = kNoValue;
};

struct BarSeries {
  std::string name = {};
  std::vector<Bar> bars = {};  ///< one for each category
  int style = -1;
};

/// Groups of bars side by side, from 0.
struct BarChart {
  std::string title = {};
  std::string caption = {};
  Axis y = {};
  std::vector<std::string> categories = {};
  std::vector<BarSeries> series = {};
  std::string band = "95 % confidence interval";
};
Figure draw(const BarChart& chart);

/// A value for each pair, as a shade and as a number.
struct HeatMap {
  std::string title = {};
  std::string caption = {};
  Axis x = {};      ///< label and unit of the columns
  Axis y = {};      ///< of the rows
  Axis value = {};  ///< kLog shades by the logarithm
  std::vector<std::string> columns = {};
  std::vector<std::string> rows = {};            ///< the first one at the top
  std::vector<std::vector<double>> values = {};  ///< [row][column]; kNoValue where there is none
  int decimals = 2;
};
Figure draw(const HeatMap& map);

/// One distribution by its quantiles.
struct Strip {
  std::string name = {};
  double p5 = kNoValue;
  double p25 = kNoValue;
  double p50 = kNoValue;
  double p75 = kNoValue;
  double p95 = kNoValue;
  double p99 = kNoValue;
  double max = kNoValue;
  double mean = kNoValue;
};
/// Takes finite values only. O(n log n).
Strip strip_of(std::string name, std::vector<double> values);

/// A row for each distribution: a box from p25 to p75 with the median, a line from p5 to p95,
/// points at p99 and the greatest value, a diamond at the mean.
struct QuantileChart {
  std::string title = {};
  std::string caption = {};
  Axis x = {};
  std::vector<Strip> strips = {};
};
Figure draw(const QuantileChart& chart);

struct StepPoint {
  double x = 0;
  double y = 0;  ///< from x until the next point; kNoValue: nothing
};

struct StepSeries {
  std::string name = {};
  std::vector<StepPoint> points = {};  ///< by ascending x
  double end = kNoValue;               ///< until when the last one holds
  int style = -1;
  bool strong = false;
};

/// What holds until it changes, over time. Where there are too many steps to see, each 180th of the
/// width shows its least, mean and greatest value. The table has each series' least, mean over
/// time, greatest and last value, and the values at the ticks.
struct StepChart {
  std::string title = {};
  std::string caption = {};
  Axis x = {};
  Axis y = {};
  std::vector<StepSeries> series = {};
  std::vector<Reference> references = {};
};
Figure draw(const StepChart& chart);

struct DistributionSeries {
  std::string name = {};
  std::vector<double> values = {};  ///< in any order
  int style = -1;
  bool strong = false;
};

/// The share of values that are at most x. O(n log n).
struct DistributionChart {
  std::string title = {};
  std::string caption = {};
  Axis x = {};
  std::vector<DistributionSeries> series = {};
};
Figure draw(const DistributionChart& chart);

/// A slot of a rack in a picture.
struct PictureSlot {
  enum State {
    kHeld,
    kFree,
    kClosed,  ///< takes nothing: drained, down or reserved
  };
  State state = kFree;
  std::string job = {};     ///< who holds it; names the colour
  std::string letter = {};  ///< drawn in the slot; the job's first letter where empty
  bool crosses = false;     ///< its group has workers in other racks too: coloured, else grey
  int style = -1;           ///< its colour, to keep it in several pictures; -1: by appearance
};

struct PictureRack {
  std::string name = {};
  int degree = 0;
  int bound = 0;
  std::vector<PictureSlot> slots = {};
};

/// Racks as rows of slots, each with its degree and bound; racks above their bound are marked.
struct RackPicture {
  std::string title = {};
  std::string caption = {};
  std::vector<PictureRack> racks = {};
};
Figure draw(const RackPicture& picture);

}  // namespace monkeytree
