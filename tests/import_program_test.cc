// `monkeytree import` as a program: exit codes, what it leaves behind, what it says.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

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

}  // namespace
}  // namespace monkeytree
