#pragma once

#include <string>
#include <vector>

#include "report/canvas.h"
#include "report/chart.h"

/// What charts share: legend, axes, names along an axis.
namespace monkeytree {

inline constexpr double kChartWidth = 760;
inline constexpr double kRightMargin = 22;

/// Looks of the i-th series; `style` of the data, or its place where that is -1.
int style_of(int style, size_t place);
std::string color_of(int style);  ///< class of a colour: one of eight
/// Classes of a line: colour and one of five dashes; a strong one is thick and not dashed.
std::string line_look(int style, bool strong);
std::string fill_of(int style);  ///< class of a bar's fill

struct LegendEntry {
  enum Kind { kLine, kStep, kBar, kBand, kErrorBar, kReference } kind = kLine;
  std::string name;
  int style = 0;
  bool strong = false;
};

/// Draws entries in rows from the top; gives the height used. Entries without a name are left out.
double draw_legend(Canvas& canvas, const std::vector<LegendEntry>& entries);

/// The part of a chart that shows data, in pixels.
struct Plot {
  double left = 0, top = 0, right = 0, bottom = 0;
};

/// Draws title, grid and labels of y, from `top` down, and places the scale to the plot that is
/// left over, which is `height` high.
Plot draw_y_axis(Canvas& canvas, Scale& y_scale, double top, double height);

/// A horizontal scale within a plot, a little in from its sides so that markers do not touch them.
Scale x_scale_within(const Plot& plot, const Axis& axis, Range data);

/// Below the plot: tick labels and title. Gives the height used.
double draw_x_axis(Canvas& canvas, const Scale& x_scale, const Plot& plot, bool grid);

/// Names below a plot, each centred in its part of the width; broken, or else turned, where they
/// are too wide. Gives the height used.
double draw_names(Canvas& canvas, const std::vector<std::string>& names, const Plot& plot);

void draw_references(Canvas& canvas, const std::vector<Reference>& references, const Scale& y,
                     const Plot& plot);
void add_references(std::vector<LegendEntry>& legend, const std::vector<Reference>& references);

/// "nothing to show" in the middle of an empty plot.
void draw_nothing(Canvas& canvas, const Plot& plot);

/// Draws a bar between two corners by its style.
void draw_bar(Canvas& canvas, double x, double y, double width, double height, int style,
              std::string_view tip);

/// A vertical line with feet.
void draw_error_bar(Canvas& canvas, double x, double low, double high, double foot);

/// "Line chart, 3 series."
std::string summary_text(std::string_view kind, size_t count, std::string_view noun);

}  // namespace monkeytree
