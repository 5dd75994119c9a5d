// `monkeytree report` as a program: the page it writes, what it says, what it refuses.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "program.h"
#include "report/well_formed.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kHistory = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/history/";
const std::string kLog = kHistory + "sacct.txt";
const std::string kTopology = kHistory + "topology.conf";
const std::string kHeader = "JobID|Start|End|AllocTRES|NodeList\n";

std::string text_of_file(const std::string& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), {}};
}

class ReportProgram : public ::testing::Test {
 protected:
  ProgramRun run(std::vector<std::string> options, const std::string& input = "") const {
    options.insert(options.begin(), "report");
    ProgramSetting setting;
    setting.input = input;
    return run_program(options, setting);
  }
  /// What is said of a log of these rows on the sample's racks; the program must refuse it.
  std::string refusal(const std::string& log, std::vector<std::string> options = {}) const {
    options.insert(options.end(), {"--sacct", folder_.write("log", log), "--topology", kTopology});
    const ProgramRun ended = run(options);
    EXPECT_EQ(ended.exit_code, 2) << ended.err;
    EXPECT_EQ(ended.out, "");
    std::string text = ended.err;
    const std::string prefix = folder_.path() + "/";
    for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }
  TemporaryFolder folder_;
};

TEST_F(ReportProgram, WritesThePageOfTheSample) {
  const std::string page = folder_.path() + "/march.html";
  const ProgramRun ended =
      run({"--sacct", kLog, "--topology", kTopology, "--uplinks", "2", "-o", page});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, StartsWith("2024-03-01 08:02 to 2024-03-08 13:58: 378 jobs on 16 racks, "
                                    "61 rows left out\n"
                                    "above a bound for 52.0 h, 188.6 uplink-hours short\n"));
  EXPECT_THAT(ended.out, HasSubstr("MonkeyTree would have saved "));
  const std::string html = folder_.read("march.html");
  EXPECT_EQ(xml_fault(html), "");
  for (const char* part : {"--communication 0.3", "The worst hours", "as recorded",
                           "left out: ", "The topology lacks 1 node that jobs held: old1."}) {
    EXPECT_THAT(html, HasSubstr(part));
  }
  for (const char* foreign : {"<script", "http://", "https://", "url("}) {
    EXPECT_THAT(html, Not(HasSubstr(foreign))) << "nothing is loaded from elsewhere";
  }
}

TEST_F(ReportProgram, LinesOfAChartLookDifferent) {
  const ProgramRun ended = run({"--sacct", kLog, "--topology", kTopology, "--uplinks", "2"});
  // The bound is dashed; what MonkeyTree does is a thick line.
  EXPECT_THAT(ended.out, HasSubstr("class=\"l c1 strong\""));
  EXPECT_THAT(ended.out, Not(HasSubstr("class=\"l c1 d1\"")));
}

TEST_F(ReportProgram, TheSameInputGivesTheSameBytes) {
  const std::vector<std::string> options = {"--sacct", "-",         "--topology",
                                            kTopology, "--uplinks", "3"};
  const std::string log = text_of_file(kLog);
  const ProgramRun one = run(options, log), two = run(options, log);
  EXPECT_EQ(one.exit_code, 0) << one.err;
  EXPECT_THAT(one.out, StartsWith("<!DOCTYPE html>"));
  EXPECT_TRUE(one.out == two.out);
}

TEST_F(ReportProgram, OptionsChangeTheEstimateAndNotTheFacts) {
  const auto summary = [&](const std::string& option, const std::string& value) {
    const ProgramRun ended = run({"--sacct", kLog, "--topology", kTopology, "--uplinks", "2", "-o",
                                  folder_.path() + "/p.html", option, value});
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    return ended.out;
  };
  const std::string none = summary("--communication", "0");
  EXPECT_THAT(none, HasSubstr("above a bound for 52.0 h, 188.6 uplink-hours short\n"
                              "lost to shared uplinks, estimated: 0.0 of "));
  EXPECT_THAT(none, HasSubstr("saved -"));  // the pauses stay
  EXPECT_NE(summary("--pause", "100"), summary("--pause", "10"));
}

TEST_F(ReportProgram, WithoutUplinksItSaysWhatItTook) {
  const ProgramRun ended = run({"--sacct", kLog, "--topology", kTopology});
  EXPECT_EQ(ended.exit_code, 0);
  EXPECT_THAT(ended.err, HasSubstr("warning: "));
  EXPECT_THAT(ended.out, HasSubstr("which nobody said"));
}

TEST_F(ReportProgram, ReadsATableOfUplinks) {
  std::string table = "rack,uplinks\n";
  for (int r = 1; r <= 16; ++r) {
    table += "rack" + std::string(r < 10 ? "0" : "") + std::to_string(r) + "," +
             std::to_string(1 + r % 3) + "\n";
  }
  const ProgramRun ended = run(
      {"--sacct", kLog, "--topology", kTopology, "--uplinks", folder_.write("uplinks.csv", table)});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, HasSubstr("those of the table given"));
}

TEST_F(ReportProgram, RefusesWhatIsNoHistory) {
  EXPECT_THAT(refusal(""), StartsWith("log: expected what `sacct --parsable2` prints: a header"));
  EXPECT_THAT(refusal("JobID|User\n1|ann\n"),
              StartsWith("log:1: no column Start, no End (nor Elapsed); expected what"));
  EXPECT_THAT(refusal("JobID|Start|End\n1|2024-03-01T10:00:00|2024-03-01T11:00:00\n"),
              StartsWith("log:1: no column NodeList, expected it in what sacct prints (-o)"));
  EXPECT_THAT(refusal(kHeader), StartsWith("log: no job to replay: 0 rows"));
  EXPECT_THAT(refusal(kHeader + "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8|x1\n"),
              HasSubstr("on no node of the topology"));
}

TEST_F(ReportProgram, OneAbsurdDateIsOneRowLeftOut) {
  const std::string log =
      folder_.write("log", kHeader +
                               "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=16|n[001-002]\n"
                               "2|2024-03-01T10:00:00|2106-02-07T06:28:15|gres/gpu=8|n003\n");
  const std::string page = folder_.path() + "/p.html";
  const ProgramRun ended =
      run({"--sacct", log, "--topology", kTopology, "--uplinks", "2", "-o", page});
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_THAT(ended.out, StartsWith("2024-03-01 10:00 to 2024-03-01 11:00: 1 job on 16 racks, "
                                    "1 row left out\n"));
  EXPECT_THAT(folder_.read("p.html"), HasSubstr("left out: ran for more than 10 years"));
}

TEST_F(ReportProgram, RefusesBadOptions) {
  const std::string log = kHeader + "1|2024-03-01T10:00:00|2024-03-01T11:00:00|gres/gpu=8|n001\n";
  for (const char* value : {"0", "1e9", "70000", "-1", "nowhere.csv"}) {
    EXPECT_THAT(refusal(log, {"--uplinks", value}),
                StartsWith("monkeytree: --uplinks: expected a number from 1 to 65536 or a file, "
                           "found \"" +
                           std::string(value) + "\"\n"));
  }
  const std::string table = folder_.write("none.csv", "rack,uplinks\nrack01,0\n");
  EXPECT_THAT(
      refusal(log, {"--uplinks", table}),
      HasSubstr("monkeytree: --uplinks: rack \"rack01\" has none; expected a number from 1 to"));
  for (const char* value : {"1.5", "-0.1", "nan", "x", "0.3 "}) {
    EXPECT_THAT(refusal(log, {"--communication", value}),
                HasSubstr("expected a number from 0 to 1, found"))
        << value;
  }
  EXPECT_THAT(refusal(log, {"--pause", "inf"}), HasSubstr("expected a number from 0 to 86400"));
  const ProgramRun both = run({"--sacct", "-", "--topology", "-"});
  EXPECT_EQ(both.exit_code, 2);
  EXPECT_THAT(both.err, HasSubstr("standard input can be only one of the files"));
  const ProgramRun missing = run({"--sacct", folder_.path() + "/none", "--topology", kTopology});
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.err, HasSubstr("/none: "));
}

TEST_F(ReportProgram, AFullDiskIsSaid) {
  const ProgramRun ended =
      run({"--sacct", kLog, "--topology", kTopology, "--uplinks", "2", "-o", "/dev/full"});
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("/dev/full"));
  EXPECT_EQ(ended.out, "");
}

TEST_F(ReportProgram, IsCompletedByShells) {
  const ProgramRun bash = run_program({"completion", "bash"});
  EXPECT_THAT(bash.out, HasSubstr("' report') "));
  EXPECT_THAT(bash.out, HasSubstr("--communication"));
}

}  // namespace
}  // namespace monkeytree
