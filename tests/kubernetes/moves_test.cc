// The steps of a move on a real control plane: its scheduler, its controllers of StatefulSets and
// Jobs, its admission. Only the kubelets are stand-ins.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <tuple>

#include "base/eventually.h"
#include "kubernetes/cluster_watch.h"
#include "kubernetes/scheduler.h"
#include "lab.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

Deadline soon() { return Clock::now() + seconds(90); }

class KubernetesMoves : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!KubeControlPlane::missing().empty()) return;
    lab_ = std::make_unique<KubeLab>(2);
    if (!lab_->good()) return;
    lab_->place("s", "StatefulSet", {1, 3});
    lab_->place("j", "Job", {2, 4});
    lab_->register_webhook();
  }
  static void TearDownTestSuite() { lab_.reset(); }

  void SetUp() override {
    const std::string missing = KubeControlPlane::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    ASSERT_TRUE(lab_ && lab_->good());
    renew();
  }
  void TearDown() override {
    if (!lab_) return;
    EXPECT_THAT(lab_->nodes_with_our_taint(), IsEmpty());
    EXPECT_EQ(lab_->move_objects(), 0);
  }

  /// The scheduler of a controller that has just started.
  void renew(bool listening = true) {
    scheduler_.reset();
    KubernetesSettings settings;
    settings.kubeconfig = lab_->kubeconfig();
    settings.racks.rack_label = "example.com/rack";
    settings.racks.parent_labels = {"example.com/row"};
    settings.uplinks = "2";
    settings.webhook = {"127.0.0.1", lab_->webhook_port(), lab_->certificate(), lab_->key()};
    scheduler_ = std::make_unique<KubernetesScheduler>(settings);
    if (listening) {
      ASSERT_EQ(scheduler_->listen(), absl::OkStatus());
    }
    const absl::StatusOr<Observation> seen = scheduler_->observe(soon());
    ASSERT_TRUE(seen.ok()) << seen.status();
  }

  static WorkerName worker(const std::string& app, int number) {
    return {app == "s" ? "ml.statefulset.s" : "ml.job." + app, 0, number};
  }

  /// Nodes of the job's other workers, and none for this one.
  static std::vector<std::string> order(const std::string& app, const std::string& from) {
    std::vector<std::string> out;
    for (const KubeLab::Pod& pod : lab_->pods_of(app)) {
      out.push_back(pod.node == from ? "" : pod.node);
    }
    return out;
  }

  absl::Status leave(const WorkerName& who, const std::string& app, const std::string& from) {
    return again([&] { return scheduler_->give_back(who, from, order(app, from), soon()); });
  }

  absl::Status come(const WorkerName& who, const std::string& to, const std::string& reservation,
                    const std::string& migration) {
    const absl::StatusOr<Hold> held = scheduler_->hold(who, to, reservation, soon());
    if (!held.ok()) return held.status();
    WorkerCommand command;
    command.environment["MONKEYTREE_SUCCESSOR_OF"] = migration;
    return scheduler_->start(*held, command, soon());
  }

  absl::Status finish(const WorkerName& who) {
    return again([&] { return scheduler_->give_back(who, "", {}, soon()); });
  }

  /// What the watch has not shown yet is asked for again, as the controller does.
  static absl::Status again(const std::function<absl::Status()>& step) {
    absl::Status status;
    eventually([&] { return !absl::IsUnavailable(status = step()); });
    return status;
  }

  static std::string node_of(const std::string& app, const std::set<std::string>& not_uids) {
    for (const KubeLab::Pod& pod : lab_->pods_of(app)) {
      if (!not_uids.contains(pod.uid)) return pod.node;
    }
    return "";
  }

  /// "kubectl auth can-i" as the controller's account.
  static bool can(const std::string& verb, const std::string& group, const std::string& resource,
                  const std::string& space, const std::string& part = "") {
    std::string answer;
    const Json ask = {{"kind", "SelfSubjectAccessReview"},
                      {"apiVersion", "authorization.k8s.io/v1"},
                      {"spec",
                       {{"resourceAttributes",
                         {{"verb", verb},
                          {"group", group},
                          {"resource", resource},
                          {"subresource", part},
                          {"namespace", space}}}}}};
    lab_->plane().status_of("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                            ask.dump(), lab_->token(), "application/json", &answer);
    return Json::parse(answer)["status"]["allowed"];
  }

  static std::unique_ptr<KubeLab> lab_;
  std::unique_ptr<KubernetesScheduler> scheduler_;
};

std::unique_ptr<KubeLab> KubernetesMoves::lab_;

TEST_F(KubernetesMoves, AHundredLandWhereTheyBelongThoughOthersWantTheNodes) {
  const int moves = 100;
  int landed = 0;
  for (int i = 0; i < moves; ++i) {
    const std::string app = i % 2 == 0 ? "s" : "j";
    const std::string plan = fmt::format("plan-{}", i);
    const std::vector<KubeLab::Pod> pods = lab_->pods_of(app);
    ASSERT_EQ(pods.size(), 2u);
    const KubeLab::Pod leaving = pods[static_cast<size_t>(i / 2 % 2)];
    const KubeLab::Pod sibling = pods[static_cast<size_t>(1 - i / 2 % 2)];
    std::set<std::string> free = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"};
    for (const char* job : {"s", "j"}) {
      for (const KubeLab::Pod& pod : lab_->pods_of(job)) free.erase(pod.node);
    }
    const std::string to = *std::next(free.begin(), i % static_cast<int>(free.size()));
    const WorkerName who = worker(app, i / 2 % 2);
    ASSERT_EQ(scheduler_->reserve(plan, {leaving.node, to}, soon()), absl::OkStatus());
    // More pods than nodes are free, with the source and the destination.
    const std::string others = fmt::format("others-{}", i);
    lab_->plane().create(fmt::format(
        "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: {0}\n  namespace: ml\nspec:\n"
        "  parallelism: 7\n  template:\n    metadata: {{labels: {{app: {0}}}}}\n    spec:\n"
        "      restartPolicy: Never\n      containers:\n      - name: c\n        image: none\n"
        "        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
        others));
    ASSERT_EQ(leave(who, app, leaving.node), absl::OkStatus());
    ASSERT_EQ(come(who, to, plan, fmt::format("{}.1.0", i)), absl::OkStatus());
    ASSERT_EQ(finish(who), absl::OkStatus());
    std::set<std::string> taken;
    EXPECT_TRUE(eventually([&] {
      taken.clear();
      for (const KubeLab::Pod& pod : lab_->pods_of(others)) {
        if (!pod.node.empty()) taken.insert(pod.node);
      }
      return taken.size() == free.size() - 1;
    }));
    EXPECT_FALSE(taken.contains(to) || taken.contains(leaving.node));
    const std::set<std::string> uids = lab_->uids_of(app);
    EXPECT_EQ(uids.size(), 2u);
    EXPECT_TRUE(uids.contains(sibling.uid)) << "the sibling was not left alone";
    landed += node_of(app, {sibling.uid}) == to && !uids.contains(leaving.uid) ? 1 : 0;
    ASSERT_EQ(scheduler_->unreserve(plan, soon()), absl::OkStatus());
    if (i == 0) {  // What was let go is anybody's again.
      EXPECT_TRUE(eventually([&] {
        for (const KubeLab::Pod& pod : lab_->pods_of(others)) {
          if (pod.node == leaving.node) return true;
        }
        return false;
      }));
    }
    lab_->remove(others, "Job");
  }
  EXPECT_EQ(landed, moves);
}

TEST_F(KubernetesMoves, ARestartBetweenAnyTwoStepsChangesNothing) {
  const KubeLab::Pod leaving = lab_->pods_of("s")[1];
  const KubeLab::Pod sibling = lab_->pods_of("s")[0];
  std::string to;
  for (int i = 1; i <= 8 && to.empty(); ++i) {
    std::string node = fmt::format("n{}", i);
    bool used = false;
    for (const char* job : {"s", "j"}) {
      for (const KubeLab::Pod& pod : lab_->pods_of(job)) used |= pod.node == node;
    }
    if (!used) to = node;
  }
  const WorkerName who = worker("s", 1);
  ASSERT_EQ(scheduler_->reserve("plan-1", {leaving.node, to}, soon()), absl::OkStatus());
  renew();
  EXPECT_EQ(scheduler_->observe(soon())->reservations, std::vector<std::string>{"plan-1"});
  ASSERT_EQ(leave(who, "s", leaving.node), absl::OkStatus());
  renew();
  EXPECT_EQ(leave(who, "s", leaving.node), absl::OkStatus()) << "once more is as once";
  EXPECT_EQ(scheduler_->booked(who.job, soon()).value(), std::vector<std::string>{sibling.node});
  EXPECT_EQ(scheduler_->observe(soon())->holds.size(), 1u);
  const absl::StatusOr<Hold> held = scheduler_->hold(who, to, "plan-1", soon());
  ASSERT_TRUE(held.ok()) << held.status();
  renew();
  EXPECT_EQ(*scheduler_->hold(who, to, "plan-1", soon()), *held);
  WorkerCommand command;
  command.environment["MONKEYTREE_SUCCESSOR_OF"] = "1.1.0";
  ASSERT_EQ(scheduler_->start(*held, command, soon()), absl::OkStatus());
  const std::set<std::string> uids = lab_->uids_of("s");
  renew();
  ASSERT_EQ(scheduler_->start(*held, command, soon()), absl::OkStatus());
  EXPECT_EQ(lab_->uids_of("s"), uids) << "it has come already";
  // For a later migration another must come.
  command.environment["MONKEYTREE_SUCCESSOR_OF"] = "1.2.0";
  ASSERT_EQ(scheduler_->start(*held, command, soon()), absl::OkStatus());
  EXPECT_NE(lab_->uids_of("s"), uids);
  EXPECT_TRUE(lab_->uids_of("s").contains(sibling.uid));
  renew();
  ASSERT_EQ(finish(who), absl::OkStatus());
  renew();
  ASSERT_EQ(scheduler_->unreserve("plan-1", soon()), absl::OkStatus());
  EXPECT_EQ(node_of("s", {sibling.uid}), to);
}

TEST_F(KubernetesMoves, WithoutTheWebhookNothingComesUntilItIsBack) {
  const KubeLab::Pod leaving = lab_->pods_of("s")[1];
  const WorkerName who = worker("s", 1);
  renew(/*listening=*/false);
  ASSERT_EQ(scheduler_->reserve("plan-1", {leaving.node}, soon()), absl::OkStatus());
  ASSERT_EQ(leave(who, "s", leaving.node), absl::OkStatus());
  const absl::StatusOr<Hold> held = scheduler_->hold(who, leaving.node, "plan-1", soon());
  ASSERT_TRUE(held.ok()) << held.status();
  WorkerCommand command;
  command.environment["MONKEYTREE_SUCCESSOR_OF"] = "1.1.0";
  EXPECT_TRUE(absl::IsDeadlineExceeded(
      scheduler_->start(*held, command, Clock::now() + std::chrono::seconds(2))));
  EXPECT_EQ(lab_->pods_of("s").size(), 1u);
  renew();
  ASSERT_EQ(come(who, leaving.node, "plan-1", "1.2.0"), absl::OkStatus());
  ASSERT_EQ(finish(who), absl::OkStatus());
  ASSERT_EQ(scheduler_->unreserve("plan-1", soon()), absl::OkStatus());
  EXPECT_EQ(lab_->pods_of("s")[1].node, leaving.node);
}

TEST_F(KubernetesMoves, ABudgetThatAllowsNothingIsKept) {
  lab_->plane().create(
      "apiVersion: policy/v1beta1\nkind: PodDisruptionBudget\nmetadata:\n  name: keep\n"
      "  namespace: ml\nspec:\n  minAvailable: 2\n  selector: {matchLabels: {app: s}}");
  const std::set<std::string> uids = lab_->uids_of("s");
  EXPECT_TRUE(eventually([&] {
    const Json budget =
        lab_->plane().call("GET", "/apis/policy/v1beta1/namespaces/ml/poddisruptionbudgets/keep");
    return budget["status"].value("currentHealthy", 0) == 2;
  }));
  const WorkerName who = worker("s", 1);
  const std::string node = lab_->pods_of("s")[1].node;
  const absl::Status status = leave(who, "s", node);
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("may not be evicted now"));
  EXPECT_EQ(lab_->uids_of("s"), uids);
  EXPECT_EQ(scheduler_->cancel({"", who, ""}, soon()), absl::OkStatus());
  lab_->plane().call("DELETE", "/apis/policy/v1beta1/namespaces/ml/poddisruptionbudgets/keep");
}

TEST_F(KubernetesMoves, WhatSomebodyElseHasChangedIsLeftAsItIs) {
  const KubeLab::Pod leaving = lab_->pods_of("s")[1];
  const WorkerName who = worker("s", 1);
  std::jthread restless([&](const std::stop_token& stop) {
    for (int i = 0; !stop.stop_requested(); ++i) {
      lab_->plane().call("PATCH", "/api/v1/nodes/" + leaving.node,
                         {{"metadata", {{"annotations", {{"x", std::to_string(i)}}}}}});
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  // Taints of others stay, whatever comes in between.
  lab_->plane().call(
      "PATCH", "/api/v1/nodes/" + leaving.node,
      {{"spec", {{"taints", {{{"key", "theirs"}, {"effect", "PreferNoSchedule"}}}}}}});
  EXPECT_EQ(again([&] { return scheduler_->reserve("plan-1", {leaving.node}, soon()); }),
            absl::OkStatus());
  restless.request_stop();
  restless.join();
  EXPECT_TRUE(absl::IsAborted(scheduler_->reserve("plan-2", {leaving.node}, soon())));
  ASSERT_EQ(leave(who, "s", leaving.node), absl::OkStatus());
  const Json maps = lab_->plane().call("GET", "/api/v1/namespaces/monkeytree/configmaps");
  std::string name;
  for (const Json& map : maps["items"]) {
    const std::string each = map["metadata"]["name"];
    if (each.starts_with("move-")) name = each;
  }
  lab_->plane().call("PATCH", "/api/v1/namespaces/monkeytree/configmaps/" + name,
                     {{"metadata", {{"annotations", {{"x", "y"}}}}}});
  EXPECT_TRUE(absl::IsAborted(scheduler_->hold(who, leaving.node, "plan-1", soon()).status()));
  EXPECT_EQ(come(who, leaving.node, "plan-1", "1.2.0"), absl::OkStatus()) << "now it is known";
  ASSERT_EQ(finish(who), absl::OkStatus());
  ASSERT_EQ(scheduler_->unreserve("plan-1", soon()), absl::OkStatus());
  const Json node = lab_->plane().call("GET", "/api/v1/nodes/" + leaving.node);
  EXPECT_EQ(node["spec"]["taints"].size(), 1u);
  lab_->plane().call("PATCH", "/api/v1/nodes/" + leaving.node, {{"spec", {{"taints", nullptr}}}});
}

TEST_F(KubernetesMoves, ANodeThatVanishesIsNotWaitedFor) {
  const KubeLab::Pod leaving = lab_->pods_of("s")[1];
  const WorkerName who = worker("s", 1);
  for (const char* name : {"v1", "v2"}) {
    lab_->plane().add_node(name, {{"example.com/rack", "d"}, {"example.com/row", "row"}}, 8);
  }
  ASSERT_EQ(again([&] {
              return scheduler_->reserve("plan-1", {leaving.node, "v1", "v2"}, soon());
            }),
            absl::OkStatus());
  ASSERT_EQ(leave(who, "s", leaving.node), absl::OkStatus());
  lab_->plane().call("DELETE", "/api/v1/nodes/v1");
  EXPECT_TRUE(absl::IsNotFound(scheduler_->hold(who, "v1", "plan-1", soon()).status()));
  const absl::StatusOr<Hold> held = scheduler_->hold(who, "v2", "plan-1", soon());
  ASSERT_TRUE(held.ok()) << held.status();
  lab_->plane().call("DELETE", "/api/v1/nodes/v2");
  WorkerCommand command;
  command.environment["MONKEYTREE_SUCCESSOR_OF"] = "1.1.0";
  EXPECT_TRUE(absl::IsFailedPrecondition(scheduler_->start(*held, command, soon())));
  EXPECT_EQ(scheduler_->cancel(*held, soon()), absl::OkStatus());
  EXPECT_EQ(come(who, leaving.node, "plan-1", "1.2.0"), absl::OkStatus()) << "home";
  ASSERT_EQ(finish(who), absl::OkStatus());
  ASSERT_EQ(scheduler_->unreserve("plan-1", soon()), absl::OkStatus());
  EXPECT_EQ(lab_->pods_of("s")[1].node, leaving.node);
}

TEST_F(KubernetesMoves, AServerThatHasForgottenIsListedAnew) {
  const absl::StatusOr<KubeAccess> access = read_kubeconfig(lab_->kubeconfig(), "");
  ASSERT_TRUE(access.ok());
  KubeClusterWatch watch(*access, {}, {}, [] {});
  ASSERT_EQ(watch.wait_listed(soon()), absl::OkStatus());
  EXPECT_EQ(watch.states()[KubeKind::kPod].lists, 1);
  for (int i = 0; i < 20; ++i) {
    lab_->plane().create(
        fmt::format("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{}\n  namespace: ml", i));
  }
  lab_->plane().kill("kube-apiserver");
  lab_->plane().compact();
  lab_->plane().restart("kube-apiserver");
  const std::string node = lab_->pods_of("s")[0].node;
  EXPECT_TRUE(eventually([&] { return watch.states()[KubeKind::kPod].lists > 1; }));
  // Steps go on as if nothing had been.
  EXPECT_EQ(again([&] { return scheduler_->reserve("plan-1", {node}, soon()); }), absl::OkStatus());
  EXPECT_EQ(again([&] { return scheduler_->unreserve("plan-1", soon()); }), absl::OkStatus());
}

/// A kind whose own controller does not run here: objects of its documented shape in the real
/// server, and the test makes its next pod. Kueue books it by hosts.
TEST_F(KubernetesMoves, APyTorchJobMovesAndKueuesBooksFollow) {
  for (const auto& [name, group, plural] :
       {std::tuple("PyTorchJob", "kubeflow.org", "pytorchjobs"),
        std::tuple("Workload", "kueue.x-k8s.io", "workloads")}) {
    const std::string version = std::string(name) == "Workload" ? "v1beta1" : "v1";
    lab_->plane().create(fmt::format(
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n"
        "  name: {0}.{1}\nspec:\n  group: {1}\n  scope: Namespaced\n  names: {{kind: {2}, plural: "
        "{0}}}\n  versions:\n  - name: {3}\n    served: true\n    storage: true\n"
        "    subresources: {{status: {{}}}}\n    schema: {{openAPIV3Schema: {{type: object, "
        "x-kubernetes-preserve-unknown-fields: true}}}}\n",
        plural, group, name, version));
  }
  const std::string jobs = "/apis/kubeflow.org/v1/namespaces/ml/pytorchjobs";
  const std::string workloads = "/apis/kueue.x-k8s.io/v1beta1/namespaces/ml/workloads";
  EXPECT_TRUE(eventually([&] {
    return lab_->plane().status_of("GET", workloads, "", "administrator") == 200 &&
           lab_->plane().status_of("GET", jobs, "", "administrator") == 200;
  }));
  const Json job = lab_->plane().call(
      "POST", jobs,
      Json::parse(R"({"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1", "metadata":
                      {"name": "p", "annotations": {"monkeytree/moves": "allowed",
                                                    "monkeytree/comment": "dp=2,tp=8,rings=1"}}})"));
  const std::string owners = fmt::format(
      R"([{{"kind": "PyTorchJob", "apiVersion": "kubeflow.org/v1", "name": "p", "uid": "{}",
           "controller": true}}])",
      job["metadata"]["uid"].get<std::string>());
  std::set<std::string> free = {"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"};
  for (const char* app : {"s", "j"}) {
    for (const KubeLab::Pod& pod : lab_->pods_of(app)) free.erase(pod.node);
  }
  ASSERT_EQ(free.size(), 4u);
  const std::vector<std::string> nodes(free.begin(), free.end());
  const auto make_pod = [&](const std::string& role, const std::string& node) {
    Json pod = Json::parse(fmt::format(
        R"({{"kind": "Pod", "apiVersion": "v1", "metadata": {{"name": "p-{0}-0", "labels":
            {{"app": "p", "training.kubeflow.org/job-name": "p",
              "training.kubeflow.org/replica-type": "{0}",
              "training.kubeflow.org/replica-index": "0"}}, "ownerReferences": {1}}},
            "spec": {{"containers": [{{"name": "c", "image": "none",
                      "resources": {{"limits": {{"nvidia.com/gpu": "8"}}}}}}]}}}})",
        role, owners));
    if (!node.empty()) pod["spec"]["nodeName"] = node;
    // As its controller does: again and again.
    std::string answer;
    EXPECT_TRUE(eventually([&] {
      return lab_->plane().status_of("POST", "/api/v1/namespaces/ml/pods", pod.dump(),
                                     "administrator", "application/json", &answer) == 201;
    })) << answer;
  };
  make_pod("master", nodes[0]);
  make_pod("worker", nodes[1]);
  lab_->plane().call(
      "POST", workloads,
      Json::parse(fmt::format(
          R"({{"kind": "Workload", "apiVersion": "kueue.x-k8s.io/v1beta1", "metadata":
              {{"name": "w", "ownerReferences": {}}}}})",
          owners)));
  const auto domain = [](const std::string& node) {
    return Json::parse(fmt::format(R"({{"values": ["{}"], "count": 1}})", node));
  };
  const auto set = [&](const std::string& name, const std::string& node) {
    return Json::parse(fmt::format(
        R"({{"name": "{}", "topologyAssignment": {{"levels": ["kubernetes.io/hostname"],
                                                   "domains": [{}]}}}})",
        name, domain(node).dump()));
  };
  const Json sets = Json::array({set("master", nodes[0]), set("worker", nodes[1])});
  const Json status = {{"status", {{"admission", {{"podSetAssignments", sets}}}}}};
  lab_->plane().call("PATCH", workloads + "/w/status", status);
  renew();  // which sees kinds that have come since
  const WorkerName who{"ml.pytorchjob.p", 0, 1};
  EXPECT_TRUE(eventually([&] {
    const absl::StatusOr<Observation> seen = scheduler_->observe(soon());
    return seen.ok() && !seen->unmovable.contains(who.job) && seen->snapshot.jobs.size() == 3;
  })) << scheduler_->observe(soon())->unmovable[who.job];
  const std::string master = lab_->pods_of("p")[0].uid;
  ASSERT_EQ(scheduler_->reserve("plan-1", {nodes[1], nodes[3]}, soon()), absl::OkStatus());
  ASSERT_EQ(leave(who, "p", nodes[1]), absl::OkStatus());
  std::jthread its_controller([&] { make_pod("worker", ""); });
  ASSERT_EQ(come(who, nodes[3], "plan-1", "1.1.0"), absl::OkStatus());
  its_controller.join();
  ASSERT_EQ(finish(who), absl::OkStatus());
  ASSERT_EQ(scheduler_->unreserve("plan-1", soon()), absl::OkStatus());
  EXPECT_EQ(node_of("p", {master}), nodes[3]);
  const Json after = lab_->plane().call("GET", workloads + "/w");
  const Json& books = after["status"]["admission"]["podSetAssignments"];
  EXPECT_EQ(books[0], sets[0]);
  EXPECT_EQ(books[1]["topologyAssignment"]["domains"], Json::array({domain(nodes[3])}));
  lab_->plane().call("DELETE", jobs + "/p");
  EXPECT_TRUE(eventually([&] { return lab_->pods_of("p").empty(); }));
}

TEST_F(KubernetesMoves, ItsRightsAreWhatItNeedsAndNoMore) {
  EXPECT_TRUE(can("patch", "", "nodes", ""));
  EXPECT_TRUE(can("create", "", "pods", "ml", "eviction"));
  EXPECT_TRUE(can("update", "", "configmaps", "monkeytree"));
  for (const char* verb : {"create", "update", "patch", "delete"}) {
    EXPECT_FALSE(can(verb, "", "pods", "ml")) << verb;
    EXPECT_FALSE(can(verb, "", "configmaps", "ml")) << verb;
    EXPECT_FALSE(can(verb, "apps", "statefulsets", "ml")) << verb;
    EXPECT_FALSE(can(verb, "batch", "jobs", "ml")) << verb;
    EXPECT_FALSE(can(verb, "kueue.x-k8s.io", "workloads", "ml")) << verb;
    EXPECT_FALSE(can(verb, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", ""));
  }
  for (const char* verb : {"create", "update", "delete"}) EXPECT_FALSE(can(verb, "", "nodes", ""));
  EXPECT_FALSE(can("get", "", "secrets", "monkeytree"));
  EXPECT_FALSE(can("get", "", "secrets", "ml"));
  EXPECT_FALSE(can("get", "", "configmaps", "ml"));
  EXPECT_FALSE(can("watch", "", "configmaps", "monkeytree"));
}

}  // namespace
}  // namespace monkeytree
