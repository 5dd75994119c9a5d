// `monkeytree simulate` as a program: what it writes, what it refuses, and what is left where a run
// is cut short.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "cli/simulate.h"
#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

const std::string kData = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/";
const std::string kSmall = kData + "scenarios/small.yaml";
const std::string kHeader = "submit_us,model,gpus,iterations\n";

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

class SimulateProgram : public ::testing::Test {
 protected:
  /// Runs with `-o` a folder of this name in the test's own.
  ProgramRun run(const std::string& folder, const std::vector<std::string>& options,
                 const ProgramSetting& setting = {}) const {
    std::vector<std::string> arguments = {"simulate", "-o", folder_.path() + "/" + folder};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments, setting);
  }
  /// What is said of a scenario of this text that must be refused, its folder's name left out.
  std::string refusal(const std::string& scenario, const std::string& trace = kHeader) const {
    folder_.write("jobs.csv", trace);
    const ProgramRun ended = run("out", {folder_.write("s.yaml", scenario)});
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    std::string text = ended.err;
    const std::string prefix = folder_.path() + "/";
    for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    EXPECT_THAT(folder_.list(), Not(::testing::Contains("out")));
    return text;
  }
  std::string trace_refusal(const std::string& rows) const {
    return refusal("fabric: {gpus: 128}\nworkload: {trace: jobs.csv}\n", kHeader + rows);
  }
  /// Every line of a run's log is JSON, and times do not go back.
  void expect_sound_log(const std::string& name) const {
    int64_t time = 0;
    const std::string text = folder_.read(name);
    for (const std::string& line : lines_of(text)) {
      const Json event = Json::parse(line, nullptr, false);
      ASSERT_FALSE(event.is_discarded()) << line;
      EXPECT_GE(event["time_us"].get<int64_t>(), time);
      time = event["time_us"].get<int64_t>();
    }
    EXPECT_TRUE(text.empty() || text.back() == '\n');
  }

  TemporaryFolder folder_;
};

TEST_F(SimulateProgram, WritesEveryJobAndEvent) {
  const ProgramRun ended = run("out", {kSmall});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, StartsWith("monkeytree on 64 GPUs in 8 racks with 3 uplinks each, seed 7\n"
                                    "80 of 80 jobs ended in "));
  for (const std::string& line : lines_of(ended.out)) {
    if (line.starts_with("Wrote")) continue;
    EXPECT_LE(line.size(), 80U) << line;
  }
  const std::vector<std::string> rows = lines_of(folder_.read("out/jobs.csv"));
  ASSERT_EQ(rows.size(), 81U);
  EXPECT_EQ(rows[0],
            "job,model,gpus,iterations,submit_us,start_us,end_us,moves,pause_us,ideal_us,slowdown");
  expect_sound_log("out/events.jsonl");
  const Json summary = Json::parse(folder_.read("out/summary.json"));
  EXPECT_EQ(summary["jobs"], 80);
  EXPECT_EQ(summary["jobs_ended"], 80);
  EXPECT_EQ(summary["stopped"], false);
  EXPECT_EQ(summary["network"], "used");
  EXPECT_GT(summary["moves"], 0);
  EXPECT_GT(summary["gpu_hours_lost"], 0);
  // The sum of the rows.
  double slowdowns = 0;
  int64_t moves = 0, moved = 0;
  for (size_t i = 1; i < rows.size(); ++i) {
    slowdowns += std::stod(rows[i].substr(rows[i].rfind(',') + 1));
    std::istringstream row(rows[i]);
    std::string cell;
    for (int c = 0; c < 8; ++c) std::getline(row, cell, ',');
    moves += std::stoll(cell);
    moved += std::stoll(cell) > 0;
  }
  EXPECT_NEAR(summary["slowdown_avg"].get<double>(), slowdowns / 80, 1e-5);
  EXPECT_EQ(summary["moves"].get<int64_t>() - summary["moves_given_up"].get<int64_t>(), moves);
  EXPECT_EQ(summary["jobs_moved"], moved);
  const Json record = Json::parse(folder_.read("out/run.json"));
  EXPECT_GT(record["peak_memory_bytes"], 0);
  EXPECT_EQ(record["engine"], "fast");
  EXPECT_EQ(run_program({"simulate", kSmall, "--json"}).out, folder_.read("out/summary.json"));
}

TEST_F(SimulateProgram, TheSameSeedGivesTheSameBytesWithBothEngines) {
  const std::string paper = folder_.write(
      "paper.yaml",
      "rules: paper\nmodels: " + kData +
          "scenarios/small_models.yaml\n"
          "fabric: {gpus: 64, gpus_per_node: 2, gpus_per_rack: 8, spines: 3, link_gbps: 100}\n"
          "migration: {pause_us: 3000}\n"
          "workload: {generate: {load: 1.2, jobs: 60, iterations: [5, 30],\n"
          "                      mix: {ring: 4, pairs: 3, experts: 2, stages: 3}}}\n");
  for (const System& system : System::all()) {
    for (const std::string& scenario : {kSmall, paper}) {
      const std::vector<std::string> options = {scenario, "--system", std::string(system.name)};
      std::vector<std::string> plain = options;
      plain.insert(plain.end(), {"--engine", "plain"});
      EXPECT_EQ(run("fast", options).exit_code, 0);
      EXPECT_EQ(run("again", options).exit_code, 0);
      EXPECT_EQ(run("plain", plain).exit_code, 0);
      EXPECT_GT(folder_.read("fast/jobs.csv").size(), 1000U);
      for (const std::string file : {"/jobs.csv", "/events.jsonl", "/summary.json"}) {
        EXPECT_EQ(folder_.read("fast" + file), folder_.read("again" + file)) << system.name;
        EXPECT_EQ(folder_.read("fast" + file), folder_.read("plain" + file)) << system.name;
      }
    }
  }
}

TEST_F(SimulateProgram, TheCommandLineGoesBeforeTheScenario) {
  EXPECT_EQ(run("a", {kSmall, "--seed", "8"}).exit_code, 0);
  EXPECT_EQ(run("b", {kSmall}).exit_code, 0);
  EXPECT_NE(folder_.read("a/jobs.csv"), folder_.read("b/jobs.csv"));
  const std::string trace = kData + "traces/trace_b.csv";
  const std::string example = std::string(MONKEYTREE_SOURCE_DIR) + "/examples/scenario.yaml";
  const ProgramRun ended = run_program({"simulate", example, "--trace", trace});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(run_program({"simulate", folder_.write("s.yaml", "seed: 1\n"), "--trace", trace}).out,
            ended.out);  // the example is the paper's cluster, and so are the defaults
  EXPECT_THAT(ended.out, HasSubstr("40 of 40 jobs ended"));
  EXPECT_THAT(ended.out, HasSubstr("The network was never exercised"));
  EXPECT_THAT(run_program({"simulate", kSmall, "--system", "ecpm"}).err, HasSubstr("--system: "));
  EXPECT_THAT(run_program({"simulate", "-", "--trace", "-"}).err,
              HasSubstr("SCENARIO and --trace cannot both be standard input"));
  ProgramSetting setting;
  setting.input = kHeader;
  EXPECT_THAT(run_program({"simulate", kSmall, "--trace", "-"}, setting).out,
              HasSubstr("0 of 0 jobs ended"));
}

TEST_F(SimulateProgram, BadScenariosAreRefusedWithTheirLine) {
  EXPECT_EQ(refusal("fabric: {gpus: -1024}\nworkload: {trace: jobs.csv}\n"),
            "s.yaml:1: /fabric/gpus: expected a whole number from 1 to 1048576, found \"-1024\"\n");
  EXPECT_EQ(refusal("seed: 1\nfabric:\n  gpus_per_rack: 64\n  spines: 65\n"
                    "workload: {trace: jobs.csv}\n"),
            "s.yaml:4: /fabric/spines: a rack with more uplinks than GPUs, expected at most "
            "gpus_per_rack, 64, found 65\n");
  EXPECT_EQ(refusal("workload: {trace: none.csv}\n"),
            "s.yaml:1: /workload/trace: none.csv: cannot open: No such file or directory\n");
  EXPECT_THAT(refusal("workload: [trace\n"), StartsWith("s.yaml:2: not YAML: "));
  EXPECT_THAT(run_program({"simulate", folder_.path() + "/none.yaml"}).err,
              HasSubstr("none.yaml: cannot open: No such file or directory\n"));
}

TEST_F(SimulateProgram, BadTracesAreRefusedWithTheirLine) {
  EXPECT_THAT(trace_refusal("0,gpt_7b_dp,16,5\n1,gtp_7b_dp,16,5\n"),
              StartsWith("jobs.csv:3: unknown model \"gtp_7b_dp\", expected one of the catalogue"));
  EXPECT_EQ(trace_refusal("0,gpt_7b_dp,144,5\n"),
            "jobs.csv:2: the job needs 144 GPUs, the cluster has 128\n");
  EXPECT_THAT(trace_refusal("0,gpt_7b_dp,16,0\n"),
              StartsWith("jobs.csv:2: iterations is \"0\", expected a whole number from 1 to "));
  EXPECT_THAT(trace_refusal("0,gpt_7b_dp,-16,5\n"), StartsWith("jobs.csv:2: gpus is \"-16\", "));
  EXPECT_THAT(trace_refusal("0,gpt_7b_dp,99999999999,5\n"), StartsWith("jobs.csv:2: gpus is "));
  EXPECT_THAT(trace_refusal("7,gpt_7b_dp,16,5\n6,gpt_7b_dp,16,5\n"),
              StartsWith("jobs.csv:3: submitted at 6 µs, before the job of line 2 at 7 µs"));
}

TEST_F(SimulateProgram, AFolderThatCannotBeWrittenIsAFailureBeforeTheRun) {
  folder_.write("file", "");
  for (const std::string name : {"file", "file/below"}) {
    const ProgramRun ended = run(name, {kSmall});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_EQ(ended.out, "");
    EXPECT_THAT(ended.err, StartsWith("monkeytree: " + folder_.path() + "/" + name +
                                      ": cannot make this folder: "));
  }
  const ProgramRun ended = run_program({"simulate", kSmall, "-o", "/proc"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, StartsWith("monkeytree: /proc/events.jsonl.part: cannot write: "));
}

TEST_F(SimulateProgram, AFullDiskLeavesWholeLines) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {4096, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const ProgramRun ended = run("out", {kSmall});
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("/out/events.jsonl.part: cannot write: File too large\n"));
  EXPECT_THAT(ended.err, HasSubstr("/out/jobs.csv: cannot write: File too large\n"));
  EXPECT_THAT(ended.out, HasSubstr("80 of 80 jobs ended"));
  EXPECT_GT(folder_.read("out/events.jsonl").size(), 3000U);
  expect_sound_log("out/events.jsonl");
  EXPECT_EQ(Json::parse(folder_.read("out/summary.json"))["jobs_ended"], 80);
  EXPECT_EQ(folder_.read("out/jobs.csv"), "");
}

TEST_F(SimulateProgram, CtrlCLeavesWhatThereIs) {
  ProgramSetting setting;
  setting.interrupt_after_ms = 1500;
  const std::string scenario =
      folder_.write("s.yaml", "workload: {trace: " + kData + "traces/trace_a.csv}\nsystem: ecmp\n");
  const ProgramRun ended = run("out", {scenario, "--engine", "plain"}, setting);
  EXPECT_EQ(ended.exit_code, 4) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("Stopped before all jobs had ended."));
  EXPECT_THAT(Json::parse(folder_.read("out/summary.json"))["stopped"], true);
  EXPECT_EQ(lines_of(folder_.read("out/jobs.csv")).size(), 601U);
  EXPECT_EQ(folder_.read("out/events.jsonl.part"), "");
  expect_sound_log("out/events.jsonl");
}

TEST_F(SimulateProgram, ResultsOnAFullDiskAreAFailure) {
  ProgramSetting setting;
  setting.output_file = "/dev/full";
  const ProgramRun ended = run_program({"simulate", kSmall}, setting);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.err, "monkeytree: cannot write: No space left on device\n");
}

TEST_F(SimulateProgram, HelpHasExamples) {
  const std::string page = run_program({"simulate", "--help"}).out;
  EXPECT_THAT(page, HasSubstr("  monkeytree simulate scenario.yaml -o run "));
  for (const std::string& line : lines_of(page)) EXPECT_LE(line.size(), 80U) << line;
  for (const char* type : {"TEXT", "INT", "FLOAT"}) EXPECT_THAT(page, Not(HasSubstr(type)));
}

TEST(SimulationProgress, TellsTheTimeLeft) {
  EXPECT_EQ(simulation_progress(2, 0), "2 s: 0 % of the jobs have ended; Ctrl-C ends here");
  EXPECT_EQ(simulation_progress(10, 0.25),
            "10 s: 25 % of the jobs have ended, about 30 s left; Ctrl-C ends here");
  EXPECT_LE(simulation_progress(1'000'000, 0.0001).size(), 79U);
}

}  // namespace
}  // namespace monkeytree
