// What the program says to a command line that it cannot follow, and that it says so.

#include <absl/strings/str_cat.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::string kSource = MONKEYTREE_SOURCE_DIR;
const std::string kSnapshot = kSource + "/examples/four_racks.json";
const std::string kSample = kSource + "/tests/data/slurm22.05/";

/// What standard error says to a run that must be refused: exit 2 and no output.
std::string refusal(const std::vector<std::string>& arguments, const std::string& input = "") {
  ProgramSetting setting;
  setting.input = input;
  const ProgramRun run = run_program(arguments, setting);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  return run.err;
}

std::vector<std::string> import_with(const std::string& option, const std::string& value) {
  return {"import",     "slurm",
          "--topology", kSample + "topology.conf",
          "--jobs",     kSample + "frag16-squeue.json",
          option,       value};
}

TEST(Usage, TheReferenceSolverIsAProgramOfItsOwn) {
  const ProgramRun run = run_program({"plan", kSnapshot, "--solver", "milp"});
  if (std::filesystem::exists(MONKEYTREE_PROGRAM "-milp")) {
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("2 moves"));
  } else {
    EXPECT_EQ(run.exit_code, 2);
    EXPECT_THAT(run.err, HasSubstr("monkeytree-milp is not beside this program"));
  }
  // Nobody else carries its libraries, which start threads in every process.
  const std::string maps = "grep -c 'blas\\|libCbc' " MONKEYTREE_PROGRAM;
  EXPECT_NE(std::system((maps + " >/dev/null").c_str()), 0);
}

TEST(Usage, AnUnknownCommandIsNamedWithTheNearest) {
  EXPECT_EQ(refusal({"anlyze", kSnapshot}),
            "monkeytree: unknown command \"anlyze\", did you mean \"analyze\"?\n"
            "monkeytree: see monkeytree --help\n");
  EXPECT_EQ(refusal({"import", "slrum"}),
            "monkeytree: unknown command \"import slrum\", did you mean \"import slurm\"?\n"
            "monkeytree: see monkeytree import --help\n");
  EXPECT_EQ(refusal({"xyzzy"}),
            "monkeytree: unknown command \"xyzzy\"\nmonkeytree: see monkeytree --help\n");
  EXPECT_THAT(refusal({"\x1b[31m"}), Not(HasSubstr("\x1b")));
  EXPECT_EQ(refusal({""}), "monkeytree: unknown command \"\"\nmonkeytree: see monkeytree --help\n");
  EXPECT_EQ(refusal({"import"}),
            "monkeytree: no command, expected one of: slurm kubernetes csv trace\n"
            "monkeytree: see monkeytree import --help\n");
  EXPECT_THAT(refusal({}), StartsWith("monkeytree: no command, expected one of: import analyze "));
}

TEST(Usage, AnEmptyValueIsNotAMissingOne) {
  for (const char* option : {"--nodes", "--topology-name", "-o"}) {
    EXPECT_THAT(refusal(import_with(option, "")), HasSubstr(": empty, expected ")) << option;
  }
  EXPECT_EQ(refusal({"plan", ""}),
            "monkeytree: SNAPSHOT: empty, expected a file name\n"
            "monkeytree: see monkeytree plan --help\n");
  EXPECT_THAT(refusal({"analyze", ""}), StartsWith("monkeytree: SNAPSHOT: empty"));
  EXPECT_THAT(refusal({"check", kSnapshot, ""}), StartsWith("monkeytree: PLAN: empty"));
  EXPECT_THAT(refusal({"route", kSnapshot, "--previous", ""}),
              StartsWith("monkeytree: --previous: empty, expected ROUTES\n"));
}

TEST(Usage, UplinksAreRefusedInOneWay) {
  const std::string number = "expected a number from 0 to 65536";
  for (const std::string value : {"two", "-1", "1.5", "65537", "99999999999999999999", " 1"}) {
    for (const char* command : {"analyze", "plan", "route"}) {
      EXPECT_THAT(
          refusal({command, kSnapshot, "--uplinks", value}),
          StartsWith(absl::StrCat("monkeytree: --uplinks: ", number, ", found \"", value, "\"\n")));
    }
  }
  for (const std::string value : {"-1", "65537", "99999999999999999999"}) {
    EXPECT_THAT(refusal(import_with("--uplinks", value)),
                StartsWith(absl::StrCat("monkeytree: --uplinks: ", number, " or a file, found \"",
                                        value, "\"\n")));
  }
  EXPECT_THAT(refusal(import_with("--uplinks", "two")),
              HasSubstr("monkeytree: --uplinks: " + number +
                        " or a file, found \"two\" (cannot open: No such file or directory)\n"));
  EXPECT_EQ(refusal(import_with("--uplinks", "")),
            "monkeytree: --uplinks: " + number +
                " or a file, found \"\"\nmonkeytree: see monkeytree import slurm --help\n");
  EXPECT_THAT(refusal({"analyze", kSnapshot, "--uplinks", ""}),
              StartsWith("monkeytree: --uplinks: " + number + ", found \"\"\n"));
  TemporaryFolder folder;
  const std::string table = folder.write("up.csv", "rack,uplinks\ns0,two\n");
  EXPECT_THAT(refusal(import_with("--uplinks", table)),
              HasSubstr(table + ":2: uplinks: " + number + ", found \"two\"\n"));
}

TEST(Usage, HelpOnAFullDiskIsAFailure) {
  ProgramSetting setting;
  setting.output_file = "/dev/full";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--help"}, {"plan", "--help"}, {"--version"}, {"man"}}) {
    const ProgramRun run = run_program(arguments, setting);
    EXPECT_EQ(run.exit_code, 1);
    EXPECT_EQ(run.err, "monkeytree: cannot write: No space left on device\n");
  }
}

TEST(Usage, NoHelpPageNamesATypeOfCpp) {
  for (const char* command : {"analyze", "plan", "check", "route", "completion"}) {
    const std::string page = run_program({command, "--help"}).out;
    EXPECT_THAT(page, Not(HasSubstr("TEXT"))) << page;
    EXPECT_THAT(page, Not(HasSubstr("INT"))) << page;
    EXPECT_THAT(page, Not(HasSubstr("FLOAT"))) << page;
  }
}

TEST(Usage, NumbersThatDoNotFitAreFound) {
  const std::string big = "123456789012345678901234567890";
  EXPECT_EQ(refusal({"analyze", "-"}, "{\"schema\": \"monkeytree/snapshot/v1\",\n\"a\": [1, " +
                                          big + ", {\"b\": 2}]}"),
            "-:2: /a/1: expected a number that fits 64 bits, found " + big + "\n");
  EXPECT_EQ(refusal({"analyze", "-"}, "{\"x\": {\"y/z\": [\"9e999\", -1e999]}}"),
            "-:1: /x/y~1z/1: expected a number that fits 64 bits, found -1e999\n");
  const std::string jobs = "{\"meta\": {},\n\"jobs\": [{}, {\n\"job_id\": " + big + "}]}";
  EXPECT_THAT(refusal({"import", "slurm", "--topology", kSample + "topology.conf", "--jobs", "-",
                       "--uplinks", "2"},
                      jobs),
              HasSubstr("-:3: /jobs/1/job_id: expected a number that fits 64 bits, found " + big));
}

TEST(Usage, TooManyHostsStateTheLimit) {
  TemporaryFolder folder;
  const auto findings = [&](const std::string& topology) {
    return refusal({"import", "slurm", "--topology", folder.write("topology.conf", topology),
                    "--jobs", kSample + "frag16-squeue.json", "--uplinks", "2"});
  };
  EXPECT_THAT(findings("SwitchName=a Nodes=n[1-99999999]\n"), HasSubstr("expected at most 65536"));
  std::string many;
  for (int i = 0; i < 20; ++i) {
    absl::StrAppend(&many, "SwitchName=s", i, " Nodes=m", i, "-[1-65536]\n");
  }
  const std::string found = findings(many);
  EXPECT_THAT(found, HasSubstr(":17: switch \"s16\": "));
  EXPECT_THAT(found, HasSubstr("more than 1048576 names in the file"));
  EXPECT_THAT(found, Not(HasSubstr("at most 0")));
}

}  // namespace
}  // namespace monkeytree
