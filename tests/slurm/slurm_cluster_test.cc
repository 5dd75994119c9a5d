/// The cluster that tests start: several at once, and nothing of it stays.
#include "slurm_cluster.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace monkeytree {
namespace {

/// Processes whose arguments name the folder.
int processes_of(const std::string& folder) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream in(entry.path() / "cmdline", std::ios::binary);
    const std::string text(std::istreambuf_iterator<char>(in), {});
    count += text.find(folder) != std::string::npos;
  }
  return count;
}

TEST(SlurmClusterTest, nothing_stays_when_a_test_is_killed) {
  if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    SlurmClusterOptions options;
    options.racks = 1;
    options.nodes = 2;
    options.database = false;
    auto cluster = SlurmCluster::start(options);
    if (!cluster.ok()) _exit(1);
    // A job, so that there are processes that are not the keeper's own children.
    (*cluster)->try_run({"sbatch", "--output=/dev/null",
                         "--wrap=exec sh -c 'sleep 1000; : " + (*cluster)->folder() + "'"});
    for (int i = 0; i < 1200 && processes_of("sleep 1000; : " + (*cluster)->folder()) == 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    const std::string folder = (*cluster)->folder();
    if (write(ends[1], folder.data(), folder.size()) < 0) _exit(1);
    raise(SIGKILL);
  }
  close(ends[1]);
  std::array<char, 4096> buffer{};
  const ssize_t got = read(ends[0], buffer.data(), buffer.size());
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ASSERT_GT(got, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::string folder(buffer.data(), static_cast<size_t>(got));
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while ((std::filesystem::exists(folder) || processes_of(folder) > 0) &&
         std::chrono::steady_clock::now() < give_up) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
  EXPECT_EQ(processes_of(folder), 0);
}

TEST(SlurmClusterTest, two_at_once) {
  if (const std::string why = SlurmCluster::missing(); !why.empty()) GTEST_SKIP() << why;
  SlurmClusterOptions options;
  options.racks = 2;
  options.nodes = 1;
  options.database = false;
  const auto one = SlurmCluster::start(options);
  const auto other = SlurmCluster::start(options);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE((*one)->folder(), (*other)->folder());
  const std::vector<std::string> submit = {"salloc", "--no-shell", "--nodes=2"};
  const std::vector<std::string> look = {"squeue", "--noheader", "--format=%N"};
  (*one)->run(submit);
  EXPECT_EQ((*one)->run(look), "r0n0,r1n0\n");
  EXPECT_EQ((*other)->run(look), "");
}

}  // namespace
}  // namespace monkeytree
