// `monkeytree study` as a program: what it writes, what it refuses, and what is left where it is
// cut short.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kMine =
    "name: mine\n"
    "base:\n"
    "  fabric: {gpus: 128, gpus_per_rack: 32, spines: 8}\n"
    "  workload: {generate: {load: 1.0, jobs: 20, iterations: [2, 10]}}\n"
    "axes:\n"
    "  system: [ecmp, monkeytree]\n"
    "  seed: [1, 2]\n";

/// An environment variable for as long as this lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value) : name_(name), before_(getenv(name)) {
    setenv(name, value.c_str(), 1);
  }
  ~Environment() { setenv(name_, before_.c_str(), 1); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::string before_;
};

class StudyProgram : public ::testing::Test {
 protected:
  /// Runs the study `file` with `-o` a folder of this name in the test's own.
  ProgramRun run(const std::string& folder, const std::string& file,
                 const std::vector<std::string>& options = {},
                 const ProgramSetting& setting = {}) const {
    std::vector<std::string> arguments = {"study", file, "-o", folder_.path() + "/" + folder};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments, setting);
  }
  std::string mine() const { return folder_.write("mine.yaml", kMine); }

  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }

  /// The page and the tables, by name.
  std::map<std::string, std::string> results(const std::string& folder) const {
    std::map<std::string, std::string> out;
    for (const char* name : {"mine.html", "mine.svg", "mine.csv", "mine-cells.csv"}) {
      out[name] = folder_.read(folder + "/" + name);
      EXPECT_NE(out[name], "") << name;
    }
    return out;
  }
  /// When each kept cell was written, in nanoseconds; each must be whole.
  std::map<std::string, int64_t> cells(const std::string& folder) const {
    std::map<std::string, int64_t> out;
    for (const auto& entry : std::filesystem::directory_iterator(at(folder + "/cells"))) {
      const std::string name = entry.path().filename().string();
      EXPECT_THAT(name, ::testing::EndsWith(".json"));
      EXPECT_TRUE(nlohmann::json::accept(folder_.read(folder + "/cells/" + name))) << name;
      struct stat info {};
      EXPECT_EQ(stat(entry.path().c_str(), &info), 0);
      out[name] = info.st_mtim.tv_sec * 1'000'000'000 + info.st_mtim.tv_nsec;
    }
    return out;
  }
  /// Puts a program of this name and text before all others.
  std::string path_with(const std::string& name, const std::string& script) const {
    std::filesystem::create_directory(at("bin"));
    folder_.write("bin/" + name, "#!/bin/bash\n" + script);
    std::filesystem::permissions(at("bin/" + name), std::filesystem::perms::owner_all);
    return at("bin") + ":" + getenv("PATH");
  }

  TemporaryFolder folder_;
};

TEST_F(StudyProgram, WritesAPageAndTables) {
  const ProgramRun ended = run("out", mine());
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  EXPECT_THAT(ended.out, HasSubstr("monkeytree"));
  EXPECT_THAT(ended.out, HasSubstr("Wrote\n  " + at("out/mine.csv")));
  EXPECT_EQ(cells("out").size(), 4u);
  const auto files = results("out");
  EXPECT_THAT(files.at("mine.csv"), StartsWith("system,seeds,slowdown_avg,slowdown_avg_low,"));
  EXPECT_THAT(files.at("mine.html"), HasSubstr("monkeytree study " + at("mine.yaml")));
  EXPECT_THAT(files.at("mine.svg"), HasSubstr("</svg>"));
}

TEST_F(StudyProgram, TheCommandOnThePageGivesThePage) {
  run("out", mine(), {"--seeds", "2", "--jobs", "9"});
  const std::string page = folder_.read("out/mine.html");
  const std::string command = "monkeytree study " + at("mine.yaml") + " --jobs 9 --seeds 2";
  ASSERT_THAT(page, HasSubstr(command));
  run("again", at("mine.yaml"), {"--jobs", "9", "--seeds", "2"});
  EXPECT_EQ(folder_.read("again/mine.html"), page);
}

TEST_F(StudyProgram, BadStudiesAreRefusedBeforeAnythingIsWritten) {
  const auto refusal = [&](const std::string& from, const std::string& to,
                           const std::vector<std::string>& options = {}) {
    std::string text = kMine;
    text.replace(text.find(from), from.size(), to);
    const ProgramRun ended = run("out", folder_.write("mine.yaml", text), options);
    EXPECT_EQ(ended.exit_code, 2) << text;
    EXPECT_EQ(ended.out, "");
    EXPECT_FALSE(std::filesystem::exists(at("out")));
    std::string said = ended.err;
    for (size_t i; (i = said.find(at(""))) != std::string::npos;) said.erase(i, at("").size());
    return said;
  };
  EXPECT_EQ(refusal("name: mine\n", "name: mine\ncolour: red\n"),
            "mine.yaml:2: /colour: unknown key, expected one of name, title, base, axes\n");
  EXPECT_THAT(refusal("gpus: 128", "gpu: 128"),
              StartsWith("mine.yaml:3: /fabric/gpu: unknown key"));
  EXPECT_THAT(refusal("system:", "sytsem:"), StartsWith("mine.yaml:6: /sytsem: unknown key"));
  EXPECT_THAT(refusal("seed:", "fabric.spines: [4]\n  spines:"),
              HasSubstr("mine.yaml:8: /axes/spines: sets fabric.spines, which the axis"));
  EXPECT_THAT(refusal("name: mine", "name: [mine"), StartsWith("mine.yaml:"));
  EXPECT_THAT(refusal("name: mine", "name: mine", {"--slurm-option=--partition=p"}),
              "monkeytree: --slurm-option: only with --executor slurm\n");
  EXPECT_THAT(refusal("name: mine", "name: mine", {"--threads", "0"}), HasSubstr("--threads"));
  EXPECT_THAT(run("out", "slowdwon-vs-load").err, HasSubstr("slowdwon-vs-load: no such study"));
  EXPECT_THAT(run("out", at("none.yaml")).err, HasSubstr("none.yaml: cannot open"));
}

TEST_F(StudyProgram, AFolderThatCannotBeWrittenIsAFailureBeforeTheRun) {
  folder_.write("file", "");
  const ProgramRun ended = run("file", mine());
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_EQ(ended.out, "");
  EXPECT_THAT(ended.err, HasSubstr(at("file")));
}

TEST_F(StudyProgram, AFullDiskKeepsWhatIsWholeAndTheRestRunsLater) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small = {1000, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const ProgramRun ended = run("out", mine());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr("File too large"));
  EXPECT_THAT(ended.err, HasSubstr(at("out/")));
  EXPECT_EQ(cells("out").size(), 0u);
  EXPECT_EQ(run("out", mine()).exit_code, 0);
  EXPECT_EQ(run("fresh", mine()).exit_code, 0);
  EXPECT_EQ(results("out"), results("fresh"));
}

TEST_F(StudyProgram, APageThatCannotBeWrittenIsNamed) {
  std::filesystem::create_directories(at("out/mine.html"));
  const ProgramRun ended = run("out", mine());
  EXPECT_EQ(ended.exit_code, 1);
  EXPECT_THAT(ended.err, HasSubstr(at("out/mine.html: ")));
  EXPECT_NE(folder_.read("out/mine.csv"), "");
  ProgramSetting full;
  full.output_file = "/dev/full";
  EXPECT_EQ(run("other", mine(), {}, full).exit_code, 1);
}

TEST_F(StudyProgram, CtrlCDrawsWhatThereIsAndTheSameCommandGoesOn) {
  // One cell takes minutes, and the other next to nothing on the other thread.
  const std::string text = std::string(kMine).substr(0, std::string(kMine).find("  system:")) +
                           "  system: [ecmp]\n  jobs: [20, 1000000]\n";
  ProgramSetting setting;
  setting.interrupt_once = at("out/cells");
  const std::string file = folder_.write("mine.yaml", text);
  const ProgramRun stopped = run("out", file, {"--threads", "2"}, setting);
  EXPECT_EQ(stopped.exit_code, 4) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("the same command runs the others"));
  EXPECT_THAT(folder_.read("out/mine.html"), HasSubstr("Partial: "));
  const auto kept = cells("out");
  EXPECT_EQ(kept.size(), 1u);
  // The same study with another cell in place of the long one: what is kept is not run again.
  folder_.write("mine.yaml", text.substr(0, text.find("1000000")) + "30]\n");
  const ProgramRun ended = run("out", file);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  const auto all = cells("out");
  for (const auto& [name, time] : kept) EXPECT_EQ(all.at(name), time) << name;
  EXPECT_EQ(run("fresh", file).exit_code, 0);
  EXPECT_EQ(results("out"), results("fresh"));
}

// -- as a job array -----------------------------------------------------------------------------

TEST_F(StudyProgram, AJobArrayGivesTheBytesOfALocalRun) {
  // Stands for sbatch: tells an id, then runs the tasks one after another.
  const Environment path("PATH", path_with("sbatch", R"(
echo 17
script=${!#}
last=$(sed -n 's/^#SBATCH --array=0-//p' "$script")
for task in $(seq 0 "$last"); do SLURM_ARRAY_TASK_ID=$task bash "$script" || exit 1; done
)"));
  const ProgramRun array =
      run("array", mine(), {"--executor", "slurm", "--slurm-option=--partition=batch"});
  EXPECT_EQ(array.exit_code, 0) << array.err;
  EXPECT_THAT(folder_.read("array/slurm/mine.sh"), HasSubstr("#SBATCH --partition=batch\n"));
  EXPECT_EQ(folder_.read("array/slurm/mine.job"), "17\n");
  EXPECT_EQ(run("local", mine()).exit_code, 0);
  EXPECT_EQ(results("array"), results("local"));
}

TEST_F(StudyProgram, WhySlurmDidNotRunItIsTold) {
  const auto told = [&](const std::string& script) {
    const Environment path("PATH", path_with("sbatch", script));
    const ProgramRun ended = run("out", mine(), {"--executor", "slurm"});
    EXPECT_EQ(ended.exit_code, 1);
    EXPECT_THAT(ended.out, HasSubstr("0 of 4 cells are there; the same command runs the others"));
    return ended.err;
  };
  EXPECT_EQ(told("echo 'sbatch: error: invalid partition specified: batch' >&2\nexit 1\n"),
            "sbatch: error: invalid partition specified: batch\n"
            "monkeytree: sbatch refused " +
                at("out/slurm/mine.sh") + " (exit code 1); its reason stands above\n");
  EXPECT_EQ(told("echo '18;cluster'\nexit 3\n"),
            "monkeytree: 4 of 4 cells are missing after job array 18 ended with exit code 3; see " +
                at("out/slurm/*.log\n"));
  const Environment path("PATH", "/nowhere");
  EXPECT_EQ(run("out", mine(), {"--executor", "slurm"}).err,
            "monkeytree: sbatch: cannot run: No such file or directory\n");
  ProgramSetting piped;
  piped.input = kMine;
  EXPECT_EQ(run("out", "-", {"--executor", "slurm"}, piped).err,
            "monkeytree: a study from standard input cannot run on Slurm, expected a file\n");
}

TEST_F(StudyProgram, ACellBeyondTheLastIsRefused) {
  for (const char* cell : {"4", "x", "3/2", "-1", "1/"}) {
    const ProgramRun ended = run("out", mine(), {"--cell", cell});
    EXPECT_EQ(ended.exit_code, 2) << cell;
    EXPECT_THAT(ended.err, HasSubstr("expected K or K/TASKS with K from 0 to 3")) << cell;
  }
}

TEST_F(StudyProgram, HelpAndListFitATerminal) {
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"study", "--help"}, {"study"}}) {
    const ProgramRun ended = run_program(words);
    EXPECT_EQ(ended.exit_code, 0);
    EXPECT_THAT(ended.out, HasSubstr("slowdown-vs-load"));
    EXPECT_THAT(ended.out, Not(HasSubstr("TEXT")));
  }
}

}  // namespace
}  // namespace monkeytree
