#include "inventory/squeue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "inventory/slurm_nodes.h"
#include "inventory/slurm_value.h"

namespace monkeytree {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// "id: node*gpus …" of each job, with '~' before one that does not run; or the findings.
std::string jobs(const std::string& list) {
  Diagnostics diagnostics;
  const std::string text = "{\"jobs\": [" + list + "]}";
  const std::optional<SlurmQueue> queue = read_squeue(bytes_of(text), "q", diagnostics);
  if (!queue) return diagnostics.text();
  std::string out = diagnostics.text();
  for (const SlurmJob& job : queue->jobs) {
    out += (job.running ? "" : "~") + job.id + ":";
    for (size_t n = 0; n < job.nodes.size(); ++n) {
      out += " " + job.nodes[n] + "*" + std::to_string(job.gpus[n]);
    }
    out += "; ";
  }
  return out;
}

// One job as each release prints it, cut down to what matters.
TEST(Squeue, ReadsEveryRelease) {
  const std::string v2108 = R"({"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-2]",
    "array_job_id": 0, "array_task_id": null, "het_job_id": 0, "tres_per_node": "gpu:8",
    "job_resources": {"nodes": "n[1-2]", "allocated_nodes": {"0": {"memory": 0}, "1": {}}}})";
  const std::string v2205 = R"j({"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-2]",
    "gres_detail": ["gpu:8(IDX:0-7)", "gpu:8(IDX:0-7)"], "array_task_id": null,
    "job_resources": {
    "nodes" : "n[1-2]", "allocated_nodes" : [ {"nodename" : "n1"} ]
  }
})j";
  const std::string v2302 = R"({"job_id": 7, "job_state": "RUNNING", "nodes": "n[1-2]",
    "array_job_id": {"set": true, "infinite": false, "number": 0},
    "array_task_id": {"set": false, "infinite": false, "number": 0},
    "tres_per_node": "gres:gpu:h100:8", "job_resources": {"nodes": "n[1-2]"}})";
  const std::string v2311 = R"({"job_id": 7, "job_state": ["RUNNING"], "nodes": "n[1-2]",
    "tres_alloc_str": "cpu=128,node=2,gres\/gpu=16,gres\/gpu:h100=16",
    "het_job_id": {"set": true, "infinite": false, "number": 0},
    "job_resources": {"nodes": {"count": 2, "list": "n[1-2]", "allocation": []}}})";
  const std::string v2505 = R"({"job_id": 7, "job_state": ["RUNNING"], "nodes": "",
    "tres_per_node": "gres/gpu:8",
    "job_resources": {"nodes": {"count": 2, "allocation": [{"name": "n1"}, {"name": "n2"}]}}})";
  for (const std::string& job : {v2108, v2205, v2302, v2311, v2505}) {
    EXPECT_EQ(jobs(job), "7: n1*8 n2*8; ") << job;
  }
}

TEST(Squeue, FindsNodesInJobResourcesWhereTheJobNamesNone) {
  const auto with = [](const std::string& nodes) {
    return jobs(R"({"job_id": 7, "job_state": "RUNNING", "job_resources": {"nodes": )" + nodes +
                "}}");
  };
  EXPECT_EQ(with(R"("n[1-2]")"), "7: n1*0 n2*0; ");
  EXPECT_EQ(with(R"({"list": "n[1-2]"})"), "7: n1*0 n2*0; ");
  EXPECT_EQ(with(R"(["n1", "n[2-3]"])"), "7: n1*0 n2*0 n3*0; ");
  EXPECT_EQ(with(R"([{"nodename": "n1"}])"), "7: n1*0; ");
  EXPECT_THAT(with("null"), HasSubstr("warning: job \"7\" runs and names no nodes"));
}

TEST(Squeue, OnlyRunningJobsCountButOthersHoldNodes) {
  const auto with = [](const std::string& state) {
    return jobs(R"({"job_id": 7, "nodes": "n1", "job_state": )" + state + "}");
  };
  EXPECT_EQ(with(R"("RUNNING")"), "7: n1*0; ");
  EXPECT_EQ(with(R"(["RUNNING", "CONFIGURING"])"), "7: n1*0; ");
  EXPECT_EQ(with(R"("PENDING")"), "");
  EXPECT_EQ(with(R"("COMPLETED")"), "");
  EXPECT_EQ(with(R"(["COMPLETED", "COMPLETING"])"), "~7: n1*0; ");
  EXPECT_EQ(with(R"(["RUNNING", "COMPLETING"])"), "~7: n1*0; ");
  EXPECT_EQ(with(R"("SUSPENDED")"), "~7: n1*0; ");
}

TEST(Squeue, IdsOfArraysAndHetJobsStayUnique) {
  EXPECT_EQ(jobs(R"({"job_id": 12, "array_job_id": 10, "array_task_id": 2, "job_state": "RUNNING",
                     "nodes": "n1"},
                    {"job_id": 10, "array_job_id": 10, "array_task_id": 0, "job_state": "RUNNING",
                     "nodes": "n2"},
                    {"job_id": 21, "het_job_id": {"set": true, "number": 20},
                     "het_job_offset": {"set": true, "number": 1}, "job_state": ["RUNNING"],
                     "nodes": "n3"})"),
            "10_2: n1*0; 10_0: n2*0; 20+1: n3*0; ");
  EXPECT_THAT(jobs(R"({"job_id": 1, "job_state": "RUNNING", "nodes": "n1"},
                      {"job_id": 1, "job_state": "RUNNING", "nodes": "n2"})"),
              HasSubstr("warning: job \"1\" stands there twice"));
}

TEST(Squeue, AllFaultsInOneRun) {
  EXPECT_EQ(
      jobs(R"({"job_state": "RUNNING"}, 3,
{"job_id": 1}, {"job_id": 2, "job_id": 2, "job_state": "RUNNING"},
{"job_id": 3, "job_state": "RUNNING", "nodes": "n[2-1]"})"),
      "q:1: /jobs/0: no job_id, expected a job of squeue --json\n"
      "q:1: /jobs/1: expected a job, an object\n"
      "q:2: /jobs/2: no job_state, expected a job of squeue --json\n"
      "q:2: /jobs/3: the field \"job_id\" stands there twice\n"
      "q:3: /jobs/4: job \"3\": nodes \"n[2-1]\": range \"2-1\" counts down, expected low-high "
      "(at character 3)\n");
}

TEST(Squeue, ManyJobsOnManyNodesEndWithAMessage) {
  std::string list;
  for (int i = 0; i < 70; ++i) {
    list += std::string(i == 0 ? "" : ",") + R"({"job_state": "RUNNING", "nodes": "n[1-65536]",)" +
            R"("job_id": )" + std::to_string(i) + "}";
  }
  EXPECT_THAT(jobs(list), HasSubstr("all jobs hold more than 4194304 nodes together"));
}

TEST(Squeue, IsNotAnythingElse) {
  Diagnostics diagnostics;
  EXPECT_FALSE(read_squeue(bytes_of("{\"nodes\": []}"), "q", diagnostics));
  EXPECT_EQ(diagnostics.text(), "q: no field \"jobs\", expected what `squeue --json` prints\n");
}

TEST(SlurmValue, CountsGpus) {
  const auto gpus = [](std::string_view text) {
    const Gpus found = parse_gpus(text);
    return std::to_string(found.count) + " " + found.type;
  };
  EXPECT_EQ(gpus("gpu:8"), "8 ");
  EXPECT_EQ(gpus("gpu"), "1 ");
  EXPECT_EQ(gpus("gpu:h200:8(S:0-1),shard:16"), "8 gpu:h200");
  EXPECT_EQ(gpus("gpu:a100:2(IDX:0,1),gpu:h200:4"), "6 gpu:a100+gpu:h200");
  EXPECT_EQ(gpus("gres:gpu:8"), "8 ");
  EXPECT_EQ(gpus("cpu=64,mem=1000M,gres/gpu=8,gres/gpu:h200=8"), "8 gpu:h200");
  EXPECT_EQ(gpus("gres/gpu:h200=8"), "8 gpu:h200");
  EXPECT_EQ(gpus("gpumem:80,(null)"), "0 ");
  EXPECT_EQ(gpus(""), "0 ");
}

std::string nodes(const std::string& text) {
  Diagnostics diagnostics;
  const auto list = read_slurm_nodes(text, "n", diagnostics);
  if (!list) return diagnostics.text();
  std::string out = diagnostics.text();
  for (const SlurmNode& node : *list) {
    out += node.name + " " + std::string(name_of(node.state)) + (node.allocated ? "!" : "") + " " +
           std::to_string(node.gpus) + node.gpu_type + "; ";
  }
  return out;
}

TEST(SlurmNodes, ReadsEveryForm) {
  EXPECT_EQ(nodes(R"({"nodes": [{"name": "n1", "state": "allocated", "state_flags": ["DRAIN"],
                                 "gres": "gpu:8"}]})"),
            "n1 drain! 8; ");
  EXPECT_EQ(nodes(R"j({"nodes": [{"name": "n1", "state": ["IDLE", "PLANNED"],
                                 "gres": "gpu:h200:8(S:0-1)"
}]
})j"),
            "n1 up 8gpu:h200; ");
  EXPECT_EQ(nodes(R"({"sinfo": [{"node": {"state": ["MIXED"]}, "nodes": {"nodes": ["n1", "n2"]},
                                 "gres": {"total": "gpu:4"}},
                                {"node": {"state": ["DOWN"]}, "nodes": {"nodes": ["n2"]},
                                 "gres": {"total": "gpu:4"}}]})"),
            "n1 up 4; n2 down 4; ");
  EXPECT_EQ(nodes("NodeName=n1 Arch=x86_64\n   Gres=gpu:8\n   State=IDLE+DRAIN ThreadsPerCore=1\n"
                  "   Reason=State=DOWN is what it was [root]\n\n"
                  "NodeName=n2 Gres=(null) State=DOWN* Weight=1\n"),
            "n1 drain 8; n2 down 0; ");
}

TEST(SlurmNodes, StatesComeToFour) {
  const auto state = [](std::string_view text) {
    std::vector<std::string> unknown;
    const NodeState found = node_state(split_states(text), unknown);
    return std::string(name_of(found)) + (unknown.empty() ? "" : "?");
  };
  for (const char* up : {"IDLE", "ALLOCATED", "MIXED", "IDLE+PLANNED", "idle-", "IDLE+CLOUD"}) {
    EXPECT_EQ(state(up), "up") << up;
  }
  for (const char* drain : {"IDLE+DRAIN", "DRAINED", "MIXED+DRAINING", "MAINT", "IDLE+MAINTENANCE",
                            "FAIL", "FAILING", "IDLE+REBOOT_REQUESTED", "IDLE@", "idle$"}) {
    EXPECT_EQ(state(drain), "drain") << drain;
  }
  for (const char* down : {"DOWN", "IDLE*", "IDLE+NOT_RESPONDING", "IDLE+POWERED_DOWN", "idle~",
                           "ALLOCATED+POWERING_UP", "DOWN+DRAIN", "UNKNOWN", "FUTURE"}) {
    EXPECT_EQ(state(down), "down") << down;
  }
  for (const char* reserved : {"IDLE+RESERVED", "MIXED+COMPLETING"}) {
    EXPECT_EQ(state(reserved), "reserved") << reserved;
  }
  EXPECT_EQ(state("IDLE+SOMETHING_NEW"), "reserved?");
}

TEST(SlurmNodes, FaultsAreNamed) {
  EXPECT_THAT(nodes(""), HasSubstr("n: empty"));
  EXPECT_THAT(nodes("PARTITION AVAIL\n"), HasSubstr("n:1: \"PARTITION\": expected NodeName="));
  EXPECT_THAT(nodes("NodeName=n1 Arch=x\n"), HasSubstr("n:1: node \"n1\": no State="));
  EXPECT_THAT(nodes("{\"jobs\": []}"), HasSubstr("no field \"nodes\""));
  EXPECT_THAT(nodes("{\"nodes\": [{\"name\": \"n1\"}]}"), HasSubstr("n:1: /nodes/0: node \"n1\""));
  EXPECT_THAT(nodes("NodeName=n1 State=IDLE+NEW\n"),
              HasSubstr("warning: unknown node states \"NEW\""));
}

}  // namespace
}  // namespace monkeytree
