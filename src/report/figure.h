#pragma once

#include <string>
#include <string_view>

#include "report/data_table.h"

/// A drawn chart: what draw() of chart.h gives and a Page or a file takes.
namespace monkeytree {

struct Figure {
  std::string title = {};
  std::string caption = {};  ///< what the reader should see in it; may be empty
  std::string summary = {};  ///< what kind of picture, for those who cannot see it
  double width = 0;          ///< of the picture, in the units of `body`
  double height = 0;
  std::string body = {};   ///< SVG elements, styled by the classes of chart_style()
  DataTable numbers = {};  ///< what is drawn, or for long data its essence
};

/// The picture as an SVG element for a page. `id` must be unique in the page: it names title and
/// description.
std::string svg_of(const Figure& figure, std::string_view id);

/// The picture as a file of its own, with its title, its style and both colour schemes.
std::string svg_file_of(const Figure& figure);

/// The style sheet that pictures need; colours follow the reader's light or dark scheme, and are
/// light on paper.
std::string_view chart_style();

}  // namespace monkeytree
