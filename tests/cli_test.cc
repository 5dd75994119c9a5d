// The built program as its users meet it: results on standard output, one clear message on
// standard error, and the exit code.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// Rows of letters as a snapshot: R1, R2, … with nodes r1n1, r1n2, …
std::string snapshot_of(const std::vector<std::string>& rows, int uplinks = 2) {
  nlohmann::ordered_json json;
  json["schema"] = "monkeytree/snapshot/v1";
  std::map<std::string, std::vector<std::string>> jobs;
  json["fabric"]["racks"] = nlohmann::json::array();
  int r = 0;
  for (const std::string& row : rows) {
    ++r;
    std::vector<std::string> nodes;
    for (size_t n = 0; n < row.size(); ++n) {
      nodes.push_back("r" + std::to_string(r) + "n" + std::to_string(n + 1));
      if (row[n] != '.') jobs[std::string(1, row[n])].push_back(nodes.back());
    }
    json["fabric"]["racks"].push_back(
        {{"name", "R" + std::to_string(r)}, {"uplinks", uplinks}, {"nodes", nodes}});
  }
  json["jobs"] = nlohmann::json::array();
  for (const auto& [id, workers] : jobs) json["jobs"].push_back({{"id", id}, {"workers", workers}});
  return json.dump();
}

const std::vector<std::string> kDigestB = {"AAAAABB.", "AAACCCD.", "AACCCBBD", "CBBDDD.."};

void expect_within_80_columns(const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 80u) << line;
}

/// A run that must fail as bad input: exit 2, nothing on standard output, one line that says so.
std::string refusal(const std::vector<std::string>& arguments, const std::string& input = "") {
  ProgramSetting setting;
  setting.input = input;
  const ProgramRun run = run_program(arguments, setting);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  return run.err;
}

TEST(CliTest, EveryHelpPageTeachesByExampleWithin80Columns) {
  for (const std::vector<std::string>& command : {std::vector<std::string>{},
                                                  {"analyze"},
                                                  {"plan"},
                                                  {"check"},
                                                  {"route"},
                                                  {"import"},
                                                  {"import", "slurm"},
                                                  {"import", "kubernetes"},
                                                  {"import", "csv"}}) {
    std::vector<std::string> arguments = command;
    arguments.push_back("--help");
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 0);
    EXPECT_EQ(run.err, "");
    EXPECT_THAT(run.out, HasSubstr("Examples:\n  "));
    expect_within_80_columns(run.out);
  }
}

TEST(CliTest, CompletionKnowsCommandsAndOptions) {
  const ProgramRun bash = run_program({"completion", "bash"});
  EXPECT_EQ(bash.exit_code, 0);
  TemporaryFolder folder;
  const std::string script = folder.write("complete.sh", bash.out + R"(
    complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _monkeytree; echo "${COMPREPLY[*]}"; }
    complete_words monkeytree pl
    complete_words monkeytree import sl
    complete_words monkeytree plan s.json --w
    complete_words monkeytree import slurm --topology x --n
    complete_words monkeytree check s.json p.json --a
  )");
  const std::string out = folder.path() + "/out";
  ASSERT_EQ(std::system(("bash " + script + " > " + out + " 2>&1").c_str()), 0);
  EXPECT_EQ(folder.read("out"), "plan\nslurm\n--work-limit\n--nodes\n--after\n");
  EXPECT_THAT(run_program({"completion", "zsh"}).out, StartsWith("#compdef monkeytree\n"));
  EXPECT_THAT(run_program({"completion", "fish"}).out,
              HasSubstr("complete -c monkeytree -n '__fish_seen_subcommand_from plan' -l json"));
  refusal({"completion", "tcsh"});
}

TEST(CliTest, ManualPageNamesEveryOption) {
  const std::string page = run_program({"man"}).out;
  EXPECT_THAT(page, StartsWith(".TH MONKEYTREE 1\n"));
  EXPECT_THAT(page, HasSubstr(".SS monkeytree import slurm\n"));
  for (const char* option : {"work\\-limit", "after FILE", "previous", "topology\\-name"}) {
    EXPECT_THAT(page, HasSubstr(std::string(".B \\-\\-") + option)) << page;
  }
}

TEST(CliTest, Version) {
  const ProgramRun run = run_program({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, StartsWith("monkeytree "));
}

TEST(CliTest, BadUsageIsTwoAndPointsToHelp) {
  TemporaryFolder folder;
  const std::string file = folder.write("s.json", snapshot_of(kDigestB));
  EXPECT_THAT(refusal({}), HasSubstr("see monkeytree --help"));
  EXPECT_THAT(refusal({"anlyze"}), HasSubstr("see monkeytree --help"));
  EXPECT_THAT(refusal({"analyze"}), HasSubstr("SNAPSHOT is required"));
  EXPECT_THAT(refusal({"analyze", file, "--colour"}), HasSubstr("--colour"));
  EXPECT_THAT(refusal({"analyze", file, "--uplinks", "-1"}), HasSubstr("--uplinks"));
  EXPECT_THAT(refusal({"analyze", file, "--uplinks", "two"}), HasSubstr("--uplinks"));
  EXPECT_THAT(refusal({"analyze", file, "--uplinks", "1", "--uplinks", "2"}),
              HasSubstr("--uplinks"));
  EXPECT_THAT(refusal({"plan", file, "--time-limit", "-3"}), HasSubstr("--time-limit"));
  EXPECT_THAT(refusal({"plan", file, "--solver", "magic"}), HasSubstr("--solver"));
  EXPECT_THAT(refusal({"analyze", file, file}), HasSubstr("see monkeytree analyze --help"));
}

TEST(CliTest, AnalyzeDrawsTheRacks) {
  ProgramSetting setting;
  setting.input = snapshot_of(kDigestB);
  const ProgramRun run = run_program({"analyze", "-"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_EQ(run.out,
            "4 racks, 32 nodes, 4 jobs\n"
            "3 of 4 racks over the bound, 4 uplinks short in all\n"
            "4 of 4 jobs fragmented, holding 28 of 28 slots in use\n"
            "\n"
            "rack  slots     degree/bound\n"
            "R1    AAAAABB.  2/2\n"
            "R2    AAACCCD.  3/2  over by 1\n"
            "R3    AACCCBBD  4/2  over by 2\n"
            "R4    CBBDDD..  3/2  over by 1\n"
            ". free\n"
            "\n"
            "fragmented jobs (over: how many of their racks are over the bound)\n"
            "   job  name  racks  over  rings  workers  slots\n"
            "C  C              3     3      1        7      7\n"
            "D  D              3     3      1        5      5\n"
            "A  A              3     2      1       10     10\n"
            "B  B              3     2      1        6      6\n");
}

TEST(CliTest, AnalyzeAsJson) {
  ProgramSetting setting;
  setting.input = snapshot_of(kDigestB);
  const ProgramRun run = run_program({"analyze", "-", "--json", "--uplinks", "3"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  const nlohmann::json json = nlohmann::json::parse(run.out);
  EXPECT_EQ(json["schema"], "monkeytree/analysis/v1");
  EXPECT_EQ(json["fragmentation"]["R3"], 4);
  EXPECT_EQ(json["bounds"]["R3"], 3);
  EXPECT_EQ(json["over"], nlohmann::json({"R3"}));
  EXPECT_EQ(json["fragmented"].size(), 4u);
}

TEST(CliTest, AnalyzeFitsWhateverTheNames) {
  nlohmann::json json;
  json["schema"] = "monkeytree/snapshot/v1";
  for (int r = 0; r < 60; ++r) {
    nlohmann::json nodes = nlohmann::json::array();
    for (int n = 0; n < 130; ++n) {
      nodes.push_back("a-node-with-a-long-name-" + std::to_string(r) + "-" + std::to_string(n));
    }
    json["fabric"]["racks"].push_back(
        {{"name", "a-rack-with-a-very-long-name-" + std::to_string(r)},
         {"uplinks", r % 2},
         {"nodes", nodes}});
  }
  for (int j = 0; j < 100; ++j) {
    const std::string end = "-" + std::to_string(j);
    json["jobs"].push_back({{"id", "job" + end},
                            {"name", std::string(90, 'n') + "\x1b[31m"},
                            {"rings", 12345},
                            {"workers",
                             {"a-node-with-a-long-name-1" + end, "a-node-with-a-long-name-2" + end,
                              "a-node-with-a-long-name-" + std::to_string(3 + j % 50) + end}}});
  }
  ProgramSetting setting;
  setting.input = json.dump();
  const ProgramRun run = run_program({"analyze", "-"}, setting);
  EXPECT_EQ(run.exit_code, 0) << run.err;
  expect_within_80_columns(run.out);
  EXPECT_EQ(run.out.find('\x1b'), std::string::npos);
  EXPECT_THAT(run.out, HasSubstr("degree   racks"));
  EXPECT_THAT(run.out, HasSubstr("and 12 racks more over their bound"));
}

TEST(CliTest, PlanCheckAndExitCodes) {
  TemporaryFolder folder;
  const std::string file = folder.write("s.json", snapshot_of(kDigestB));
  const ProgramRun text = run_program({"plan", file});
  EXPECT_EQ(text.exit_code, 0) << text.err;
  EXPECT_THAT(text.out, StartsWith("optimal: 4 moves in "));
  expect_within_80_columns(text.out);

  const ProgramRun json = run_program({"plan", file, "--json"});
  EXPECT_EQ(json.exit_code, 0);
  const nlohmann::json plan = nlohmann::json::parse(json.out);
  EXPECT_EQ(plan["status"], "optimal");
  EXPECT_EQ(plan["moves"], 4);
  const std::string plan_file = folder.write("p.json", json.out);
  const ProgramRun check = run_program({"check", file, plan_file});
  EXPECT_EQ(check.exit_code, 0) << check.out << check.err;

  std::string wrong = json.out;
  wrong.replace(wrong.find("\"moves\": 4"), 10, "\"moves\": 3");
  const ProgramRun refuted = run_program({"check", file, folder.write("w.json", wrong)});
  EXPECT_EQ(refuted.exit_code, 3);
  EXPECT_NE(refuted.out, "");

  EXPECT_THAT(run_program({"plan", file, "--uplinks", "4"}).out, StartsWith("compliant: "));
}

TEST(CliTest, PlanThatCannotBeIsThreeUnlessItsBestIsAsked) {
  // One job larger than a rack: its racks have one ring each that nothing removes.
  TemporaryFolder folder;
  const std::string file = folder.write("s.json", snapshot_of({"AA", "AB"}, 0));
  const ProgramRun run = run_program({"plan", file});
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_THAT(run.out, StartsWith("infeasible: "));
  const ProgramRun best = run_program({"plan", file, "--best-effort", "--json"});
  EXPECT_EQ(best.exit_code, 0);
  EXPECT_EQ(nlohmann::json::parse(best.out)["excess_after"], 2);
}

TEST(CliTest, PlanIsTheSameBytesApartFromItsTime) {
  const auto plan = [&] {
    ProgramSetting setting;
    setting.input = snapshot_of(kDigestB, 1);
    nlohmann::json json = nlohmann::json::parse(run_program({"plan", "-", "--json"}, setting).out);
    json.erase("solve_ms");
    return json;
  };
  EXPECT_EQ(plan(), plan());
}

/// A full cluster whose racks hold pieces of many jobs: too hard to finish.
std::string hard_snapshot() {
  std::vector<std::string> rows(24, std::string(8, '.'));
  uint32_t state = 1;
  for (std::string& row : rows) {
    for (char& place : row) {
      state = state * 1664525u + 1013904223u;
      place = static_cast<char>('A' + (state >> 16) % 26);
    }
  }
  return snapshot_of(rows, 2);
}

TEST(CliTest, PlanStopsAtItsLimitsWithExitFour) {
  ProgramSetting setting;
  setting.input = hard_snapshot();
  const ProgramRun work = run_program({"plan", "-", "--work-limit", "1", "--json"}, setting);
  EXPECT_EQ(work.exit_code, 4) << work.err;
  const std::string status = nlohmann::json::parse(work.out)["status"];
  EXPECT_TRUE(status == "feasible" || status == "unknown") << status;
  const ProgramRun time = run_program({"plan", "-", "--time-limit", "0.2"}, setting);
  EXPECT_EQ(time.exit_code, 4) << time.out;
  EXPECT_NE(time.out, "");
}

TEST(CliTest, CtrlCEndsTheSearchWithTheBestPlanSoFar) {
  ProgramSetting setting;
  setting.input = hard_snapshot();
  setting.interrupt_after_ms = 500;
  const ProgramRun run = run_program({"plan", "-", "--json", "--time-limit", "100"}, setting);
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(nlohmann::json::accept(run.out));
}

TEST(CliTest, BadInputIsOneClearMessage) {
  TemporaryFolder folder;
  const std::string sound = snapshot_of(kDigestB);
  EXPECT_EQ(refusal({"analyze", "/nowhere.json"}),
            "/nowhere.json: cannot open: No such file or directory\n");
  EXPECT_EQ(refusal({"analyze", folder.path()}),
            folder.path() + ": is a directory, expected a file\n");
  EXPECT_EQ(refusal({"analyze", "-"}), "-: empty, expected a JSON object\n");
  EXPECT_EQ(refusal({"analyze", folder.write("empty", "")}),
            folder.path() + "/empty: empty, expected a JSON object\n");
  EXPECT_THAT(refusal({"analyze", "-"}, sound.substr(0, 100)),
              StartsWith("-:1: not JSON: at byte "));
  EXPECT_EQ(refusal({"plan", "-"}, R"({"schema": "monkeytree/snapshot/v2"})"),
            "-: /schema: expected \"monkeytree/snapshot/v1\", found \"monkeytree/snapshot/v2\"\n");
  EXPECT_EQ(refusal({"plan", "-"}, std::string("\0\0\0", 3)),
            "-:1: not JSON: at byte 1 of the line: a NUL byte, expected a value\n");
  std::string nul = sound;
  nul[nul.find("R2")] = '\0';
  EXPECT_THAT(refusal({"plan", "-"}, nul), HasSubstr("a NUL byte"));
  EXPECT_EQ(refusal({"analyze", "-"}, R"({"schema": "x", "schema": "x"})"),
            "-: /schema: a second field of this name, expected one\n");
  std::string lost = sound;
  lost.replace(lost.find("\"workers\":[\"r1n1\""), 17, "\"workers\":[\"gone\"");
  EXPECT_EQ(refusal({"analyze", "-"}, lost),
            "-: /jobs/0/workers/0: worker on node \"gone\", expected a node of the fabric\n");
  EXPECT_THAT(refusal({"analyze", "-"}, "\xFF\xFE{}"), HasSubstr("is not UTF-8"));
  EXPECT_THAT(refusal({"plan", "-"}, std::string(100000, '[')), HasSubstr("nested more than 100"));
  EXPECT_NE(refusal({"check", "-", "-"}), "");
}

TEST(CliTest, AHugeLineIsRefusedNotChokedOn) {
  const std::string line = "{\"schema\": \"" + std::string(100 << 20, 'x') + "\"}";
  EXPECT_LT(refusal({"analyze", "-"}, line).size(), 300u);
  EXPECT_LT(refusal({"analyze", "-"}, line.substr(0, 50 << 20)).size(), 300u);
}

TEST(CliTest, AFileOverTheSizeLimitIsNotRead) {
  TemporaryFolder folder;
  const std::string file = folder.write("big", "{");
  ASSERT_EQ(truncate(file.c_str(), off_t{1} << 30), 0);  // holes: takes no disk
  EXPECT_THAT(refusal({"analyze", file}), HasSubstr("512 MiB"));
}

TEST(CliTest, AFailedImportLeavesTheOldFile) {
  TemporaryFolder folder;
  const std::string old = folder.write("cluster.json", "old");
  const std::string hosts = folder.write("hosts.csv", "host,switch\na,s1\na,s2\n");
  refusal({"import", "csv", "--fabric", hosts, "--host", "nope", "--rack", "switch", "--uplinks",
           "2", "-o", old});
  EXPECT_EQ(folder.read("cluster.json"), "old");
  EXPECT_EQ(folder.list(), (std::vector<std::string>{"cluster.json", "hosts.csv"}));
}

TEST(CliTest, AReaderThatGoesAwayIsACleanEnd) {
  ProgramSetting setting;
  setting.input = hard_snapshot();
  setting.read_at_most = 1;
  const ProgramRun run = run_program({"analyze", "-", "--json"}, setting);
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
}

TEST(CliTest, AFullDiskIsAFailure) {
  ProgramSetting setting;
  setting.input = snapshot_of(kDigestB);
  setting.output_file = "/dev/full";
  const ProgramRun run = run_program({"analyze", "-"}, setting);
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_THAT(run.err, HasSubstr("No space left"));
}

}  // namespace
}  // namespace monkeytree
