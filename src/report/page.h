#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/figure.h"

/// One HTML file that can be mailed, printed and kept: style and pictures inside, no script,
/// nothing loaded from anywhere.
///
///     Page page("What shared uplinks cost in October", "Cluster gpu1, 128 racks");
///     page.key_figures({{"1 234", "GPU-hours lost", "2.1 % of all"}});
///     page.heading("Degrees over time");
///     page.paragraph("Above the bound for 31 % of the month; see `monkeytree analyze`.");
///     page.add(draw(chart));
///     page.add(table);
///     write_file("october.html", page.html());
namespace monkeytree {

/// A number that stands for the whole page.
struct KeyFigure {
  std::string value;
  std::string label;
  std::string note = {};
};

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = {})
      : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

  void key_figures(const std::vector<KeyFigure>& figures);
  /// Begins a section; pages with several have a list of contents.
  void heading(std::string_view text);
  /// Text, of which the parts between `backticks` are set as code.
  void paragraph(std::string_view text);
  /// A paragraph that must not be overlooked: an assumption, a limit of the data.
  void notice(std::string_view text);
  void list(const std::vector<std::string>& items);
  /// Lines as they are, such as commands.
  void code(std::string_view text);
  /// A table, with its title above it.
  void add(const DataTable& table);
  /// A picture with number, title and caption; its numbers in a table that opens below.
  void add(const Figure& figure);
  /// The last line of the page: how it was made.
  void footer(std::string text) { footer_ = std::move(text); }

  /// The whole file; valid as HTML and well-formed as XML. The same content gives the same bytes.
  std::string html() const;

 private:
  std::string title_;
  std::string subtitle_;
  std::string footer_;
  std::string body_;
  std::vector<std::string> headings_;
  int figures_ = 0;
};

}  // namespace monkeytree
