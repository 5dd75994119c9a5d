// A real control plane, whose scheduler places real pods of StatefulSets and Jobs: what is imported
// and what the controller observes are the racks and degrees that the server's own words give, and
// nothing is changed.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/eventually.h"
#include "base/file.h"
#include "control_plane.h"
#include "kubernetes/client.h"
#include "program.h"
#include "service/running_controller.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;
using ::testing::HasSubstr;

constexpr std::chrono::minutes kPatience{3};
const std::vector<std::string> kRacks = {"a", "b", "c", "d"};
constexpr int kNodesPerRack = 4;

std::string node_name(int i) { return "n" + std::to_string(i); }
std::string rack_of(const std::string& node) {
  return "row/" + kRacks[static_cast<size_t>((std::stoi(node.substr(1)) - 1) / kNodesPerRack)];
}

std::string source_file(const std::string& name) {
  std::ifstream stream(std::string(MONKEYTREE_SOURCE_DIR) + "/" + name);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

class KubernetesTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!KubeControlPlane::missing().empty()) return;
    plane_ = KubeControlPlane::start();
    if (plane_) build_cluster();
  }
  static void TearDownTestSuite() { plane_.reset(); }

  void SetUp() override {
    const std::string missing = KubeControlPlane::missing();
    if (!missing.empty()) GTEST_SKIP() << missing;
    ASSERT_TRUE(plane_);
  }

  /// Four racks of four nodes. Jobs a, b and c each lie in the first two racks, one more than their
  /// two uplinks take; the real scheduler binds every pod, and nodes that are closed steer it.
  static void build_cluster() {
    for (int i = 1; i <= kNodesPerRack * 4; ++i) {
      const std::string rack = rack_of(node_name(i));
      plane_->add_node(node_name(i),
                       {{"example.com/rack", rack.substr(4)}, {"example.com/row", "row"}}, 8);
    }
    plane_->add_node("control", {}, 0);
    plane_->create("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ml");
    plane_->create(source_file("packaging/kubernetes/observe/namespace.yaml"));
    // The manifests; the controller itself runs beside the cluster, as their account.
    plane_->create(source_file("packaging/kubernetes/observe/rights.yaml"));
    plane_->create(source_file("packaging/kubernetes/observe/controller.yaml"));
    place("a", "StatefulSet", {1, 2, 5});
    place("b", "StatefulSet", {3, 6});
    place("c", "Job", {4, 7});
    open({8, 9, 10, 11, 12, 13, 14, 15, 16});
    wait_for_quiet();
  }

  static void open(const std::set<int>& nodes) {
    for (int i = 1; i <= kNodesPerRack * 4; ++i) {
      plane_->cordon(node_name(i), !nodes.contains(i));
    }
  }

  static void place(const std::string& name, const std::string& kind, const std::set<int>& nodes) {
    open(nodes);
    const bool set = kind == "StatefulSet";
    plane_->create(
        "apiVersion: " + std::string(set ? "apps/v1" : "batch/v1") + "\nkind: " + kind +
        "\nmetadata:\n  name: " + name +
        "\n  namespace: ml\n  annotations: {monkeytree/comment: \"dp=" +
        std::to_string(nodes.size()) + ",tp=8,rings=1\"}\nspec:\n" +
        (set ? "  serviceName: s\n  selector: {matchLabels: {app: " + name + "}}\n  replicas: "
             : std::string("  parallelism: ")) +
        std::to_string(nodes.size()) + "\n  template:\n    metadata: {labels: {app: " + name +
        "}}\n    spec:\n" + (set ? "" : "      restartPolicy: Never\n") +
        "      containers:\n      - name: train\n        image: none\n        resources: {limits: "
        "{nvidia.com/gpu: 8}}\n");
    EXPECT_TRUE(eventually([&] {
      std::set<int> found;
      for (const auto& [pod, node] : pods_of(name)) {
        if (!node.empty()) found.insert(std::stoi(node.substr(1)));
      }
      return found == nodes;
    })) << name;
  }

  /// Node of each pod of a job that runs, as the server says.
  static std::map<std::string, std::string> pods_of(const std::string& job) {
    std::map<std::string, std::string> out;
    const Json pods = plane_->call("GET", "/api/v1/namespaces/ml/pods?labelSelector=app%3D" + job);
    for (const Json& pod : pods["items"]) {
      const bool runs = pod["status"]["phase"] == "Running";
      out[pod["metadata"]["name"]] = runs ? pod["spec"].value("nodeName", "") : "";
    }
    return out;
  }

  /// "kind namespace/name" → resourceVersion of everything but events.
  static std::map<std::string, std::string> versions() {
    std::map<std::string, std::string> out;
    for (const char* path :
         {"/api/v1/nodes", "/api/v1/pods", "/api/v1/namespaces", "/api/v1/configmaps",
          "/api/v1/secrets", "/api/v1/serviceaccounts", "/api/v1/services", "/api/v1/endpoints",
          "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims",
          "/apis/apps/v1/deployments", "/apis/apps/v1/replicasets", "/apis/apps/v1/statefulsets",
          "/apis/apps/v1/controllerrevisions", "/apis/batch/v1/jobs",
          "/apis/policy/v1beta1/poddisruptionbudgets", "/apis/coordination.k8s.io/v1/leases",
          "/apis/rbac.authorization.k8s.io/v1/clusterroles",
          "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"}) {
      const Json list = plane_->call("GET", path);
      for (const Json& item : list["items"]) {
        const Json& meta = item["metadata"];
        out[std::string(path) + " " + meta.value("namespace", "") + "/" +
            meta["name"].get<std::string>()] = meta["resourceVersion"];
      }
    }
    return out;
  }

  static void wait_for_quiet() {
    std::map<std::string, std::string> last;
    EXPECT_TRUE(eventually([&] {
      std::this_thread::sleep_for(std::chrono::seconds(1));
      std::map<std::string, std::string> now = versions();
      const bool quiet = now == last;
      last = std::move(now);
      return quiet;
    }));
  }

  /// Degree of each rack, counted from pods and nothing else.
  static std::map<std::string, int> degrees() {
    std::map<std::string, int> out;
    for (const std::string& rack : kRacks) out["row/" + rack] = 0;
    for (const char* job : {"a", "b", "c"}) {
      std::set<std::string> racks;
      for (const auto& [pod, node] : pods_of(job)) {
        if (!node.empty()) racks.insert(rack_of(node));
      }
      if (racks.size() < 2) continue;
      for (const std::string& rack : racks) ++out[rack];
    }
    return out;
  }

  /// What `analyze` says of a snapshot.
  static std::map<std::string, int> degrees_of(const std::string& snapshot) {
    ProgramSetting setting;
    setting.input = snapshot;
    const ProgramRun run = run_program({"analyze", "-", "--json"}, setting);
    EXPECT_EQ(run.exit_code, 0) << run.err << snapshot;
    const Json analysis = Json::parse(run.out, nullptr, false);
    return analysis.value("fragmentation", Json::object()).get<std::map<std::string, int>>();
  }

  /// What the controller shows now.
  static std::map<std::string, int> observed(const RunningController& controller) {
    std::map<std::string, int> out;
    httplib::Client client("http://" + controller.address());
    const httplib::Result answer = client.Get("/api/v1/fragmentation");
    const Json shown = Json::parse(answer ? answer->body : "", nullptr, false);
    if (!shown.is_object()) return out;
    for (const Json& rack : shown.value("racks", Json::array())) {
      out[rack["rack"]] = rack["degree"];
    }
    return out;
  }

  /// The configuration of a controller that comes as the account of the manifests.
  static std::string configuration() {
    const Json answer = plane_->call(
        "POST", "/api/v1/namespaces/monkeytree/serviceaccounts/monkeytree-controller/token",
        {{"kind", "TokenRequest"},
         {"apiVersion", "authentication.k8s.io/v1"},
         {"spec", {{"audiences", {"https://kubernetes.default.svc"}}}}});
    token_ = answer["status"]["token"];
    return "scheduler:\n  kind: kubernetes\n  kubeconfig: " +
           plane_->kubeconfig("observer", token_) +
           "\n  rack_label: example.com/rack\n  parent_labels: [example.com/row]\n  uplinks: 2\n"
           "poll_s: 1\n";
  }

  static std::unique_ptr<KubeControlPlane> plane_;
  static std::string token_;
};

std::unique_ptr<KubeControlPlane> KubernetesTest::plane_;
std::string KubernetesTest::token_;

TEST_F(KubernetesTest, TheImportGivesTheRacksAndDegreesOfTheServer) {
  const TemporaryFolder folder;
  std::vector<std::string> command = {"import", "kubernetes"};
  for (const char* path :
       {"/api/v1/nodes", "/api/v1/pods", "/apis/batch/v1/jobs", "/apis/apps/v1/statefulsets"}) {
    const std::string name = std::to_string(command.size());
    command.push_back(folder.write(name, plane_->call("GET", path).dump()));
  }
  command.insert(command.end(), {"--rack-label", "example.com/rack", "--parent-labels",
                                 "example.com/row", "--uplinks", "2"});
  const ProgramRun imported = run_program(command);
  ASSERT_EQ(imported.exit_code, 0) << imported.err;
  const std::string snapshot = folder.write("snapshot.json", imported.out);
  const std::map<std::string, int> expected = degrees();
  EXPECT_EQ(expected,
            (std::map<std::string, int>{{"row/a", 3}, {"row/b", 3}, {"row/c", 0}, {"row/d", 0}}));
  EXPECT_EQ(degrees_of(imported.out), expected);
  const ProgramRun planned = run_program({"plan", snapshot, "--json"});
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_EQ(Json::parse(planned.out)["moves"], 1);
}

TEST_F(KubernetesTest, TheServerProvesItsNameAndWeOurs) {
  const absl::StatusOr<KubeAccess> access = read_kubeconfig(plane_->kubeconfig("other"), "");
  ASSERT_TRUE(access.ok()) << access.status();
  const auto answer = [](const KubeAccess& how, const std::string& path) {
    KubeCredentials credentials(how);
    const auto connection = KubeConnection::open(how, credentials);
    if (!connection.ok()) return connection.status();
    return (*connection)->get(path, Clock::now() + kPatience).status();
  };
  EXPECT_EQ(answer(*access, "/api/v1/nodes?limit=1"), absl::OkStatus());
  KubeAccess other = *access;
  other.authority = *read_file(plane_->folder() + "/other.pem");
  EXPECT_TRUE(absl::IsUnavailable(answer(other, "/version"))) << "not the authority's server";
  other.any_server = true;
  EXPECT_EQ(answer(other, "/version"), absl::OkStatus());
  KubeAccess system = *access;
  system.authority.clear();
  EXPECT_TRUE(absl::IsUnavailable(answer(system, "/version"))) << "nor one of the system's";
  KubeAccess name = *access;
  name.host = "localhost";  // is the same machine, but not the name in the certificate
  EXPECT_FALSE(answer(name, "/version").ok());
  KubeAccess certified = *access;
  certified.token = "";
  EXPECT_FALSE(answer(certified, "/api/v1/nodes?limit=1").ok()) << "nobody";
  certified.certificate = *read_file(plane_->folder() + "/client.pem");
  certified.key = *read_file(plane_->folder() + "/client.key");
  EXPECT_EQ(answer(certified, "/api/v1/nodes?limit=1"), absl::OkStatus());
  certified.key = *read_file(plane_->folder() + "/other.key");
  EXPECT_TRUE(absl::IsInvalidArgument(answer(certified, "/version"))) << "they do not fit";
  KubeAccess stranger = *access;
  stranger.token = "nobody's";
  EXPECT_TRUE(absl::IsUnauthenticated(answer(stranger, "/version")));
}

TEST_F(KubernetesTest, TheControllerObservesAndChangesNothing) {
  const std::string text = configuration();
  wait_for_quiet();
  const std::map<std::string, std::string> before = versions();
  RunningController controller(text);
  const std::map<std::string, int> expected = degrees();
  EXPECT_TRUE(eventually([&] { return observed(controller) == expected; })) << controller.log();
  const std::string shown = controller.run({"status"}).out;
  EXPECT_THAT(shown, HasSubstr("Kubernetes v1.20"));
  EXPECT_THAT(shown, HasSubstr("row/a"));  // over its bound
  EXPECT_EQ(versions(), before);
  // It could not either.
  EXPECT_EQ(plane_->status_of("DELETE", "/api/v1/namespaces/ml/pods/a-0", "", token_), 403);
  EXPECT_EQ(plane_->status_of("PATCH", "/api/v1/nodes/n1", R"({"spec": {"unschedulable": true}})",
                              token_, "application/merge-patch+json"),
            403);
}

TEST_F(KubernetesTest, ItSeesWhatComesAndGoesAndARestartOfTheServer) {
  RunningController controller(configuration());
  const auto shows = [&](const std::map<std::string, int>& expected) {
    return eventually([&] { return observed(controller) == expected; });
  };
  const std::map<std::string, int> before = degrees();
  EXPECT_TRUE(shows(before)) << controller.log();
  plane_->restart("kube-apiserver");
  plane_->call("DELETE", "/apis/apps/v1/namespaces/ml/statefulsets/b",
               {{"propagationPolicy", "Background"}});
  EXPECT_TRUE(shows({{"row/a", 2}, {"row/b", 2}, {"row/c", 0}, {"row/d", 0}})) << controller.log();
  EXPECT_TRUE(eventually([&] { return pods_of("b").empty(); }));
  place("b", "StatefulSet", {3, 6});
  EXPECT_TRUE(shows(before)) << controller.log();
}

}  // namespace
}  // namespace monkeytree
