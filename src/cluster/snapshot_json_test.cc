#include "cluster/snapshot_json.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>

#include "cluster/letters.h"

namespace monkeytree {
namespace {

constexpr std::string_view kExample = R"({
  "schema": "monkeytree/snapshot/v1", "name": "title", "cluster": "c", "time_s": 12.5,
  "fabric": { "racks": [
    {"name": "r1", "uplinks": 2, "nodes": ["n01", "n02"], "pod": "p", "island": "west"},
    {"name": "r2", "uplinks": 3, "spines": [4, 0, 2], "failed": [2], "nodes": ["n03"]} ] },
  "nodes": { "n02": {"state": "drain", "class": "h200", "slots": 8, "gpus": 8} },
  "jobs": [
    { "id": "4711", "name": "llama3-70b", "movable": true, "state_bytes": 12000000000,
      "user": "u", "partition": "q", "start_s": 1, "end_s": 2e3, "comment": "dp=2",
      "groups": [ {"rings": 8, "slots": 1, "workers": ["n01", "n03"], "pinned": [1, 0]},
                  {"slots": 8, "workers": ["n02"]} ] },
    { "id": "x", "movable": false, "workers": [], "rings": 2 }
  ]
})";

std::optional<Snapshot> parse(std::string_view text, std::string* complaint = nullptr) {
  Diagnostics diagnostics;
  std::optional<Snapshot> snapshot = parse_snapshot(text, "f", diagnostics);
  EXPECT_EQ(snapshot.has_value(), !diagnostics.has_errors());
  if (complaint) *complaint = diagnostics.text();
  return snapshot;
}

std::string complaint(std::string_view text) {
  std::string out;
  parse(text, &out);
  return out;
}

/// A snapshot of racks r1 (nodes a, b) and r2 (node c), with these texts put in.
std::string around(std::string_view jobs, std::string_view nodes = "{}",
                   std::string_view more_racks = "") {
  return fmt::format(
      R"({{"schema": "monkeytree/snapshot/v1", "fabric": {{"racks": [
        {{"name": "r1", "uplinks": 2, "nodes": ["a", "b"]}},
        {{"name": "r2", "uplinks": 2, "nodes": ["c"]}}{}]}}, "nodes": {}, "jobs": {}}})",
      more_racks, nodes, jobs);
}

std::string rack_complaint(std::string_view rack) {
  return complaint(around("[]", "{}", fmt::format(", {}", rack)));
}

TEST(SnapshotJsonTest, EveryFieldArrives) {
  std::string text(kExample);
  text.replace(text.find("\"workers\": [], "), 15, "\"workers\": [\"n03\"], ");
  std::string said;
  // Two workers on n03, which has one slot.
  parse(text, &said);
  EXPECT_EQ(said, "f: /jobs/1/workers/0: 2 slots used on node \"n03\", expected at most its 1\n");
  text.replace(text.find("\"n02\": {"), 8, "\"n03\": {\"slots\": 2}, \"n02\": {");
  const std::optional<Snapshot> s = parse(text, &said);
  ASSERT_TRUE(s) << said;
  EXPECT_EQ(said, "");
  EXPECT_EQ(s->name, "title");
  EXPECT_EQ(s->cluster, "c");
  EXPECT_EQ(s->time_s, 12.5);
  const Rack& r1 = s->racks[RackId(0)];
  const Rack& r2 = s->racks[RackId(1)];
  EXPECT_EQ(r1.pod, "p");
  EXPECT_EQ(s->islands[r1.island], "west");
  EXPECT_EQ(s->islands[r2.island], "");
  EXPECT_EQ(r1.spines, (std::vector<int>{0, 1}));
  EXPECT_EQ(r2.spines, (std::vector<int>{0, 4}));
  EXPECT_EQ(r2.failed, std::vector<int>{2});
  EXPECT_EQ(r2.uplinks, 3);
  EXPECT_EQ(r2.bound(), 2);
  const Node& n02 = s->nodes[NodeId(1)];
  EXPECT_EQ(n02.state, NodeState::kDrain);
  EXPECT_EQ(s->classes[n02.node_class], "h200");
  EXPECT_EQ(s->classes[s->nodes[NodeId(0)].node_class], "default");
  EXPECT_EQ(n02.slots, 8);
  EXPECT_EQ(n02.gpus, 8);
  const Job& job = s->jobs[JobId(0)];
  EXPECT_EQ(job.id, "4711");
  EXPECT_EQ(job.state_bytes, 12000000000);
  EXPECT_EQ(job.end_s, 2000);
  EXPECT_EQ(job.group_count, 2);
  const Group& group = s->groups[GroupId(0)];
  EXPECT_EQ(group.rings, 8);
  EXPECT_EQ(group.workers, (std::vector<NodeId>{NodeId(0), NodeId(2)}));
  EXPECT_EQ(group.pinned, (std::vector<int>{0, 1}));
  const Group& shorthand = s->groups[s->jobs[JobId(1)].first_group];
  EXPECT_EQ(shorthand.rings, 2);
  EXPECT_TRUE(s->immovable(s->jobs[JobId(1)].first_group, 0));
}

TEST(SnapshotJsonTest, AnEmptyClusterAndNoJobsAreLegal) {
  const auto empty = parse(R"({"schema": "monkeytree/snapshot/v1", "fabric": {"racks": []}})");
  ASSERT_TRUE(empty);
  EXPECT_EQ(parse(write_snapshot(*empty)), empty);
  EXPECT_EQ(complaint(around("[]")), "");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "uplinks": 0, "nodes": []})"), "");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "spines": [7], "failed": [7], "nodes": []})"), "");
}

TEST(SnapshotJsonTest, WrongDocuments) {
  EXPECT_EQ(complaint("[]"), "f: expected an object, found an array\n");
  EXPECT_EQ(complaint("{}"), "f: no field \"schema\", expected one\n");
  EXPECT_EQ(complaint(R"({"schema": "monkeytree/plan/v1"})"),
            "f: /schema: expected \"monkeytree/snapshot/v1\", found \"monkeytree/plan/v1\"\n");
  EXPECT_EQ(complaint(R"({"schema": "monkeytree/snapshot/v1"})"),
            "f: no field \"fabric\", expected one\n");
  EXPECT_EQ(complaint(std::string(kExample.substr(0, 300))).substr(0, 13), "f:6: not JSON");
}

TEST(SnapshotJsonTest, WrongRacks) {
  EXPECT_EQ(
      rack_complaint(R"({"name": "r1", "uplinks": 2, "nodes": []})"),
      "f: /fabric/racks/2/name: rack \"r1\" is already at /fabric/racks/0, expected each name "
      "once\n");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "uplinks": 2, "nodes": ["d", "a", "d"]})"),
            "f: /fabric/racks/2/nodes/1: node \"a\" is already in rack \"r1\", expected each node "
            "once\n"
            "f: /fabric/racks/2/nodes/2: node \"d\" is already in rack \"r3\", expected each node "
            "once\n");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "uplinks": -1, "nodes": []})"),
            "f: /fabric/racks/2/uplinks: expected a whole number from 0 to 65536, found -1\n");
  EXPECT_EQ(
      rack_complaint(R"({"name": "r3", "nodes": []})"),
      "f: /fabric/racks/2: no field \"uplinks\", expected the number of uplinks of the rack\n");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "uplinks": 2, "spines": [0], "nodes": []})"),
            "f: /fabric/racks/2/spines: 1 spines for 2 uplinks, expected one spine an uplink\n");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "spines": [1, 0, 1], "nodes": []})"),
            "f: /fabric/racks/2/spines: spine 1 stands here twice, expected each once\n");
  EXPECT_EQ(rack_complaint(R"({"name": "r3", "uplinks": 2, "failed": [2], "nodes": []})"),
            "f: /fabric/racks/2/failed: spine 2 is none of the rack's, expected one that it "
            "reaches\n");
  EXPECT_EQ(rack_complaint(R"({"name": "", "uplinks": 2, "nodes": ["@staging"], "color": 1})"),
            "f: /fabric/racks/2/name: expected a string that is not empty, found \"\"\n"
            "f: /fabric/racks/2/nodes/0: a node cannot have this name, which stands for staging in "
            "plans\n"
            "f: /fabric/racks/2/color: warning: unknown field, not used\n");
}

TEST(SnapshotJsonTest, WrongNodes) {
  EXPECT_EQ(complaint(around("[]", R"({"z": {}})")),
            "f: /nodes/z: node \"z\" is in no rack, expected a node of the fabric\n");
  EXPECT_EQ(complaint(around("[]", R"({"a": {"state": "idle", "slots": 0, "gpus": "8"}})")),
            "f: /nodes/a/state: expected \"up\", \"drain\", \"down\" or \"reserved\", found "
            "\"idle\"\n"
            "f: /nodes/a/slots: expected a whole number from 1 to 1000000, found 0\n"
            "f: /nodes/a/gpus: expected a whole number from 0 to 1000000, found \"8\"\n");
  EXPECT_EQ(complaint(around("[]", R"({"a": {}, "a": {}})")),
            "f: /nodes/a: a second field of this name, expected one\n");
}

TEST(SnapshotJsonTest, WrongJobs) {
  EXPECT_EQ(complaint(around(R"([{"id": "1", "workers": ["a"]}, {"id": "1", "workers": ["b"]}])")),
            "f: /jobs/1/id: job \"1\" is already at /jobs/0, expected each id once\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1", "workers": ["q"]}])")),
            "f: /jobs/0/workers/0: worker on node \"q\", expected a node of the fabric\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1", "groups": [{"workers": ["a", "a"]}]}])")),
            "f: /jobs/0/groups/0/workers/1: 2 slots used on node \"a\", expected at most its 1\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1", "groups": [{"workers": ["a"], "pinned": [1]}]}])")),
            "f: /jobs/0/groups/0/pinned/0: expected a whole number from 0 to 0, found 1\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1", "workers": ["a"], "rings": 0, "slots": 0}])")),
            "f: /jobs/0/rings: expected a whole number from 1 to 1000000, found 0\n"
            "f: /jobs/0/slots: expected a whole number from 1 to 1000000, found 0\n");
  EXPECT_EQ(complaint(around(R"([{"workers": ["a"], "groups": []}])")),
            "f: /jobs/0: no field \"id\", expected one\n"
            "f: /jobs/0/workers: \"workers\" beside \"groups\", expected one of them\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1"}])")),
            "f: /jobs/0: no field \"groups\", expected it, or \"workers\"\n");
  EXPECT_EQ(complaint(around(R"([{"id": "1", "workers": []}])")),
            "f: /jobs/0/workers: no worker, expected at least one\n");
  EXPECT_EQ(
      complaint(around(R"([{"id": "1", "state_bytes": -1, "movable": 1, "workers": ["a"]}])")),
      "f: /jobs/0/movable: expected true or false, found 1\n"
      "f: /jobs/0/state_bytes: expected a whole number from 0 to 9223372036854775807, found "
      "-1\n");
}

TEST(SnapshotJsonTest, SumsThatWouldOverflowAreRefused) {
  std::string jobs = "[";
  for (int i = 0; i < 1000; ++i) {
    jobs += fmt::format("{}{{\"id\": \"{}\", \"workers\": [{}], \"rings\": 1000000}}",
                        i == 0 ? "" : ", ", i, R"("a","b","c")");
  }
  const std::string said = complaint(around(jobs + "]", R"({"a":{"slots":1000},
      "b":{"slots":1000}, "c":{"slots":1000}})"));
  EXPECT_NE(said.find("too many rings, expected the sum of rings x workers below 2^31"),
            std::string::npos);
  EXPECT_NE(complaint(around(R"([{"id":"1","workers":["a","b"],"state_bytes":9e15},
                {"id":"2","workers":["c"],"state_bytes":9223372036854775807}])"))
                .find("too much state"),
            std::string::npos);
}

TEST(SnapshotJsonTest, TwentyFaultsThenACount) {
  std::string jobs = "[";
  for (int i = 0; i < 500; ++i) {
    jobs += fmt::format("{}{{\"id\": \"{}\", \"workers\": [\"no\"]}}", i == 0 ? "" : ", ", i);
  }
  const std::string said = complaint(around(jobs + "]"));
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 21);
  EXPECT_NE(said.find("... and 480 more errors\n"), std::string::npos);
}

/// A snapshot with every kind of attribute, numbered as the reader numbers.
class RandomSnapshot {
 public:
  explicit RandomSnapshot(uint32_t seed) : random_(seed) {}

  Snapshot make() {
    if (below(2)) out_.name = "n\"\\\n\xC3\xA4/~";
    if (below(2)) out_.time_s = static_cast<double>(below(1000000)) / 7.0;
    const size_t racks = below(6);
    for (size_t r = 0; r < racks; ++r) add_rack();
    if (!out_.nodes.empty()) {
      for (size_t jobs = below(6); jobs > 0; --jobs) add_job();
    }
    return out_;
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  template <class Key>
  Key intern(IdVector<Key, std::string>& names, const std::string& name) {
    for (Key key : names.keys()) {
      if (names[key] == name) return key;
    }
    return names.push_back(name);
  }

  void add_rack() {
    Rack rack;
    rack.name = fmt::format("r{}", out_.racks.size());
    std::set<int> reached;
    const bool plain = below(2);
    for (size_t i = below(4); i > 0; --i) {
      reached.insert(plain ? static_cast<int>(reached.size()) : static_cast<int>(below(9)));
    }
    for (int spine : reached) (below(4) ? rack.spines : rack.failed).push_back(spine);
    rack.uplinks = static_cast<int>(reached.size());
    if (below(3) == 0) rack.pod = "p";
    rack.island = intern(out_.islands, below(3) ? "" : "far");
    const RackId id(out_.racks.size());
    for (size_t n = below(5); n > 0; --n) {
      Node node{fmt::format("n{}", out_.nodes.size()), id};
      node.state = static_cast<NodeState>(below(4));
      node.node_class = intern(out_.classes, below(3) ? "default" : "h200");
      node.slots = 1 + static_cast<int>(below(3));
      node.gpus = static_cast<int>(below(2)) * 8;
      free_.push_back(node.slots);
      rack.nodes.push_back(out_.nodes.push_back(node));
    }
    out_.racks.push_back(rack);
  }

  void add_job() {
    Job job;
    job.id = fmt::format("j{}", out_.jobs.size());
    if (below(2)) job.comment = "tp=8";
    if (below(2)) job.end_s = 1e9 + 0.1;
    job.movable = below(3) > 0;
    job.state_bytes = static_cast<int64_t>(below(3)) << 40;
    job.first_group = GroupId(out_.groups.size());
    for (size_t groups = below(3); groups > 0; --groups) {
      Group group;
      group.job = JobId(out_.jobs.size());
      group.rings = 1 + static_cast<int>(below(2)) * 7;
      for (NodeId node : out_.nodes.keys()) {
        int& free = free_[static_cast<size_t>(node.value)];
        if (free == 0 || below(2)) continue;
        --free;
        if (below(4) == 0) group.pinned.push_back(static_cast<int>(group.workers.size()));
        group.workers.push_back(node);
      }
      std::shuffle(group.workers.begin(), group.workers.end(), random_);
      if (group.workers.empty()) continue;
      out_.groups.push_back(group);
      ++job.group_count;
    }
    out_.jobs.push_back(job);
  }

  std::mt19937 random_;
  Snapshot out_;
  std::vector<int> free_;
};

TEST(SnapshotJsonTest, WhatIsWrittenIsReadBack) {
  for (uint32_t seed = 0; seed < 5000; ++seed) {
    const Snapshot snapshot = RandomSnapshot(seed).make();
    const std::string text = write_snapshot(snapshot);
    std::string said;
    const std::optional<Snapshot> back = parse(text, &said);
    ASSERT_TRUE(back) << said << text;
    ASSERT_EQ(said, "") << text;
    ASSERT_TRUE(*back == snapshot) << text << write_snapshot(*back);
  }
}

TEST(SnapshotJsonTest, DamagedTextsAreReadOrRefused) {
  std::mt19937 random(1);
  const std::string sound = write_snapshot(RandomSnapshot(12).make());
  int read = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text = sound;
    for (size_t edits = 1 + random() % 2; edits > 0; --edits) {
      const size_t from = random() % text.size();
      const size_t length = std::min<size_t>(1 + random() % 12, text.size() - from);
      const std::string piece = text.substr(random() % text.size(), random() % 12);
      text.replace(from, length, piece);
      if (text.empty()) text.push_back('{');
    }
    Diagnostics diagnostics;
    const std::optional<Snapshot> snapshot = parse_snapshot(text, "f", diagnostics);
    ASSERT_EQ(snapshot.has_value(), !diagnostics.has_errors());
    if (!snapshot) continue;
    ++read;
    ASSERT_EQ(parse(write_snapshot(*snapshot)), snapshot);
  }
  EXPECT_GT(read, 100);
}

TEST(SnapshotJsonTest, ALineForEachRackAndJob) {
  const Snapshot snapshot = *parse_letters("R1 AB\nR2 A-\n", {2, {{"A", 8}}});
  EXPECT_EQ(write_snapshot(snapshot), R"({
  "schema": "monkeytree/snapshot/v1",
  "fabric": {"racks": [
    {"name":"R1","uplinks":2,"nodes":["R1/1","R1/2"]},
    {"name":"R2","uplinks":2,"nodes":["R2/1","R2/2"]}
  ]},
  "nodes": {
    "R2/2": {"state":"drain"}
  },
  "jobs": [
    {"id":"A","groups":[{"rings":8,"workers":["R1/1","R2/1"]}]},
    {"id":"B","groups":[{"workers":["R1/2"]}]}
  ]
}
)");
}

}  // namespace
}  // namespace monkeytree
