#include "control/what_if.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/file.h"
#include "base/random.h"
#include "base/sha256.h"
#include "case_cluster.h"
#include "cluster/fragmentation.h"
#include "cluster/letters.h"
#include "cluster/snapshot_json.h"
#include "control/case_text.h"
#include "planning/check.h"
#include "planning/plan_json.h"
#include "planning/random_snapshot.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kFourRacks = "R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n";

Snapshot four_racks() { return *parse_letters(kFourRacks); }

Json answer(const Snapshot& live, const Json& request, const WhatIfLimits& limits = {}) {
  Diagnostics diagnostics;
  const std::optional<std::string> text = what_if(request.dump(), &live, limits, diagnostics);
  EXPECT_TRUE(text) << diagnostics.text();
  return text ? Json::parse(*text) : Json();
}

/// All findings of a request that is refused.
std::string faults(const Json& request, const Snapshot& live = four_racks()) {
  Diagnostics diagnostics;
  EXPECT_FALSE(what_if(request.dump(), &live, {}, diagnostics));
  return diagnostics.text();
}

Snapshot snapshot_in(const Json& answer) {
  Diagnostics diagnostics;
  std::optional<Snapshot> snapshot =
      parse_snapshot(answer["files"]["snapshot"].get<std::string>(), "", diagnostics);
  EXPECT_TRUE(snapshot) << diagnostics.text();
  return snapshot.value_or(Snapshot());
}

/// The plan holds for the snapshot, byte for byte the one that it names.
void expect_checked(const Json& answer) {
  const std::string text = answer["files"]["snapshot"];
  Diagnostics diagnostics;
  const std::optional<PlanRecord> plan =
      parse_plan(answer["files"]["plan"].get<std::string>(), "", diagnostics);
  ASSERT_TRUE(plan) << diagnostics.text();
  CheckOptions options;
  options.snapshot_sha256 = sha256(text);
  EXPECT_THAT(check_plan(snapshot_in(answer), *plan, options), testing::IsEmpty());
}

TEST(WhatIf, NothingChangedIsThePlanAsItIs) {
  const Json is = answer(four_racks(), Json::object());
  EXPECT_EQ(is["schema"], "monkeytree/what-if/v1");
  EXPECT_EQ(is["status"], "optimal");
  EXPECT_EQ(is["moves"], 2);
  EXPECT_EQ(is["changes"], Json::array());
  EXPECT_THAT(is["explanation"].get<std::string>(), StartsWith("2 moves"));
  EXPECT_THAT(is["explanation"].get<std::string>(), HasSubstr("R3: degree 3 over a bound of 2"));
  EXPECT_EQ(is["routes_before"]["isolated"], false);
  EXPECT_EQ(is["routes_after"]["isolated"], true);
  EXPECT_EQ(snapshot_in(is), four_racks());
  expect_checked(is);
  Diagnostics none;
  const Snapshot live = four_racks();
  EXPECT_EQ(Json::parse(*what_if("", &live, {}, none)), is);
}

TEST(WhatIf, UplinksOfAllOrOfOne) {
  const Json three = answer(four_racks(), {{"changes", {{{"do", "uplinks"}, {"uplinks", 3}}}}});
  EXPECT_EQ(three["status"], "compliant");
  EXPECT_EQ(three["explanation"], "Every rack is within its bound: nothing to do.\n");
  EXPECT_THAT(three["changes"], ElementsAre("every rack has 3 uplinks"));
  EXPECT_EQ(three["routes_after"], Json());
  const Json one =
      answer(four_racks(), {{"changes", {{{"do", "uplinks"}, {"uplinks", 3}, {"rack", "R3"}}}}});
  EXPECT_EQ(one["status"], "compliant");
  const Json none = answer(four_racks(), {{"changes", {{{"do", "uplinks"}, {"uplinks", 0}}}}});
  EXPECT_EQ(none["status"], "infeasible");  // ten workers, eight places a rack
  expect_checked(none);
}

TEST(WhatIf, AnUplinkFails) {
  const Json last = answer(four_racks(), {{"changes", {{{"do", "fail-uplink"}, {"rack", "R1"}}}}});
  EXPECT_EQ(snapshot_in(last).racks[RackId(0)].failed, std::vector<int>{1});
  EXPECT_EQ(snapshot_in(last).racks[RackId(0)].bound(), 1);
  const Json first =
      answer(four_racks(), {{"changes", {{{"do", "fail-uplink"}, {"rack", "R1"}, {"spine", 0}}}}});
  EXPECT_THAT(first["changes"], ElementsAre("rack R1 loses its uplink to spine 0"));
  EXPECT_EQ(snapshot_in(first).racks[RackId(0)].spines, std::vector<int>{1});
  expect_checked(first);
}

TEST(WhatIf, ARackIsDrained) {
  const Json is = answer(
      four_racks(),
      {{"changes", {{{"do", "drain"}, {"rack", "R4"}}, {{"do", "drain"}, {"node", "R1/8"}}}}});
  const Snapshot drained = snapshot_in(is);
  for (const Node& node : drained.nodes) {
    const bool wanted = node.rack == RackId(3) || node.name == "R1/8";
    EXPECT_EQ(node.state == NodeState::kDrain, wanted) << node.name;
  }
  expect_checked(is);
}

TEST(WhatIf, AJobComesByBestFitAndOneEnds) {
  // R4 has three free places, as many as are wanted; R1 has two and R2 three, of a lower index.
  const Json is =
      answer(four_racks(),
             {{"changes",
               {{{"do", "remove-job"}, {"job", "B"}},
                {{"do", "add-job"}, {"id", "new"}, {"nodes", 8}, {"groups", 2}, {"rings", 2}}}}});
  EXPECT_THAT(is["changes"], ElementsAre("job B ends", "job new comes, 8 nodes"));
  const Snapshot now = snapshot_in(is);
  ASSERT_EQ(now.jobs.size(), 3U);
  const Job& job = now.jobs[JobId(2)];
  EXPECT_EQ(job.id, "new");
  ASSERT_EQ(job.group_count, 2);
  EXPECT_EQ(now.groups[job.first_group].workers.size(), 4U);
  EXPECT_EQ(now.groups[job.first_group].rings, 2);
  expect_checked(is);
  // Best fit: a rack that it fills exactly, although others come first.
  const Json small =
      answer(four_racks(), {{"changes", {{{"do", "add-job"}, {"id", "n"}, {"gpus", 1}}}}});
  EXPECT_EQ(snapshot_in(small).nodes[snapshot_in(small).groups[GroupId(3)].workers[0]].name,
            "R3/8");
}

TEST(WhatIf, AJobsGpusAreCountedByNode) {
  Snapshot live = four_racks();
  for (Node& node : live.nodes) node.gpus = 8;
  const Json is = answer(live, {{"changes", {{{"do", "add-job"}, {"id", "n"}, {"gpus", 17}}}}});
  EXPECT_THAT(is["changes"], ElementsAre("job n comes, 3 nodes"));
}

TEST(WhatIf, WhereNoPlacementHoldsBestEffortMay) {
  Snapshot live = *parse_letters("R1 AAB\nR2 ABB\n");
  live.set_uplinks(0);
  for (Group& group : live.groups) group.pinned = {0};
  Json request = {{"changes", Json::array()}};
  const Json proved = answer(live, request);
  EXPECT_EQ(proved["status"], "infeasible");
  EXPECT_THAT(proved["explanation"].get<std::string>(),
              StartsWith("No placement meets every bound, which is proved. In conflict: R1\n"));
  request["best_effort"] = true;
  EXPECT_EQ(answer(live, request)["status"], "optimal");
}

TEST(WhatIf, LimitsEndIt) {
  WhatIfLimits limits;
  limits.work_limit = 0;
  EXPECT_THAT(answer(four_racks(), Json::object(), limits)["status"],
              testing::AnyOf("unknown", "feasible", "optimal"));
  EXPECT_THAT(faults({{"work_limit", 1e12}}), HasSubstr("/work_limit: "));
}

/// One small request must not keep all others waiting.
TEST(WhatIf, MoreFlowsThanCanBeRoutedInTimeAreRefused) {
  Snapshot snapshot = four_racks();
  for (Group& group : snapshot.groups) group.rings = 1'000'000;
  EXPECT_THAT(faults({{"changes", Json::array()}}, snapshot), HasSubstr("flows leave their racks"));
  Snapshot larger = four_racks();
  for (Group& group : larger.groups) group.rings = 1300;  // three jobs in R3
  EXPECT_THAT(answer(larger, {{"changes", Json::array()}})["status"], "infeasible");
}

/// Slurm of 22.05 says when jobs end, and not what time it is.
TEST(WhatIf, WithoutATimeNobodyKnowsWhenJobsEnd) {
  Snapshot snapshot = four_racks();
  for (Job& job : snapshot.jobs) job.end_s = 1.7e9;
  const Json guess = answer(four_racks(), Json::object());
  EXPECT_EQ(answer(snapshot, Json::object())["gain"], guess["gain"]);
  snapshot.time_s = 1.7e9;
  EXPECT_EQ(answer(snapshot, Json::object())["gain"]["regained_gpu_h"], 0);
}

TEST(WhatIf, EachFaultHasItsPath) {
  const auto change = [](const Json& one) { return Json{{"changes", {one}}}; };
  EXPECT_THAT(faults(Json::array()), HasSubstr("expected an object"));
  EXPECT_THAT(faults({{"chnages", Json::array()}}), HasSubstr("/chnages: "));
  EXPECT_THAT(faults({{"changes", 3}}), HasSubstr("/changes: expected"));
  EXPECT_THAT(faults({{"snapshot", {{"schema", "x"}}}}), HasSubstr("/snapshot/schema: "));
  EXPECT_THAT(faults(change(Json::object())), HasSubstr("/changes/0: "));
  EXPECT_THAT(faults(change({{"do", "dance"}})), HasSubstr("/changes/0/do: expected uplinks"));
  EXPECT_THAT(faults(change({{"do", "uplinks"}})), HasSubstr("/changes/0: "));
  EXPECT_THAT(faults(change({{"do", "uplinks"}, {"uplinks", -1}})),
              HasSubstr("/changes/0/uplinks: "));
  EXPECT_THAT(faults(change({{"do", "uplinks"}, {"uplinks", 1}, {"rack", "R9"}})),
              HasSubstr("/changes/0/rack: there is no rack \"R9\""));
  EXPECT_THAT(faults(change({{"do", "uplinks"}, {"uplinks", 1}, {"rak", "R1"}})),
              HasSubstr("/changes/0/rak: "));
  EXPECT_THAT(faults(change({{"do", "fail-uplink"}, {"rack", "R1"}, {"spine", 7}})),
              HasSubstr("/changes/0/spine: rack \"R1\" has no working uplink to spine 7"));
  EXPECT_THAT(faults(change({{"do", "drain"}})), HasSubstr("/changes/0: "));
  EXPECT_THAT(faults(change({{"do", "drain"}, {"node", "x"}})),
              HasSubstr("/changes/0/node: there is no node \"x\""));
  EXPECT_THAT(faults(change({{"do", "remove-job"}, {"job", "Z"}})),
              HasSubstr("/changes/0/job: there is no job \"Z\""));
  EXPECT_THAT(faults(change({{"do", "add-job"}, {"id", "A"}, {"nodes", 1}})),
              HasSubstr("/changes/0/id: there is a job \"A\" already"));
  EXPECT_THAT(faults(change({{"do", "add-job"}, {"id", "n"}})),
              HasSubstr("/changes/0: expected either nodes or gpus"));
  EXPECT_THAT(faults(change({{"do", "add-job"}, {"id", "n"}, {"nodes", 10}})),
              HasSubstr("/changes/0: no room: at most 9 nodes of one kind are free"));
  EXPECT_THAT(faults(change({{"do", "add-job"}, {"id", "n"}, {"nodes", 3}, {"groups", 2}})),
              HasSubstr("/changes/0: 3 nodes cannot be parted into 2 equal groups"));
  EXPECT_THAT(faults({{"changes", Json(std::vector<int>(101, 1))}}),
              HasSubstr("101 changes, expected at most 100"));
}

TEST(WhatIf, WhereNothingIsKnownTheRequestBringsASnapshot) {
  Diagnostics diagnostics;
  EXPECT_FALSE(what_if("", nullptr, {}, diagnostics));
  EXPECT_THAT(diagnostics.text(), HasSubstr("expected a snapshot"));
  Diagnostics none;
  const Json request = {{"snapshot", Json::parse(write_snapshot(four_racks()))}};
  const std::optional<std::string> text = what_if(request.dump(), nullptr, {}, none);
  ASSERT_TRUE(text) << none.text();
  EXPECT_EQ(Json::parse(*text)["moves"], 2);
}

TEST(WhatIf, JobsThatEndedAreLeftOut) {
  Snapshot live = four_racks();
  live.groups[GroupId(1)].workers.clear();  // as the controller keeps a job that has ended
  const Json is = answer(live, Json::object());
  EXPECT_EQ(snapshot_in(is).jobs.size(), 2U);
  expect_checked(is);
}

/// The cluster that the text draws, as the runner of text cases reads it.
Snapshot read_case(const std::string& text) {
  cases::CaseCluster cluster(".");
  std::istringstream lines(text);
  bool rows = true;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream parts(line);
    std::vector<std::string> words;
    for (std::string word; parts >> word;) words.push_back(word);
    if (words.empty()) rows = false;
    if (words.empty() || words[0] == "expect" || words[0] == "#") continue;
    if (rows) {
      cluster.add_row(words);
    } else {
      EXPECT_TRUE(cluster.change(words)) << line;
    }
  }
  return cluster.snapshot();
}

TEST(CaseText, DrawsWhatItCan) {
  Snapshot snapshot = four_racks();
  const Plan made = plan(snapshot);
  EXPECT_EQ(case_text(snapshot, made),
            "R1 A A A A B B . .\nR2 A A A C C . . .\nR3 A A A B B C C .\nR4 C C C B B . . .\n\n\n"
            "expect degrees 2 2 3 2\nexpect plan optimal moves 2\n");
  // All that rows do not say.
  snapshot.racks[RackId(0)].spines = {0, 3};
  snapshot.racks[RackId(0)].uplinks = 2;
  snapshot.racks[RackId(1)].spines = {1};
  snapshot.racks[RackId(1)].failed = {0};
  snapshot.groups[GroupId(0)].pinned = {1, 2};
  snapshot.groups[GroupId(1)].rings = 3;
  snapshot.jobs[JobId(2)].movable = false;
  snapshot.nodes[NodeId(0)].state = NodeState::kDrain;
  snapshot.nodes[NodeId(7)].state = NodeState::kReserved;
  snapshot.nodes[NodeId(9)].node_class = snapshot.classes.push_back("h200");
  std::swap(snapshot.groups[GroupId(2)].workers[0], snapshot.groups[GroupId(2)].workers[3]);
  EXPECT_EQ(read_case(case_text(snapshot, plan(snapshot))), snapshot);
}

TEST(CaseText, NamesTheFileWhereItCannotDraw) {
  Snapshot snapshot = four_racks();
  snapshot.nodes[NodeId(0)].slots = 8;
  EXPECT_THAT(case_text(snapshot, plan(snapshot)), StartsWith("snapshot snapshot.json\n\nexpect "));
  snapshot = four_racks();
  snapshot.jobs[JobId(0)].id = "a job # of mine";
  EXPECT_THAT(case_text(snapshot, plan(snapshot)), StartsWith("snapshot snapshot.json\n"));
}

}  // namespace
}  // namespace monkeytree
