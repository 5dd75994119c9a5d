/// Real clusters whose configuration would let a move damage the books.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

#include "inventory/slurm_scheduler.h"
#include "slurm_cluster.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;

Deadline within() { return std::chrono::steady_clock::now() + std::chrono::seconds(120); }

void expect_refused(const SlurmClusterOptions& options, const std::string& why) {
  if (const std::string missing = SlurmCluster::missing(); !missing.empty()) {
    GTEST_SKIP() << missing;
  }
  absl::StatusOr<std::unique_ptr<SlurmCluster>> cluster = SlurmCluster::start(options);
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  SlurmSettings settings;
  settings.topology = (*cluster)->topology();
  settings.uplinks = "2";
  settings.slurm_conf = (*cluster)->slurm_conf();
  SlurmScheduler scheduler(settings);
  const std::string said = (*cluster)->run({"salloc", "--no-shell", "--nodes=1", "--time=5"});
  const std::string job = said.substr(said.rfind(' ') + 1, said.size() - said.rfind(' ') - 2);
  const absl::StatusOr<Observation> seen = scheduler.observe(within());
  ASSERT_TRUE(seen.ok()) << seen.status();  // looking is always allowed
  EXPECT_THAT(scheduler.why_read_only(), HasSubstr(why));
  EXPECT_THAT(scheduler.describe(), HasSubstr("read-only"));
  const absl::Status held = scheduler.hold({job, 0, 0}, "r0n1", "", within()).status();
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition) << held;
  EXPECT_THAT(std::string(held.message()), HasSubstr(why));
}

SlurmClusterOptions small(SlurmFlavour flavour) {
  SlurmClusterOptions options;
  options.racks = 1;
  options.nodes = 2;
  options.flavour = flavour;
  return options;
}

TEST(SlurmRefusalsTest, no_slurmdbd) {
  SlurmClusterOptions options = small(SlurmFlavour::kCompanion);
  options.database = false;
  expect_refused(options, "without slurmdbd");
}

TEST(SlurmRefusalsTest, cons_res_with_gpus) {
  SlurmClusterOptions options = small(SlurmFlavour::kCompanion);
  options.settings = {"SelectType=select/cons_res"};
  expect_refused(options, "gives nodes away twice");
}

TEST(SlurmRefusalsTest, merging_without_exclusive_nodes) {
  SlurmClusterOptions options = small(SlurmFlavour::kMerge);
  options.settings = {"SelectType=select/cons_tres", "SelectTypeParameters=CR_Core"};
  expect_refused(options, "OverSubscribe=EXCLUSIVE");
}

TEST(SlurmRefusalsTest, no_job_expansion) {
  SlurmClusterOptions options = small(SlurmFlavour::kMerge);
  options.settings = {"SchedulerParameters=bf_interval=2"};
  expect_refused(options, "permit_job_expansion");
}

}  // namespace
}  // namespace monkeytree
