#include "study/study.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "study/built_in.h"
#include "study/slurm_array.h"
#include "study/study_report.h"
#include "study/study_test_grid.h"
#include "study/study_yaml.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Measurements, ComeBackBitForBit) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  Measurements in;
  in.values = {{"third", 1.0 / 3}, {"none", nan}, {"big", 1e300}};
  in.lists = {{"empty", {}}, {"some", {0.1, nan, -2}}};
  const absl::StatusOr<Measurements> out = measurements_of(to_json(in));
  ASSERT_TRUE(out.ok()) << out.status();
  EXPECT_EQ(to_json(*out), to_json(in));
  EXPECT_EQ(out->value("third"), 1.0 / 3);
  EXPECT_TRUE(std::isnan(out->value("none")));
  EXPECT_TRUE(std::isnan(out->value("unknown")));
  EXPECT_FALSE(measurements_of("{}").ok());
}

TEST(Settings, AxesSetKeysByShortNames) {
  Settings settings = {{"workload.generate.mix", "{gpt_7b_dp: 3}"},
                       {"system", "ecmp"},
                       {"migration.state.nothing", "1"}};
  set_axis(settings, "load", "0.9");
  set_axis(settings, "pause_s", "2.5");
  set_axis(settings, "model", "gpt_13b_dp");
  set_axis(settings, "freeze_unfragmented", "true");
  set_axis(settings, "state", "odd {value");
  set_axis(settings, "iterations", "[2, 20]");
  EXPECT_EQ(scenario_text(settings),
            "{freeze_unfragmented: true, migration: {pause_us: 2500000, state: \"odd {value\"}, "
            "system: ecmp, workload: {generate: {iterations: [2, 20], load: 0.9, mix: "
            "{gpt_13b_dp: 1}}}}\n");
}

TEST(Plan, LastAxisFastestAndSeedsLast) {
  Study study{.name = "s", .axes = {{"system", {"ecmp", "crux"}}, {"load", {"0.5"}}}};
  const StudyPlan plan = plan_study(study, {.quick = true, .seeds = 2});
  ASSERT_EQ(plan.cells.size(), 4u);
  EXPECT_EQ(plan.cells[0].key(), "system=ecmp-load=0.5-seed=1");
  EXPECT_EQ(plan.cells[1].key(), "system=ecmp-load=0.5-seed=2");
  EXPECT_EQ(plan.cells[2].key(), "system=crux-load=0.5-seed=1");
  EXPECT_EQ(plan.cells[3].settings().at("seed").text, "2");
}

TEST(Plan, KeysOfOddValuesDiffer) {
  Study study{.name = "s", .axes = {{"trace", {"a/b.csv", "a b.csv", "a+b.csv"}}}, .seeded = false};
  std::set<std::string> keys;
  for (const StudyCell& cell : plan_study(study, {}).cells) keys.insert(cell.key());
  EXPECT_EQ(keys.size(), 3u);
}

/// Every study that comes with the program: small, but from end to end.
class BuiltIn : public ::testing::TestWithParam<std::string> {};

TEST_P(BuiltIn, RunsAndDraws) {
  Study study = *find_study(GetParam());
  // Two values of each axis show as much as all.
  for (StudyAxis& axis : study.axes) {
    if (axis.values.size() > 2) axis.values = {axis.values.front(), axis.values.back()};
  }
  study.quick.clear();
  for (StudyAxis& axis : study.axes) {
    if (axis.name == "gpus") axis.values = {"128", "256"};
  }
  // A cluster that is full, so that there are moves to show.
  study.quick_size.iterations = "[2, 10]";
  study.base.try_emplace("workload.generate.load", "4.0");
  study.base.try_emplace("plan_work_limit", "2000");
  const StudyPlan plan = plan_study(study, {.quick = true, .jobs = 100, .seeds = 2});
  MemoryStore store;
  const auto files = files_of(plan, 2, store);
  const std::string& page = file_ending(files, ".html");
  EXPECT_THAT(page, HasSubstr("<svg"));
  EXPECT_THAT(page, Not(HasSubstr("nothing to show")));
  EXPECT_THAT(page, HasSubstr("Quick:"));
  EXPECT_THAT(page, Not(HasSubstr("Partial:")));
  const std::string& cells = file_ending(files, "-cells.csv");
  EXPECT_EQ(static_cast<size_t>(std::count(cells.begin(), cells.end(), '\n')),
            plan.cells.size() + 1);
}

std::vector<std::string> names_of_studies() {
  std::vector<std::string> names;
  for (const Study& study : built_in_studies()) names.push_back(study.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(All, BuiltIn, ::testing::ValuesIn(names_of_studies()),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::erase(name, '-');
                           return name;
                         });

TEST(BuiltInStudies, AreTheElevenOfTheDocs) {
  EXPECT_EQ(built_in_studies().size(), 11u);
  EXPECT_EQ(find_study("nonsense"), nullptr);
}

TEST(Traffic, IsTheDigestsTable) {
  const StudyPlan plan = plan_study(*find_study("traffic"), {});
  MemoryStore store;
  const auto files = files_of(plan, 1, store);
  EXPECT_EQ(file_ending(files, "traffic.csv"),
            "transformer,tensor_bytes,data_bytes,pipeline_bytes,paper_tensor_bytes,"
            "paper_data_bytes,paper_pipeline_bytes\n"
            "Llama3-70B,38482906972160,840000000000,51539607552,35800000000000,840000000000,"
            "51539607552\n"
            "GPT3-175B,69269232549888,2100000000000,77309411328,68800000000000,2100000000000,"
            "77309411328\n");
}

TEST(Results, SavingsAreAgainstTheSameJobsUnderEcmp) {
  const StudyPlan plan = plan_study(small_study(), {.jobs = 60, .seeds = 2});
  MemoryStore store;
  const StudyResults results(plan, run_grid(grid_of(plan, no_files), store, {.threads = 1}));
  for (const std::string system : {"ecmp", "sglb", "monkeytree"}) {
    for (const std::string seed : {"1", "2"}) {
      const Selection here = {{"system", system}, {"load", "2.0"}, {"seed", seed}};
      const Selection base = {{"system", "ecmp"}, {"load", "2.0"}, {"seed", seed}};
      EXPECT_DOUBLE_EQ(results.estimate("gpu_hours_saved", here).mean,
                       results.estimate("gpu_hours_lost", base).mean -
                           results.estimate("gpu_hours_lost", here).mean);
    }
  }
  EXPECT_GT(results.estimate("gpu_hours_lost", {{"system", "ecmp"}, {"load", "2.0"}}).mean, 0);
}

TEST(Results, FromOtherJobsAreNotUsedAgain) {
  MemoryStore store;
  run_grid(grid_of(plan_study(small_study(), {.jobs = 20, .seeds = 1}), no_files), store, {});
  const StudyPlan other = plan_study(small_study(), {.jobs = 21, .seeds = 1});
  EXPECT_EQ(gather(grid_of(other, no_files), store).count(CellState::kKept), 0u);
}

// -- a study of one's own -----------------------------------------------------------------------

constexpr const char* kMine =
    "name: mine\n"
    "base:\n"
    "  fabric: {gpus: 128, gpus_per_rack: 32, spines: 8}\n"
    "  workload: {generate: {load: 1.0, jobs: 20, iterations: [2, 10]}}\n"
    "axes:\n"
    "  seed: [1, 2]\n"
    "  system: [ecmp, monkeytree]\n"
    "  spines: [4, 8]\n";

std::string faults(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_study(text, "mine.yaml", no_files, diagnostics));
  return diagnostics.text();
}

TEST(StudyFile, IsAGrid) {
  Diagnostics diagnostics;
  const std::optional<Study> study = parse_study(kMine, "mine.yaml", no_files, diagnostics);
  ASSERT_TRUE(study) << diagnostics.text();
  const StudyPlan plan = plan_study(*study, {});
  ASSERT_EQ(plan.cells.size(), 8u);
  EXPECT_EQ(plan.cells[1].key(), "system=ecmp-spines=4-seed=2");
  MemoryStore store;
  const auto files = files_of(plan, 1, store);
  EXPECT_THAT(file_ending(files, "mine.csv"), HasSubstr("system,spines,seeds,slowdown_avg"));
  EXPECT_THAT(file_ending(files, "mine.html"), HasSubstr("<svg"));
}

TEST(StudyFile, ItsPageNamesACommandThatWorks) {
  Diagnostics diagnostics;
  const auto study = parse_study(kMine, "my folder/mine.yaml", no_files, diagnostics);
  ASSERT_TRUE(study) << diagnostics.text();
  MemoryStore store;
  const std::string page =
      file_ending(files_of(plan_study(*study, {.seeds = 1}), 1, store), ".html");
  EXPECT_THAT(page, HasSubstr("monkeytree study &#39;my folder/mine.yaml&#39; --seeds 1"));
  EXPECT_THAT(page, Not(HasSubstr("monkeytree study mine")));
}

TEST(StudyFile, FilesLieBesideIt) {
  const std::string text =
      "name: t\nbase:\n  fabric: {gpus: 128, gpus_per_rack: 32, spines: 8}\n"
      "  workload: {trace: \"my jobs.csv\"}\naxes: {system: [ecmp]}\n";
  const std::string trace = "submit_us,model,gpus,iterations\n0,gpt_7b_dp,16,3\n";
  std::vector<std::string> opened;
  const FileReader read = [&](const std::string& name) -> absl::StatusOr<std::string> {
    opened.push_back(name);
    return trace;
  };
  Diagnostics diagnostics;
  const std::optional<Study> study = parse_study(text, "some/where/s.yaml", read, diagnostics);
  ASSERT_TRUE(study) << diagnostics.text();
  MemoryStore store;
  const GridResult result = run_grid(grid_of(plan_study(*study, {}), read), store, {.threads = 1});
  EXPECT_TRUE(result.complete());
  EXPECT_THAT(opened, ::testing::Each("some/where/my jobs.csv"));
}

TEST(StudyFile, AxesTakeListsAndModelsOfAnyName) {
  Diagnostics diagnostics;
  std::string text = kMine;
  text += "  iterations: [[2, 4], [5, 9]]\n  state_scale: [0, 2]\n";
  const std::optional<Study> study = parse_study(text, "mine.yaml", no_files, diagnostics);
  ASSERT_TRUE(study) << diagnostics.text();
  const StudyPlan plan = plan_study(*study, {});
  ASSERT_EQ(plan.cells.size(), 32u);
  EXPECT_EQ(plan.cells[0].text("iterations"), "[2, 4]");
  const auto input =
      read_settings(plan.cells.back().settings(), "mine.yaml", no_files, diagnostics);
  ASSERT_TRUE(input) << diagnostics.text();
  EXPECT_EQ(input->scenario.state_scale, 2);
  for (const TraceJob& job : input->workload.trace) EXPECT_GE(job.iterations, 5);
  EXPECT_THAT(faults(kMine, "[2, 10]}", "[2, 10], mix: {qwen2.5_7b: 1}}"),
              HasSubstr("mine.yaml:4: /workload/generate: mix: unknown model \"qwen2.5_7b\""));
}

TEST(StudyFile, TwoAxesDoNotSetTheSame) {
  const auto with = [](const char* axes) {
    return faults(std::string(kMine) + axes, "spines: [4, 8]", "spines: [8]");
  };
  EXPECT_EQ(with("  fabric.spines: [4]\n"),
            "mine.yaml:9: /axes/fabric.spines: sets fabric.spines, which the axis \"spines\" sets "
            "too; expected one of them\n");
  EXPECT_THAT(with("  pause_s: [1]\n  pause_us: [2]\n"), HasSubstr("sets migration.pause_us"));
  EXPECT_THAT(with("  model: [gpt_7b_dp]\n  mix: [default]\n"),
              HasSubstr("/axes/mix: sets workload.generate.mix, which the axis \"model\""));
  EXPECT_THAT(with("  fabric: [1]\n"), HasSubstr("/axes/fabric: sets fabric.spines"));
  EXPECT_EQ(with("  load: [0.5, 1, 0.50]\n"),
            "mine.yaml:9: /axes/load/2: \"0.50\" is the same number as \"0.5\", which stands here "
            "already\n");
}

TEST(StudyFile, FaultsHaveTheirLine) {
  EXPECT_THAT(faults(kMine, "name: mine", "name: ../mine"), HasSubstr("mine.yaml:1: /name"));
  EXPECT_THAT(faults(kMine, "gpus_per_rack: 32", "gpus_per_rack: 30"),
              HasSubstr("mine.yaml:3: /fabric/gpus_per_rack: racks of 30 GPUs"));
  EXPECT_THAT(faults(kMine, "[4, 8]", "[4, many]"),
              HasSubstr("mine.yaml:8: /fabric/spines: expected a whole number"));
  EXPECT_THAT(faults(kMine, "[ecmp, monkeytree]", "[ecmp, ecmp]"), HasSubstr("twice"));
  EXPECT_THAT(faults(kMine, "[ecmp, monkeytree]", "[]"),
              HasSubstr("mine.yaml:7: /axes/system: 0 values"));
  EXPECT_THAT(faults(kMine, "load: 1.0", "laod: 1.0"),
              HasSubstr("mine.yaml:4: /workload/generate/laod: unknown key"));
  EXPECT_THAT(faults(kMine, "base:", "bass:"), HasSubstr("unknown key"));
  EXPECT_THAT(faults(kMine, "  system: [ecmp", "  colour: [ecmp"),
              HasSubstr("mine.yaml:7: /colour: unknown key"));
  EXPECT_THAT(faults(kMine, "[ecmp, monkeytree]", "[{a: b}]"),
              HasSubstr("mine.yaml:7: /axes/system/0: expected a value, found a map"));
  EXPECT_THAT(faults(kMine, "base:\n", std::string("base: \0\n", 8)),
              HasSubstr("mine.yaml:2: NUL byte, expected text"));
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_study("- name: mine\n", "l.yaml", no_files, diagnostics));
  EXPECT_FALSE(
      parse_study("name: m\nbase: [a]\naxes: {seed: [1]}\n", "l.yaml", no_files, diagnostics));
  EXPECT_EQ(diagnostics.text(),
            "l.yaml:1: expected a map, found a list\n"
            "l.yaml:2: /base: expected a map, found a list\n");
}

// -- Slurm --------------------------------------------------------------------------------------

TEST(SlurmArray, IsAScriptWhoseTasksAreTheCells) {
  const SlurmArray array{.name = "threshold",
                         .folder = "/shared/out",
                         .command = {"/opt/monkeytree", "study", "my study's.yaml"},
                         .tasks = 12,
                         .options = {"--partition=batch"}};
  EXPECT_EQ(
      slurm_script(array),
      "#!/bin/bash\n"
      "#SBATCH --job-name=monkeytree-threshold\n"
      "#SBATCH --array=0-11\n"
      "#SBATCH --ntasks=1\n"
      "#SBATCH --cpus-per-task=1\n"
      "#SBATCH --partition=batch\n"
      "exec /opt/monkeytree study 'my study'\\''s.yaml' --cell \"$SLURM_ARRAY_TASK_ID/12\"\n");
}

}  // namespace
}  // namespace monkeytree
