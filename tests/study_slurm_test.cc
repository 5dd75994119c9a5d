// `monkeytree study --executor slurm` on a real slurmctld with three slurmd.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "program.h"
#include "slurm_cluster.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

constexpr const char* kStudy =
    "name: mine\n"
    "base:\n"
    "  fabric: {gpus: 128, gpus_per_rack: 32, spines: 8}\n"
    "  workload: {trace: jobs.csv}\n"
    "axes:\n"
    "  system: [ecmp, crux, monkeytree]\n"
    "  spines: [4, 8]\n";
constexpr const char* kTrace =
    "submit_us,model,gpus,iterations\n"
    "0,gpt_7b_dp,32,20\n1000,gpt_13b_dp,24,20\n2000,llama2_70b_tp_dp,32,20\n";

class StudyOnSlurm : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    SlurmClusterOptions options;
    options.racks = 1;
    options.nodes = 3;
    options.database = false;
    auto cluster = SlurmCluster::start(options);
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
    setenv("SLURM_CONF", cluster_->slurm_conf().c_str(), 1);
    folder_.write("jobs.csv", kTrace);
  }
  void TearDown() override { unsetenv("SLURM_CONF"); }

  ProgramRun run(const std::string& folder, std::vector<std::string> options) const {
    options.insert(options.begin(), {"study", folder_.write("mine.yaml", kStudy), "-o",
                                     folder_.path() + "/" + folder});
    return run_program(options);
  }

  TemporaryFolder folder_;
  std::unique_ptr<SlurmCluster> cluster_;
};

TEST_F(StudyOnSlurm, GivesTheBytesOfALocalRun) {
  const ProgramRun array = run("array", {"--executor", "slurm"});
  ASSERT_EQ(array.exit_code, 0) << array.err;
  const ProgramRun local = run("local", {});
  ASSERT_EQ(local.exit_code, 0) << local.err;
  for (const std::string name : {"mine.html", "mine.csv", "mine-cells.csv"}) {
    EXPECT_NE(folder_.read("array/" + name), "") << name;
    EXPECT_EQ(folder_.read("array/" + name), folder_.read("local/" + name));
  }
  // Slurm ran each cell as a task of its own.
  const std::string id = folder_.read("array/slurm/mine.job");
  const std::string tasks = cluster_->run(
      {"squeue", "--states=COMPLETED", "--noheader", "--array", "--format=%F_%K", "--job=" + id});
  for (int task = 0; task < 6; ++task) {
    EXPECT_THAT(tasks, HasSubstr(id.substr(0, id.find('\n')) + "_" + std::to_string(task)));
  }
}

TEST_F(StudyOnSlurm, TellsWhatSlurmRefused) {
  const ProgramRun refused =
      run("out", {"--executor", "slurm", "--slurm-option=--partition=nowhere"});
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("invalid partition"));
  EXPECT_THAT(refused.err, HasSubstr("monkeytree: sbatch refused "));
  // What Slurm would not run, this machine does.
  EXPECT_EQ(run("out", {}).exit_code, 0);
}

}  // namespace
}  // namespace monkeytree
