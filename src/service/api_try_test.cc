#include "service/api_try.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "base/file.h"
#include "cluster/letters.h"
#include "cluster/snapshot_json.h"
#include "service/api_file.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

Snapshot four_racks() {
  return *parse_letters("R1 AAAABB..\nR2 AAACC...\nR3 AAABBCC.\nR4 CCCBB...\n");
}

HttpRequest request(const std::string& method, const std::string& path,
                    const std::string& body = "") {
  HttpRequest out;
  out.method = method;
  out.path = path;
  out.body = body;
  out.headers["host"] = "127.0.0.1:1";
  return out;
}

std::string message_in(const HttpResponse& response) {
  return Json::parse(response.body)["error"]["message"];
}

constexpr const char* kTopology =
    "SwitchName=s1 Nodes=n[1-4]\nSwitchName=s2 Nodes=n[5-8]\nSwitchName=s Switches=s[1-2]\n";

std::string queue() {
  const Json job = {
      {"job_id", 7}, {"name", "train"}, {"job_state", "RUNNING"}, {"nodes", "n[4-5]"}};
  return Json{{"jobs", {job}}, {"errors", Json::array()}}.dump();
}

TEST(ImportTexts, SlurmsTextsGiveASnapshotAndWarnings) {
  TryApi tries({});
  const HttpResponse answer = tries.import(
      request("POST", "/api/v1/import", Json{{"topology", kTopology}, {"jobs", queue()}}.dump()));
  ASSERT_EQ(answer.status, 200) << answer.body;
  const Json json = Json::parse(answer.body);
  EXPECT_THAT(json["warnings"].dump(), HasSubstr("uplinks"));
  Diagnostics findings;
  const std::optional<Snapshot> snapshot =
      parse_snapshot(json["files"]["snapshot"].get<std::string>(), "", findings);
  ASSERT_TRUE(snapshot) << findings.text();
  EXPECT_EQ(snapshot->racks.size(), 2U);
  EXPECT_EQ(snapshot->jobs.size(), 1U);
  EXPECT_EQ(snapshot->racks[RackId(0)].bound(), 2);
}

TEST(ImportTexts, UplinksMayBeSaid) {
  Diagnostics findings;
  const std::optional<Snapshot> snapshot = import_texts(
      Json{{"topology", kTopology}, {"jobs", queue()}, {"uplinks", 5}}.dump(), findings);
  ASSERT_TRUE(snapshot) << findings.text();
  EXPECT_EQ(snapshot->racks[RackId(1)].bound(), 5);
}

TEST(ImportTexts, EachFaultSaysWhere) {
  const auto faults = [](const Json& body) {
    Diagnostics findings;
    EXPECT_FALSE(import_texts(body.dump(), findings));
    return findings.text();
  };
  EXPECT_THAT(faults(Json::object()), HasSubstr("topology"));
  EXPECT_THAT(faults({{"topology", 1}, {"jobs", "{}"}}), HasSubstr("/topology: "));
  EXPECT_THAT(faults({{"topology", kTopology}, {"jobs", "{"}}), HasSubstr("jobs:1"));
  EXPECT_THAT(faults({{"topology", "SwitchName=a Nodes=n1 Nodes"}, {"jobs", queue()}}),
              HasSubstr("topology:1"));
  EXPECT_THAT(faults({{"topology", "Include /etc/passwd\n"}, {"jobs", queue()}}),
              HasSubstr("topology:1"));
  EXPECT_THAT(faults({{"topology", kTopology}, {"jobs", queue()}, {"uplinks", -1}}),
              HasSubstr("/uplinks: "));
  EXPECT_THAT(faults({{"topology", kTopology}, {"jobs", queue()}, {"more", 1}}),
              HasSubstr("/more: "));
}

TEST(TryApi, AnswersFromTheLiveSnapshotOrSaysThatThereIsNone) {
  TryApi tries({});
  const Snapshot live = four_racks();
  const HttpResponse answer = tries.what_if(request("POST", "/api/v1/what-if"), &live);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(Json::parse(answer.body)["moves"], 2);
  EXPECT_EQ(tries.what_if(request("POST", "/api/v1/what-if"), nullptr).status, 400);
  const HttpResponse wrong = tries.what_if(
      request("POST", "/api/v1/what-if", R"({"changes": [{"do": "drain", "rack": "x"}]})"), &live);
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(message_in(wrong), "/changes/0/rack: there is no rack \"x\"");
}

TEST(TryApi, OneAtATime) {
  TryApi tries({});
  const Snapshot live = four_racks();
  std::atomic<int> good = 0, busy = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const HttpResponse answer = tries.what_if(request("POST", "/api/v1/what-if"), &live);
        ++(answer.status == 200 ? good : busy);
        if (answer.status == 200) continue;
        EXPECT_EQ(answer.status, 503);
        EXPECT_THAT(message_in(answer), HasSubstr("busy"));
        EXPECT_EQ(answer.headers.at("Retry-After"), "1");
      }
    });
  }
  threads.clear();
  EXPECT_GE(good, 1);  // the first, at least; those that come meanwhile are told so
  EXPECT_EQ(good + busy, 200);
}

TEST(TryApi, ManySmallValuesAreRefusedBeforeTheyAreParsed) {
  TryApi::Limits limits;
  limits.values = 1000;
  TryApi tries(limits);
  const Snapshot live = four_racks();
  std::string many = "[1";
  for (int i = 0; i < 1000; ++i) many += ",1";
  many += "]";
  const HttpResponse answer =
      tries.what_if(request("POST", "/api/v1/what-if", R"({"changes": )" + many + "}"), &live);
  EXPECT_EQ(answer.status, 413);
  EXPECT_EQ(message_in(answer), "more than 1000 JSON values");
  // Within a text too, where they are not seen from outside.
  const Json body = {{"topology", kTopology}, {"jobs", R"({"jobs": )" + many + "}"}};
  const HttpResponse texts = tries.import(request("POST", "/api/v1/import", body.dump()));
  EXPECT_EQ(texts.status, 400);
  EXPECT_EQ(message_in(texts), "jobs: more than 1000 JSON values");
  // What stands in strings is no value.
  const std::string quoted = R"({"changes": [")" + many + R"(\"[,,"]})";
  EXPECT_EQ(tries.what_if(request("POST", "/api/v1/what-if", quoted), &live).status, 400);
}

/// A cluster that keeps the planner busy until its time is up.
Snapshot hopeless() {
  std::string rows;
  for (int rack = 0; rack < 24; ++rack) {
    rows += fmt::format("R{}", rack);
    for (int i = 0; i < 8; ++i) rows += fmt::format(" J{}", (rack * 5 + i * 11) % 61);
    rows += "\n";
  }
  LetterOptions options;
  options.uplinks = 1;
  return *parse_letters(rows, options);
}

TEST(TryApi, APlanForWhichNobodyWaitsEnds) {
  TryApi::Limits limits;
  limits.time = std::chrono::hours(24);
  TryApi tries(limits);
  const Snapshot live = hopeless();
  HttpRequest asked = request("POST", "/api/v1/what-if");
  int times = 0;
  asked.forsaken = [&] { return ++times > 3; };
  const HttpResponse answer = tries.what_if(asked, &live);  // ends
  EXPECT_EQ(answer.status, 200);
  EXPECT_GT(times, 3);
}

TEST(FileApi, ServesWhatNeedsNoController) {
  FileApi api(four_racks(), "the file x", 1000, {});
  const Json status = Json::parse(api.answer(request("GET", "/api/v1/status")).body);
  EXPECT_EQ(status["mode"], "view");
  EXPECT_EQ(status["scheduler"], "the file x");
  EXPECT_EQ(status["racks_over"][0]["rack"], "R3");
  EXPECT_EQ(Json::parse(api.answer(request("GET", "/api/v1/snapshot")).body)["schema"],
            "monkeytree/snapshot/v1");
  EXPECT_EQ(Json::parse(api.answer(request("GET", "/api/v1/fragmentation")).body)["excess"], 1);
  EXPECT_EQ(Json::parse(api.answer(request("GET", "/api/v1/routes")).body)["flows"].size(), 9U);
  EXPECT_EQ(Json::parse(api.answer(request("POST", "/api/v1/what-if")).body)["moves"], 2);
  EXPECT_EQ(api.answer(request("GET", "/")).status, 200);
  EXPECT_EQ(api.answer(request("GET", "/api/v1/openapi.json")).status, 200);
  EXPECT_THAT(message_in(api.answer(request("GET", "/api/v1/plans"))),
              HasSubstr("without a controller"));
  EXPECT_EQ(api.answer(request("GET", "/api/v1/what-if")).status, 405);
  EXPECT_EQ(api.answer(request("POST", "/api/v1/pause")).status, 405);
  EXPECT_EQ(api.answer(request("GET", "/etc/passwd")).status, 404);
  HttpRequest foreign = request("GET", "/api/v1/snapshot");
  foreign.headers["host"] = "evil.example";
  EXPECT_EQ(api.answer(foreign).status, 421);
  foreign = request("POST", "/api/v1/what-if");
  foreign.headers["origin"] = "http://evil.example";
  EXPECT_EQ(api.answer(foreign).status, 403);
}

}  // namespace
}  // namespace monkeytree
