#include "simulation/scenario_yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kWorkload = "workload: {trace: jobs.csv}\n";

ScenarioFile parsed(const std::string& text, const ScenarioOverrides& overrides = {}) {
  Diagnostics diagnostics;
  std::optional<ScenarioFile> scenario = parse_scenario(text, "dir/s.yaml", overrides, diagnostics);
  EXPECT_EQ(diagnostics.text(), "");
  return scenario.value_or(ScenarioFile());
}

/// What is said of a text that must be refused.
std::string refusal(const std::string& text) {
  Diagnostics diagnostics;
  EXPECT_FALSE(parse_scenario(text, "s.yaml", {}, diagnostics).has_value()) << text;
  return diagnostics.text();
}

/// The same for a line that stands above a workload.
std::string refused_line(const std::string& line) { return refusal(line + "\n" + kWorkload); }

TEST(ScenarioYaml, ReadsEveryField) {
  const ScenarioFile file = parsed(
      "fabric: {kind: leaf-spine, gpus: 256, gpus_per_node: 4, gpus_per_rack: 32, spines: 8,\n"
      "         link_gbps: 100, nvlink: true}\n"
      "scheduler: random\nqueue: backfill\nsystem: crux\nthreshold: 7\nrules: ours\n"
      "fill: paper\nmigration: {pause_us: 5, state: paper, state_scale: 2.5}\nfreeze_unfragmented: "
      "true\n"
      "crux_intensity: busy\npipeline: 1f1b\nplan_work_limit: 1e4\nmodels: mine.yaml\n"
      "workload: {generate: {load: 0.5, jobs: 12, iterations: [3, 9], mean: no-bubble,\n"
      "                      mix: {gpt_7b_dp: 2, mine: 1}}}\n"
      "seed: 42\n");
  const Scenario& it = file.scenario;
  EXPECT_EQ(it.fabric, (FabricShape{256, 4, 32, 8, 12'500, true, false}));
  EXPECT_EQ(it.scheduler, PlacementRule::kRandom);
  EXPECT_TRUE(it.backfill);
  EXPECT_EQ(it.system->name, "crux");
  EXPECT_EQ(it.bound(), 7);
  EXPECT_FALSE(it.paper_rules);
  EXPECT_EQ(it.fill, FillRule::kPaper);
  EXPECT_EQ(it.pause_us, 5);
  EXPECT_EQ(it.state, StateRule::kPaper);
  EXPECT_EQ(it.state_scale, 2.5);
  EXPECT_TRUE(it.freeze_unfragmented);
  EXPECT_EQ(it.crux_intensity, CruxIntensity::kTotal);
  EXPECT_EQ(it.pipeline, PipelineSchedule::kOneForwardOneBackward);
  EXPECT_EQ(it.plan_work_limit, 10'000);
  EXPECT_EQ(it.seed, 42U);
  EXPECT_EQ(file.models->name, "dir/mine.yaml");
  EXPECT_FALSE(file.trace);
  EXPECT_EQ(file.generate.load, 0.5);
  EXPECT_EQ(file.generate.jobs, 12);
  EXPECT_EQ(file.generate.min_iterations, 3);
  EXPECT_EQ(file.generate.max_iterations, 9);
  EXPECT_EQ(file.generate.cluster_gpus, 256);
  EXPECT_EQ(file.generate.seed, 42U);
  EXPECT_EQ(file.generate.mix.size(), 2U);
  EXPECT_TRUE(file.mean_without_bubbles);
}

TEST(ScenarioYaml, WhatIsNotSaidHasItsDefault) {
  const ScenarioFile file = parsed(kWorkload);
  EXPECT_EQ(file.scenario.fabric, FabricShape());
  EXPECT_EQ(file.scenario.system->name, "monkeytree");
  EXPECT_EQ(file.scenario.bound(), 16);
  EXPECT_EQ(file.scenario.fill, FillRule::kRemainder);
  EXPECT_EQ(file.scenario.state, StateRule::kShard);
  EXPECT_EQ(file.scenario.state_scale, 1);
  EXPECT_EQ(file.scenario.crux_intensity, CruxIntensity::kBusiest);
  EXPECT_FALSE(file.scenario.freeze_unfragmented || file.mean_without_bubbles);
  EXPECT_EQ(file.trace->name, "dir/jobs.csv");
  EXPECT_EQ(parsed("workload: {trace: /abs/jobs.csv}\n").trace->name, "/abs/jobs.csv");
}

TEST(ScenarioYaml, PaperRulesAreDefaultsThatAFileMayOverride) {
  const ScenarioFile paper = parsed(std::string("rules: paper\n") + kWorkload);
  EXPECT_TRUE(paper.scenario.paper_rules && paper.scenario.freeze_unfragmented);
  EXPECT_TRUE(paper.mean_without_bubbles);
  EXPECT_EQ(paper.scenario.fill, FillRule::kPaper);
  EXPECT_EQ(paper.scenario.state, StateRule::kPaper);
  EXPECT_EQ(paper.scenario.crux_intensity, CruxIntensity::kTotal);
  const ScenarioFile but = parsed(
      "fill: remainder\nmigration: {state: shard}\nfreeze_unfragmented: false\n"
      "crux_intensity: intensity\nworkload: {generate: {mean: ideal}}\nrules: paper\n");
  EXPECT_TRUE(but.scenario.paper_rules);
  EXPECT_FALSE(but.scenario.freeze_unfragmented || but.mean_without_bubbles);
  EXPECT_EQ(but.scenario.fill, FillRule::kRemainder);
  EXPECT_EQ(but.scenario.state, StateRule::kShard);
  EXPECT_EQ(but.scenario.crux_intensity, CruxIntensity::kBusiest);
}

TEST(ScenarioYaml, FullBisectionHasASpineForEachGpuOfARack) {
  const std::string fabric = "fabric: {gpus: 4096, gpus_per_rack: 1024, spines: 4}\n";
  const ScenarioFile file = parsed(fabric + "system: full-bisection\n" + kWorkload);
  EXPECT_EQ(file.scenario.fabric.spines, 1024);
  ScenarioOverrides overrides;
  overrides.system = "full-bisection";
  EXPECT_EQ(parsed(fabric + "system: ecmp\n" + kWorkload, overrides).scenario.fabric.spines, 1024);
  overrides.system = "spray";
  EXPECT_EQ(parsed(fabric + kWorkload, overrides).scenario.fabric.spines, 4);
}

TEST(ScenarioYaml, TheCommandLineGoesFirst) {
  ScenarioOverrides overrides;
  overrides.seed = 9;
  overrides.system = "sglb";
  overrides.trace = "here.csv";
  const ScenarioFile file = parsed("seed: 3\nsystem: ecmp\n", overrides);
  EXPECT_EQ(file.scenario.seed, 9U);
  EXPECT_EQ(file.generate.seed, 9U);
  EXPECT_EQ(file.scenario.system->name, "sglb");
  EXPECT_EQ(file.trace->name, "here.csv");
}

TEST(ScenarioYaml, SizesThatCannotBeAreRefused) {
  EXPECT_EQ(refused_line("fabric: {gpus: -8}"),
            "s.yaml:1: /fabric/gpus: expected a whole number from 1 to 1048576, found \"-8\"\n");
  EXPECT_EQ(refused_line("fabric:\n  gpus: 99999999999999999999"),
            "s.yaml:2: /fabric/gpus: expected a whole number from 1 to 1048576, found "
            "\"99999999999999999999\"\n");
  EXPECT_EQ(refused_line("fabric: {gpus: 1000, gpus_per_node: 16}"),
            "s.yaml:1: /fabric/gpus: 1000 GPUs are not whole nodes, expected a multiple of "
            "gpus_per_node, 16\n");
  EXPECT_EQ(refused_line("fabric: {gpus_per_rack: 60}"),
            "s.yaml:1: /fabric/gpus_per_rack: racks of 60 GPUs do not hold whole nodes, expected "
            "a multiple of gpus_per_node, 8\n");
  EXPECT_EQ(refused_line("fabric: {spines: 65}"),
            "s.yaml:1: /fabric/spines: a rack with more uplinks than GPUs, expected at most "
            "gpus_per_rack, 64, found 65\n");
  EXPECT_THAT(refused_line("fabric: {gpus_per_rack: 8}"), HasSubstr("more uplinks than GPUs"));
  EXPECT_THAT(refused_line("fabric: {spines: 0}"), HasSubstr("from 1 to 512, found \"0\""));
  EXPECT_THAT(refused_line("fabric: {link_gbps: 0}"), HasSubstr("/fabric/link_gbps: expected"));
  EXPECT_THAT(refused_line("migration: {pause_us: -1}"),
              HasSubstr("/migration/pause_us: expected"));
  EXPECT_THAT(refused_line("threshold: -1"), HasSubstr("s.yaml:1: /threshold: expected"));
  EXPECT_THAT(refusal("workload: {generate: {load: 0}}"), HasSubstr("/workload/generate/load: "));
  EXPECT_THAT(refusal("workload: {generate: {jobs: -1}}"), HasSubstr("/workload/generate/jobs: "));
  EXPECT_EQ(refusal("workload: {generate: {iterations: [0, 5]}}"),
            "s.yaml:1: /workload/generate/iterations/0: expected a whole number from 1 to "
            "1000000000, found \"0\"\n");
  EXPECT_EQ(refusal("workload: {generate: {iterations: [7, 5]}}"),
            "s.yaml:1: /workload/generate/iterations: from 7 to 5, expected the least first\n");
  EXPECT_THAT(refusal("workload: {generate: {iterations: [7]}}"), HasSubstr("found 1 values"));
}

TEST(ScenarioYaml, TyposDoNotPass) {
  EXPECT_EQ(refused_line("sytem: ecmp"),
            "s.yaml:1: /sytem: unknown key, expected one of fabric, scheduler, queue, system, "
            "threshold, rules, fill, migration, freeze_unfragmented, crux_intensity, pipeline, "
            "plan_work_limit, models, workload, seed\n");
  EXPECT_EQ(refused_line("seed: 1\nseed: 2"), "s.yaml:2: /seed: this key stands here twice\n");
  EXPECT_EQ(refused_line("system: monkey"),
            "s.yaml:1: /system: expected one of ecmp, crux, sglb, perfect, spray, full-bisection, "
            "repack, monkeytree, monkeytree-ecmp, monkeytree-crux, monkeytree-sglb, found "
            "\"monkey\"\n");
  EXPECT_EQ(refused_line("fabric: {kind: clos}"),
            "s.yaml:1: /fabric/kind: expected leaf-spine, found \"clos\"\n");
  EXPECT_EQ(refused_line("rules: theirs"),
            "s.yaml:1: /rules: expected ours or paper, found \"theirs\"\n");
  EXPECT_THAT(refusal("workload: {generate: {mix: heavy}}"),
              HasSubstr("/workload/generate/mix: expected default or {MODEL: WEIGHT, ...}, found"));
}

TEST(ScenarioYaml, OneWorkloadIsExpected) {
  EXPECT_EQ(refusal("seed: 1"),
            "s.yaml:1: no workload, expected workload: {trace: FILE} or {generate: {...}}\n");
  EXPECT_THAT(refusal("workload: {}"), HasSubstr("/workload: neither, expected {trace: FILE}"));
  EXPECT_THAT(refusal("workload: {trace: a, generate: {}}"), HasSubstr("/workload: both, "));
  EXPECT_EQ(refusal(""), "s.yaml:1: expected a map, found nothing\n");
  EXPECT_EQ(refusal("- a\n"), "s.yaml:1: expected a map, found a list\n");
}

TEST(ScenarioYaml, EveryFaultIsReportedInOneRun) {
  EXPECT_EQ(refusal("fabric: {gpus: x, spines: y}\nseed: z\nworkload: 5\n"),
            "s.yaml:1: /fabric/gpus: expected a whole number from 1 to 1048576, found \"x\"\n"
            "s.yaml:1: /fabric/spines: expected a whole number from 1 to 512, found \"y\"\n"
            "s.yaml:2: /seed: expected a whole number from 0 to 999999999999999999, found \"z\"\n"
            "s.yaml:3: /workload: expected a map, found \"5\"\n");
}

// -- The workload -------------------------------------------------------------------------------

/// A folder of texts.
class Files {
 public:
  Files& add(const std::string& name, const std::string& text) {
    texts_[name] = text;
    return *this;
  }
  std::optional<Workload> workload(const std::string& scenario) {
    Diagnostics diagnostics;
    std::optional<ScenarioFile> file = parse_scenario(scenario, "dir/s.yaml", {}, diagnostics);
    EXPECT_TRUE(file) << diagnostics.text();
    if (!file) return std::nullopt;
    std::optional<Workload> workload = read_workload(
        *file,
        [&](const std::string& name) -> absl::StatusOr<std::string> {
          const auto at = texts_.find(name);
          if (at == texts_.end()) return absl::NotFoundError("cannot open: no such file");
          return at->second;
        },
        diagnostics);
    findings_ = diagnostics.text();
    EXPECT_EQ(workload.has_value(), findings_.empty());
    return workload;
  }
  const std::string& findings() const { return findings_; }

 private:
  std::map<std::string, std::string> texts_;
  std::string findings_;
};

const std::string kHeader = "submit_us,model,gpus,iterations\n";

TEST(ScenarioWorkload, AJobLargerThanTheClusterIsRefusedWithItsLine) {
  Files files;
  files.add("dir/jobs.csv", kHeader + "0,gpt_7b_dp,16,5\n1,gpt_7b_dp,72,5\n");
  EXPECT_FALSE(files.workload(std::string("fabric: {gpus: 64}\n") + kWorkload));
  EXPECT_EQ(files.findings(), "dir/jobs.csv:3: the job needs 72 GPUs, the cluster has 64\n");
  EXPECT_TRUE(files.workload(std::string("fabric: {gpus: 72}\n") + kWorkload));
}

TEST(ScenarioWorkload, WhatCannotBeReadIsNamedWhereItIsNamed) {
  Files files;
  EXPECT_FALSE(files.workload(std::string("seed: 1\n") + kWorkload));
  EXPECT_EQ(files.findings(),
            "dir/s.yaml:2: /workload/trace: dir/jobs.csv: cannot open: no such file\n");
  EXPECT_FALSE(files.workload("workload: {generate: {}}\nmodels: m.yaml\n"));
  EXPECT_EQ(files.findings(), "dir/s.yaml:2: /models: dir/m.yaml: cannot open: no such file\n");
}

TEST(ScenarioWorkload, ModelsOfAUserJoinTheCatalogue) {
  Files files;
  files.add("dir/m.yaml",
            "models:\n  - name: mine\n    gpus: [8]\n    phases:\n      - compute: {us: 5}\n");
  files.add("dir/jobs.csv", kHeader + "0,mine,8,1\n0,gpt_7b_dp,16,1\n");
  EXPECT_TRUE(files.workload(std::string("models: m.yaml\n") + kWorkload));
  EXPECT_FALSE(files.workload(kWorkload));
  EXPECT_THAT(files.findings(), StartsWith("dir/jobs.csv:2: unknown model \"mine\", expected"));
  files.add("dir/m.yaml", "models:\n  - name: mine\n");
  EXPECT_FALSE(files.workload(std::string("models: m.yaml\n") + kWorkload));
  EXPECT_THAT(files.findings(), HasSubstr("dir/m.yaml:2: "));
}

TEST(ScenarioWorkload, GeneratedJobsFollowTheOptions) {
  Files files;
  const std::string mix = "mix: {gpt_7b_dp: 1, llama2_70b_tp_dp_pp_2: 1}";
  const auto with = files.workload("workload: {generate: {jobs: 50, iterations: [2, 4], " + mix +
                                   ", mean: ideal}}\n");
  const auto without = files.workload("workload: {generate: {jobs: 50, iterations: [2, 4], " + mix +
                                      ", mean: no-bubble}}\n");
  ASSERT_TRUE(with && without);
  ASSERT_EQ(with->trace.size(), 50U);
  for (const TraceJob& job : with->trace) EXPECT_TRUE(job.iterations >= 2 && job.iterations <= 4);
  // Shorter run times: jobs come a little faster, else the same.
  EXPECT_LT(without->trace.back().submit_us, with->trace.back().submit_us);
  EXPECT_GT(without->trace.back().submit_us, with->trace.back().submit_us * 8 / 10);
  EXPECT_FALSE(files.workload("seed: 3\nworkload: {generate: {mix: {nobody: 1}}}\n"));
  EXPECT_THAT(files.findings(),
              StartsWith("dir/s.yaml:2: /workload/generate: mix: unknown model \"nobody\""));
  EXPECT_FALSE(files.workload("fabric: {gpus: 8}\nworkload:\n  generate: {load: 1}\n"));
  EXPECT_THAT(files.findings(), StartsWith("dir/s.yaml:3: /workload/generate: no model "));
}

}  // namespace
}  // namespace monkeytree
