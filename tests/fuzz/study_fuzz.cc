// Studies of any bytes: refused with a reason, or a grid whose cells have names of their own and
// scenarios that can be read; small ones are run for a moment and drawn.

#include <absl/status/status.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "study/study_report.h"
#include "study/study_yaml.h"

using namespace monkeytree;  // NOLINT: a program of one function

namespace {

constexpr size_t kMostCells = 40;

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "does not hold: %s\n", what);
  std::abort();
}

absl::StatusOr<std::string> read_named(const std::string& name) {
  if (name.ends_with("jobs.csv")) return "submit_us,model,gpus,iterations\n0,gpt_7b_dp,16,2\n";
  return absl::NotFoundError("none");
}

/// Keeps nothing.
class NoStore : public CellStore {
 public:
  std::optional<std::string> load(std::string_view) override { return std::nullopt; }
  absl::Status store(std::string_view, std::string_view) override { return absl::OkStatus(); }
};

/// A study that says little is read quickly: a generated trace is drawn for each value.
bool is_small(const Settings& settings) {
  const auto number = [&](const char* path, double otherwise) {
    const auto at = settings.find(path);
    return at == settings.end() ? otherwise : std::atof(at->second.text.c_str());
  };
  return number("fabric.gpus", 1024) <= 256 && number("workload.generate.jobs", 2000) <= 8;
}

void check_plan(const StudyPlan& plan) {
  std::set<std::string> keys;
  for (const StudyCell& cell : plan.cells) {
    require(keys.insert(cell.key()).second, "cells have names of their own");
    require(cell.key().find('/') == std::string::npos, "names are of files");
    Diagnostics ignored;
    const std::string text = scenario_text(cell.settings());
    require(parse_yaml(text, "s", ignored).has_value(), "a cell's scenario is YAML");
  }
}

/// Runs a few steps of each cell and draws what there is.
void run(const StudyPlan& plan) {
  std::vector<GridCell> grid = grid_of(plan, read_named);
  for (GridCell& cell : grid) {
    const auto measure = cell.run;
    cell.run = [measure](const StopPredicate&) {
      int steps = 0;
      return measure([&] { return ++steps > 4; });
    };
  }
  NoStore store;
  const GridResult result = run_grid(grid, store, {.threads = 1});
  require(result.status.ok(), "a plan's cells can be run");
  const StudyOutput output = write_study(StudyResults(plan, result));
  require(!output.files.empty(), "a study has a page");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) return -1;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Values that make a study large say nothing new and take long.
  for (size_t at = 0, digits = 0; at < text.size(); ++at) {
    digits = text[at] >= '0' && text[at] <= '9' ? digits + 1 : 0;
    if (digits > 3 || text[at] == 'e') {
      const bool exponent = text[at] == 'e' && at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9';
      if (digits > 3 || exponent) return -1;
    }
  }
  Diagnostics diagnostics;
  const std::optional<Study> study = parse_study(text, "folder/f.yaml", read_named, diagnostics);
  require(study.has_value() != diagnostics.has_errors(), "what is refused has a reason");
  if (!study) return 0;
  const StudyPlan plan = plan_study(*study, {});
  if (plan.cells.size() > kMostCells) return 0;
  check_plan(plan);
  for (const StudyCell& cell : plan.cells) {
    if (!is_small(cell.settings())) return 0;
  }
  run(plan);
  return 0;
}
