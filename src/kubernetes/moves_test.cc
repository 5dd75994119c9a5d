#include "kubernetes/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace monkeytree {
namespace {

using Json = nlohmann::json;

KubeMove a_move() {
  KubeMove move;
  move.worker = {"ml.statefulset.a", 0, 1};
  move.id = kube_move_id(move.worker);
  move.space = "ml";
  move.owner = {"StatefulSet", "apps", "a"};
  move.pod = "a-1";
  move.uid = "u1";
  move.from = "n1";
  move.place = "a-1";
  move.siblings = "u0 u2 ";
  move.to = "n5";
  move.hostname = "n5.example";
  move.successor_of = "7.1.0";
  move.version = "12";
  return move;
}

std::string decoded(const std::string& text) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned held = 0;
  int bits = 0;
  for (const char c : text) {
    if (c == '=') break;
    held = held << 6 | static_cast<unsigned>(kLetters.find(c));
    if ((bits += 6) < 8) continue;
    bits -= 8;
    out += static_cast<char>(held >> bits & 255);
  }
  return out;
}

Json question(const Json& pod) {
  return {{"kind", "AdmissionReview"},
          {"apiVersion", "admission.k8s.io/v1"},
          {"request",
           {{"uid", "q"},
            {"kind", {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}}},
            {"operation", "CREATE"},
            {"namespace", "ml"},
            {"object", pod}}}};
}

/// The pod as the answer makes it.
Json patched(const Json& pod, const KubeMove& move) {
  const Json answer = Json::parse(admit_to(question(pod).dump(), move));
  EXPECT_EQ(answer["response"]["uid"], "q");
  EXPECT_EQ(answer["response"]["allowed"], true);
  EXPECT_EQ(answer["response"]["patchType"], "JSONPatch");
  return pod.patch(Json::parse(decoded(answer["response"]["patch"])));
}

TEST(KubeMoves, AnObjectHoldsAllOfOne) {
  const KubeMove move = a_move();
  const std::string text = write_kube_move(move, "here");
  simdjson::dom::parser parser;
  const simdjson::dom::element object = parser.parse(text);
  const std::optional<KubeMove> read = read_kube_move(object);
  ASSERT_TRUE(read);
  EXPECT_EQ(write_kube_move(*read, "here"), text);
  EXPECT_EQ(read->worker, move.worker);
  EXPECT_EQ(Json::parse(text)["metadata"]["namespace"], "here");
  // Somebody else's of a like name.
  for (const char* other : {"{}", R"({"metadata": {"name": "move-1"}, "data": {"job": "x"}})"}) {
    simdjson::dom::parser again;
    EXPECT_FALSE(read_kube_move(again.parse(std::string(other))));
  }
}

TEST(KubeMoves, APodIsSentToItsNode) {
  const KubeMove move = a_move();
  for (const bool bare : {true, false}) {
    Json pod = {{"metadata", {{"name", "a-1"}}},
                {"spec", {{"containers", {{{"name", "c"}}, {{"name", "d"}}}}}}};
    if (!bare) {
      pod["metadata"]["annotations"] = {{"theirs", "1"}};
      pod["spec"]["nodeSelector"] = {{"gpu", "h100"}};
      pod["spec"]["tolerations"] = {{{"key", "gpu"}, {"operator", "Exists"}}};
      pod["spec"]["containers"][0]["env"] = {{{"name", "A"}, {"value", "1"}}};
    }
    const Json sent = patched(pod, move);
    EXPECT_EQ(sent["metadata"]["annotations"]["monkeytree/successor-of"], "7.1.0");
    EXPECT_EQ(sent["metadata"]["annotations"]["monkeytree/in-place-of"], "a-1");
    EXPECT_EQ(sent["spec"]["nodeSelector"]["kubernetes.io/hostname"], "n5.example");
    EXPECT_EQ(sent["spec"]["tolerations"].back()["key"], "monkeytree/held");
    EXPECT_EQ(sent["metadata"]["annotations"].size(), bare ? 2u : 3u);
    EXPECT_EQ(sent["spec"]["nodeSelector"].size(), bare ? 1u : 2u);
    EXPECT_EQ(sent["spec"]["tolerations"].size(), bare ? 1u : 2u);
    EXPECT_EQ(sent["spec"]["containers"][0]["env"].size(), bare ? 4u : 5u);
    EXPECT_EQ(sent["spec"]["containers"][1]["env"][3]["value"], "1");
  }
}

TEST(KubeMoves, OnlyWhatTakesThePlaceIsSent) {
  KubeMove move = a_move();
  EXPECT_TRUE(move.replaced_by(move.owner, "ml", "a-1", ""));
  EXPECT_FALSE(move.replaced_by(move.owner, "ml", "a-2", ""));
  EXPECT_FALSE(move.replaced_by(move.owner, "lm", "a-1", ""));
  EXPECT_FALSE(move.replaced_by({"StatefulSet", "apps", "b"}, "ml", "a-1", ""));
  move.owner = {"Job", "batch", "a"};
  EXPECT_TRUE(move.replaced_by(move.owner, "ml", "", "")) << "any: they are alike";
  move.index = "3";
  EXPECT_TRUE(move.replaced_by(move.owner, "ml", "", "3"));
  EXPECT_FALSE(move.replaced_by(move.owner, "ml", "", "4"));
  // A Volcano Job's pods have names that come back.
  move.owner = {"Job", "batch.volcano.sh", "a"};
  EXPECT_FALSE(move.replaced_by(move.owner, "ml", "a-worker-0", "3"));
}

TEST(KubeMoves, WhatIsNoQuestionAboutANewPodIsLetBe) {
  std::string uid;
  const Json pod = {{"metadata", {{"name", "a-1"}}}};
  EXPECT_TRUE(read_kube_admission(question(pod).dump(), uid));
  Json other = question(pod);
  other["request"]["operation"] = "UPDATE";
  uid.clear();
  EXPECT_FALSE(read_kube_admission(other.dump(), uid));
  EXPECT_EQ(uid, "q");
  EXPECT_EQ(Json::parse(admit(uid))["response"], Json({{"uid", "q"}, {"allowed", true}}));
  EXPECT_EQ(Json::parse(refuse_admission(uid, "no"))["response"]["status"]["message"], "no");
  uid.clear();
  for (const char* bad : {"", "{}", "[]", "{\"request\": 7}"}) {
    EXPECT_FALSE(read_kube_admission(bad, uid)) << bad;
    EXPECT_EQ(uid, "");
  }
}

}  // namespace
}  // namespace monkeytree
