#include "inventory/emulated_processes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>

#include "base/eventually.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

bool alive(const std::string& process) {
  std::ifstream stat("/proc/" + process + "/stat");
  std::string pid, name, state;
  return (stat >> pid >> name >> state) && state != "Z";
}

TEST(EmulatedProcessesTest, run_with_the_books_and_end_with_them) {
  std::string folder = testing::TempDir() + "/emulated_processes_XXXXXX";
  ASSERT_TRUE(mkdtemp(folder.data()));
  const auto said = [&](const std::string& node) {
    std::ifstream in(folder + "/" + node + ".sock.said");
    std::string line;
    std::getline(in, line);
    return line;
  };
  const Deadline soon = std::chrono::steady_clock::now() + seconds(60);
  std::string first, second, third;
  {
    EmulatedProcesses processes(folder, "");
    EmulatedScheduler cluster(uniform_cluster(1, 4, 8, 2), processes.workers());
    EmulatedJob job;
    job.nodes = {"r0n0", "r0n1"};
    job.groups = {2};
    job.command.arguments = {"sh", "-c",
                             "echo $$ $MONKEYTREE_JOB $MONKEYTREE_GROUP $MONKEYTREE_WORKER > "
                             "$MONKEYTREE_AGENT_SOCKET.said; sleep 1000 & wait"};
    ASSERT_TRUE(cluster.submit(job).ok());
    const Hold hold = cluster.hold({"1", 0, 1}, "r0n3", "", soon).value();
    ASSERT_TRUE(cluster.start(hold, job.command, soon).ok());
    for (const char* node : {"r0n0", "r0n1", "r0n3"}) {
      ASSERT_TRUE(eventually([&] { return !said(node).empty(); })) << node;
    }
    EXPECT_THAT(said("r0n0"), testing::EndsWith(" 1 0 0"));
    EXPECT_THAT(said("r0n3"), testing::EndsWith(" 1 0 1"));
    const auto process = [&](const char* node) {
      return said(node).substr(0, said(node).find(' '));
    };
    first = process("r0n0");
    second = process("r0n1");
    third = process("r0n3");
    ASSERT_TRUE(cluster.give_back({"1", 0, 1}, "r0n1", {"r0n0", "r0n3"}, soon).ok());
    EXPECT_TRUE(eventually([&] { return !alive(second); }));
    EXPECT_TRUE(alive(first));
    EXPECT_TRUE(alive(third));
    EmulatedJob bad;
    bad.groups = {1};
    bad.command.arguments = {"no-such-program"};
    const absl::Status none = cluster.submit(bad).status();
    EXPECT_FALSE(none.ok());
    EXPECT_EQ(cluster.free_nodes(), 2);
  }
  EXPECT_TRUE(eventually([&] { return !alive(first) && !alive(third); }));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace monkeytree
