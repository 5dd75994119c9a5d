#include "inventory/import.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/file.h"
#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// A cluster in a few lines. Racks r1 … of four nodes n1 … each; jobs as squeue prints them.
class ImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = ::testing::TempDir() + "monkeytree_import_test_" + std::to_string(::getpid());
    std::filesystem::create_directories(folder_);
    topology(
        "SwitchName=r1 Nodes=n[1-4]\nSwitchName=r2 Nodes=n[5-8]\nSwitchName=s Switches=r[1-2]\n");
    jobs("");
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(write_file(folder_ + "/" + name, text).ok());
  }
  void topology(const std::string& text) { write("topology", text); }
  void jobs(const std::string& list) { write("jobs", "{\"jobs\": [" + list + "]}"); }
  /// All nodes idle with 8 GPUs, except for those named in `lines`.
  void nodes(const std::string& lines = "") {
    std::string text = lines;
    for (int i = 1; i <= 8; ++i) {
      const std::string name = fmt::format("NodeName=n{} ", i);
      if (lines.find(name) == std::string::npos) text += name + "Gres=gpu:8 State=IDLE\n";
    }
    write("nodes", text);
    with_nodes_ = true;
  }

  static std::string job(int id, const std::string& nodes, const std::string& comment,
                         const std::string& more = "") {
    return fmt::format(
        "{{\"job_id\": {}, \"job_state\": \"RUNNING\", \"nodes\": \"{}\", "
        "\"comment\": \"{}\", \"name\": \"j\"{}}}",
        id, nodes, comment, more.empty() ? "" : ", " + more);
  }
  static std::string gpus(int count) { return fmt::format("\"tres_per_node\": \"gpu:{}\"", count); }

  std::optional<Snapshot> import() {
    SlurmFiles files{path("topology"), path("jobs"), with_nodes_ ? path("nodes") : "", "2", ""};
    Diagnostics diagnostics;
    std::optional<Snapshot> snapshot = import_slurm(files, diagnostics);
    findings_ = diagnostics.text();
    for (size_t at; (at = findings_.find(folder_ + "/")) != std::string::npos;) {
      findings_.erase(at, folder_.size() + 1);
    }
    EXPECT_EQ(snapshot.has_value(), !diagnostics.has_errors());
    if (snapshot) {
      Diagnostics again;
      EXPECT_TRUE(parse_snapshot(write_snapshot(*snapshot), "s", again)) << again.text();
    }
    return snapshot;
  }

  /// "id rings*slots: n1 n2! …" of each group, '!' behind immovable workers; then the nodes that
  /// are not simply up with 1 slot, or 8 with --nodes.
  std::string shape() {
    const std::optional<Snapshot> snapshot = import();
    if (!snapshot) return findings_;
    std::string out;
    for (GroupId g : snapshot->groups.keys()) {
      const Group& group = snapshot->groups[g];
      out += fmt::format("{} {}*{}:", snapshot->jobs[group.job].id, group.rings, group.slots);
      for (size_t i = 0; i < group.workers.size(); ++i) {
        out += " " + snapshot->nodes[group.workers[i]].name;
        if (snapshot->immovable(g, static_cast<int>(i))) out += "!";
      }
      out += "; ";
    }
    for (const Node& node : snapshot->nodes) {
      const bool plain_slots = node.slots == (with_nodes_ ? 8 : 1);
      if (node.state == NodeState::kUp && plain_slots) continue;
      out += "[" + node.name + " " + std::string(name_of(node.state));
      if (!plain_slots) out += fmt::format(" {}", node.slots);
      out += "]";
    }
    return out;
  }

  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
  std::string findings_;
  bool with_nodes_ = false;
};

TEST_F(ImportTest, WithoutNodesAllIsWhole) {
  jobs(job(1, "n[1-5]", "dp=5,tp=8") + "," + job(2, "n8", ""));
  EXPECT_EQ(shape(), "1 8*1: n1 n2 n3 n4 n5; 2 1*1: n8; ");
  EXPECT_EQ(findings_, "");
}

TEST_F(ImportTest, WithNodesSlotsAreGpus) {
  nodes("NodeName=n8 Gres=gpu:h200:4 State=IDLE+DRAIN\n");
  jobs(job(1, "n[1-2]", "dp=2,tp=8", gpus(8)) + "," + job(2, "n[3-4]", "dp=4,tp=2", gpus(4)) + "," +
       job(3, "n5", "", gpus(2)) + "," + job(4, "n6", "", gpus(8)));
  EXPECT_EQ(shape(), "1 8*8: n1 n2; 2 2*4: n3 n4; 3 1*2: n5!; 4 1*8: n6; [n8 drain 4]");
  const std::optional<Snapshot> snapshot = import();
  EXPECT_EQ(snapshot->classes[snapshot->nodes.back().node_class], "gpu:h200");
}

TEST_F(ImportTest, APipelineIsAGroupAStage) {
  nodes();
  jobs(job(1, "n[1-6]", "dp=3,tp=8,pp=2", gpus(8)));
  EXPECT_EQ(shape(), "1 8*8: n1 n2 n3; 1 8*8: n4 n5 n6; ");
}

TEST_F(ImportTest, StagesThatShareANodeStayThere) {
  nodes();
  jobs(job(1, "n[1-3]", "dp=3,tp=4,pp=2", gpus(8)));
  // Each stage takes 8 + 4 GPUs. Counted as 8 each, n2 has 16 slots, of which none is free.
  EXPECT_EQ(shape(), "1 4*8: n1 n2!; 1 4*8: n2! n3; [n2 up 16]");
  EXPECT_THAT(findings_, HasSubstr("two groups of their job share do not move: jobs 1"));
  with_nodes_ = false;
  EXPECT_EQ(shape(), "1 4*1: n1 n2!; 1 4*1: n2! n3; [n2 up 2]");
}

TEST_F(ImportTest, RingsAndMovability) {
  jobs(job(1, "n[1-2]", "dp=2,tp=8,rings=16") + "," + job(2, "n[3-4]", "rings=4,monkeytree=off"));
  EXPECT_EQ(shape(), "1 16*1: n1 n2; 2 4*1: n3! n4!; ");
}

TEST_F(ImportTest, CommentsThatCannotBeTrueAreOneGroup) {
  jobs(job(1, "n[1-3]", "dp=4,tp=8"));
  EXPECT_EQ(shape(), "1 8*1: n1 n2 n3; ");
  EXPECT_EQ(findings_,
            "jobs:1: /jobs/0: warning: job 1: comment: dp x tp x pp is 32 ranks, but it holds 3 "
            "nodes; it counts as one group\n");
  jobs(job(1, "n[1-2]", "dp=2,tp=eight"));
  EXPECT_EQ(shape(), "1 1*1: n1 n2; ");
  EXPECT_THAT(findings_, HasSubstr("warning: job 1: comment: tp=\"eight\": expected a number"));
  jobs(job(1, "n[1-2]", "dp=4,tp=8", gpus(8)));
  EXPECT_EQ(shape(), "1 8*1: n1 n2; ");
  EXPECT_THAT(findings_, HasSubstr("32 ranks, but it holds 2 nodes with 16 GPUs"));
  jobs(job(1, "n[1-2]", ""));
  EXPECT_EQ(shape(), "1 1*1: n1 n2; ");
  EXPECT_THAT(findings_, HasSubstr("note: 1 job without dp=, tp=, pp= or rings="));
}

TEST_F(ImportTest, DpFollowsFromTheGpusWhereItIsLeftOut) {
  jobs(job(1, "n[1-4]", "tp=8,pp=2", gpus(8)));
  EXPECT_EQ(shape(), "1 8*1: n1 n2; 1 8*1: n3 n4; ");
}

TEST_F(ImportTest, CompanionsBelongToTheirJob) {
  jobs(job(1, "n[1-2]", "dp=4,tp=8", gpus(8)) + "," +
       job(2, "n7", "companion-of=1,group=0,worker=1", gpus(8)) + "," +
       job(3, "n5", "companion-of=1", gpus(8)));
  EXPECT_EQ(shape(), "1 8*1: n1 n7 n2 n5; ");
  jobs(job(1, "n[1-3]", "dp=2,tp=8,pp=2", gpus(8)) + "," +
       job(2, "n7", "companion-of=1,group=1,worker=0", gpus(8)));
  EXPECT_EQ(shape(), "1 8*1: n1 n2; 1 8*1: n7 n3; ");
}

TEST_F(ImportTest, ACompanionWithoutAPlaceComesLastAndWithoutAJobAlone) {
  jobs(job(1, "n[1-2]", "dp=3,tp=8", gpus(8)) + "," +
       job(2, "n7", "companion-of=1,worker=9", gpus(8)) + "," + job(3, "n6", "companion-of=77"));
  EXPECT_EQ(shape(), "1 8*1: n1 n2 n7; 3 1*1: n6!; ");
  EXPECT_THAT(findings_, HasSubstr("name no free place in job 1"));
  EXPECT_THAT(findings_, HasSubstr("companion of \"77\", which is no running job"));
}

TEST_F(ImportTest, AMoveUnderWayHoldsItsDestination) {
  jobs(job(1, "n[1-2]", "dp=2,tp=8", gpus(8)) + "," +
       job(2, "n7", "companion-of=1,group=0,worker=1", gpus(8)));
  EXPECT_EQ(shape(), "1 8*1: n1 n2; [n7 reserved]");
  EXPECT_THAT(findings_, HasSubstr("a move is under way"));
}

TEST_F(ImportTest, TheAdminCommentGivesTheOrder) {
  const auto admin = [](const std::string& list) {
    return "\"admin_comment\": \"monkeytree-ranks=" + list + "\"";
  };
  jobs(job(1, "n[1-3]", "dp=4,tp=8", admin("n3,n1,n7,n2")) + "," + job(2, "n7", "companion-of=1"));
  EXPECT_EQ(shape(), "1 8*1: n3 n1 n7 n2; ");
  jobs(job(1, "n[1-3]", "dp=3,tp=8", admin("n3,n1,n4")));
  EXPECT_EQ(shape(), "1 8*1: n1 n2 n3; ");
  EXPECT_THAT(findings_, HasSubstr("monkeytree-ranks names \"n4\", which the job does not hold"));
  jobs(job(1, "n[1-3]", "dp=2,tp=8", admin("n3,n1")));
  EXPECT_EQ(shape(), "1 8*1: n3 n1; [n2 reserved]");
}

TEST_F(ImportTest, WorkersThatAreStagedAreOnNoNode) {
  const auto admin = [](const std::string& list) {
    return "\"admin_comment\": \"monkeytree-ranks=" + list + " monkeytree-held=0/1@n7\"";
  };
  jobs(job(1, "n[1-2]", "dp=3,tp=8", admin("n1,-,n2")));
  EXPECT_EQ(shape(), "1 8*1: n1! n2!; ");
  EXPECT_EQ(findings_, "");
  jobs(job(1, "n[1-2]", "dp=3,tp=8", admin("-,n2,-")));
  EXPECT_EQ(shape(), "1 8*1: n2!; [n1 reserved]");
  // A stage all of whose workers are staged is no group.
  jobs(job(1, "n[1-2]", "dp=2,tp=8,pp=2", admin("n1,n2,-,-")));
  EXPECT_EQ(shape(), "1 8*1: n1! n2!; ");
  jobs(job(1, "n[1-2]", "dp=2,tp=8,pp=2", admin("-,-,-,-")));
  EXPECT_EQ(shape(), "[n1 reserved][n2 reserved]");
}

TEST_F(ImportTest, CompanionsOfAnotherUserDoNotCount) {
  jobs(job(1, "n[1-2]", "dp=2,tp=8", "\"user_name\": \"ada\"") + "," +
       job(2, "n7", "companion-of=1,group=0,worker=1", "\"user_name\": \"bob\""));
  EXPECT_EQ(shape(), "1 8*1: n1 n2; 2 1*1: n7!; ");
  EXPECT_THAT(findings_, HasSubstr("companion of 1, which is another user's"));
}

TEST_F(ImportTest, NodesOfNoLeafStandApartAndDoNotMove) {
  jobs(job(1, "n4,x[1-2]", "dp=3,tp=8"));
  EXPECT_EQ(shape(), "1 8*1: n4 x1! x2!; [x1 reserved][x2 reserved]");
  EXPECT_THAT(findings_, HasSubstr("warning: no leaf or block holds nodes that jobs use: x[1-2]"));
  const std::optional<Snapshot> snapshot = import();
  EXPECT_EQ(snapshot->racks.back().name, "unplaced");
  EXPECT_EQ(snapshot->racks.back().bound(), 8);
}

TEST_F(ImportTest, NodesThatSlurmDoesNotKnowAreLeftOutUnlessUsed) {
  write("nodes", "NodeName=n1 State=IDLE\nNodeName=n9 State=IDLE\n");
  with_nodes_ = true;
  jobs(job(1, "n5", ""));
  const std::optional<Snapshot> snapshot = import();
  EXPECT_EQ(snapshot->nodes.size(), 2u);
  EXPECT_THAT(findings_, HasSubstr("nodes that Slurm does not know are left out: n[2-4,6-8]"));
  EXPECT_THAT(findings_, HasSubstr("says nothing of nodes that jobs use: n5"));
  EXPECT_THAT(findings_, HasSubstr("holds the nodes n9; they are left out"));
}

TEST_F(ImportTest, SharedNodesOfUnknownSharesDoNotMove) {
  jobs(job(1, "n[1-2]", "dp=2,tp=4") + "," + job(2, "n2", ""));
  EXPECT_EQ(shape(), "1 4*1: n1 n2!; 2 1*1: n2!; [n2 up 2]");
  EXPECT_THAT(findings_, HasSubstr("several jobs are on n2"));
  nodes();
  jobs(job(1, "n[1-2]", "dp=2,tp=4", gpus(4)) + "," + job(2, "n2", "", gpus(4)));
  EXPECT_EQ(shape(), "1 4*4: n1 n2; 2 1*4: n2!; ");
}

TEST_F(ImportTest, UnevenWorkersOfAGroupStay) {
  nodes();
  jobs(job(1, "n[1-2]", "dp=12,tp=1", "\"gres_detail\": [\"gpu:8\", \"gpu:4\"]"));
  EXPECT_EQ(shape(), "1 1*8: n1 n2!; [n2 up 12]");  // 4 of its 8 GPUs are free, as in truth
}

TEST_F(ImportTest, JobsWithoutGpusAreLeftOutAndAllocatedNodesReceiveNothing) {
  nodes("NodeName=n3 Gres=gpu:8 State=ALLOCATED\n");
  jobs(job(1, "n[3-4]", "") + "," + job(2, "n[5-6]", "dp=2,tp=8"));
  EXPECT_EQ(shape(), "2 8*8: n5 n6; [n3 reserved]");
  EXPECT_THAT(findings_, HasSubstr("jobs without GPUs on nodes that have some are left out: 1"));
  EXPECT_THAT(findings_, HasSubstr("receive nothing: n3"));
}

TEST_F(ImportTest, CompletingJobsHoldTheirNodes) {
  jobs(R"({"job_id": 1, "job_state": ["COMPLETED", "COMPLETING"], "nodes": "n1"})");
  EXPECT_EQ(shape(), "[n1 reserved]");
}

TEST_F(ImportTest, TreesAreIslandsUnlessAJobJoinsThem) {
  topology("SwitchName=r1 Nodes=n[1-4]\nSwitchName=a Switches=r1\nSwitchName=r2 Nodes=n[5-8]\n");
  jobs(job(1, "n[1-2]", "dp=2"));
  std::optional<Snapshot> snapshot = import();
  EXPECT_NE(snapshot->racks[RackId(0)].island, snapshot->racks[RackId(1)].island);
  EXPECT_EQ(snapshot->islands[snapshot->racks[RackId(0)].island], "a");
  jobs(job(1, "n[4-5]", "dp=2"));
  snapshot = import();
  EXPECT_EQ(snapshot->racks[RackId(0)].island, snapshot->racks[RackId(1)].island);
  EXPECT_THAT(findings_, HasSubstr("job 1 runs across separate trees"));
}

TEST_F(ImportTest, FindingsOfAllFilesComeInOneRun) {
  topology("SwitchName=r1\n");
  write("jobs", "{\"jobs\": [{\"job_id\": 1}");
  write("nodes", "");
  with_nodes_ = true;
  EXPECT_FALSE(import());
  EXPECT_THAT(findings_, HasSubstr("topology:1: switch \"r1\" has neither"));
  EXPECT_THAT(findings_, HasSubstr("jobs:1: /jobs/0: no job_state"));
  EXPECT_THAT(findings_, HasSubstr("jobs:1: the text ends here"));
  EXPECT_THAT(findings_, HasSubstr("nodes: empty"));
}

TEST_F(ImportTest, BadFilesAreOneMessage) {
  Diagnostics diagnostics;
  EXPECT_FALSE(import_slurm({folder_, path("none"), "", "x.csv", ""}, diagnostics));
  EXPECT_EQ(
      diagnostics.text(),
      folder_ + ": is a directory, expected a file\n" +
          "monkeytree: --uplinks: expected a number from 0 to 65536 or a file, found \"x.csv\" "
          "(cannot open: No such file or directory)\n" +
          path("none") + ": cannot open: No such file or directory\n");
  Diagnostics twice;
  EXPECT_FALSE(import_slurm({"-", "-", "", "", ""}, twice));
  EXPECT_THAT(twice.text(), HasSubstr("standard input can be only one of the files"));
  Diagnostics negative;
  EXPECT_FALSE(import_slurm({path("topology"), path("jobs"), "", "-3", ""}, negative));
  EXPECT_THAT(negative.text(), HasSubstr("expected a number from 0 to 65536 or a file"));
}

TEST(SlurmSamples, TheDegreesAreThoseOfTheCluster) {
  const std::string folder = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/slurm22.05/";
  const std::map<std::string, int> degrees = {{"r0", 0}, {"r1", 3}, {"r2", 2},
                                              {"r3", 2}, {"r4", 2}, {"r5", 1}};
  std::string first;
  for (const char* nodes : {"frag16-sinfo.json", "frag16-scontrol-show-node.txt"}) {
    Diagnostics diagnostics;
    const std::optional<Snapshot> snapshot = import_slurm(
        {folder + "topology.conf", folder + "frag16-squeue.json", folder + nodes, "16", ""},
        diagnostics);
    ASSERT_TRUE(snapshot.has_value()) << diagnostics.text();
    EXPECT_EQ(diagnostics.text(), "");
    EXPECT_EQ(snapshot->jobs.size(), 10u);
    EXPECT_EQ(snapshot->nodes.size(), 96u);
    const IdVector<RackId, int> found = fragmentation(*snapshot);
    for (RackId rack : snapshot->racks.keys()) {  // tp=8: each fragmented job counts 8
      EXPECT_EQ(found[rack], 8 * degrees.at(snapshot->racks[rack].name));
    }
    const std::string text = write_snapshot(*snapshot);
    if (first.empty()) first = text;
    EXPECT_EQ(text, first) << "both forms of the nodes say the same";
    Diagnostics again;
    const std::optional<Snapshot> back = parse_snapshot(text, "s", again);
    ASSERT_TRUE(back.has_value()) << again.text();
    EXPECT_EQ(write_snapshot(*back), text);
  }
}

TEST(SlurmSamples, CompanionsAreFoldedIntoTheirJob) {
  const std::string folder = std::string(MONKEYTREE_SOURCE_DIR) + "/tests/data/slurm22.05/";
  Diagnostics diagnostics;
  const std::optional<Snapshot> snapshot = import_slurm(
      {folder + "topology.conf", folder + "companion-squeue.json", "", "2", ""}, diagnostics);
  ASSERT_TRUE(snapshot.has_value()) << diagnostics.text();
  ASSERT_EQ(snapshot->jobs.size(), 2u);
  const Group& group = snapshot->groups[GroupId(0)];
  std::vector<std::string> names;
  for (NodeId node : group.workers) names.push_back(snapshot->nodes[node].name);
  EXPECT_THAT(names, ::testing::ElementsAre("r0n1", "r0n2", "r2n1", "r3n0"));
  EXPECT_EQ(group.rings, 8);
}

}  // namespace
}  // namespace monkeytree
