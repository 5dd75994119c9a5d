#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/chart.h"
#include "report/data_table.h"
#include "study/statistics.h"
#include "study/study.h"

namespace monkeytree {

/// For whom a table is.
enum class Reader {
  kPage,      ///< "1.58 ± 0.03"
  kTerminal,  ///< means alone
  kProgram,   ///< mean, low and high, a column each
};

/// What people call a number that is measured.
struct Metric {
  std::string_view name;
  std::string_view label;
  std::string_view unit = {};
  int decimals = 2;
};
/// A metric by its name; one that is not known is called by its name.
Metric metric_of(std::string_view name);

/// The same for axes: "load" → "Load".
Metric axis_of(std::string_view name);

/// For charts: a system looks the same in all of them. -1 where the name is none's.
int style_of_system(std::string_view name);

/// Values on some axes: {{"system", "ecmp"}, {"load", "0.9"}}.
using Selection = std::vector<std::pair<std::string, std::string>>;

/// The cells of a study that have a result.
class StudyResults {
 public:
  /// Results that cannot be read count as missing.
  StudyResults(const StudyPlan& plan, const GridResult& grid);

  const StudyPlan& plan() const { return plan_; }
  /// Null where there is none.
  const StudyAxis* axis(std::string_view name) const;
  const std::vector<std::string>& missing() const { return missing_; }  ///< keys of cells
  size_t size() const { return rows_.size(); }

  /// A value for each cell that matches, in grid order; cells without a number are left out.
  std::vector<double> values(std::string_view metric, const Selection& where) const;
  Estimate estimate(std::string_view metric, const Selection& where) const;
  /// Lists of the cells that match.
  std::vector<std::vector<double>> lists(std::string_view name, const Selection& where) const;
  /// The lists summed element by element.
  std::vector<double> summed(std::string_view name, const Selection& where) const;

  /// A row for every point of the grid: its axes, the number of seeds and, for each metric, its
  /// mean and interval.
  DataTable table(const std::vector<std::string>& metrics, Reader reader) const;
  /// A row for every cell with all that it measured.
  DataTable cells() const;
  /// Every metric that some cell has, in the order in which they were measured.
  std::vector<std::string> metrics() const;

 private:
  struct Row {
    const StudyCell* cell;
    Measurements found;
  };
  bool matches(const Row& row, const Selection& where) const;
  /// Adds `gpu_hours_saved`: what the same jobs lose under ecmp beyond what they lose here.
  void add_savings();

  const StudyPlan& plan_;
  std::vector<Row> rows_;
  std::vector<std::string> missing_;
};

/// What a chart shows of the results.
struct Drawing {
  std::string title = {};
  std::string metric = {};
  std::string x = {};       ///< axis along the chart
  std::string series = {};  ///< axis of the lines or the bars' colours; for a heat map its rows
  Selection where = {};     ///< of the other axes; those not named are averaged over
  std::string caption = {};
  double low = kNoValue;  ///< the y axis reaches this
};
Figure lines(const StudyResults& results, const Drawing& drawing);
Figure bars(const StudyResults& results, const Drawing& drawing);
Figure heat_map(const StudyResults& results, const Drawing& drawing);

}  // namespace monkeytree
