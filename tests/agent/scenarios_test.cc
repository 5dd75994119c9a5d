// Moves of workers of a running job, and what may go wrong meanwhile. The same cases run with all
// agents in one process and with real agents over gRPC.

#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>

#include "base/eventually.h"
#include "scenario.h"

namespace monkeytree {
namespace {

std::string text_of(const testing::TestParamInfo<ScenarioStep>& info) {
  return name_of(info.param);
}

TEST(Moves, OneWorker) {
  Scenario s({"n1", "n2", "n3", "n4", "n5"});
  s.start_job({"n1", "n2", "n3", "n4"});
  s.move(s.plan("1.0.0", {{1, "n5"}}));
  s.goes_on();
  s.check_logs();
  std::set<std::string> nodes;
  ASSERT_TRUE(eventually([&] {
    nodes.clear();
    for (const AgentReport& agent : s.executor().agents()) {
      for (const WorkerReport& worker : agent.workers) {
        if (worker.paused || worker.successor || !worker.migration.empty()) return false;
        nodes.insert(worker.node);
      }
    }
    return nodes.size() == 4;
  }));
  EXPECT_EQ(nodes, (std::set<std::string>{"n1", "n3", "n4", "n5"}));
}

/// The bytes of state that the node's agent has sent, by its log.
int64_t bytes_sent(Scenario& s, const std::string& node) {
  int64_t bytes = 0;
  std::ifstream in(s.world().log_file(node));
  for (std::string line; std::getline(in, line);) {
    const size_t at = line.find(" bytes=");
    if (line.find("\"state sent\"") == std::string::npos || at == std::string::npos) continue;
    bytes += std::stoll(line.substr(at + 7));
  }
  return bytes;
}

TEST(Moves, ReplicasSendTheirShareOfWhatTheyHoldToo) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  int64_t state = 0;
  ASSERT_TRUE(eventually([&] {
    for (const AgentReport& agent : s.executor().agents()) {
      for (const WorkerReport& worker : agent.workers) state = worker.state_bytes;
    }
    return state > 0;
  }));
  s.move(s.plan("1.0.0", {{1, "n3"}}));
  s.goes_on();
  s.check_logs();
  // A third of the state is the same at both workers, and the one that leaves sends the rest.
  EXPECT_EQ(bytes_sent(s, "n1") + bytes_sent(s, "n2"), state);
  EXPECT_NEAR(static_cast<double>(bytes_sent(s, "n1")), static_cast<double>(state) / 3,
              static_cast<double>(state) / 100);
}

TEST(Moves, TwoAtOnceThenBack) {
  Scenario s({"n1", "n2", "n3", "n4", "n5", "n6"});
  s.start_job({"n1", "n2", "n3", "n4"});
  s.move(s.plan("1.0.0", {{0, "n5"}, {3, "n6"}}));
  s.goes_on();
  s.move(s.plan("2.0.0", {{0, "n1"}}));
  s.move(s.plan("3.0.0", {{3, "n4"}, {2, "n6"}}));
  s.goes_on();
  s.check_logs();
}

TEST(Moves, AJobOfOne) {
  Scenario s({"n1", "n2"});
  s.start_job({"n1"});
  s.move(s.plan("1.0.0", {{0, "n2"}}));
  s.goes_on();
  s.move(s.plan("2.0.0", {{0, "n1"}}));
  s.goes_on();
  s.check_logs();
}

TEST(Moves, ASwapThroughStaging) {
  Scenario s({"n1", "n2", "n3"}, 4 << 20);
  s.start_job({"n1", "n2", "n3"});
  s.move(s.plan("1.0.0", {{0, kStagingNode}}));
  const std::vector<int64_t> stood = s.iterations();
  // The job stands still between rounds, whoever else moves.
  s.move(s.plan("1.1.0", {{1, "n1"}}));
  EXPECT_EQ(s.iterations(), stood);
  s.move(s.plan("1.2.0", {{0, "n2"}}));
  s.goes_on();
  s.check_logs();
  // What was staged is gone: a quota's worth can be staged again.
  s.move(s.plan("2.0.0", {{0, kStagingNode}, {2, kStagingNode}}));
  s.move(s.plan("2.1.0", {{0, "n3"}, {2, "n2"}}));
  s.goes_on();
  s.check_logs();
}

TEST(Moves, StagingThatIsFullIsRefusedBeforeThePause) {
  Scenario s({"n1", "n2"}, 4096);
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{0, kStagingNode}});
  const absl::Status status = s.perform(migration, ScenarioStep::kPrepare);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  s.insist_on_roll_back(migration);
  s.goes_on();
  s.check_logs();
}

TEST(Moves, StagedStateOfAMigrationThatIsUndoneIsDropped) {
  Scenario s({"n1", "n2", "n3"}, 300'000);
  s.start_job({"n1", "n2"});
  for (int round = 0; round < 6; ++round) {  // more than any server's quota in all
    const auto migration = s.plan(std::to_string(round) + ".0.0", {{0, kStagingNode}});
    for (ScenarioStep step :
         {ScenarioStep::kPrepare, ScenarioStep::kPause, ScenarioStep::kTransfer}) {
      ASSERT_TRUE(s.insist(migration, step));
    }
    s.insist_on_roll_back(migration);
    s.goes_on(2);
  }
  s.check_logs();
}

/// Parameter: the step before which something happens.
class Interrupted : public testing::TestWithParam<ScenarioStep> {};
INSTANTIATE_TEST_SUITE_P(Before, Interrupted, testing::ValuesIn(kScenarioSteps), text_of);

TEST_P(Interrupted, RolledBackTheJobGoesOnAndMovesLater) {
  if (GetParam() >= ScenarioStep::kResume) GTEST_SKIP() << "no way back";
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto first = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(first);
  for (ScenarioStep step : kScenarioSteps) {
    if (step == GetParam()) break;
    ASSERT_TRUE(s.insist(first, step));
  }
  s.insist_on_roll_back(first);
  s.goes_on();
  // A roll-back that comes twice harms nobody, a step that comes late is refused.
  EXPECT_TRUE(s.roll_back(first).ok());
  EXPECT_FALSE(s.executor()
                   .pause(first.id, "j7", {{s.name(0), "n1"}, {s.name(1), "n2"}}, s.deadline())
                   .ok());
  s.goes_on();
  s.move(s.plan("2.0.0", {{1, "n3"}}));
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, EveryStepMayComeTwice) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.move(migration, [&](ScenarioStep next) {
    if (next == ScenarioStep::kPrepare) return;
    const auto done = static_cast<ScenarioStep>(static_cast<int>(next) - 1);
    if (next != GetParam()) return;
    const absl::Status again = s.perform(migration, done);
    EXPECT_TRUE(again.ok()) << name_of(done) << ": " << again;
  });
  EXPECT_TRUE(s.perform(migration, ScenarioStep::kResume).ok());
  EXPECT_TRUE(s.perform(migration, ScenarioStep::kRelease).ok());
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, AgentsKilledAndBack) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  s.move(s.plan("1.0.0", {{1, "n3"}}), [&](ScenarioStep step) {
    if (step != GetParam()) return;
    for (const char* node : {"n1", "n2", "n3"}) s.world().kill_agent(node);
    for (const char* node : {"n1", "n2", "n3"}) s.world().start_agent(node);
  });
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, AgentsKilledWhileAtIt) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.move(migration, [&](ScenarioStep step) {
    if (step != GetParam()) return;
    // Whatever comes of it: the step is insisted on afterwards.
    std::thread at_it([&] { s.perform(migration, step).IgnoreError(); });
    for (const char* node : {"n2", "n3"}) s.world().kill_agent(node);
    for (const char* node : {"n2", "n3"}) s.world().start_agent(node);
    at_it.join();
  });
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, ControllerRestarted) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  s.move(s.plan("1.0.0", {{1, "n3"}}), [&](ScenarioStep step) {
    if (step == GetParam()) s.world().restart_controller();
  });
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, AllKilledWhileAWorkerIsStaged) {
  constexpr int64_t kQuota = 4 << 20;
  Scenario s({"n1", "n2", "n3"}, kQuota);
  s.start_job({"n1", "n2", "n3"});
  s.move(s.plan("1.0.0", {{0, kStagingNode}}));
  s.move(s.plan("1.1.0", {{0, "n1"}}), [&](ScenarioStep step) {
    if (step != GetParam()) return;
    for (const char* node : {"n1", "n2", "n3"}) s.world().kill_agent(node);
    s.world().restart_controller();
    for (const char* node : {"n1", "n2", "n3"}) s.world().start_agent(node, kQuota);
  });
  s.goes_on();
  s.check_logs();
  // What was staged has been let go of.
  for (const char* node : {"n1", "n2", "n3"}) {
    std::error_code none;
    for (const auto& file :
         std::filesystem::directory_iterator(s.world().socket(node) + ".staged", none)) {
      ADD_FAILURE() << file.path();
    }
  }
}

TEST_P(Interrupted, ConnectionCut) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  s.move(s.plan("1.0.0", {{1, "n3"}}), [&](ScenarioStep step) {
    if (step != GetParam()) return;
    s.world().cut_off("n2", true);
    EXPECT_TRUE(eventually([&] { return !s.world().connected("n2"); }));
    s.world().cut_off("n2", false);
    EXPECT_TRUE(eventually([&] { return s.world().connected("n2"); }));
  });
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, SourceKilled) {
  if (GetParam() < ScenarioStep::kTransfer) GTEST_SKIP() << "the job has lost a running worker";
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  // Its agent keeps what it held when it stood still.
  s.move(s.plan("1.0.0", {{1, "n3"}}), [&](ScenarioStep step) {
    if (step == GetParam()) s.worker(1, "n2").signal(SIGKILL);
  });
  s.goes_on();
  s.check_logs();
}

TEST_P(Interrupted, DestinationKilled) {
  if (GetParam() >= ScenarioStep::kResume) GTEST_SKIP() << "the job has lost a running worker";
  Scenario s({"n1", "n2", "n3", "n4"});
  s.start_job({"n1", "n2"});
  const auto first = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(first);
  for (ScenarioStep step : kScenarioSteps) {
    if (step == GetParam()) break;
    ASSERT_TRUE(s.insist(first, step));
  }
  s.worker(1, "n3").signal(SIGKILL);
  if (GetParam() >= ScenarioStep::kTransfer) {
    EXPECT_FALSE(s.executor()
                     .restore(first.id, s.name(1), "n3",
                              std::chrono::steady_clock::now() + std::chrono::milliseconds(200))
                     .ok());
  }
  s.insist_on_roll_back(first);
  s.goes_on();
  s.move(s.plan("2.0.0", {{1, "n4"}}));
  s.goes_on();
  s.check_logs();
}

TEST(Faults, ASuccessorThatNeverComesIsNotWaitedForForever) {
  Scenario s({"n1", "n2"});
  s.start_job({"n1"});
  const absl::Status status =
      s.executor().prepare("1.0.0", s.name(0), "n2", 1,
                           std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  s.goes_on();
}

TEST(Faults, AByteThatChangesAfterTheCommitIsFound) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"}, 1, "flip");
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(migration);
  ASSERT_TRUE(s.insist(migration, ScenarioStep::kPrepare));
  ASSERT_TRUE(s.insist(migration, ScenarioStep::kPause));
  const absl::Status status = s.perform(migration, ScenarioStep::kTransfer);
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_FALSE(s.perform(migration, ScenarioStep::kRestore).ok());
}

TEST(Faults, ASourceThatDoesNotEndIsEnded) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"}, 1, "deaf");
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(migration);
  for (ScenarioStep step : kScenarioSteps) {
    if (step == ScenarioStep::kRelease) break;
    ASSERT_TRUE(s.insist(migration, step));
  }
  EXPECT_TRUE(s.worker(1, "n2").running());
  const absl::Status status = s.executor().release(
      migration.id, s.name(1), "n2", std::chrono::steady_clock::now() + std::chrono::seconds(4));
  EXPECT_TRUE(status.ok() || absl::IsDeadlineExceeded(status)) << status;
  ASSERT_TRUE(s.insist(migration, ScenarioStep::kRelease));
  EXPECT_EQ(s.worker(1, "n2").wait(), 128 + SIGKILL);
  s.goes_on();
  s.check_logs();
}

TEST(Faults, ASuccessorThatCannotTakeItsStateUpIsNotResumed) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(migration, "restore");
  for (ScenarioStep step :
       {ScenarioStep::kPrepare, ScenarioStep::kPause, ScenarioStep::kTransfer}) {
    ASSERT_TRUE(s.insist(migration, step));
  }
  const absl::Status status = s.perform(migration, ScenarioStep::kRestore);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  s.insist_on_roll_back(migration);
  s.goes_on();
  s.check_logs();
}

TEST(Faults, WhatWouldBreakAJobIsRefused) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  const auto refused = [&](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  };
  // A running worker is neither released nor sent, a job is not resumed that was not paused.
  refused(s.executor().release("1.0.0", s.name(1), "n2", s.deadline()));
  refused(s.executor().resume("1.0.0", "j7", {{s.name(0), "n1"}, {s.name(1), "n2"}}, s.deadline()));
  s.start_successors(migration);
  ASSERT_TRUE(s.insist(migration, ScenarioStep::kPrepare));
  EXPECT_FALSE(s.perform(migration, ScenarioStep::kTransfer).ok());
  refused(s.executor().restore("1.0.0", s.name(1), "n3", s.deadline()));
  refused(s.executor().resume("1.0.0", "j7", {{s.name(0), "n1"}, {s.name(1), "n3"}}, s.deadline()));
  s.goes_on();
  for (ScenarioStep step : kScenarioSteps) ASSERT_TRUE(s.insist(migration, step));
  // After the first resume there is no way back, and the old place never runs again.
  EXPECT_FALSE(s.roll_back(migration).ok());
  s.goes_on();
  s.check_logs();
}

TEST(Faults, TheOldPlaceNeverRunsAgainAfterResume) {
  Scenario s({"n1", "n2", "n3"});
  s.start_job({"n1", "n2"});
  const auto migration = s.plan("1.0.0", {{1, "n3"}});
  s.start_successors(migration);
  for (ScenarioStep step : kScenarioSteps) {
    if (step == ScenarioStep::kRelease) break;
    ASSERT_TRUE(s.insist(migration, step));
  }
  // Also not when its agent has forgotten all: the worker says so itself.
  s.world().kill_agent("n2");
  s.world().start_agent("n2");
  const absl::Status back = s.executor().roll_back(
      migration.id, "j7", {{s.name(0), "n1"}, {s.name(1), "n2"}}, true, s.deadline());
  EXPECT_EQ(back.code(), absl::StatusCode::kFailedPrecondition) << back;
  const absl::Status resumed =
      s.executor().resume(migration.id, "j7", {{s.name(0), "n1"}, {s.name(1), "n2"}}, s.deadline());
  EXPECT_FALSE(resumed.ok());
  s.goes_on();
  s.check_logs();
}

}  // namespace
}  // namespace monkeytree
