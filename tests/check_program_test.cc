// `monkeytree check` as a program: what it says of a plan, what it leaves open, and the cluster
// after the moves.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "program.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::ordered_json;

const std::string kSnapshot = std::string(MONKEYTREE_SOURCE_DIR) + "/examples/four_racks.json";

class CheckProgram : public ::testing::Test {
 protected:
  Json plan(const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"plan", kSnapshot, "--json"};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return Json::parse(run_program(arguments).out);
  }
  ProgramRun check(const Json& plan, const std::vector<std::string>& options = {}) const {
    std::vector<std::string> arguments = {"check", kSnapshot,
                                          folder_.write("plan.json", plan.dump())};
    arguments.insert(arguments.end(), options.begin(), options.end());
    return run_program(arguments);
  }
  void expect_holds(const Json& plan, const std::string& sentence) const {
    const ProgramRun run = check(plan);
    EXPECT_EQ(run.exit_code, 0) << run.out << run.err;
    EXPECT_EQ(run.out, sentence);
  }
  void expect_refuted(const Json& plan, const std::string& sentence) const {
    const ProgramRun run = check(plan);
    EXPECT_EQ(run.exit_code, 3);
    EXPECT_THAT(run.out, HasSubstr(sentence));
  }
  /// A plan of no moves, as one that claims that there is none would be.
  static Json without_moves(Json plan, const std::string& status) {
    plan["status"] = status;
    plan["moves"] = 0;
    plan["lower_bound"] = nullptr;
    plan["excess_after"] = plan["excess_before"];
    plan["fragmentation"]["after"] = plan["fragmentation"]["before"];
    plan["rounds"] = Json::array();
    return plan;
  }
  std::string after() const { return folder_.path() + "/after.json"; }

  TemporaryFolder folder_;
};

TEST_F(CheckProgram, SaysWhatItDoesNotCheck) {
  expect_holds(plan(), "holds; that fewer moves are impossible is not checked\n");
  expect_holds(plan({"--uplinks", "4"}), "holds\n");
  Json feasible = plan();
  feasible["status"] = "feasible";
  feasible["lower_bound"] = 1;
  expect_holds(feasible, "holds; the lower bound is not checked\n");
  expect_holds(plan({"--best-effort", "--uplinks", "0"}),
               "holds; that less excess, or fewer moves for it, is impossible is not checked\n");
  Json infeasible = without_moves(plan(), "infeasible");
  infeasible["conflict"] = {"R3"};
  expect_holds(infeasible, "holds; that no placement meets every bound is not checked\n");
  expect_holds(without_moves(plan(), "unknown"),
               "holds; the plan moves nothing and claims nothing\n");
}

TEST_F(CheckProgram, AStatusThatCannotBeIsRefuted) {
  for (const char* status : {"optimal", "compliant"}) {
    Json with_conflict =
        plan(status == std::string("optimal") ? std::vector<std::string>{}
                                              : std::vector<std::string>{"--uplinks", "4"});
    with_conflict["conflict"] = {"R3"};
    expect_refuted(with_conflict, "yet it names racks in conflict");
  }
  Json unknown = without_moves(plan(), "unknown");
  unknown["conflict"] = {"R3"};
  expect_refuted(unknown, "the plan is unknown, yet it names racks in conflict");
  Json infeasible = without_moves(plan(), "infeasible");
  infeasible["conflict"] = {"R1", "R2"};  // neither is over: where all stands, both bounds hold
  expect_refuted(infeasible, "every rack in conflict is within its bound");
  infeasible["conflict"] = {"R3", "R3"};
  expect_refuted(infeasible, "conflict names rack \"R3\" twice");
  infeasible["conflict"] = {"R3"};
  infeasible["best_effort"] = true;
  expect_refuted(infeasible, "best effort, so it cannot be infeasible");
  Json bounded = plan();
  bounded["excess_lower_bound"] = 0;
  expect_refuted(bounded, "a lower bound on the excess");
}

TEST_F(CheckProgram, WritesTheClusterAfterTheMoves) {
  const ProgramRun run = check(plan(), {"--after", after()});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("holds"));
  EXPECT_THAT(run_program({"plan", after()}).out, StartsWith("compliant: "));
  EXPECT_EQ(Json::parse(run_program({"route", after(), "--json"}).out)["isolated"], true);
  // Only nodes of workers differ.
  Json before = Json::parse(run_program({"analyze", kSnapshot, "--json"}).out);
  Json now = Json::parse(run_program({"analyze", after(), "--json"}).out);
  EXPECT_EQ(now["gpus"], before["gpus"]);
  EXPECT_EQ(now["bounds"], before["bounds"]);
  EXPECT_EQ(now["fragmentation"], plan()["fragmentation"]["after"]);
}

TEST_F(CheckProgram, AfterGoesToStandardOutputInPlaceOfTheVerdict) {
  const ProgramRun run = check(plan(), {"--after", "-"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  ProgramSetting setting;
  setting.input = run.out;
  EXPECT_THAT(run_program({"plan", "-"}, setting).out, StartsWith("compliant: "));
}

TEST_F(CheckProgram, AStagedWorkerArrives) {
  Json staged = plan();
  Json first = Json::array(), second = Json::array();
  for (const Json& round : staged["rounds"]) {
    for (Json move : round) {
      Json out = move;
      out["to"] = "@staging";
      first.push_back(out);
      move["from"] = "@staging";
      second.push_back(move);
    }
  }
  const ProgramRun direct = check(staged, {"--after", after()});
  const std::string wanted = folder_.read("after.json");
  ASSERT_NE(wanted, "");
  staged["rounds"] = {first, second};
  const ProgramRun run = check(staged, {"--after", after()});
  EXPECT_EQ(run.exit_code, 0) << run.out;
  EXPECT_EQ(folder_.read("after.json"), wanted);
}

TEST_F(CheckProgram, ARefutedPlanWritesNothing) {
  folder_.write("after.json", "old");
  Json wrong = plan();
  wrong["moves"] = 1;
  EXPECT_EQ(check(wrong, {"--after", after()}).exit_code, 3);
  EXPECT_EQ(folder_.read("after.json"), "old");
}

TEST_F(CheckProgram, AFolderThatIsNotThereIsAFailure) {
  const ProgramRun run = check(plan(), {"--after", folder_.path() + "/nowhere/after.json"});
  EXPECT_EQ(run.exit_code, 1);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("nowhere/after.json: cannot create"));
}

}  // namespace
}  // namespace monkeytree
