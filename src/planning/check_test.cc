#include "planning/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "cluster/letters.h"

namespace monkeytree {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

/// B is moved from r1 to r2, which makes both jobs whole; A's node beside it stays free.
Snapshot snapshot() { return parse_letters("r1 AAB.\nr2 BC-=\nr3 CC..\n", {1, {}}).value(); }

PlanRecord good_plan() {
  PlanRecord plan;
  plan.snapshot_sha256 = "ab";
  plan.bounds = {{"r1", 1}, {"r2", 1}, {"r3", 1}};
  plan.before = {{"r1", 1}, {"r2", 2}, {"r3", 1}};
  plan.after = {{"r1", 0}, {"r2", 1}, {"r3", 1}};
  plan.status = PlanStatus::kOptimal;
  plan.moves = 1;
  plan.lower_bound = 1;
  plan.excess_before = 1;
  plan.rounds = {{{"B", 0, 1, "r2/1", "r1/4"}}};
  return plan;
}

std::vector<std::string> broken(const std::function<void(PlanRecord&)>& change,
                                const CheckOptions& options = {}) {
  PlanRecord plan = good_plan();
  change(plan);
  return check_plan(snapshot(), plan, options);
}

TEST(Check, AGoodPlanHolds) {
  EXPECT_THAT(check_plan(snapshot(), good_plan(), {"ab", {}}), IsEmpty());
  EXPECT_THAT(check_plan(snapshot(), good_plan(), {{}, 1}), IsEmpty());
}

TEST(Check, AStagedWorkerIsOneMove) {
  EXPECT_THAT(broken([](PlanRecord& p) {
                p.rounds = {{{"B", 0, 1, "r2/1", "@staging"}}, {{"B", 0, 1, "@staging", "r1/4"}}};
              }),
              IsEmpty());
}

TEST(Check, NumbersThatAreWrong) {
  const auto expect = [](const std::function<void(PlanRecord&)>& change, const char* violation) {
    EXPECT_THAT(broken(change), Contains(HasSubstr(violation)));
  };
  expect([](PlanRecord& p) { p.moves = 2; }, "the rounds move 1 workers, the plan says 2 moves");
  expect([](PlanRecord& p) { p.before[1].second = 3; }, "rack \"r2\" has degree 2 before");
  expect([](PlanRecord& p) { p.after[0].second = 1; }, "rack \"r1\" has degree 0 after");
  expect([](PlanRecord& p) { p.after.pop_back(); }, "fragmentation after leaves out rack \"r3\"");
  expect([](PlanRecord& p) { p.bounds[0].first = "rx"; }, "bounds names rack \"rx\"");
  expect([](PlanRecord& p) { p.excess_before = 2; }, "the excess before the moves is 1");
  expect([](PlanRecord& p) { p.excess_after = 1; }, "the excess after the moves is 0");
  expect([](PlanRecord& p) { p.lower_bound = 2; }, "lower bound 2 is above the 1 moves");
  expect([](PlanRecord& p) { p.lower_bound = 0; }, "lower bound is not the number of moves");
  expect([](PlanRecord& p) { p.bounds[1].second = 0; }, "rack \"r2\" has degree 1 in the end");
}

TEST(Check, StatusThatDoesNotFit) {
  const auto expect = [](PlanStatus status, const char* violation) {
    EXPECT_THAT(broken([&](PlanRecord& p) { p.status = status; }), Contains(HasSubstr(violation)));
  };
  expect(PlanStatus::kCompliant, "compliant, yet it moves");
  expect(PlanStatus::kInfeasible, "infeasible, yet it moves");
  expect(PlanStatus::kInfeasible, "names no rack in conflict");
  expect(PlanStatus::kUnknown, "has a lower bound");
  expect(PlanStatus::kFeasible, "must be below");
  const auto idle = [](PlanRecord& p) {
    p.moves = 0;
    p.rounds.clear();
    p.after = p.before;
    p.excess_after = p.excess_before;
    p.lower_bound.reset();
    p.status = PlanStatus::kInfeasible;
    p.conflict = {"r2"};
  };
  EXPECT_THAT(broken(idle), IsEmpty());
  EXPECT_THAT(broken(idle, {{}, 2}), Contains(HasSubstr("within its bound already")));
  EXPECT_THAT(broken([&](PlanRecord& p) {
                idle(p);
                p.conflict = {"r9"};
              }),
              Contains(HasSubstr("conflict names rack \"r9\"")));
}

TEST(Check, BestEffortNeedNotMeetTheBounds) {
  const auto best = [](PlanRecord& p) {
    p.bounds = {{"r1", 1}, {"r2", 0}, {"r3", 0}};
    p.excess_before = 3;
    p.excess_after = 2;
  };
  EXPECT_THAT(broken(best), Contains(HasSubstr("above its bound 0")));
  EXPECT_THAT(broken([&](PlanRecord& p) {
                best(p);
                p.best_effort = true;
              }),
              IsEmpty());
}

TEST(Check, MovesThatAreNotLegal) {
  using Step = PlanRecord::Step;
  const auto expect = [](std::vector<std::vector<Step>> rounds, const char* violation) {
    EXPECT_THAT(broken([&](PlanRecord& p) { p.rounds = rounds; }), Contains(HasSubstr(violation)))
        << violation;
  };
  expect({{{"X", 0, 1, "r2/1", "r1/4"}}}, "job \"X\", which the snapshot does not have");
  expect({{{"B", 1, 1, "r2/1", "r1/4"}}}, "group 1 of job \"B\", which has 1 groups");
  expect({{{"B", 0, 2, "r2/1", "r1/4"}}}, "worker 2 of group 0 of job \"B\", which has 2 workers");
  expect({{{"B", 0, 1, "r1/3", "r1/4"}}}, "leaves \"r1/3\", but it is on \"r2/1\"");
  expect({{{"B", 0, 1, "r2/1", "r9/4"}}}, "node \"r9/4\", which the snapshot does not have");
  expect({{{"B", 0, 1, "r2/1", "r2/3"}}}, "which is not up but drain");
  expect({{{"B", 0, 1, "r2/1", "r2/4"}}}, "which is not up but reserved");
  expect({{{"B", 0, 1, "r2/1", "r1/1"}}}, "needs 1 slot on node \"r1/1\", where 0 are free");
  expect({{{"B", 0, 1, "r2/1", "r1/4"}, {"A", 0, 0, "r1/1", "r1/4"}}}, "where 0 are free");
  expect({{{"B", 0, 1, "r2/1", "r1/4"}, {"A", 0, 0, "r1/1", "r2/1"}}}, "where 0 are free");
  expect({{{"B", 0, 1, "r2/1", "r1/4"}, {"B", 0, 1, "r1/4", "r3/4"}}}, "moves twice in this round");
  expect({{{"B", 0, 1, "r2/1", "r1/4"}}, {{"B", 0, 1, "r1/4", "r3/4"}}}, "moves again after");
  expect({{{"B", 0, 1, "r2/1", "r1/4"}}, {}}, "round 2 is empty");
  expect({{{"B", 0, 1, "r2/1", "@staging"}}}, "is left in staging");
  expect({{{"B", 0, 1, "r2/1", "@staging"}}, {{"B", 0, 1, "@staging", "@staging"}}},
         "to staging, where it already is");
  expect({{{"B", 0, 1, "r2/1", "@staging"}}, {{"B", 0, 1, "@staging", "r2/1"}}},
         "where it started");
}

TEST(Check, ImmovableWorkersClassesAndIslands) {
  Snapshot s = snapshot();
  s.groups[GroupId(1)].pinned = {1};
  EXPECT_THAT(check_plan(s, good_plan()), Contains(HasSubstr("must not move")));
  s = snapshot();
  s.jobs[JobId(1)].movable = false;
  EXPECT_THAT(check_plan(s, good_plan()), Contains(HasSubstr("must not move")));
  s = snapshot();
  s.classes.push_back("h200");
  s.nodes[NodeId(3)].node_class = ClassId(1);
  EXPECT_THAT(check_plan(s, good_plan()),
              Contains(HasSubstr("of class \"h200\", but belongs on class \"default\"")));
  s = snapshot();
  s.islands.push_back("east");
  s.racks[RackId(0)].island = IslandId(1);
  EXPECT_THAT(check_plan(s, good_plan()), Contains(HasSubstr("in another island")));
}

TEST(Check, ASlotFreedInARoundCanBeUsedInTheNext) {
  const std::vector<PlanRecord::Step> first{{"B", 0, 1, "r2/1", "r1/4"}};
  const std::vector<PlanRecord::Step> then{{"C", 0, 1, "r3/1", "r2/1"}};
  const auto legal = [](std::vector<std::string> violations) {
    std::erase_if(violations, [](const std::string& v) { return v.find("round") != 0; });
    return violations;
  };
  EXPECT_THAT(legal(broken([&](PlanRecord& p) { p.rounds = {first, then}; })), IsEmpty());
  EXPECT_THAT(legal(broken([&](PlanRecord& p) {
                p.rounds = {then, first};
              })),
              Contains(HasSubstr("where 0 are free when the round starts")));
}

TEST(Check, AnotherSnapshotIsRefuted) {
  EXPECT_THAT(check_plan(snapshot(), good_plan(), {"cd", {}}),
              Contains(HasSubstr("made for another snapshot")));
}

TEST(Check, AFloodIsCut) {
  const std::vector<std::string> violations = broken([](PlanRecord& p) { p.rounds.resize(1000); });
  EXPECT_EQ(violations.size(), kMaxViolations + 1);
  EXPECT_THAT(violations.back(), HasSubstr("more violations"));
}

}  // namespace
}  // namespace monkeytree
