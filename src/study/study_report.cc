#include "study/study_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "study/slurm_array.h"

namespace monkeytree {
namespace {

constexpr size_t kMostNamed = 12;

std::string command_of(const StudyPlan& plan) {
  const Study& study = plan.study;
  std::string text = "monkeytree study ";
  text += study.from_file() ? shell_word(study.file) : study.name;
  if (plan.choice.quick) text += " --quick";
  if (plan.choice.jobs > 0) text += fmt::format(" --jobs {}", plan.choice.jobs);
  if (plan.choice.seeds > 0) text += fmt::format(" --seeds {}", plan.choice.seeds);
  return text;
}

std::string sizes_of(const StudyPlan& plan) {
  std::string text;
  for (const StudyAxis& axis : plan.axes) {
    text += fmt::format("{}{} ({})", text.empty() ? ": " : ", ", axis_of(axis.name).label,
                        fmt::join(axis.values, ", "));
  }
  return count_text(plan.cells.size(), "cell") + text;
}

void add_notices(const StudyResults& results, Page& page) {
  const StudyPlan& plan = results.plan();
  if (plan.choice.quick) {
    page.notice(
        "Quick: fewer and shorter runs than the study is meant to have, so intervals are wide, "
        "the cluster is full for less of the time, and a pause weighs more on jobs that end soon. "
        "Without `--quick` it is the whole study.");
  }
  const std::vector<std::string>& missing = results.missing();
  if (missing.empty()) return;
  const size_t named = std::min(missing.size(), kMostNamed);
  page.notice(fmt::format(
      "Partial: {} of {} cells are there; the same command goes on where this one ended. Missing: "
      "{}{}.",
      results.size(), plan.cells.size(),
      fmt::join(missing.begin(), missing.begin() + static_cast<std::ptrdiff_t>(named), ", "),
      missing.size() > named ? fmt::format(" and {} more", missing.size() - named) : ""));
}

}  // namespace

void StudyReport::add(const Figure& figure) {
  page_.add(figure);
  if (!drawn_) files_.emplace_back(name_ + ".svg", svg_file_of(figure));
  drawn_ = true;
}

void StudyReport::add(const DataTable& table, const std::string& suffix) {
  page_.add(table);
  files_.emplace_back(fmt::format("{}-{}.csv", name_, suffix), csv_of(table));
}

StudyOutput write_study(const StudyResults& results) {
  const StudyPlan& plan = results.plan();
  const Study& study = plan.study;
  Page page(study.title, command_of(plan));
  StudyReport report(page, study.name);
  add_notices(results, page);
  page.paragraph(study.question);
  if (study.draw && results.size() > 0) study.draw(results, report);

  const std::vector<std::string> all = results.metrics();
  std::vector<std::string> shown;
  for (const std::string& name : study.metrics) {
    if (std::find(all.begin(), all.end(), name) != all.end()) shown.push_back(name);
  }
  StudyOutput output;
  output.table = results.table(shown, Reader::kTerminal);
  if (!shown.empty()) {
    page.heading("All numbers");
    if (study.seeded) {
      page.paragraph(
          "Means over the seeds ± half the 95 % confidence interval (Student's t). The same seed "
          "has the same jobs in all rows.");
    }
    page.add(results.table(shown, Reader::kPage));
  }
  page.heading("How it was made");
  page.paragraph(sizes_of(plan) + ".");
  page.code(command_of(plan));
  if (!plan.cells.empty() && !study.measure) {
    page.paragraph("The scenario of the first cell:");
    page.code(scenario_text(plan.cells.front().settings()));
  }
  if (study.timed)
    page.paragraph("Run times are those of this machine, and differ from run to run.");

  if (!shown.empty()) {
    output.files.emplace_back(study.name + ".csv", csv_of(results.table(all, Reader::kProgram)));
    output.files.emplace_back(study.name + "-cells.csv", csv_of(results.cells()));
  }
  for (auto& file : report.files()) output.files.push_back(std::move(file));
  output.files.emplace_back(study.name + ".html", page.html());
  return output;
}

}  // namespace monkeytree
