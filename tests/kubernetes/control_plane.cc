#include "control_plane.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::json;

/// How long a control plane may take to be ready, on the busiest of machines.
constexpr std::chrono::minutes kPatience{5};
constexpr const char* kToken = "administrator";
const std::vector<std::string> kPrograms = {"etcd", "kube-apiserver", "kube-scheduler",
                                            "kube-controller-manager"};

std::string programs_folder() {
  const std::string command = std::string(MONKEYTREE_SOURCE_DIR) + "/scripts/kubernetes --where";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return "";
  char line[4096] = {};
  const char* got = fgets(line, sizeof line, pipe);
  pclose(pipe);
  std::string out = got == nullptr ? "" : line;
  while (!out.empty() && out.back() == '\n') out.pop_back();
  return out;
}

/// Folders of owners that are no more.
void sweep(const std::filesystem::path& parent, const std::string& prefix) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(parent, error)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with(prefix)) continue;
    const int owner = std::atoi(name.c_str() + prefix.size());
    if (owner > 0 && ::kill(owner, 0) != 0) std::filesystem::remove_all(entry.path(), error);
  }
}

void write(const std::string& file, const std::string& text) { std::ofstream(file) << text; }

/// Where objects of that kind are made.
std::string collection_of(const std::string& kind, const std::string& space) {
  const std::string in = space.empty() ? "" : fmt::format("namespaces/{}/", space);
  static const std::map<std::string, std::pair<std::string, std::string>> kKinds = {
      {"Namespace", {"/api/v1/", "namespaces"}},
      {"Node", {"/api/v1/", "nodes"}},
      {"Pod", {"/api/v1/", "pods"}},
      {"ServiceAccount", {"/api/v1/", "serviceaccounts"}},
      {"StatefulSet", {"/apis/apps/v1/", "statefulsets"}},
      {"Deployment", {"/apis/apps/v1/", "deployments"}},
      {"Job", {"/apis/batch/v1/", "jobs"}},
      {"ConfigMap", {"/api/v1/", "configmaps"}},
      {"PersistentVolumeClaim", {"/api/v1/", "persistentvolumeclaims"}},
      {"Service", {"/api/v1/", "services"}},
      {"DaemonSet", {"/apis/apps/v1/", "daemonsets"}},
      {"CustomResourceDefinition", {"/apis/apiextensions.k8s.io/v1/", "customresourcedefinitions"}},
      {"MutatingWebhookConfiguration",
       {"/apis/admissionregistration.k8s.io/v1/", "mutatingwebhookconfigurations"}},
      {"Role", {"/apis/rbac.authorization.k8s.io/v1/", "roles"}},
      {"RoleBinding", {"/apis/rbac.authorization.k8s.io/v1/", "rolebindings"}},
      {"PodDisruptionBudget", {"/apis/policy/v1beta1/", "poddisruptionbudgets"}},
      {"ClusterRole", {"/apis/rbac.authorization.k8s.io/v1/", "clusterroles"}},
      {"ClusterRoleBinding", {"/apis/rbac.authorization.k8s.io/v1/", "clusterrolebindings"}},
  };
  const auto found = kKinds.find(kind);
  if (found == kKinds.end()) return "";
  return fmt::format("{}{}{}", found->second.first, in, found->second.second);
}

/// The value behind "key:" at the front of a line, or two blanks in.
std::string yaml_field(const std::string& document, const std::string& key) {
  std::istringstream lines(document);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(key + ": ")) return line.substr(key.size() + 2);
  }
  return "";
}

}  // namespace

std::string KubeControlPlane::missing() {
  const std::string folder = programs_folder();
  for (const std::string& program : kPrograms) {
    if (access(fmt::format("{}/{}", folder, program).c_str(), X_OK) != 0) {
      return fmt::format("no {} in {}: scripts/kubernetes builds it", program, folder);
    }
  }
  return std::system("openssl version >/dev/null 2>&1") == 0 ? "" : "no openssl";
}

std::unique_ptr<KubeControlPlane> KubeControlPlane::start() {
  std::unique_ptr<KubeControlPlane> plane(new KubeControlPlane());
  if (!plane->prepare()) return nullptr;
  for (const std::string& program : kPrograms) {
    plane->launch(program);
    if (program == "kube-apiserver" && !plane->wait_ready()) return nullptr;
  }
  plane->kubelets_ =
      std::jthread([raw = plane.get()](const std::stop_token& stop) { raw->stand_in(stop); });
  return plane;
}

KubeControlPlane::~KubeControlPlane() {
  if (kubelets_.joinable()) {
    kubelets_.request_stop();
    kubelets_.join();
  }
  processes_.clear();
  if (::testing::Test::HasFailure() && std::getenv("MONKEYTREE_KEEP") != nullptr) return;
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

bool KubeControlPlane::prepare() {
  programs_ = programs_folder();
  const std::string prefix = "monkeytree_kube_plane_";
  sweep(::testing::TempDir(), prefix);
  folder_ = fmt::format("{}{}{}", ::testing::TempDir(), prefix, getpid());
  std::filesystem::remove_all(folder_);
  std::filesystem::create_directories(folder_);
  for (const char* use : {"etcd", "etcd-peer", "kube-apiserver"}) ports_[use] = free_port();
  write(folder_ + "/tokens.csv", fmt::format("{},admin,admin,\"system:masters\"\n", kToken));
  const std::string make = fmt::format(
      "cd '{}' && exec >openssl.log 2>&1 && openssl genrsa -out account.key 2048 && "
      "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -keyout ca.key -out ca.pem "
      "-subj /CN=test-authority && openssl req -newkey rsa:2048 -nodes -keyout server.key "
      "-out server.csr -subj /CN=kube-apiserver && printf "
      "'subjectAltName=IP:127.0.0.1' > san && openssl x509 -req -in server.csr "
      "-CA ca.pem -CAkey ca.key -CAcreateserial -days 30 -extfile san -out server.pem && "
      "openssl req -newkey rsa:2048 -nodes -keyout client.key -out client.csr "
      "-subj /O=system:masters/CN=client && openssl x509 -req -in client.csr -CA ca.pem "
      "-CAkey ca.key -CAcreateserial -days 30 -out client.pem && openssl req -x509 "
      "-newkey rsa:2048 -nodes -days 30 -keyout other.key -out other.pem -subj /CN=other",
      folder_);
  if (std::system(make.c_str()) != 0) {
    ADD_FAILURE() << "openssl could not make certificates: " << folder_ << "/openssl.log";
    return false;
  }
  kubeconfig("admin");
  return true;
}

std::string KubeControlPlane::server() const {
  return fmt::format("https://127.0.0.1:{}", ports_.at("kube-apiserver"));
}

std::string KubeControlPlane::kubeconfig(const std::string& name, const std::string& token) const {
  std::string user = fmt::format("token: {}", kToken);
  if (!token.empty()) {
    write(folder_ + "/" + name + ".token", token);
    user = fmt::format("tokenFile: {}.token", name);
  }
  std::string file = folder_ + "/" + name + ".kubeconfig";
  write(file, fmt::format("apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts:\n"
                          "- name: c\n  context: {{cluster: k, user: u}}\nclusters:\n- name: k\n"
                          "  cluster: {{server: '{}', certificate-authority: ca.pem}}\n"
                          "users:\n- name: u\n  user: {{{}}}\n",
                          server(), user));
  return file;
}

std::vector<std::string> KubeControlPlane::arguments_of(const std::string& program) const {
  const std::string etcd = fmt::format("http://127.0.0.1:{}", ports_.at("etcd"));
  const std::string peer = fmt::format("http://127.0.0.1:{}", ports_.at("etcd-peer"));
  if (program == "etcd") {
    return {"--data-dir=" + folder_ + "/etcd",       "--listen-client-urls=" + etcd,
            "--advertise-client-urls=" + etcd,       "--listen-peer-urls=" + peer,
            "--initial-advertise-peer-urls=" + peer, "--initial-cluster=default=" + peer};
  }
  if (program == "kube-apiserver") {
    return {"--etcd-servers=" + etcd, "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
            fmt::format("--secure-port={}", ports_.at("kube-apiserver")), "--insecure-port=0",
            "--tls-cert-file=" + folder_ + "/server.pem",
            "--tls-private-key-file=" + folder_ + "/server.key",
            "--token-auth-file=" + folder_ + "/tokens.csv",
            "--client-ca-file=" + folder_ + "/ca.pem", "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-account-key-file=" + folder_ + "/account.key",
            "--service-account-signing-key-file=" + folder_ + "/account.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            // No kubelet takes the taint of a new node away.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition"};
  }
  const std::string config = "--kubeconfig=" + folder_ + "/admin.kubeconfig";
  if (program == "kube-scheduler") {
    return {config, "--leader-elect=false", "--port=0", "--secure-port=0"};
  }
  return {config,
          "--leader-elect=false",
          "--port=0",
          "--secure-port=0",
          "--controllers=*,-nodelifecycle,-nodeipam,-cloud-node-lifecycle,-route,-service",
          "--service-account-private-key-file=" + folder_ + "/account.key"};
}

void KubeControlPlane::launch(const std::string& program) {
  std::vector<std::string> words = arguments_of(program);
  words.insert(words.begin(), programs_ + "/" + program);
  // kubeconfigs name what lies beside them.
  words.insert(words.begin(), {"env", "-C", folder_});
  processes_[program] = Process(words, {{"GOMAXPROCS", "2"}}, folder_ + "/" + program + ".log");
}

bool KubeControlPlane::wait_ready() {
  const Clock::time_point limit = Clock::now() + kPatience;
  while (Clock::now() < limit) {
    if (status_of("GET", "/readyz", "", kToken) == 200) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  std::ifstream log(folder_ + "/kube-apiserver.log");
  std::stringstream text;
  text << log.rdbuf();
  const std::string all = text.str();
  ADD_FAILURE() << "the apiserver is not ready:\n"
                << all.substr(all.size() > 3000 ? all.size() - 3000 : 0);
  return false;
}

int KubeControlPlane::status_of(const std::string& method, const std::string& path,
                                const std::string& body, const std::string& token,
                                const std::string& type, std::string* answer) const {
  httplib::SSLClient client("127.0.0.1", ports_.at("kube-apiserver"));
  client.set_ca_cert_path(folder_ + "/ca.pem");
  client.set_read_timeout(60, 0);
  httplib::Request request;
  request.method = method;
  request.path = path;
  request.headers = {{"Authorization", "Bearer " + token}};
  if (!body.empty()) {
    request.headers.emplace("Content-Type", type);
    request.body = body;
  }
  const httplib::Result result = client.send(request);
  if (!result) return 0;
  if (answer != nullptr) *answer = result->body;
  return result->status;
}

Json KubeControlPlane::call(const std::string& method, const std::string& path, const Json& body) {
  std::string answer;
  const std::string type = method == "PATCH" ? "application/merge-patch+json" : "application/json";
  const int status =
      status_of(method, path, body.is_null() ? "" : body.dump(), kToken, type, &answer);
  EXPECT_EQ(status / 100, 2) << method << " " << path << ": " << answer;
  return Json::parse(answer, nullptr, false);
}

void KubeControlPlane::create(const std::string& yaml) {
  std::string rest = yaml + "\n---\n";
  for (size_t end; (end = rest.find("\n---\n")) != std::string::npos;) {
    const std::string document = rest.substr(0, end + 1);
    rest.erase(0, end + 5);
    const std::string kind = yaml_field(document, "kind");
    if (kind.empty()) continue;
    const std::string path = collection_of(kind, yaml_field(document, "  namespace"));
    ASSERT_NE(path, "") << kind;
    std::string answer;
    const int status = status_of("POST", path, document, kToken, "application/yaml", &answer);
    EXPECT_EQ(status, 201) << path << ": " << answer;
  }
}

void KubeControlPlane::add_node(const std::string& name,
                                const std::map<std::string, std::string>& labels, int gpus) {
  Json all = labels;
  all["kubernetes.io/hostname"] = name;
  call("POST", "/api/v1/nodes",
       {{"kind", "Node"}, {"apiVersion", "v1"}, {"metadata", {{"name", name}, {"labels", all}}}});
  Json room = {{"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}};
  if (gpus > 0) room["nvidia.com/gpu"] = std::to_string(gpus);
  call("PATCH", "/api/v1/nodes/" + name + "/status",
       {{"status",
         {{"allocatable", room},
          {"capacity", room},
          {"conditions", {{{"type", "Ready"}, {"status", "True"}, {"reason", "Stand-in"}}}}}}});
}

void KubeControlPlane::cordon(const std::string& node, bool cordoned) {
  call("PATCH", "/api/v1/nodes/" + node, {{"spec", {{"unschedulable", cordoned}}}});
}

void KubeControlPlane::kill(const std::string& program) { processes_.erase(program); }

void KubeControlPlane::restart(const std::string& program) {
  kill(program);
  launch(program);
  wait_ready();
}

void KubeControlPlane::run(Containers containers) {
  const std::lock_guard lock(containers_mutex_);
  containers_ = std::move(containers);
}

std::string KubeControlPlane::token_of(const std::string& space, const std::string& account) {
  return call("POST", fmt::format("/api/v1/namespaces/{}/serviceaccounts/{}/token", space, account),
              {{"kind", "TokenRequest"},
               {"apiVersion", "authentication.k8s.io/v1"},
               {"spec", {{"audiences", {"https://kubernetes.default.svc"}}}}})["status"]["token"];
}

void KubeControlPlane::compact() {
  httplib::Client client("127.0.0.1", ports_.at("etcd"));
  const auto ask = [&](const char* path, const Json& body) {
    const httplib::Result answer = client.Post(path, body.dump(), "application/json");
    EXPECT_TRUE(answer && answer->status == 200) << path;
    return answer ? Json::parse(answer->body, nullptr, false) : Json();
  };
  const Json page = ask("/v3/kv/range", {{"key", "AA=="}, {"limit", "1"}});
  ask("/v3/kv/compaction", {{"revision", page["header"]["revision"]}, {"physical", true}});
}

void KubeControlPlane::stand_in(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::string answer;
    if (status_of("GET", "/api/v1/pods", "", kToken, "", &answer) == 200) {
      const Json pods = Json::parse(answer, nullptr, false);
      for (const Json& pod : pods.value("items", Json::array())) {
        const Json& meta = pod["metadata"];
        const std::string path =
            fmt::format("/api/v1/namespaces/{}/pods/{}", meta["namespace"].get<std::string>(),
                        meta["name"].get<std::string>());
        const std::string uid = meta["uid"];
        const std::unique_lock lock(containers_mutex_);
        if (meta.contains("deletionTimestamp")) {
          if (started_.erase(uid) > 0 && containers_.end) containers_.end(uid);
          status_of("DELETE", path, R"({"gracePeriodSeconds": 0})", kToken);
        } else if (pod["spec"].contains("nodeName") && pod["status"]["phase"] == "Pending") {
          if (started_.insert(uid).second && containers_.start) containers_.start(pod);
          status_of("PATCH", path + "/status",
                    R"({"status": {"phase": "Running", "startTime": "2026-11-30T12:00:00Z",)"
                    R"("conditions": [{"type": "Ready", "status": "True"}]}})",
                    kToken, "application/merge-patch+json");
        }
      }
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

}  // namespace monkeytree
