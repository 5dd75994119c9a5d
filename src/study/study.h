#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "study/runner.h"
#include "study/settings.h"

/// A study: a question about clusters, answered by a grid of runs and drawn as a page.
///
///     {.name = "threshold", .title = "…", .question = "…",
///      .base = {{"system", "monkeytree"}},
///      .axes = {{"threshold", {"8", "12", "16"}}, {"load", {"1.0"}}},
///      .metrics = {"moves", "slowdown_avg"},
///      .draw = [](const StudyResults& results, StudyReport& report) {
///        report.add(lines(results, {.x = "threshold", .metric = "moves", .title = "Moves"}));
///      }}
namespace monkeytree {

class StudyResults;
class StudyReport;

/// What is varied, and its values in the order in which they are shown.
struct StudyAxis {
  std::string name;
  std::vector<std::string> values;
};

/// The axis that every study has last, unless its results are the same for all seeds.
inline constexpr std::string_view kSeedAxis = "seed";

/// One run of a study: a value on each axis, on top of the base's settings.
class StudyCell {
 public:
  StudyCell(std::vector<std::pair<std::string, std::string>> at, Settings settings)
      : at_(std::move(at)), settings_(std::move(settings)) {}

  const std::vector<std::pair<std::string, std::string>>& at() const { return at_; }
  /// The value on an axis; empty where there is no such axis.
  const std::string& text(std::string_view axis) const;
  /// The same as a number; NaN where it is none.
  double number(std::string_view axis) const;
  uint64_t seed() const;
  /// Everything that the run depends on: the base with the axes' values in place.
  const Settings& settings() const { return settings_; }
  /// "system=ecmp-load=0.9-seed=1", fit for a file's name.
  std::string key() const;

 private:
  std::vector<std::pair<std::string, std::string>> at_;
  Settings settings_;
};

/// What a run found out: numbers, and lists such as a count for each number of moves.
struct Measurements {
  std::vector<std::pair<std::string, double>> values = {};
  std::vector<std::pair<std::string, std::vector<double>>> lists = {};

  /// NaN where there is none.
  double value(std::string_view name) const;
  /// Empty where there is none.
  const std::vector<double>& list(std::string_view name) const;
};
std::string to_json(const Measurements& measurements);
/// The inverse of to_json(), bit for bit.
absl::StatusOr<Measurements> measurements_of(std::string_view json);

/// Measures a cell. Pure: the same cell gives the same result, unless the study is about time.
using Measure =
    std::function<absl::StatusOr<Measurements>(const StudyCell& cell, const StopPredicate& stop)>;

/// Where a full study and a quick one differ, and what the command line may change.
struct StudySize {
  int jobs = 2400;
  int seeds = 5;
  std::string iterations = "[100, 1000]";
};

struct Study {
  std::string name = {};
  std::string title = {};
  std::string question = {};  ///< what the page opens with
  Settings base = {};
  std::vector<StudyAxis> axes = {};   ///< without the seeds
  std::vector<StudyAxis> quick = {};  ///< in place of those of the same names
  StudySize size = {};
  StudySize quick_size = {.jobs = 600, .seeds = 3, .iterations = "[20, 200]"};
  bool seeded = true;
  std::vector<std::string> metrics = {};  ///< columns of the table on the page
  /// Null: the cell's settings are a scenario, and simulate() runs it.
  Measure measure = nullptr;
  /// Adds the figures; the rest of the page is the same for all studies.
  std::function<void(const StudyResults& results, StudyReport& report)> draw = nullptr;
  /// As the command line names it; empty: built in. Its base is the reader's own scenario: sizes
  /// only replace what the command line gives.
  std::string file = {};
  bool timed = false;  ///< about run time: not the same twice

  bool from_file() const { return !file.empty(); }
};

/// What a command line asks for.
struct StudyChoice {
  bool quick = false;
  int jobs = 0;   ///< 0: the study's own
  int seeds = 0;  ///< 0: the study's own
};

/// A study with its axes and sizes fixed, and its cells, the last axis fastest.
struct StudyPlan {
  Study study;
  StudyChoice choice;
  StudySize size;
  std::vector<StudyAxis> axes;  ///< with the seeds
  std::vector<StudyCell> cells;
};
StudyPlan plan_study(Study study, const StudyChoice& choice);

/// The cells as run_grid() takes them. `read` opens the files that a scenario names.
std::vector<GridCell> grid_of(const StudyPlan& plan, const FileReader& read);

}  // namespace monkeytree
