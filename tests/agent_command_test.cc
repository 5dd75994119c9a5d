// `monkeytree agent` as an operator meets it.

#include <gtest/gtest.h>
#include <signal.h>

#include <string>
#include <vector>

#include "agent/world.h"
#include "base/eventually.h"
#include "program.h"

namespace monkeytree {
namespace {

std::string refused(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = {"agent"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const ProgramRun run = run_program(all);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_EQ(run.out, "");
  return run.err;
}

TEST(AgentCommand, RefusesWhatItCannotUse) {
  const TemporaryFolder folder;
  const std::string socket = folder.path() + "/agent.sock";
  EXPECT_NE(refused({"--socket", socket, "--controller", "10.0.0.1:7461"}).find("insecure: true"),
            std::string::npos);
  EXPECT_NE(refused({"--socket", socket, "--controller", "head"}).find("HOST:PORT"),
            std::string::npos);
  EXPECT_NE(refused({"--socket", socket, "--node", "../n1"}).find("node"), std::string::npos);
  EXPECT_NE(refused({"--socket", socket, "--data", "no-such-interface"}).find("lo 127.0.0.1"),
            std::string::npos);
  EXPECT_NE(refused({"--socket", socket, "--staging-quota", "much"}).find("64GiB"),
            std::string::npos);
  EXPECT_NE(refused({"--socket", "agent.sock"}).find("absolute"), std::string::npos);
  EXPECT_NE(refused({"--config", folder.path() + "/none.yaml"}).find("none.yaml"),
            std::string::npos);
  const std::string config = folder.write("agent.yaml", "node: n1\nsokcet: /x\n");
  EXPECT_NE(refused({"--config", config}).find("agent.yaml:2: "), std::string::npos);
  EXPECT_TRUE(folder.list() == std::vector<std::string>{"agent.yaml"});
}

/// Runs the agent until its log holds `wanted`, then asks it to end; the log.
std::string log_until(const TemporaryFolder& folder, std::vector<std::string> arguments,
                      const std::string& wanted) {
  arguments.insert(arguments.begin(), {MONKEYTREE_PROGRAM, "agent", "--socket",
                                       folder.path() + "/agent.sock", "--node", "n1"});
  const std::string log = folder.path() + "/log";
  Process agent(arguments, {}, log);
  EXPECT_TRUE(eventually([&] { return folder.read("log").find(wanted) != std::string::npos; }))
      << wanted << " is not in\n"
      << folder.read("log");
  agent.signal(SIGTERM);
  EXPECT_EQ(agent.wait(), 0);
  return folder.read("log");
}

TEST(AgentCommand, RunsWithoutAControllerUntilItIsStopped) {
  const TemporaryFolder folder;
  const std::string log = log_until(folder, {"--controller", "127.0.0.1:1", "--log", "json"},
                                    "\"event\":\"no controller\"");
  EXPECT_NE(log.find("\"event\":\"started\",\"node\":\"n1\""), std::string::npos) << log;
  EXPECT_NE(log.find("\"event\":\"stopping\""), std::string::npos) << log;
  // What it left behind does not keep the next one from starting.
  log_until(folder, {"--controller", "127.0.0.1:1"}, "level=info event=started node=n1");
}

TEST(AgentCommand, WarnsAtEachStartWhereItIsInsecure) {
  const TemporaryFolder folder;
  log_until(folder, {"--controller", "192.0.2.1:7461", "--data", "127.0.0.1", "--insecure"},
            "level=warning event=\"insecure");
}

TEST(AgentCommand, FailsWhereItCannotListen) {
  const TemporaryFolder folder;
  const ProgramRun run =
      run_program({"agent", "--socket", folder.path() + "/no/such/folder/agent.sock"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_NE(run.err.find("agent.sock"), std::string::npos);
}

}  // namespace
}  // namespace monkeytree
