#include "planning/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cluster/letters.h"

namespace monkeytree {
namespace {

using testing::HasSubstr;

Plan small_plan() {
  Plan plan;
  plan.status = PlanStatus::kOptimal;
  plan.moves = 1;
  plan.lower_bound = 1;
  plan.excess_before = 1;
  plan.solve_ms = 0.08;
  for (int bound : {1, 1}) plan.bounds.push_back(bound);
  for (int degree : {2, 1}) plan.before.push_back(degree);
  for (int degree : {1, 1}) plan.after.push_back(degree);
  plan.rounds = {{{GroupId(1), 0, NodeId(2), kStaging}}, {{GroupId(1), 0, kStaging, NodeId(6)}}};
  return plan;
}

Snapshot small_snapshot() { return parse_letters("r1 AAB.\nr2 BA..\n", {1, {}}).value(); }

std::string errors_of(const std::string& text) {
  Diagnostics diagnostics;
  const bool parsed = parse_plan(text, "plan.json", diagnostics).has_value();
  EXPECT_EQ(parsed, !diagnostics.has_errors());
  return diagnostics.text();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(PlanJson, WritesTheFormat) {
  EXPECT_EQ(write_plan(record_of(small_snapshot(), small_plan(), "ab12")),
            R"({
  "schema": "monkeytree/plan/v1",
  "snapshot_sha256": "ab12",
  "bounds": {"r1": 1, "r2": 1},
  "status": "optimal",
  "moves": 1,
  "lower_bound": 1,
  "excess_before": 1,
  "excess_after": 0,
  "solve_ms": 0.080,
  "fragmentation": {
    "before": {"r1": 2, "r2": 1},
    "after": {"r1": 1, "r2": 1}
  },
  "rounds": [
    [{"job": "B", "group": 0, "worker": 0, "from": "r1/3", "to": "@staging"}],
    [{"job": "B", "group": 0, "worker": 0, "from": "@staging", "to": "r2/3"}]
  ]
}
)");
}

TEST(PlanJson, ReadsWhatItWrites) {
  PlanRecord plan = record_of(small_snapshot(), small_plan(), "ab12");
  Diagnostics diagnostics;
  EXPECT_EQ(parse_plan(write_plan(plan), "p", diagnostics), plan);
  plan.status = PlanStatus::kInfeasible;
  plan.rounds.clear();
  plan.lower_bound.reset();
  plan.conflict = {"r\"1\n", "r2"};
  plan.best_effort = true;
  plan.excess_lower_bound = 3;
  EXPECT_EQ(parse_plan(write_plan(plan), "p", diagnostics), plan);
  EXPECT_EQ(diagnostics.text(), "");
}

TEST(PlanJson, EveryStatusHasItsName) {
  for (PlanStatus status : {PlanStatus::kCompliant, PlanStatus::kOptimal, PlanStatus::kFeasible,
                            PlanStatus::kInfeasible, PlanStatus::kUnknown}) {
    PlanRecord plan;
    plan.status = status;
    Diagnostics diagnostics;
    EXPECT_EQ(parse_plan(write_plan(plan), "p", diagnostics)->status, status);
  }
}

TEST(PlanJson, FaultsCarryTheirPath) {
  const std::string good = write_plan(record_of(small_snapshot(), small_plan(), "ab12"));
  EXPECT_THAT(errors_of(replaced(good, "plan/v1", "plan/v2")),
              HasSubstr("plan.json: /schema: unknown schema \"monkeytree/plan/v2\""));
  EXPECT_THAT(errors_of(replaced(good, "\"optimal\"", "\"best\"")),
              HasSubstr("/status: unknown status \"best\""));
  EXPECT_THAT(errors_of(replaced(good, "\"moves\": 1", "\"moves\": -1")), HasSubstr("/moves: "));
  EXPECT_THAT(errors_of(replaced(good, "\"group\": 0", "\"group\": \"x\"")),
              HasSubstr("/rounds/0/0/group: "));
  EXPECT_THAT(errors_of(replaced(good, "\"r1\": 2", "\"r1\": null")),
              HasSubstr("/fragmentation/before/r1: "));
  EXPECT_THAT(errors_of(replaced(good, "\"to\": \"r2/3\"", "\"two\": 0")),
              HasSubstr("/rounds/1/0"));
  EXPECT_THAT(errors_of(replaced(good, "\"moves\": 1", "\"moves\": 1, \"moves\": 2")),
              HasSubstr("moves"));
  EXPECT_NE(errors_of(""), "");
  EXPECT_NE(errors_of("[]"), "");
  EXPECT_NE(errors_of(good.substr(0, good.size() / 2)), "");
}

TEST(PlanJson, AnUnknownFieldIsAWarning) {
  const std::string good = write_plan(record_of(small_snapshot(), small_plan(), "ab12"));
  const std::string text = errors_of(replaced(good, "\"moves\"", "\"colour\": 1, \"moves\""));
  EXPECT_THAT(text, HasSubstr("/colour: warning: "));
}

}  // namespace
}  // namespace monkeytree
