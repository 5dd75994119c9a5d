#include "routing/routes_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cluster/snapshot_json.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Snapshot two_racks() {
  Diagnostics diagnostics;
  const auto snapshot = parse_snapshot(R"({"schema": "monkeytree/snapshot/v1",
      "fabric": {"racks": [{"name": "r1", "uplinks": 2, "nodes": ["n01", "n02"]},
                           {"name": "r\"2", "uplinks": 2, "nodes": ["n03"]}]},
      "jobs": [{"id": "4711", "groups": [{"rings": 2, "workers": ["n01", "n03", "n02"]}]}]})",
                                       "x.json", diagnostics);
  EXPECT_TRUE(snapshot) << diagnostics.text();
  return snapshot.value_or(Snapshot());
}

TEST(RoutesJson, HasTheFieldsOfTheFormat) {
  const Snapshot snapshot = two_racks();
  const nlohmann::json json = nlohmann::json::parse(write_routes(snapshot, routes(snapshot)));
  EXPECT_EQ(json["schema"], "monkeytree/routes/v1");
  EXPECT_EQ(json["colors"], 2);
  EXPECT_EQ(json["isolated"], true);
  EXPECT_TRUE(json["shared"].empty());
  ASSERT_EQ(json["flows"].size(), 4u);
  EXPECT_EQ(json["flows"][0], nlohmann::json::parse(R"({"job": "4711", "group": 0, "ring": 0,
      "from": "n01", "to": "n03", "from_rack": "r1", "to_rack": "r\"2", "uplink": 0})"));
  EXPECT_EQ(json["flows"][3]["ring"], 1);
  EXPECT_EQ(json["flows"][3]["uplink"], 1);
  EXPECT_EQ(json["orders"][0],
            nlohmann::json::parse(R"({"job": "4711", "group": 0, "order": [0, 1, 2]})"));
}

TEST(RoutesJson, NamesWhatIsShared) {
  Snapshot snapshot = two_racks();
  snapshot.set_uplinks(1);
  const nlohmann::json json = nlohmann::json::parse(write_routes(snapshot, routes(snapshot)));
  EXPECT_EQ(json["colors"], 2);
  EXPECT_EQ(json["isolated"], false);
  ASSERT_EQ(json["shared"].size(), 4u);
  EXPECT_EQ(json["shared"][0], nlohmann::json::parse(R"({"rack": "r1", "uplink": 0,
      "direction": "up", "flows": [0, 2]})"));
}

TEST(RoutesJson, AFlowWithoutASpineHasANullUplink) {
  Snapshot snapshot = two_racks();
  snapshot.set_uplinks(0);
  const std::string text = write_routes(snapshot, routes(snapshot));
  const nlohmann::json json = nlohmann::json::parse(text);
  EXPECT_EQ(json["isolated"], false);
  EXPECT_TRUE(json["flows"][0]["uplink"].is_null());
  EXPECT_EQ(json["unroutable"], nlohmann::json::parse("[0, 1, 2, 3]"));
  Diagnostics diagnostics;
  const auto read = parse_routes(text, "routes.json", diagnostics);
  ASSERT_TRUE(read) << diagnostics.text();
  EXPECT_EQ(read->at(0).uplink, -1);
}

TEST(RoutesJson, ReadsWhatItWrites) {
  const Snapshot snapshot = two_racks();
  const Routes first = routes(snapshot);
  Diagnostics diagnostics;
  const auto read = parse_routes(write_routes(snapshot, first), "routes.json", diagnostics);
  ASSERT_TRUE(read) << diagnostics.text();
  EXPECT_EQ(diagnostics.text(), "");
  ASSERT_EQ(read->size(), first.flows.size());
  EXPECT_EQ(read->at(0).from, "n01");
  EXPECT_EQ(read->at(0).to_rack, "r\"2");
  const Routes second = routes(snapshot, &*read);
  EXPECT_EQ(second.recolored, 0);
  EXPECT_EQ(second.kept, 4);
}

/// What is said about a text; empty where all is well.
std::string findings(const std::string& text) {
  Diagnostics diagnostics;
  const auto read = parse_routes(text, "r.json", diagnostics);
  EXPECT_EQ(read.has_value(), !diagnostics.has_errors());
  return diagnostics.text();
}

std::string with_flow(const std::string& flow) {
  return R"({"schema": "monkeytree/routes/v1", "flows": [)" + flow + "]}";
}

constexpr const char* kFlow = R"({"job": "1", "group": 0, "ring": 0, "from": "a", "to": "b",
    "from_rack": "r1", "to_rack": "r2", "uplink": 1})";

TEST(RoutesJson, FaultsHaveTheirPath) {
  EXPECT_EQ(findings(with_flow(kFlow)), "");
  EXPECT_THAT(findings(with_flow(R"({"job": "1", "from": "a", "to": "b", "from_rack": "r1",
                                     "to_rack": "r2", "uplink": "x"})")),
              HasSubstr("/flows/0/uplink: "));
  EXPECT_THAT(findings(with_flow(R"({"job": 1, "from": "a", "to": "", "from_rack": "r1",
                                     "uplink": -1})")),
              testing::AllOf(HasSubstr("/flows/0/job: "), HasSubstr("/flows/0/to: "),
                             HasSubstr("to_rack"), HasSubstr("/flows/0/uplink: ")));
  EXPECT_THAT(findings(with_flow(std::string(kFlow) + "," + kFlow)),
              HasSubstr("/flows/1: the same flow as in /flows/0; expected each flow once"));
  EXPECT_THAT(findings(with_flow("3")), HasSubstr("/flows/0: "));
  EXPECT_THAT(findings(R"({"schema": "monkeytree/plan/v1", "flows": []})"),
              HasSubstr("/schema: unknown schema \"monkeytree/plan/v1\", expected "
                        "\"monkeytree/routes/v1\""));
  EXPECT_THAT(findings(R"({"schema": "monkeytree/routes/v1"})"), HasSubstr("flows"));
  EXPECT_THAT(findings("[]"), HasSubstr("r.json: "));
  EXPECT_THAT(findings(""), HasSubstr("r.json:"));
}

TEST(RoutesJson, UnknownFieldsWarnAndDuplicateKeysDoNotPass) {
  const std::string unknown =
      findings(R"({"schema": "monkeytree/routes/v1", "flows": [], "colour": 2})");
  EXPECT_THAT(unknown, HasSubstr("/colour: warning: "));
  EXPECT_THAT(findings(R"({"schema": "monkeytree/routes/v1", "flows": [], "flows": []})"),
              testing::AllOf(HasSubstr("flows"), Not(HasSubstr("warning"))));
}

}  // namespace
}  // namespace monkeytree
