#include "lab.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/eventually.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

std::string text_of(const std::string& file) {
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

std::string manifest(const std::string& name) {
  return text_of(std::string(MONKEYTREE_SOURCE_DIR) + "/packaging/kubernetes/" + name);
}

std::string base64(const std::string& bytes) {
  constexpr const char* kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  unsigned held = 0;
  int bits = 0;
  for (const char c : bytes) {
    held = held << 8 | static_cast<unsigned char>(c);
    for (bits += 8; bits >= 6; bits -= 6) out += kLetters[held >> (bits - 6) & 63];
  }
  if (bits > 0) out += kLetters[held << (6 - bits) & 63];
  while (out.size() % 4 != 0) out += '=';
  return out;
}

}  // namespace

KubeLab::KubeLab(int nodes_per_rack, int racks) : nodes_per_rack_(nodes_per_rack), racks_(racks) {
  plane_ = KubeControlPlane::start();
  if (!plane_) return;
  for (int i = 1; i <= racks_ * nodes_per_rack; ++i) {
    const std::string node = fmt::format("n{}", i);
    plane_->add_node(
        node, {{"example.com/rack", rack_of(node).substr(4)}, {"example.com/row", "row"}}, 8);
  }
  plane_->create(
      "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: ml\n  labels: {monkeytree/moves: "
      "allowed}");
  plane_->create(manifest("observe/namespace.yaml"));
  plane_->create(manifest("observe/rights.yaml"));
  plane_->create(manifest("enforce/rights.yaml"));
  plane_->create(manifest("enforce/agents.yaml"));
  webhook_port_ = free_port();
  token_ = plane_->token_of("monkeytree", "monkeytree-controller");
  kubeconfig_ = plane_->kubeconfig("mover", token_);
}

void KubeLab::register_webhook() {
  // The controller runs beside the cluster: the server asks it by its address.
  std::string webhook = manifest("enforce/webhook.yaml");
  const std::string service =
      "service: {name: monkeytree-webhook, namespace: monkeytree, path: /pods, port: 443}";
  const size_t at = webhook.find(service);
  if (at == std::string::npos) {
    ADD_FAILURE() << "the manifest of the webhook names no service";
    return;
  }
  webhook.replace(at, service.size(),
                  fmt::format("{{url: 'https://127.0.0.1:{}/pods', caBundle: {}}}", webhook_port_,
                              base64(text_of(plane_->folder() + "/ca.pem"))));
  const std::string colon = "clientConfig:\n      {";
  const size_t brace = webhook.find(colon);
  if (brace != std::string::npos) webhook.replace(brace, colon.size(), "clientConfig: {");
  plane_->create(webhook);
}

std::string KubeLab::scheduler_section(int uplinks) const {
  return fmt::format(
      "scheduler:\n  kind: kubernetes\n  kubeconfig: {}\n  rack_label: example.com/rack\n"
      "  parent_labels: [example.com/row]\n  uplinks: {}\n  webhook: 127.0.0.1:{}\n"
      "  webhook_certificate: {}\n  webhook_key: {}\n",
      kubeconfig_, uplinks, webhook_port_, certificate(), key());
}

std::string KubeLab::rack_of(const std::string& node) const {
  return std::string("row/") +
         static_cast<char>('a' + (std::stoi(node.substr(1)) - 1) / nodes_per_rack_);
}

void KubeLab::open(const std::set<int>& nodes) {
  for (int i = 1; i <= racks_ * nodes_per_rack_; ++i) {
    plane_->cordon(fmt::format("n{}", i), !nodes.contains(i));
  }
}

void KubeLab::open_all() {
  std::set<int> all;
  for (int i = 1; i <= racks_ * nodes_per_rack_; ++i) all.insert(i);
  open(all);
}

void KubeLab::place(const std::string& name, const std::string& kind, const std::set<int>& nodes,
                    bool allowed, const std::string& more_labels) {
  open(nodes);
  const bool set = kind == "StatefulSet";
  const std::string labels =
      fmt::format("{{app: {}{}}}", name, more_labels.empty() ? "" : ", " + more_labels);
  plane_->create(fmt::format(
      "apiVersion: {}\nkind: {}\nmetadata:\n  name: {}\n  namespace: ml\n  annotations:\n"
      "    monkeytree/comment: \"dp={},tp=8,rings=1\"\n{}spec:\n{}  template:\n"
      "    metadata: {{labels: {}}}\n    spec:\n{}      containers:\n      - name: train\n"
      "        image: none\n        resources: {{limits: {{nvidia.com/gpu: 8}}}}\n",
      set ? "apps/v1" : "batch/v1", kind, name, nodes.size(),
      allowed ? "    monkeytree/moves: allowed\n" : "",
      set ? fmt::format("  serviceName: s\n  podManagementPolicy: Parallel\n"
                        "  selector: {{matchLabels: {{app: {}}}}}\n  replicas: {}\n",
                        name, nodes.size())
          : fmt::format("  backoffLimit: 1000\n  parallelism: {}\n", nodes.size()),
      labels, set ? "" : "      restartPolicy: Never\n"));
  EXPECT_TRUE(eventually([&] {
    std::set<int> found;
    for (const Pod& pod : pods_of(name)) {
      if (!pod.node.empty() && pod.phase == "Running") found.insert(std::stoi(pod.node.substr(1)));
    }
    return found == nodes;
  })) << name;
  open_all();
}

void KubeLab::remove(const std::string& name, const std::string& kind) {
  const bool set = kind == "StatefulSet";
  plane_->call("DELETE",
               fmt::format("/apis/{}/v1/namespaces/ml/{}/{}", set ? "apps" : "batch",
                           set ? "statefulsets" : "jobs", name),
               {{"propagationPolicy", "Background"}});
  EXPECT_TRUE(eventually([&] { return pods_of(name).empty(); })) << name;
}

std::vector<KubeLab::Pod> KubeLab::pods_of(const std::string& app) {
  std::vector<Pod> out;
  const Json pods = plane_->call("GET", "/api/v1/namespaces/ml/pods?labelSelector=app%3D" + app);
  for (const Json& pod : pods.value("items", Json::array())) {
    const Json& meta = pod["metadata"];
    if (meta.contains("deletionTimestamp")) continue;
    out.push_back({meta["name"], meta["uid"], pod["spec"].value("nodeName", ""),
                   pod["status"].value("phase", "")});
  }
  return out;
}

std::set<std::string> KubeLab::uids_of(const std::string& app) {
  std::set<std::string> out;
  for (const Pod& pod : pods_of(app)) out.insert(pod.uid);
  return out;
}

std::vector<std::string> KubeLab::nodes_with_our_taint() {
  std::vector<std::string> out;
  const Json nodes = plane_->call("GET", "/api/v1/nodes");
  for (const Json& node : nodes.value("items", Json::array())) {
    for (const Json& taint : node["spec"].value("taints", Json::array())) {
      if (taint["key"] == "monkeytree/held") out.push_back(node["metadata"]["name"]);
    }
  }
  return out;
}

int KubeLab::move_objects() {
  const Json maps = plane_->call("GET",
                                 "/api/v1/namespaces/monkeytree/configmaps?labelSelector="
                                 "app.kubernetes.io%2Fmanaged-by%3Dmonkeytree");
  return static_cast<int>(maps.value("items", Json::array()).size());
}

std::map<std::string, int> KubeLab::degrees(const std::vector<std::string>& apps) {
  std::map<std::string, int> out;
  for (const std::string& app : apps) {
    std::set<std::string> racks;
    for (const Pod& pod : pods_of(app)) {
      if (!pod.node.empty()) racks.insert(rack_of(pod.node));
    }
    if (racks.size() < 2) continue;
    for (const std::string& rack : racks) ++out[rack];
  }
  return out;
}

}  // namespace monkeytree
