/// SlurmScheduler over programs that pretend to be Slurm's: what a real cluster does too rarely.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "inventory/slurm_scheduler.h"

namespace monkeytree {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

Deadline within(seconds time = seconds(60)) { return std::chrono::steady_clock::now() + time; }

class FakeSlurm : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/monkeytree_fake_slurm_XXXXXX";
    ASSERT_TRUE(mkdtemp(pattern.data()));
    folder_ = pattern;
    std::ofstream(folder_ + "/topology.conf") << "SwitchName=a Nodes=n[0-1]\n";
    program("scontrol",
            "case \"$*\" in\n"
            "  *config*) echo 'AccountingStorageType = accounting_storage/slurmdbd'\n"
            "    echo 'SelectType = select/cons_tres'; echo 'GresTypes = gpu';;\n"
            "  *partition*) echo 'PartitionName=train OverSubscribe=NO';;\n"
            "  *node*) echo 'NodeName=n0 Gres=gpu:8 State=IDLE'\n"
            "    echo 'NodeName=n1 Gres=gpu:8 State=IDLE';;\n"
            "esac");
    program("squeue", "echo '{\"jobs\": []}'");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void program(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << "#!/bin/sh\n" << text << "\n";
    chmod(path.c_str(), 0755);
  }

  SlurmScheduler scheduler() {
    SlurmSettings settings;
    settings.topology = folder_ + "/topology.conf";
    settings.uplinks = "2";
    settings.programs = folder_;
    return SlurmScheduler(settings);
  }

  absl::Status observe() { return scheduler().observe(within()).status(); }

  std::string folder_;
};

TEST_F(FakeSlurm, answers) { EXPECT_TRUE(observe().ok()) << observe(); }

/// squeue of 22.05 ends well when slurmctld does not answer: with an error, and without jobs.
TEST_F(FakeSlurm, an_empty_queue_with_an_error_is_no_empty_queue) {
  program("squeue",
          "echo '{\"errors\": [{\"error\": \"Unable to contact slurm controller (connect "
          "failure)\"}], \"jobs\": []}'");
  EXPECT_EQ(observe().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(scheduler().booked("1", within()).status().code(), absl::StatusCode::kUnavailable);
}

TEST_F(FakeSlurm, hangs_at_each_program) {
  for (const char* name : {"squeue", "scontrol"}) {
    TearDown();
    SetUp();
    program(name, "sleep 1000");
    const auto before = std::chrono::steady_clock::now();
    EXPECT_EQ(scheduler().observe(within(seconds(1))).status().code(),
              absl::StatusCode::kDeadlineExceeded);
    EXPECT_LT(std::chrono::steady_clock::now() - before, seconds(50));
  }
}

TEST_F(FakeSlurm, prints_what_nobody_can_read) {
  program("squeue", "echo '{\"jobs\": 7}'");
  EXPECT_FALSE(observe().ok());
  program("squeue", "echo nonsense");
  EXPECT_FALSE(observe().ok());
  program("squeue", "exec yes x");
  EXPECT_FALSE(scheduler().observe(within(seconds(20))).ok());
}

TEST_F(FakeSlurm, asks_to_try_again) {
  program("scontrol", "echo x >> " + folder_ + "/tries; if [ $(wc -l < " + folder_ +
                          "/tries) -lt 3 ]; then echo 'the DB index is being set, try again in a "
                          "bit' >&2; exit 1; fi");
  const SlurmCommands commands(folder_, "");
  EXPECT_TRUE(commands.change({"scontrol", "update"}, within()).ok());
  std::filesystem::remove(folder_ + "/tries");
  EXPECT_EQ(commands
                .change({"scontrol", "update"},
                        std::chrono::steady_clock::now() + std::chrono::milliseconds(150))
                .code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(FakeSlurm, is_not_installed) {
  SlurmSettings settings;
  settings.topology = folder_ + "/topology.conf";
  settings.programs = folder_ + "/nowhere";
  EXPECT_EQ(SlurmScheduler(settings).observe(within()).status().code(),
            absl::StatusCode::kNotFound);
}

TEST_F(FakeSlurm, has_a_topology_that_cannot_be_read) {
  std::ofstream(folder_ + "/topology.conf") << "SwitchName=a Nodes=n[0-\n";
  const absl::Status seen = observe();
  EXPECT_EQ(seen.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(seen.message()), HasSubstr("topology.conf:1:"));
}

TEST_F(FakeSlurm, refuses_a_step_in_read_only_mode) {
  program("scontrol",
          "case \"$*\" in *config*) echo 'AccountingStorageType = accounting_storage/none';; esac");
  SlurmScheduler slurm = scheduler();
  const absl::Status held = slurm.hold({"1", 0, 0}, "n0", "", within()).status();
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.message()), HasSubstr("slurmdbd"));
  EXPECT_EQ(slurm.reserve("x", {"n0"}, within()).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(slurm.why_read_only(), HasSubstr("slurmdbd"));
}

}  // namespace
}  // namespace monkeytree
