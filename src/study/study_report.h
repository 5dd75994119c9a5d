#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/page.h"
#include "report/text.h"
#include "study/results.h"

namespace monkeytree {

/// The page of a study and its tables, as a study's `draw` fills them.
class StudyReport {
 public:
  StudyReport(Page& page, std::string name) : page_(page), name_(std::move(name)) {}
  /// On the page, and the first one as NAME.svg.
  void add(const Figure& figure);
  /// On the page, and as NAME-`suffix`.csv.
  void add(const DataTable& table, const std::string& suffix);
  Page& page() { return page_; }
  std::vector<std::pair<std::string, std::string>>& files() { return files_; }

 private:
  Page& page_;
  std::string name_;
  bool drawn_ = false;
  std::vector<std::pair<std::string, std::string>> files_;
};

/// What a study writes: names of files and their contents, the page last.
struct StudyOutput {
  std::vector<std::pair<std::string, std::string>> files;
  DataTable table;  ///< the table of the page, for a terminal
};

/// NAME.csv (a row for every point, means and intervals), NAME-cells.csv (a row for every cell),
/// NAME.svg (the first chart), what the study adds, and NAME.html. Draws the cells that there are;
/// the page says which are missing.
StudyOutput write_study(const StudyResults& results);

}  // namespace monkeytree
