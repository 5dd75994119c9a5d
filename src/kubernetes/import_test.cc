#include "kubernetes/import.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"
#include "kubernetes/snapshot.h"
#include "kubernetes/test_objects.h"

namespace monkeytree {
namespace {

using ::testing::HasSubstr;

class KubernetesImportTest : public ::testing::Test {
 protected:
  void SetUp() override {
    rules_.rack_label = "rack";
    for (int i = 1; i <= 8; ++i) {
      node({fmt::format("n{}", i), i <= 4 ? "a" : "b"});
    }
  }

  void node(const TestNode& node) { items_["node " + node.name] = node_object(node); }
  void pod(const TestPod& pod) { items_["pod " + pod.name] = pod_object(pod); }
  void object(const std::string& api, const std::string& kind, const std::string& name,
              const std::string& fields, const std::string& space = "t") {
    items_[kind + api + name] = kube_object(api, kind, name, fields, space);
  }

  std::optional<KubeSnapshot> build() {
    std::string text = "{\"apiVersion\": \"v1\", \"items\": [";
    for (const auto& [key, item] : items_) text += (text.back() == '[' ? "" : ",\n") + item;
    text += "], \"kind\": \"List\"}";
    Diagnostics diagnostics;
    KubeSeen seen;
    KubeFacts facts;
    Uplinks uplinks;
    uplinks.given = true;
    std::optional<KubeSnapshot> built;
    if (read_kube_list(bytes_of(text), "o", reading_, seen, facts, diagnostics)) {
      built = build_kube_snapshot(facts, rules_, reading_, uplinks, "o", diagnostics);
    }
    findings_ = diagnostics.text();
    EXPECT_EQ(built.has_value(), !diagnostics.has_errors());
    if (built) {
      Diagnostics again;
      EXPECT_TRUE(parse_snapshot(write_snapshot(built->snapshot), "s", again)) << again.text();
    }
    return built;
  }

  /// "id rings*slots: n1 n2! …" of each group, '!' behind immovable workers; then the nodes that
  /// are not simply up with 8 slots.
  std::string shape() {
    const std::optional<KubeSnapshot> built = build();
    if (!built) return findings_;
    const Snapshot& snapshot = built->snapshot;
    std::string out;
    for (GroupId g : snapshot.groups.keys()) {
      const Group& group = snapshot.groups[g];
      out += fmt::format("{} {}*{}:", snapshot.jobs[group.job].id, group.rings, group.slots);
      for (size_t i = 0; i < group.workers.size(); ++i) {
        out += " " + snapshot.nodes[group.workers[i]].name;
        if (snapshot.immovable(g, static_cast<int>(i))) out += "!";
      }
      out += "; ";
    }
    for (const Node& each : snapshot.nodes) {
      if (each.state == NodeState::kUp && each.slots == 8) continue;
      out += fmt::format("[{} {} {}]", each.name, name_of(each.state), each.slots);
    }
    return out;
  }

  /// Names of the racks and their nodes.
  std::string racks() {
    const std::optional<KubeSnapshot> built = build();
    if (!built) return findings_;
    std::string out;
    for (const Rack& rack : built->snapshot.racks) {
      out += rack.name + ":";
      for (NodeId id : rack.nodes) out += " " + built->snapshot.nodes[id].name;
      out += "; ";
    }
    return out;
  }

  std::map<std::string, std::string> items_;
  KubeRackRules rules_;
  KubeReadRules reading_;
  std::string findings_;
};

TEST_F(KubernetesImportTest, AStatefulSetIsARingInTheOrderOfItsOrdinals) {
  for (int i = 0; i < 3; ++i) pod({fmt::format("s-{}", 9 + i), fmt::format("n{}", 5 - i)});
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n5 n4 n3; ");
  const std::optional<KubeSnapshot> built = build();
  const IdVector<RackId, int> degrees = fragmentation(built->snapshot);
  EXPECT_EQ(degrees[RackId(0)], 1);
  EXPECT_EQ(degrees[RackId(1)], 1);
  EXPECT_EQ(built->snapshot.jobs[JobId(0)].partition, "t");
  EXPECT_THAT(findings_, HasSubstr("1 job without dp=, tp=, pp= or rings= in monkeytree/comment"));
}

TEST_F(KubernetesImportTest, TheCommentTellsTheParallelism) {
  const std::string comment = R"("monkeytree/comment": "dp=2,tp=8,pp=2")";
  for (int i = 0; i < 4; ++i) {
    TestPod each{fmt::format("s-{}", i), fmt::format("n{}", i + 3)};
    each.annotations = comment;
    pod(each);
  }
  EXPECT_EQ(shape(), "t.statefulset.s 8*8: n3 n4; t.statefulset.s 8*8: n5 n6; ");
  EXPECT_EQ(findings_, "");
  for (int i = 0; i < 4; ++i) {
    TestPod each{fmt::format("s-{}", i), fmt::format("n{}", i + 3)};
    each.annotations = R"("monkeytree/comment": "dp=3,tp=8")";
    pod(each);
  }
  EXPECT_EQ(shape(), "t.statefulset.s 8*8: n3 n4 n5 n6; ");
  EXPECT_THAT(findings_, HasSubstr("dp x tp x pp does not fit the 32 GPUs of its pods"));
}

TEST_F(KubernetesImportTest, TheCommentMayStandOnTheJob) {
  pod({"s-0", "n1"});
  pod({"s-1", "n5"});
  items_["s"] =
      R"({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "s",)"
      R"("namespace": "t", "annotations": {"monkeytree/comment": "rings=4,monkeytree=off"}}})";
  EXPECT_EQ(shape(), "t.statefulset.s 4*8: n1! n5!; ");
}

TestPod job_pod(const std::string& name, const std::string& node, int index) {
  TestPod pod{name, node, "Job", "batch/v1", "j"};
  pod.annotations = fmt::format(R"("batch.kubernetes.io/job-completion-index": "{}")", index);
  return pod;
}

TEST_F(KubernetesImportTest, AJobMayLoseAPodWhileItHasFailuresLeft) {
  pod(job_pod("j-0-x", "n1", 1));
  pod(job_pod("j-1-y", "n5", 0));
  EXPECT_EQ(shape(), "t.job.j 1*8: n5! n1!; ");
  EXPECT_THAT(findings_, HasSubstr("its Job is not known"));
  object("batch/v1", "Job", "j", R"("spec": {"backoffLimit": 2}, "status": {"failed": 1})");
  EXPECT_EQ(shape(), "t.job.j 1*8: n5 n1; ");
  object("batch/v1", "Job", "j", R"("spec": {"backoffLimit": 2}, "status": {"failed": 2})");
  EXPECT_EQ(shape(), "t.job.j 1*8: n5! n1!; ");
  EXPECT_THAT(findings_, HasSubstr("its Job has none left"));
  EXPECT_EQ(build()->unmovable.count("t.job.j"), 1u);
  object("batch/v1", "Job", "j",
         R"("spec": {"backoffLimit": 0, "podFailurePolicy": {"rules": [{"action": "Ignore",)"
         R"("onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]}})");
  EXPECT_EQ(shape(), "t.job.j 1*8: n5 n1; ");
}

TEST_F(KubernetesImportTest, PodsWithoutRankGoByTheirNames) {
  pod({"j-b10", "n1", "Job", "batch/v1", "j"});
  pod({"j-b9", "n5", "Job", "batch/v1", "j"});
  pod({"j-10", "n6", "Job", "batch/v1", "j"});
  pod({"j-9", "n7", "Job", "batch/v1", "j"});
  EXPECT_EQ(shape(), "t.job.j 1*8: n7! n6! n1! n5!; ");
  EXPECT_THAT(findings_, HasSubstr("carry no rank and go by their names: t.job.j"));
}

TEST_F(KubernetesImportTest, AJobSetRanksByJobThenIndex) {
  const auto member = [&](const std::string& child, int job, int index, const std::string& node) {
    TestPod each{fmt::format("{}-{}", child, index), node, "Job", "batch/v1", child};
    each.labels = fmt::format(R"("jobset.sigs.k8s.io/jobset-name": "js",)"
                              R"("jobset.sigs.k8s.io/replicatedjob-name": "w",)"
                              R"("jobset.sigs.k8s.io/job-index": "{}")",
                              job);
    each.annotations = fmt::format(R"("batch.kubernetes.io/job-completion-index": "{}")", index);
    pod(each);
    object("batch/v1", "Job", child, R"("spec": {"backoffLimit": 3})");
  };
  member("js-w-0", 0, 0, "n8");
  member("js-w-0", 0, 1, "n1");
  member("js-w-1", 1, 0, "n2");
  member("js-w-1", 1, 1, "n7");
  EXPECT_EQ(shape(), "t.jobset.js 1*8: n8 n1 n2 n7; ");
  object("batch/v1", "Job", "js-w-1", R"("spec": {"backoffLimit": 0})");
  EXPECT_EQ(shape(), "t.jobset.js 1*8: n8! n1! n2! n7!; ");
}

TEST_F(KubernetesImportTest, APyTorchJobHasItsMasterFirst) {
  const auto replica = [&](const std::string& type, int index, const std::string& node) {
    TestPod each{fmt::format("p-{}-{}", type, index), node, "PyTorchJob", "kubeflow.org/v1", "p"};
    each.labels = fmt::format(R"("training.kubeflow.org/job-name": "p",)"
                              R"("training.kubeflow.org/replica-type": "{}",)"
                              R"("training.kubeflow.org/replica-index": "{}")",
                              type, index);
    pod(each);
  };
  replica("worker", 10, "n1");
  replica("worker", 2, "n6");
  replica("master", 0, "n5");
  EXPECT_EQ(shape(), "t.pytorchjob.p 1*8: n5 n6 n1; ");
}

TEST_F(KubernetesImportTest, ALeaderWorkerSetHasAGroupAReplica) {
  const auto member = [&](int group, int worker, const std::string& node) {
    TestPod each{fmt::format("l-{}-{}", group, worker), node, "StatefulSet", "apps/v1",
                 worker == 0 ? "l" : fmt::format("l-{}", group)};
    each.labels = fmt::format(R"("leaderworkerset.sigs.k8s.io/name": "l",)"
                              R"("leaderworkerset.sigs.k8s.io/group-index": "{}",)"
                              R"("leaderworkerset.sigs.k8s.io/worker-index": "{}")",
                              group, worker);
    pod(each);
  };
  member(0, 1, "n5");
  member(0, 0, "n1");
  member(1, 0, "n6");
  member(1, 1, "n2");
  const std::string kind = "LeaderWorkerSet";
  object("leaderworkerset.x-k8s.io/v1", kind, "l", R"("spec": {"leaderWorkerTemplate": {}})");
  EXPECT_EQ(shape(), "t.leaderworkerset.l 1*8: n1! n5!; t.leaderworkerset.l 1*8: n6! n2!; ");
  EXPECT_THAT(findings_, HasSubstr("restarts the whole group"));
  object("leaderworkerset.x-k8s.io/v1", kind, "l",
         R"("spec": {"leaderWorkerTemplate": {"restartPolicy": "None"}})");
  EXPECT_EQ(shape(), "t.leaderworkerset.l 1*8: n1 n5; t.leaderworkerset.l 1*8: n6 n2; ");
}

TEST_F(KubernetesImportTest, AVolcanoJobGoesByItsTasks) {
  const auto member = [&](const std::string& task, int index, const std::string& node) {
    TestPod each{fmt::format("v-{}-{}", task, index), node, "Job", "batch.volcano.sh/v1alpha1",
                 "v"};
    each.labels = R"("volcano.sh/job-name": "v")";
    each.annotations =
        fmt::format(R"("volcano.sh/task-spec": "{}", "volcano.sh/task-index": "{}")", task, index);
    pod(each);
  };
  member("ps", 0, "n1");
  member("chief", 0, "n5");
  member("chief", 1, "n2");
  const std::string tasks = R"("tasks": [{"name": "ps"}, {"name": "chief"}])";
  object("batch.volcano.sh/v1alpha1", "Job", "v", fmt::format(R"("spec": {{{}}})", tasks));
  EXPECT_EQ(shape(), "t.volcanojob.v 1*8: n1 n5 n2; ");
  object("batch.volcano.sh/v1alpha1", "Job", "v",
         fmt::format(R"("spec": {{{}, "policies": [{{"event": "PodEvicted", "action": )"
                     R"("RestartJob"}}]}})",
                     tasks));
  EXPECT_EQ(shape(), "t.volcanojob.v 1*8: n1! n5! n2!; ");
}

TEST_F(KubernetesImportTest, AKueuePodGroupIsAJobThatStays) {
  for (int i = 0; i < 2; ++i) {
    TestPod each{fmt::format("x{}", 1 - i), fmt::format("n{}", 4 + i), "", "", ""};
    each.labels = fmt::format(R"("kueue.x-k8s.io/pod-group-name": "g",)"
                              R"("kueue.x-k8s.io/pod-group-pod-index": "{}")",
                              i);
    pod(each);
  }
  EXPECT_EQ(shape(), "t.podgroup.g 1*8: n4! n5!; ");
}

TEST_F(KubernetesImportTest, JobsWhosePodsAreNotWhereKueueBookedThemStay) {
  pod({"s-0", "n1"});
  pod({"s-1", "n5"});
  const auto workload = [&](const std::string& api, const std::string& assignment) {
    items_["w"] = fmt::format(
        R"({{"apiVersion": "kueue.x-k8s.io/{}", "kind": "Workload", "metadata": {{"name": "w",)"
        R"("namespace": "t", "ownerReferences": [{{"kind": "StatefulSet", "apiVersion": "apps/v1",)"
        R"("name": "s", "controller": true}}]}}, "status": {{"admission": {{"podSetAssignments": )"
        R"([{{"name": "main", "topologyAssignment": {}}}]}}}}}})",
        api, assignment);
  };
  workload("v1beta1", R"({"levels": ["kubernetes.io/hostname"], "domains": [)"
                      R"({"values": ["n1"], "count": 1}, {"values": ["n5"], "count": 1}]})");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
  workload("v1beta1", R"({"levels": ["kubernetes.io/hostname"], "domains": [)"
                      R"({"values": ["n1"], "count": 1}, {"values": ["n6"], "count": 1}]})");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5!; ");
  EXPECT_THAT(findings_, HasSubstr("Kueue's books place its pods elsewhere: t.statefulset.s"));
  // The later form, by racks and then by nodes.
  workload("v1beta2",
           R"({"levels": ["rack"], "slices": [{"domainCount": 2, "valuesPerLevel": )"
           R"([{"individual": {"roots": ["a", "b"]}}], "podCounts": {"universal": 1}}]})");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
  workload("v1beta2",
           R"({"levels": ["rack", "kubernetes.io/hostname"], "slices": [{"domainCount": 2,)"
           R"("valuesPerLevel": [{"universal": "a"}, {"individual": {"prefix": "n",)"
           R"("roots": ["1", "2"]}}], "podCounts": {"individual": [1, 1]}}]})");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5!; ");
}

TEST_F(KubernetesImportTest, UnknownKindsAndEndingPodsOccupyAndNoMore) {
  pod({"r-1", "n1", "RayCluster", "ray.io/v1", "r"});
  pod({"r-2", "n5", "RayCluster", "ray.io/v1", "r", 4});
  TestPod ending{"s-0", "n6"};
  ending.meta = R"("deletionTimestamp": "2026-11-30T15:00:00Z")";
  pod(ending);
  TestPod done{"s-1", "n7"};
  done.phase = "Succeeded";
  pod(done);
  pod({"s-2", ""});
  EXPECT_EQ(shape(), "t.pod.r-1 1*8: n1!; t.pod.r-2 1*4: n5!; t.pod.s-0 1*8: n6!; ");
  EXPECT_EQ(fragmentation(build()->snapshot)[RackId(0)], 0);
  TestPod told{"r-3", "n2", "RayCluster", "ray.io/v1", "r"};
  told.annotations = R"("monkeytree/comment": "dp=2")";
  EXPECT_THAT(findings_, ::testing::Not(HasSubstr("is not heeded")));
  pod(told);
  EXPECT_EQ(build()->unmovable.at("t.pod.r-1"),
            "what the loss of a pod does to a RayCluster is not known");
  EXPECT_THAT(findings_, HasSubstr("monkeytree/comment is not heeded on pods that nothing makes a "
                                   "job of: t/r-3"));
}

TEST_F(KubernetesImportTest, PodsOnANodeAreOneWorkerAndAPartOfANodeStays) {
  for (int i = 0; i < 6; ++i) {
    pod({fmt::format("s-{}", i), i < 4 ? "n1" : "n5", "StatefulSet", "apps/v1", "s", 2});
  }
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5!; [n5 up 12]");  // 4 of its 8 are free
  EXPECT_THAT(findings_, HasSubstr("smaller than others of its group: t.statefulset.s on n5"));
  items_.erase("pod s-2");
  items_.erase("pod s-3");
  EXPECT_EQ(shape(), "t.statefulset.s 1*4: n1! n5!; ");
  EXPECT_THAT(findings_, HasSubstr("it holds a part of its node only"));
}

TEST_F(KubernetesImportTest, GpusAreCountedAsKubernetesDoes) {
  TestPod pod_with{"s-0", "n1", "StatefulSet", "apps/v1", "s", 2};
  const auto with_init = [](const std::string& more) {
    return fmt::format(
        R"("initContainers": [{{"name": "i", {}"resources": {{"requests": {{"nvidia.com/gpu": "6"}}}}}}])",
        more);
  };
  pod_with.spec = with_init("");
  pod(pod_with);
  EXPECT_EQ(shape(), "t.statefulset.s 1*6: n1!; ");
  pod_with.spec = with_init(R"("restartPolicy": "Always", )");
  pod(pod_with);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1; ");
  reading_.gpu_resource = "amd.com/gpu";
  EXPECT_THAT(shape(), HasSubstr("o: no node has amd.com/gpu"));
}

TEST_F(KubernetesImportTest, MarksAndBudgetsPin) {
  TestPod first{"s-0", "n1"};
  first.annotations = R"("karpenter.sh/do-not-disrupt": "true")";
  pod(first);
  TestPod second{"s-1", "n5"};
  second.labels = R"("app": "x")";
  pod(second);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
  const auto budget = [&](int allowed) {
    object("policy/v1", "PodDisruptionBudget", "b",
           fmt::format(R"("spec": {{"selector": {{"matchLabels": {{"app": "x"}}}}}}, )"
                       R"("status": {{"disruptionsAllowed": {}}})",
                       allowed));
  };
  budget(1);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
  budget(0);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5!; ");
  EXPECT_THAT(findings_, HasSubstr("the budget t/b allows no disruption: t.statefulset.s on n5"));
}

TEST_F(KubernetesImportTest, VolumesOnANodeOrSharedPin) {
  const auto with_claim = [](const std::string& name, const std::string& node) {
    TestPod each{name, node};
    each.spec = R"("volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "c"}}])";
    return each;
  };
  pod(with_claim("s-0", "n1"));
  pod({"s-1", "n5"});
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
  EXPECT_THAT(findings_, HasSubstr("its volume claim c is not known"));
  const auto claim = [&](const std::string& mode) {
    object("v1", "PersistentVolumeClaim", "c",
           fmt::format(R"("spec": {{"volumeName": "v", "accessModes": ["{}"]}})", mode));
  };
  claim("ReadWriteOnce");
  object("v1", "PersistentVolume", "v", R"("spec": {"local": {"path": "/d"}})", "");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
  EXPECT_THAT(findings_, HasSubstr("is on its node"));
  object("v1", "PersistentVolume", "v", R"("spec": {"nfs": {"server": "s"}})", "");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
  pod(with_claim("s-1", "n5"));
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5!; ");
  EXPECT_THAT(findings_, HasSubstr("it shares the claim c"));
  claim("ReadWriteMany");
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
  TestPod files{"s-1", "n5"};
  files.spec = R"("volumes": [{"name": "d", "hostPath": {"path": "/data"}}])";
  pod(files);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5!; ");
  files.spec = R"("volumes": [{"name": "d", "hostPath": {"path": "/dev/shm"}}])";
  pod(files);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
}

TEST_F(KubernetesImportTest, ResourceClaimsPinAndTheirNodesReceiveNothing) {
  TestPod device{"d", "n2", "Deployment", "apps/v1", "d", 0};
  device.spec = R"("resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}])";
  pod(device);
  TestPod shared{"s-0", "n1"};
  shared.spec = R"("resourceClaims": [{"name": "g", "resourceClaimName": "c"}])";
  pod(shared);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1!; [n1 reserved 8][n2 reserved 8]");
  EXPECT_THAT(findings_, HasSubstr("by resource claims, which are not counted, on n[1-2]"));
}

TEST_F(KubernetesImportTest, SelectorsOfAPlacePinAndOthersMakeClasses) {
  node({"n2", "a", 8, R"("pool": "p")"});
  TestPod first{"s-0", "n1"};
  first.spec = R"("nodeSelector": {"kubernetes.io/hostname": "n1"})";
  pod(first);
  TestPod second{"s-1", "n5"};
  second.spec = R"("affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":)"
                R"({"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool",)"
                R"("operator": "NotIn", "values": ["p"]}]}]}}})";
  pod(second);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
  const std::optional<KubeSnapshot> built = build();
  const Snapshot& snapshot = built->snapshot;
  EXPECT_EQ(snapshot.classes[snapshot.nodes[NodeId(1)].node_class], "default pool=p");
  EXPECT_EQ(snapshot.classes[snapshot.nodes[NodeId(2)].node_class], "default");
}

TEST_F(KubernetesImportTest, StatesOfNodes) {
  node({"n1", "a", 8, "", R"("unschedulable": true)"});
  node({"n2", "a", 8, "", "", "Unknown"});
  node({"n3", "a", 8, "", R"("taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])"});
  node({"n4", "a", 8, "",
        R"("taints": [{"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"}])"});
  EXPECT_EQ(shape(), "[n1 drain 8][n2 down 8][n4 down 8]");
}

TEST_F(KubernetesImportTest, NodesOfNoRackAreListedAndLeftOut) {
  node({"n1", ""});
  node({"n2", ""});
  node({"c1", "", 0});
  EXPECT_EQ(racks(), "a: n3 n4; b: n5 n6 n7 n8; ");
  EXPECT_EQ(findings_,
            "o: warning: nothing tells the rack of the nodes n[1-2] (without the label "
            "rack); they are left out\n");
  pod({"s-0", "n1"});
  pod({"s-1", "n5"});
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; [n1 reserved 8]") << findings_;
}

TEST_F(KubernetesImportTest, WithoutAnyRackTheRefusalNamesWhatThereIs) {
  items_.clear();
  node({"n1", "", 8, R"("topology.k8s.aws/network-node-layer-3": "l3")"});
  EXPECT_EQ(shape(),
            "o: nothing tells the rack of any of the 1 GPU nodes, n1 (without the label "
            "rack); they have labels of: eks\n");
  rules_ = {"nope", "", {}};
  EXPECT_THAT(shape(),
              HasSubstr("racks: expected a rack label, or one of topograph, topograph-network, "
                        "eks, gke, coreweave, oci, kueue, hypernode, found \"nope\""));
}

TEST_F(KubernetesImportTest, ARackIsItsFullPath) {
  items_.clear();
  node({"n1", "r1", 8, R"("row": "x")"});
  node({"n2", "r1", 8, R"("row": "y")"});
  node({"n3", "r1"});
  rules_.parent_labels = {"row"};
  EXPECT_EQ(racks(), "x/r1: n1; y/r1: n2; ");
  EXPECT_THAT(findings_, HasSubstr("the rack of the nodes n3 (without the label row); they"));
}

TEST_F(KubernetesImportTest, PresetsRunInTheirOwnDirections) {
  const auto check = [&](const std::string& source, const std::string& labels) {
    items_.clear();
    node({"n1", "", 8, labels});
    rules_ = {source, "", {}};
    return racks();
  };
  EXPECT_EQ(check("topograph", R"("fabric.topograph.run/tier-0": "leaf",)"
                               R"("fabric.topograph.run/tier-1": "spine")"),
            "spine/leaf: n1; ");
  EXPECT_EQ(check("eks", R"("topology.k8s.aws/network-node-layer-1": "top",)"
                         R"("topology.k8s.aws/network-node-layer-2": "mid",)"
                         R"("topology.k8s.aws/network-node-layer-3": "low")"),
            "top/mid/low: n1; ");
  EXPECT_EQ(check("gke", R"("cloud.google.com/gce-topology-block": "b",)"
                         R"("cloud.google.com/gce-topology-subblock": "s",)"
                         R"("cloud.google.com/gce-topology-host": "h")"),
            "b/s: n1; ");
  EXPECT_EQ(check("coreweave", R"("backend.coreweave.cloud/leafgroup": "l",)"
                               R"("backend.coreweave.cloud/superpod": "s",)"
                               R"("backend.coreweave.cloud/fabric": "f")"),
            "f/s/l: n1; ");
  EXPECT_EQ(check("oci", R"("oci.oraclecloud.com/host.rack_id": "r",)"
                         R"("oci.oraclecloud.com/host.network_block_id": "b")"),
            "b/r: n1; ");
  EXPECT_EQ(check("topograph-network", R"("network.topology.nvidia.com/leaf": "l",)"
                                       R"("network.topology.nvidia.com/core": "c",)"
                                       R"("network.topology.nvidia.com/spine": "s")"),
            "c/s/l: n1; ");
  // A zone is never a rack, and a level that is missing in between is no path.
  EXPECT_THAT(check("gke", R"("topology.kubernetes.io/zone": "z")"), HasSubstr("nothing tells"));
  EXPECT_THAT(check("topograph", R"("fabric.topograph.run/tier-0": "l",)"
                                 R"("fabric.topograph.run/tier-2": "c")"),
              HasSubstr("nothing tells"));
}

TEST_F(KubernetesImportTest, KueuesTopologyNamesTheLevels) {
  rules_ = {"kueue", "", {}};
  EXPECT_THAT(shape(), HasSubstr("expected a Topology of Kueue with levels, found none"));
  object("kueue.x-k8s.io/v1beta1", "Topology", "default",
         R"("spec": {"levels": [{"nodeLabel": "row"}, {"nodeLabel": "rack"},)"
         R"({"nodeLabel": "kubernetes.io/hostname"}]})",
         "");
  items_.erase("node n2");
  node({"n1", "a", 8, R"("row": "x")"});
  EXPECT_EQ(racks(), "x/a: n1; ");
  rules_.source = "kueue:other";
  EXPECT_THAT(shape(), HasSubstr("found default"));
}

TEST_F(KubernetesImportTest, WhereThereIsMovingJobsMustAskForIt) {
  reading_.only_allowed = true;
  pod({"s-0", "n1"});
  pod({"s-1", "n5"});
  EXPECT_EQ(build()->unmovable.at("t.statefulset.s"),
            "it does not ask for it (annotation monkeytree/moves: allowed)");
  TestPod one{"s-0", "n1"};
  one.annotations = R"("monkeytree/moves": "allowed")";
  pod(one);
  pod({"s-1", "n5", "StatefulSet", "apps/v1", "s", 4});
  pod({"s-2", "n5", "StatefulSet", "apps/v1", "s", 4});
  EXPECT_TRUE(build()->unmovable.empty());
  EXPECT_THAT(findings_, HasSubstr("it is several pods"));
  // Sent to its node by us, it may go elsewhere; by its own word it may not.
  items_.erase("pod s-2");
  pod({"s-1", "n5"});
  one.annotations += R"(, "monkeytree/successor-of": "1.1.0")";
  one.spec = R"("nodeSelector": {"kubernetes.io/hostname": "n1"})";
  pod(one);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1 n5; ");
  one.annotations = R"("monkeytree/moves": "allowed")";
  pod(one);
  EXPECT_EQ(shape(), "t.statefulset.s 1*8: n1! n5; ");
}

TEST_F(KubernetesImportTest, AllMissingLabelsAreNamed) {
  rules_ = {"", "no/rack", {"rack", "no/row"}};
  EXPECT_THAT(racks(), HasSubstr("(without the labels no/rack, no/row)"));
  rules_ = {"", "no/rack", {"rack"}};
  EXPECT_THAT(racks(), HasSubstr("(without the label no/rack)"));
}

TEST_F(KubernetesImportTest, HyperNodesOfTierOneAreRacks) {
  const auto hyper = [&](const std::string& name, int tier, const std::string& type,
                         const std::string& member) {
    object("topology.volcano.sh/v1alpha1", "HyperNode", name,
           fmt::format(R"("spec": {{"tier": {}, "members": [{{"type": "{}", "selector": {}}}]}})",
                       tier, type, member),
           "");
  };
  hyper("s0", 1, "Node", R"({"exactMatch": {"name": "n1"}})");
  hyper("s1", 1, "Node", R"({"labelMatch": {"matchLabels": {"rack": "b"}}})");
  hyper("top", 2, "HyperNode", R"({"exactMatch": {"name": "s1"}})");
  rules_ = {"hypernode", "", {}};
  EXPECT_EQ(racks(), "s0: n1; top/s1: n5 n6 n7 n8; ");
  // As Go reads patterns: anywhere in the name. One that is none has no members.
  hyper("s2", 1, "Node", R"({"regexMatch": {"pattern": "^n[23]$"}})");
  hyper("s3", 1, "Node", R"({"regexMatch": {"pattern": "n(["}})");
  hyper("top", 2, "HyperNode", R"({"regexMatch": {"pattern": "[12]"}})");
  EXPECT_EQ(racks(), "s0: n1; top/s1: n5 n6 n7 n8; top/s2: n2 n3; ");
}

TEST_F(KubernetesImportTest, FaultsHaveFilesAndPathsAndComeInOneRun) {
  items_ = {{"1", R"({"kind": "Node", "apiVersion": "v1", "metadata": {}})"},
            {"2", R"({"metadata": {"name": "x"}})"},
            {"3", "7"},
            {"4", R"({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p", "name": "q"}})"},
            {"5", pod_object({"s-0", "n1"})},
            {"6", R"({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n"}, "status":)"
                  R"({"allocatable": {"nvidia.com/gpu": "8.5"}}})"}};
  EXPECT_EQ(shape(),
            "o:1: /items/0/metadata: Node: no name, expected an object of Kubernetes\n"
            "o:3: /items/2: expected an object of Kubernetes\n"
            "o:4: /items/3/metadata: the field \"name\" stands there twice\n"
            "o:6: /items/5/status/allocatable/nvidia.com~1gpu: Node \"n\": expected a whole number "
            "of GPUs\n"
            "o:2: /items/1: no kind, expected an object as `kubectl get -o json` prints it\n");
}

TEST(KubernetesFiles, OneMessageEach) {
  Diagnostics diagnostics;
  KubernetesFiles files;
  files.objects = {"/none/such", "-", "-"};
  EXPECT_FALSE(import_kubernetes(files, diagnostics));
  EXPECT_THAT(diagnostics.text(), HasSubstr("standard input can be only one of the files"));
  Diagnostics missing;
  files.objects = {"/none/such", "/none/other"};
  EXPECT_FALSE(import_kubernetes(files, missing));
  EXPECT_THAT(missing.text(), HasSubstr("/none/such: cannot open"));
  EXPECT_THAT(missing.text(), HasSubstr("/none/other: cannot open"));
}

/// Lists of the server itself name the kind once.
TEST(KubernetesFiles, ListsOfTheServerAreReadAsWell) {
  const std::string text =
      R"({"kind": "NodeList", "apiVersion": "v1", "items": [{"metadata": {"name": "n1",)"
      R"("labels": {"rack": "a"}}, "status": {"allocatable": {"nvidia.com/gpu": "8"}}}]})";
  KubeSeen seen;
  KubeFacts facts;
  Diagnostics diagnostics;
  EXPECT_TRUE(read_kube_list(bytes_of(text), "o", {}, seen, facts, diagnostics))
      << diagnostics.text();
  EXPECT_EQ(facts.nodes.at("n1").gpus, 8);
  const std::string sorted =
      R"({"apiVersion": "v1", "items": [{"metadata": {"name": "n2"}, "status":)"
      R"({"allocatable": {"nvidia.com/gpu": "4"}}}], "kind": "NodeList"})";
  EXPECT_TRUE(read_kube_list(bytes_of(sorted), "o", {}, seen, facts, diagnostics))
      << diagnostics.text();
  EXPECT_EQ(facts.nodes.at("n2").gpus, 4);
  EXPECT_FALSE(read_kube_list(bytes_of("{}"), "o", {}, seen, facts, diagnostics));
  EXPECT_THAT(diagnostics.text(), HasSubstr("no field \"items\""));
}

TEST(KubernetesFiles, ASingleObjectAndAMarkOfByteOrderAreRead) {
  KubeSeen seen;
  KubeFacts facts;
  Diagnostics diagnostics;
  const std::string node =
      R"({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "status":)"
      R"({"allocatable": {"nvidia.com/gpu": "8"}}})";
  EXPECT_TRUE(read_kube_list(bytes_of("\xEF\xBB\xBF" + node), "one", {}, seen, facts, diagnostics))
      << diagnostics.text();
  EXPECT_EQ(facts.nodes.at("n1").gpus, 8);
  EXPECT_EQ(diagnostics.text(), "");
  // The same in another file: it is read, and said.
  const std::string list = R"({"kind": "List", "items": [)" + node + "]}";
  EXPECT_TRUE(read_kube_list(bytes_of(list), "two", {}, seen, facts, diagnostics));
  EXPECT_THAT(diagnostics.text(), HasSubstr("two:1: /items/0"));
  EXPECT_THAT(diagnostics.text(), HasSubstr("\"n1\" stands there in one as well, the last counts"));
  for (const char* bad : {"\xEF\xBB", "\xEF\xBB\xBF", "\xEF\xBB\xBF\xEF\xBB\xBF{}",
                          R"({"kind": "Node", "apiVersion": "v1", "metadata": {}})"}) {
    Diagnostics faults;
    EXPECT_FALSE(read_kube_list(bytes_of(bad), "o", {}, seen, facts, faults)) << bad;
    EXPECT_TRUE(faults.has_errors());
  }
}

}  // namespace
}  // namespace monkeytree
