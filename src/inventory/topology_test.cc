#include "inventory/topology.h"

#include <absl/status/status.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

/// Files that exist only in a test.
struct Files {
  std::map<std::string, std::string> texts;

  ReadText reader() const {
    return [this](const std::string& name) -> absl::StatusOr<std::string> {
      const auto found = texts.find(name);
      if (found == texts.end()) return absl::NotFoundError("cannot open: No such file");
      return found->second;
    };
  }
};

struct Outcome {
  std::optional<Topology> topology;
  std::string findings;
};

Outcome read(const Files& files, const std::string& file = "topology.conf",
             std::string_view name = "") {
  Diagnostics diagnostics;
  Outcome outcome;
  outcome.topology = read_topology(file, name, files.reader(), diagnostics);
  outcome.findings = diagnostics.text();
  EXPECT_EQ(outcome.topology.has_value(), !diagnostics.has_errors());
  return outcome;
}

Outcome read_conf(const std::string& text) { return read({{{"topology.conf", text}}}); }

/// "s0: n1 n2; top: s0" and "!" before an island's name.
std::string shape(const Outcome& outcome) {
  if (!outcome.topology) return "refused: " + outcome.findings;
  std::string out;
  for (const TopologySwitch& s : outcome.topology->switches) {
    out += (out.empty() ? "" : "; ") + s.name + ":";
    for (const std::string& n : s.nodes) out += " " + n;
    for (const std::string& c : s.children) out += " " + c;
    if (!s.island.empty()) out += " !" + s.island;
  }
  return out;
}

TEST(TopologyConf, ReadsATree) {
  EXPECT_EQ(shape(read_conf("SwitchName=s0 Nodes=n[1-2]\n"
                            "switchname=s1 NODES=n3 LinkSpeed=0x10\n"
                            "SwitchName=top Switches=s[0-1]\n")),
            "s0: n1 n2; s1: n3; top: s0 s1");
}

TEST(TopologyConf, ReadsBlocks) {
  const Outcome outcome = read_conf(
      "BlockName=b1 Nodes=n[1-2]\nBlockName=b2 Nodes=n[3-4]\n"
      "BlockName=phantom\nBlockSizes=2,4\n");
  EXPECT_EQ(shape(outcome), "b1: n1 n2; b2: n3 n4; phantom:");
  EXPECT_TRUE(outcome.topology->blocks);
  EXPECT_EQ(outcome.findings, "topology.conf:3: note: block \"phantom\" has no nodes\n");
}

// What follows was tried on slurmctld 22.05.8.
TEST(TopologyConf, LegalThoughOdd) {
  EXPECT_EQ(shape(read_conf("SwitchName=s0 Nodes=\"\"\nSwitchName=s1 Nodes=n1\n")), "s0:; s1: n1");
  EXPECT_EQ(shape(read_conf("SwitchName=s0 Nodes=,n1,\nSwitchName=t Switches=s0,,s0,\n")),
            "s0: n1; t: s0");
  EXPECT_EQ(shape(read_conf("SwitchName = s0 Nodes= n1\n")), "s0: n1");
  EXPECT_EQ(shape(read_conf("SwitchName=s0 Nodes=n1 \\\n  LinkSpeed=3")), "s0: n1");
  EXPECT_EQ(shape(read_conf("SwitchName=s0 Nodes=n1 \\")), "s0: n1");
  EXPECT_EQ(shape(read_conf("SwitchName=\"s 0\" Nodes=n1")), "s 0: n1");
}

TEST(TopologyConf, AKeyGivenTwiceCountsTheLast) {
  const Outcome outcome = read_conf("SwitchName=s0 Nodes=n1 Nodes=n2\n");
  EXPECT_EQ(shape(outcome), "s0: n2");
  EXPECT_EQ(outcome.findings, "topology.conf:1: warning: Nodes given twice, the last counts\n");
}

TEST(TopologyConf, ANodeUnderTwoLeavesStaysUnderTheFirst) {
  const Outcome outcome = read_conf(
      "SwitchName=s0 Nodes=n[1-3],n2\nSwitchName=s1 Nodes=n[2-5]\n"
      "SwitchName=t Switches=s[0-1]\n");
  EXPECT_EQ(shape(outcome), "s0: n1 n2 n3; s1: n4 n5; t: s0 s1");
  EXPECT_EQ(outcome.findings,
            "topology.conf:2: warning: nodes n[2-3] of switch \"s1\" are already under \"s0\" and "
            "stay there\n");
}

TEST(TopologyConf, SeparateTreesAreIslandsWhereASwitchStandsAboveALeaf) {
  const Outcome forest = read_conf(
      "SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\nSwitchName=s2 Nodes=n3\n"
      "SwitchName=t Switches=s[0-1]\n");
  EXPECT_EQ(shape(forest), "s0: n1 !t; s1: n2 !t; s2: n3 !s2; t: s0 s1 !t");
  EXPECT_THAT(forest.findings, HasSubstr("2 separate trees"));
  const Outcome leaves = read_conf("SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\n");
  EXPECT_EQ(shape(leaves), "s0: n1; s1: n2");
  EXPECT_THAT(leaves.findings, HasSubstr("note: no switch joins the 2 leaves"));
}

TEST(TopologyConf, UnevenDepthIsNoted) {
  const Outcome outcome = read_conf(
      "SwitchName=s0 Nodes=n1\nSwitchName=s1 Nodes=n2\nSwitchName=m Switches=s0\n"
      "SwitchName=t Switches=m,s1\n");
  EXPECT_EQ(shape(outcome), "s0: n1; s1: n2; m: s0; t: m s1");
  EXPECT_THAT(outcome.findings, HasSubstr("different depths"));
}

TEST(TopologyConf, ReportsAllFaultsInOneRun) {
  const Outcome outcome = read_conf(
      "SwitchName=s0 Nodes=n[3-1]\n"
      "SwitchName=s1\n"
      "Foo=1\n"
      "SwitchName=s2 Nodes=n5 Speed=3\n"
      "SwitchName=t Switches=s[0-3]\n"
      "SwitchName=s0 Nodes=n7\n");
  EXPECT_EQ(
      outcome.findings,
      "topology.conf:2: switch \"s1\" has neither Nodes nor Switches\n"
      "topology.conf:3: unknown key \"Foo\", expected SwitchName, BlockName, BlockSizes or an "
      "Include line\n"
      "topology.conf:4: unknown key \"Speed\", expected Nodes, Switches or LinkSpeed\n"
      "topology.conf:6: switch \"s0\" has already been defined at topology.conf:1\n"
      "topology.conf:1: switch \"s0\": Nodes \"n[3-1]\": range \"3-1\" counts down, expected "
      "low-high (at character 3)\n"
      "topology.conf:5: switch \"t\" has the child \"s3\", which is not defined\n");
}

TEST(TopologyConf, RefusesWhatSlurmctldRefuses) {
  const auto fault = [](const std::string& text) { return read_conf(text).findings; };
  EXPECT_THAT(fault("SwitchName=a Switches=a\n"), HasSubstr("which is itself"));
  EXPECT_THAT(fault("SwitchName=a Nodes=n1 SwitchName=b Nodes=n2\n"),
              HasSubstr("unknown key \"SwitchName\""));
  EXPECT_THAT(fault("SwitchName=a Nodes=n1 LinkSpeed=99999999999\n"),
              HasSubstr("is greater than 4294967295"));
  EXPECT_THAT(fault("SwitchName=a Nodes=n1 LinkSpeed=-3\n"), HasSubstr("is less than zero"));
  EXPECT_THAT(fault("hello\n"), HasSubstr("topology.conf:1: \"hello\": expected Key=Value"));
  EXPECT_THAT(fault("\xef\xbb\xbfSwitchName=a Nodes=n1\n"), HasSubstr("byte order mark"));
  EXPECT_THAT(fault("SwitchName=a Nodes=n[1-6]\\#x\n"), HasSubstr("after a bracket group"));
  EXPECT_THAT(fault("SwitchName=a Nodes=n1\nBlockName=b Nodes=n2\n"),
              HasSubstr("switches and blocks in one file"));
  EXPECT_THAT(fault("SwitchName=leaf0 Level=0 LinkSpeed=1 Nodes=n1\n"),
              HasSubstr("looks like `scontrol show topology`"));
  EXPECT_EQ(fault(""), "topology.conf: holds no switches and no blocks\n");
  EXPECT_EQ(fault("# only a remark\n\n"), "topology.conf: holds no switches and no blocks\n");
}

TEST(TopologyConf, IncludesAreFollowedAndBounded) {
  Files files{{{"etc/topology.conf", "Include sub/a\nSwitchName=t Switches=s[0-1]\n"},
               {"etc/sub/a", "SwitchName=s0 Nodes=n1\ninclude b\n"},
               {"etc/sub/b", "SwitchName=s1 Nodes=n2\n"}}};
  EXPECT_EQ(shape(read(files, "etc/topology.conf")), "s0: n1; s1: n2; t: s0 s1");
  files.texts["etc/sub/b"] = "Include a\n";
  EXPECT_EQ(read(files, "etc/topology.conf").findings,
            "etc/sub/b:1: \"etc/sub/a\" includes itself\n");
  files.texts["etc/sub/b"] = "Include none\n";
  EXPECT_EQ(read(files, "etc/topology.conf").findings,
            "etc/sub/b:1: Include of \"etc/sub/none\": cannot open: No such file\n");
  EXPECT_THAT(read_conf("Include a b\n").findings, HasSubstr("after the name of the included"));
}

TEST(TopologyConf, IncludesCannotExplode) {
  Files files;
  for (int i = 0; i < 40; ++i) {
    const std::string next = fmt::format("Include f{}\n", i + 1);
    files.texts[fmt::format("f{}", i)] = next + next;
  }
  files.texts["f40"] = "SwitchName=s Nodes=n\n";
  EXPECT_THAT(read(files, "f0").findings, HasSubstr("too many included files"));
}

TEST(TopologyConf, DeepChainsAreReadAsFarAsSlurmctldReadsThem) {
  const auto chain = [](int levels, bool parents_first) {
    std::string text;
    for (int step = 1; step < levels; ++step) {
      const int i = parents_first ? levels - step : step;
      text += fmt::format("SwitchName=c{} Switches=c{}\n", i, i - 1);
    }
    const std::string leaf = "SwitchName=c0 Nodes=n1\n";
    return parents_first ? text + leaf : leaf + text;
  };
  EXPECT_TRUE(read_conf(chain(22, true)).topology.has_value());
  EXPECT_THAT(read_conf(chain(23, true)).findings, HasSubstr("gives up after 21"));
  EXPECT_TRUE(read_conf(chain(20000, false)).topology.has_value());
}

TEST(TopologyConf, HostileFilesEndSoonAndWithAMessage) {
  std::string many;
  for (int i = 0; i < 100; ++i) {
    many += fmt::format("SwitchName=s{} Nodes=r{}n[1-65536]\n", i, i);
  }
  EXPECT_THAT(read_conf(many).findings, HasSubstr("more than 1048576 names in the file"));
  std::string cycle;
  for (int i = 0; i < 50000; ++i) {
    cycle += fmt::format("SwitchName=c{} Switches=c{}\n", i, (i + 1) % 50000);
  }
  EXPECT_THAT(read_conf(cycle).findings, HasSubstr("cycle"));
  EXPECT_THAT(read_conf(std::string(1 << 20, '\\')).findings, HasSubstr("expected Key=Value"));
}

const char kYaml[] = R"(
- topology: topo1
  cluster_default: False
  tree:
    switches:
      - switch: sw_root
        children: s[1-2]
      - switch: s1
        nodes: node[01-02]
      - switch: s2
        nodes: [node03, "node[04-05]"]
- topology: topo2
  cluster_default: true
  block:
    block_sizes: [4, 16]
    blocks:
      - block: b1
        nodes: node[01-04]
      - block: b2
- topology: topo3
  flat: true
)";

TEST(TopologyYaml, PicksByNameOrDefault) {
  const Files files{{{"topology.yaml", kYaml}}};
  EXPECT_EQ(shape(read(files, "topology.yaml")), "b1: node01 node02 node03 node04; b2:");
  EXPECT_EQ(shape(read(files, "topology.yaml", "topo1")),
            "sw_root: s1 s2; s1: node01 node02; s2: node03 node04 node05");
  EXPECT_EQ(read(files, "topology.yaml", "topo3").findings,
            "topology.yaml:20: topology \"topo3\" is flat: it names no racks; expected a tree or "
            "blocks, which --topology-name can pick\n");
  EXPECT_EQ(read(files, "topology.yaml", "x").findings,
            "topology.yaml: no topology named \"x\", expected one of \"topo1\", \"topo2\", "
            "\"topo3\"\n");
}

TEST(TopologyYaml, IsKnownByItsTextToo) {
  EXPECT_EQ(shape(read_conf("# c\n---\n- topology: t\n  tree:\n    switches:\n"
                            "      - {switch: s, nodes: n1}\n")),
            "s: n1");
}

TEST(TopologyYaml, FaultsHaveLines) {
  const auto fault = [](const std::string& text) {
    return read({{{"t.yaml", text}}}, "t.yaml").findings;
  };
  EXPECT_THAT(fault(""), HasSubstr("t.yaml:1: expected a list of topologies"));
  EXPECT_THAT(fault("- topology: [\n"), HasSubstr("not YAML"));
  EXPECT_THAT(fault("- topology: a\n  flat: true\n- topology: a\n  flat: true\n"),
              HasSubstr("t.yaml:3: topology \"a\" has already been defined at line 1"));
  EXPECT_THAT(fault("- topology: a\n  tree: {}\n  block: {}\n"), HasSubstr("is tree and block"));
  EXPECT_THAT(fault("- topology: a\n  topology: b\n  flat: true\n"), HasSubstr("given twice"));
  EXPECT_THAT(fault("- topology: a\n  tree:\n    switches:\n      - switch: s\n"
                    "        nodes: n1\n        children: t\n"),
              HasSubstr("t.yaml:4: switch \"s\" has both nodes and children"));
  EXPECT_THAT(fault("- topology: a\n  tree:\n    switches:\n      - switch: s\n"
                    "        nodes: n[2-1]\n"),
              HasSubstr("t.yaml:4: switch \"s\": Nodes \"n[2-1]\": range \"2-1\" counts down"));
  EXPECT_THAT(fault("- topology: a\n  ring: {}\n"), HasSubstr("is ring: it names no racks"));
  EXPECT_THAT(fault("- " + std::string(100000, '[')), HasSubstr("not YAML"));
}

TEST(TopologyYaml, AConfHasNoNames) {
  EXPECT_THAT(read({{{"topology.conf", "SwitchName=s Nodes=n\n"}}}, "topology.conf", "x").findings,
              HasSubstr("only topology.yaml holds named topologies"));
}

}  // namespace
}  // namespace monkeytree
