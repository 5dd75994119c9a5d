// A live system under churn: batch jobs come and go where Slurm puts them, and the controller keeps
// the racks under their bound. MONKEYTREE_LIVE_RACKS, _JOBS and _SEED make it larger
// (scripts/nightly).

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <thread>

#include "base/eventually.h"
#include "live_system.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;

int setting(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

struct ChurnJob {
  std::string id;
  int nodes = 0, iterations = 0;
};

class ChurnTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    LiveSystem::Options options;
    options.slurm.racks = setting("MONKEYTREE_LIVE_RACKS", 4);
    // One job that spans racks is what a rack's uplinks are enough for.
    options.uplinks = std::to_string(kGpusPerNode);
    live_ = std::make_unique<LiveSystem>(options);
    nodes_ = static_cast<int>(node_names(options.slurm).size());
  }

  /// Its state at last: each move is a row of its own.
  std::string sacct(const std::string& job) {
    const std::string out = live_->slurm()
                                .try_run({"sacct", "--noheader", "--allocations", "--parsable2",
                                          "--jobs=" + job, "--format=State"})
                                .out;
    std::istringstream lines(out);
    std::string state;
    for (std::string line; std::getline(lines, line);) state = line;
    return state;
  }
  /// Of moves that have been carried out, by the controller's own list.
  struct Count {
    int moves = 0, done = 0;
  };
  Count count_moves() {
    Count out;
    const nlohmann::json page = nlohmann::json::parse(live_->get("/api/v1/plans"), nullptr, false);
    if (!page.is_object()) return out;
    for (const nlohmann::json& plan : page.value("plans", nlohmann::json::array())) {
      if (plan.value("state", "") != "done") continue;
      ++out.done;
      out.moves += plan.value("moves", 0);
    }
    return out;
  }

  std::unique_ptr<LiveSystem> live_;
  int nodes_ = 0;
};

TEST_F(ChurnTest, JobsEndWellAndRacksAreMended) {
  const int jobs = setting("MONKEYTREE_LIVE_JOBS", 14);
  const unsigned seed = static_cast<unsigned>(setting("MONKEYTREE_LIVE_SEED", 1));
  RecordProperty("seed", static_cast<int>(seed));
  std::mt19937 random(seed);
  std::vector<ChurnJob> all;
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::minutes(30);
  while (static_cast<int>(all.size()) < jobs && std::chrono::steady_clock::now() < give_up) {
    // Some wait in the queue, so that nodes are taken as soon as they are free.
    const std::string waiting =
        live_->slurm().run({"squeue", "--noheader", "--states=PENDING", "--format=%i"});
    if (std::count(waiting.begin(), waiting.end(), '\n') >= 2) {
      std::this_thread::sleep_for(milliseconds(200));
      continue;
    }
    const ChurnJob job{"", 2 + static_cast<int>(random() % 5),
                       200 + static_cast<int>(random() % 600)};
    const std::string id = live_->submit_batch(job.nodes, job.iterations);
    if (!id.empty()) all.push_back({id, job.nodes, job.iterations});
    live_->notify();
  }
  ASSERT_EQ(static_cast<int>(all.size()), jobs) << live_->logs();
  for (const ChurnJob& job : all) {
    EXPECT_TRUE(eventually(
        [&] {
          live_->notify();  // as the epilog would
          std::this_thread::sleep_for(milliseconds(100));
          return sacct(job.id) == "COMPLETED";
        },
        std::chrono::seconds(600)))
        << job.id << " is " << sacct(job.id);
    EXPECT_EQ(live_->check_logs(job.id, job.nodes, job.iterations), "");
  }
  EXPECT_EQ(live_->double_booked(), "");
  EXPECT_TRUE(eventually([&] {
    live_->notify();
    return live_->slurm().not_idle().empty();
  })) << live_->slurm().run({"squeue", "--format=%i %j %T %N %k"});
  const Count count = count_moves();
  std::printf("%d nodes, %d jobs, seed %u: %d plans done, %d moves\n", nodes_, jobs, seed,
              count.done, count.moves);
  EXPECT_GT(count.moves, 0) << live_->get("/api/v1/plans");
}

}  // namespace
}  // namespace monkeytree
