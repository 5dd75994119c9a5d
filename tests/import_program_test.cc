// `monkeytree import` as a program: exit codes, what it leaves behind, what it says.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

const char kTopology[] =
    "SwitchName=r1 Nodes=n[1-2]\nSwitchName=r2 Nodes=n[3-4]\n"
    "SwitchName=s Switches=r[1-2]\n";
const char kJobs[] =
    "{\"jobs\": [{\"job_id\": 7, \"job_state\": [\"RUNNING\"], "
    "\"nodes\": \"n[2-3]\", \"comment\": \"dp=2,tp=8\"}]}\n";

class ImportProgram : public ::testing::Test {
 protected:
  std::vector<std::string> words(const std::string& jobs) const {
    return {"import", "slurm", "--topology", folder_.write("topology.conf", kTopology),
            "--jobs", jobs,    "--uplinks",  "2"};
  }
  std::string jobs() const { return folder_.write("jobs.json", kJobs); }

  TemporaryFolder folder_;
};

TEST_F(ImportProgram, WritesASnapshotThatAnalyzeReads) {
  const ProgramRun run = run_program(words(jobs()));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  ProgramSetting piped;
  piped.input = run.out;
  const ProgramRun analyzed = run_program({"analyze", "-"}, piped);
  EXPECT_EQ(analyzed.exit_code, 0) << analyzed.err;
  EXPECT_THAT(analyzed.out, HasSubstr("8/2"));
}

TEST_F(ImportProgram, ReadsStandardInputAndWritesAFile) {
  ProgramSetting piped;
  piped.input = kJobs;
  std::vector<std::string> command = words("-");
  command.insert(command.end(), {"-o", folder_.path() + "/out.json"});
  const ProgramRun run = run_program(command, piped);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(folder_.read("out.json"), run_program(words(jobs())).out);
}

TEST_F(ImportProgram, BadInputIsOneMessageAndNoFile) {
  const std::string nul("{\"jobs\": \0[]}", 13);
  const std::string cut = std::string(kJobs).substr(0, 60);
  for (const std::string& text : {std::string(), cut, nul, std::string("[]"), std::string("{}"),
                                  std::string("{\"jobs\": 3}"), std::string("\xff")}) {
    std::vector<std::string> command = words(folder_.write("bad.json", text));
    command.insert(command.end(), {"-o", folder_.path() + "/out.json"});
    const ProgramRun run = run_program(command);
    EXPECT_EQ(run.exit_code, 2) << text;
    EXPECT_EQ(run.out, "");
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 1) << run.err;
    EXPECT_THAT(run.err, HasSubstr("bad.json"));
    EXPECT_THAT(folder_.list(), ::testing::UnorderedElementsAre("bad.json", "topology.conf"));
  }
  const ProgramRun directory = run_program(words(folder_.path()));
  EXPECT_EQ(directory.exit_code, 2);
  EXPECT_EQ(directory.err, folder_.path() + ": is a directory, expected a file\n");
}

TEST_F(ImportProgram, StrictTurnsWarningsIntoErrors) {
  std::vector<std::string> command = words(jobs());
  command.resize(command.size() - 2);  // no --uplinks
  const ProgramRun warned = run_program(command);
  EXPECT_EQ(warned.exit_code, 0);
  EXPECT_THAT(warned.err, HasSubstr("topology.conf: warning: nothing says how many uplinks"));
  command.push_back("--strict");
  const ProgramRun strict = run_program(command);
  EXPECT_EQ(strict.exit_code, 2);
  EXPECT_EQ(strict.out, "");
  EXPECT_THAT(strict.err, HasSubstr("topology.conf: nothing says how many uplinks"));
}

TEST_F(ImportProgram, APipeThatClosesIsACleanEnd) {
  ProgramSetting closing;
  closing.read_at_most = 1;
  const ProgramRun run = run_program(words(jobs()), closing);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
}

TEST_F(ImportProgram, TakesSeveralRackColumnsInOneWord) {
  const std::string hosts = folder_.write("hosts.csv", "ip,p,a\n1,P,S\n2,Q,S\n");
  const ProgramRun run = run_program(
      {"import", "csv", "--fabric", hosts, "--host", "ip", "--rack", "p,a", "--uplinks", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\"P/S\""));
  EXPECT_THAT(run.out, HasSubstr("\"Q/S\""));
}

TEST_F(ImportProgram, ReadsEveryKindOfJobOfKubernetes) {
  const std::string file = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/kubernetes/kinds.json";
  const std::vector<std::string> command = {"import",    "kubernetes", file, "--racks",
                                            "topograph", "--uplinks",  "16"};
  const ProgramRun run = run_program(command);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("restarts the whole group with one pod (restartPolicy is not "
                                 "None): ml.leaderworkerset.serve"));
  EXPECT_THAT(run.out, HasSubstr("{\"name\":\"spine-1/leaf-0\",\"uplinks\":16,\"nodes\":["
                                 "\"gpu-13\",\"gpu-14\",\"gpu-15\",\"gpu-16\"]}"));
  EXPECT_THAT(run.out, HasSubstr("{\"rings\":8,\"slots\":8,\"workers\":[\"gpu-6\",\"gpu-10\"]},"
                                 "{\"rings\":8,\"slots\":8,\"workers\":[\"gpu-7\",\"gpu-13\"]}"));
  ProgramSetting piped;
  piped.input = run.out;
  const ProgramRun analyzed = run_program({"analyze", "-"}, piped);
  EXPECT_EQ(analyzed.exit_code, 0) << analyzed.err;
  for (const char* row : {"spine-0/leaf-0", "spine-1/leaf-2"}) {
    EXPECT_THAT(analyzed.out, HasSubstr(row));
  }
  // The same racks by the levels that Kueue knows.
  std::vector<std::string> by_kueue = command;
  by_kueue[4] = "kueue";
  EXPECT_EQ(run_program(by_kueue).out, run.out);
}

// -- logs to traces -----------------------------------------------------------------------------

const std::string kTraces = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/traces/";

std::string text_of_file(const std::string& path) {
  std::ifstream stream(path);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// What is said, without the folders of files.
std::string without(std::string text, const std::string& prefix) {
  for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
  return text;
}

TEST_F(ImportProgram, EveryLogBecomesATraceThatSimulateRuns) {
  const std::vector<std::pair<std::string, std::string>> logs = {
      {"swf", "small.swf"},     {"sacct", "sacct.txt"},    {"acme", "acme.csv"},
      {"helios", "helios.csv"}, {"philly", "philly.json"}, {"alibaba", "alibaba.csv"}};
  for (const auto& [format, log] : logs) {
    const ProgramRun run = run_program({"import", "trace", "--format", format, kTraces + log});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::string imported = fmt::format("{}imported/{}", kTraces, format);
    EXPECT_EQ(run.out, text_of_file(imported + ".csv"));
    EXPECT_EQ(without(run.err, kTraces), text_of_file(imported + ".txt"));
    const auto jobs = std::count(run.out.begin(), run.out.end(), '\n') - 1;
    const ProgramRun simulated = run_program({"simulate", folder_.write("s.yaml", "seed: 1\n"),
                                              "--trace", folder_.write("trace.csv", run.out)});
    EXPECT_EQ(simulated.exit_code, 0) << simulated.err;
    EXPECT_THAT(simulated.out, HasSubstr(std::to_string(jobs) + " of " + std::to_string(jobs)));
  }
}

TEST_F(ImportProgram, ATraceFollowsItsOptions) {
  const std::string log = folder_.write("log",
                                        "JobID|Start|End|AllocTRES\n"
                                        "1|2024-03-01T10:00:00|2024-03-01T10:10:00|gres/gpu=16\n"
                                        "2|2024-03-01T11:00:00|2024-03-01T11:10:00|gres/gpu=64\n");
  const std::string trace = folder_.path() + "/trace.csv";
  const ProgramRun run =
      run_program({"import", "trace", "--format", "sacct", log, "--gpus", "32", "-o", trace});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(without(run.err, folder_.path() + "/"),
              ::testing::StartsWith("log: 2 rows, 1 job\n"
                                    "log: skipped 1: larger than the cluster of 32 GPUs (first at "
                                    "line 3)\n"));
  EXPECT_THAT(folder_.read("trace.csv"), HasSubstr(",16,"));
  const auto models = [&](const char* seed) {
    return run_program({"import", "trace", "--format", "sacct", log, "--gpus-per-node", "4",
                        "--seed", seed})
        .out;
  };
  EXPECT_EQ(models("5"), models("5"));
  EXPECT_NE(models("5"), models("6"));
}

TEST_F(ImportProgram, ALogOfNothingIsRefused) {
  const auto refusal = [&](std::vector<std::string> options, const std::string& text) {
    options.insert(options.begin(), {"import", "trace", folder_.write("log", text)});
    const ProgramRun run = run_program(options);
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_EQ(run.out, "");
    return without(run.err, folder_.path() + "/");
  };
  EXPECT_THAT(refusal({"--format", "acme"}, "a,b\n"),
              ::testing::StartsWith("log:1: no column gpu_num, submit_time, start_time, end_time"));
  EXPECT_EQ(refusal({"--format", "sacct"}, "JobID|Start|End\n1.0|x|y\n"),
            "log: 1 row, 0 jobs\nlog: skipped 1: a step of a job (first at line 2)\n"
            "monkeytree: no job of the log can be used\n");
  EXPECT_THAT(refusal({"--format", "sacctt"}, ""), HasSubstr("--format: "));
  EXPECT_THAT(refusal({}, ""), HasSubstr("--format is required"));
  EXPECT_EQ(refusal({"--format", "swf", "--gpus", "100"}, ""),
            "monkeytree: --gpus 100: not whole nodes, expected a multiple of 8\n");
  EXPECT_THAT(run_program({"import", "trace", "--format", "swf", folder_.path() + "/none"}).err,
              HasSubstr("/none: cannot open: No such file or directory\n"));
  for (const std::string option : {"--gpus=0", "--gpus-per-node=0", "--seed=-1"}) {
    EXPECT_THAT(refusal({"--format", "swf", option}, ""), HasSubstr(option.substr(0, 6)));
  }
}

TEST_F(ImportProgram, HelpOfTraceIsByExample) {
  const std::string page = run_program({"import", "trace", "--help"}).out;
  EXPECT_THAT(page, HasSubstr("  monkeytree import trace --format sacct march.txt -o trace.csv"));
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace monkeytree
