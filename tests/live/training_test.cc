// Real training moves: PyTorch jobs under a real Slurm, real agents, the controller in enforce
// mode.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "base/eventually.h"
#include "live_system.h"

namespace monkeytree {
namespace {

constexpr int kRanks = 2;
constexpr int kFirstGate = 5, kIterations = 300;
const std::string kHere = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/live/";

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class TrainingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
    if (std::system("/usr/bin/python3 -c 'import torch' 2>/dev/null") != 0) {
      GTEST_SKIP() << "no torch for /usr/bin/python3: scripts/setup installs it";
    }
    if (!std::filesystem::exists(MONKEYTREE_PYTHON "/monkeytree/worker.py")) {
      GTEST_SKIP() << "this build has no Python package";
    }
    LiveSystem::Options options;
    options.uplinks = std::to_string(kGpusPerNode);
    live_ = std::make_unique<LiveSystem>(options);
  }

  /// A training job of a rank on each of the nodes. From kFirstGate on it waits before each
  /// iteration until open_gate(). `name` is that of its output folder.
  std::string train(const std::string& name, const std::vector<std::string>& nodes) {
    const std::string port = live_->file("port-" + name);
    stores_.push_back(Process({"/usr/bin/python3", kHere + "store.py", port}, {},
                              live_->file("store-" + name + ".log")));
    EXPECT_TRUE(eventually([&] { return !text_of(port).empty(); }));
    std::filesystem::create_directories(live_->file(name));
    return live_->launch(
        nodes,
        fmt::format("/usr/bin/python3 {}train_on_node.py --out {} --iterations {} --gates {}-{}",
                    kHere, live_->file(name), kIterations, kFirstGate, kIterations - 1),
        {{"MASTER_ADDR", "127.0.0.1"},
         {"MASTER_PORT", text_of(port)},
         {"WORLD_SIZE", std::to_string(kRanks)},
         {"OMP_NUM_THREADS", "1"},
         {"PYTHONPATH", MONKEYTREE_PYTHON},
         {"MONKEYTREE_TEST_SOCKETS", live_->file("sockets")}});
  }

  void open_gate(const std::string& name, int iteration) {
    std::ofstream(live_->file(fmt::format("{}/go-{}", name, iteration)));
  }

  struct Rank {
    int iterations = 0;
    std::vector<std::string> losses;
    std::set<int64_t> processes;
    nlohmann::json state;
  };
  Rank rank(const std::string& name, int number) {
    Rank out;
    std::ifstream in(live_->file(fmt::format("{}/rank-{}.jsonl", name, number)));
    for (std::string line; std::getline(in, line);) {
      const nlohmann::json json = nlohmann::json::parse(line, nullptr, false);
      if (!json.is_object() || !json.contains("loss")) continue;
      ++out.iterations;
      out.losses.push_back(json["loss"]);
      out.processes.insert(json["pid"].get<int64_t>());
    }
    out.state = nlohmann::json::parse(
        text_of(live_->file(fmt::format("{}/rank-{}.state.json", name, number))), nullptr, false);
    return out;
  }
  bool all_have_done(const std::string& name, int iterations) {
    for (int r = 0; r < kRanks; ++r) {
      if (rank(name, r).iterations < iterations) return false;
    }
    return true;
  }

  std::unique_ptr<LiveSystem> live_;
  std::vector<Process> stores_;
};

/// Both jobs train the same from the same start. One of them is moved to end their collision, and
/// must end as the other does, bit by bit.
TEST_F(TrainingTest, AMovedJobEndsBitIdenticalToOneThatWasNot) {
  const std::vector<std::string> names = {"a", "b"};
  train("a", {"r0n0", "r1n0"});
  train("b", {"r0n1", "r1n1"});
  for (const std::string& name : names) {
    ASSERT_TRUE(eventually([&] { return all_have_done(name, 1); })) << live_->logs();
  }
  // Workers pause at the end of an iteration, so the jobs go on, step by step, until they are
  // asked.
  int gate = kFirstGate;
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    for (const std::string& name : names) open_gate(name, gate);
    ++gate;
    live_->notify();
    return live_->excess() == 0;
  })) << live_->get("/api/v1/plans");
  for (const std::string& name : names) {
    for (int i = gate; i < kIterations; ++i) open_gate(name, i);
    EXPECT_TRUE(eventually([&] {
      for (int r = 0; r < kRanks; ++r) {
        if (!rank(name, r).state.is_object()) return false;
      }
      return true;
    })) << live_->logs();
  }
  size_t moved = 0;
  for (int r = 0; r < kRanks; ++r) {
    const Rank a = rank("a", r), b = rank("b", r);
    EXPECT_EQ(a.losses, b.losses) << "rank " << r;
    EXPECT_EQ(a.losses.size(), static_cast<size_t>(kIterations));
    EXPECT_EQ(a.state, b.state) << "rank " << r;
    moved += a.processes.size() + b.processes.size() - 2;
  }
  EXPECT_EQ(moved, 1u);
  EXPECT_EQ(live_->number("/api/v1/plans", "/plans/0/moves", 0), 1);
}

}  // namespace
}  // namespace monkeytree
