#include "kubernetes/moving_calls.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "base/json.h"
#include "base/status.h"
#include "kubernetes/moves.h"
#include "kubernetes/pods.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;
using simdjson::dom::element;

constexpr std::chrono::milliseconds kLookAgain{50};
constexpr int kTries = 10;  ///< of a change that others came before

std::string pod_path(const std::string& space, const std::string& pod) {
  return fmt::format("/api/v1/namespaces/{}/pods/{}", space, pod);
}

}  // namespace

bool pause_until(Deadline deadline) {
  if (Clock::now() + kLookAgain > deadline) return false;
  std::this_thread::sleep_for(kLookAgain);
  return true;
}

absl::StatusOr<KubeConnection*> KubeCalls::connection() {
  if (!connection_) {
    auto opened = KubeConnection::open(access_, credentials_);
    if (!opened.ok()) return opened.status();
    connection_ = *std::move(opened);
  }
  return connection_.get();
}

absl::StatusOr<element> KubeCalls::get(const std::string& path) {
  const absl::StatusOr<KubeConnection*> connection = this->connection();
  if (!connection.ok()) return connection.status();
  absl::StatusOr<std::string> page = (*connection)->get(path, deadline_);
  if (!page.ok()) return page.status();
  page_ = *std::move(page);
  element root;
  if (parser_.parse(page_).get(root) != simdjson::SUCCESS) {
    return absl::UnavailableError(fmt::format("{}: the answer is not JSON", path));
  }
  return root;
}

absl::Status KubeCalls::change(const std::string& method, const std::string& path,
                               const std::string& body, const std::string& type) {
  const absl::StatusOr<KubeConnection*> connection = this->connection();
  if (!connection.ok()) return connection.status();
  absl::StatusOr<std::string> answer =
      (*connection)->change(method, path, body, body.empty() ? "" : type, deadline_);
  if (!answer.ok()) return answer.status();
  answer_ = *std::move(answer);
  return absl::OkStatus();
}

std::string KubeCalls::version_of_answer() {
  simdjson::dom::parser parser;
  element root;
  if (parser.parse(answer_).get(root) != simdjson::SUCCESS) return "";
  return std::string(kube_text(root, {"metadata", "resourceVersion"}));
}

absl::Status KubeCalls::evict(const std::string& space, const std::string& pod,
                              const std::string& uid, bool wait) {
  while (true) {
    const absl::StatusOr<element> now = get(pod_path(space, pod));
    if (absl::IsNotFound(now.status())) return absl::OkStatus();
    if (!now.ok()) return now.status();
    if (kube_text(*now, {"metadata", "uid"}) != uid) return absl::OkStatus();
    if (!kube_at(*now, {"metadata", "deletionTimestamp"})) {
      absl::Status status;
      // Servers before 1.22 know the second only, those from 1.25 on the first only.
      for (const char* version : {"policy/v1", "policy/v1beta1"}) {
        const Json eviction = {{"kind", "Eviction"},
                               {"apiVersion", version},
                               {"metadata", {{"name", pod}, {"namespace", space}}},
                               {"deleteOptions", {{"preconditions", {{"uid", uid}}}}}};
        status = change("POST", pod_path(space, pod) + "/eviction", eviction.dump());
        if (!absl::IsInvalidArgument(status)) break;
      }
      if (absl::IsResourceExhausted(status)) {
        return absl::FailedPreconditionError(
            fmt::format("pod {} may not be evicted now: {}", pod, message_of(status)));
      }
      // Gone, or another by now: the next look tells.
      if (!status.ok() && !absl::IsNotFound(status) && !absl::IsAborted(status)) return status;
    }
    if (!wait) return absl::OkStatus();
    if (!pause_until(deadline_)) {
      return absl::DeadlineExceededError(fmt::format("pod {} has not ended", pod));
    }
  }
}

absl::StatusOr<std::vector<KubePod>> KubeCalls::pods_on(const std::string& node,
                                                        const KubeReadRules& rules) {
  const absl::StatusOr<element> list = get("/api/v1/pods?fieldSelector=spec.nodeName%3D" + node);
  if (!list.ok()) return list.status();
  std::vector<KubePod> out;
  for (const element object : kube_items(kube_at(*list, {"items"}))) {
    std::optional<KubeFault> fault;
    std::optional<KubePod> pod = read_kube_pod(object, rules, fault);
    if (pod) out.push_back(*std::move(pod));
  }
  return out;
}

absl::StatusOr<std::string> KubeCalls::fit_node(const std::string& node) {
  const absl::StatusOr<element> object = get("/api/v1/nodes/" + node);
  if (!object.ok()) return with_context(object.status(), fmt::format("node {}", node));
  bool ready = false;
  for (const element condition : kube_items(kube_at(*object, {"status", "conditions"}))) {
    if (kube_text(condition, {"type"}) == "Ready") {
      ready = kube_text(condition, {"status"}) == "True";
    }
  }
  if (!ready || kube_true(*object, {"spec", "unschedulable"})) {
    return absl::FailedPreconditionError(fmt::format("node {} takes no pods now", node));
  }
  std::string name(kube_text(*object, {"metadata", "labels", "kubernetes.io/hostname"}));
  if (name.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("node {} has no label kubernetes.io/hostname", node));
  }
  return name;
}

absl::Status KubeCalls::change_taints(const std::string& node, const std::string& value,
                                      bool wanted) {
  absl::Status status;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const absl::StatusOr<element> object = get("/api/v1/nodes/" + node);
    if (absl::IsNotFound(object.status()) && !wanted) return absl::OkStatus();
    if (!object.ok()) return with_context(object.status(), fmt::format("node {}", node));
    Json taints = Json::array();
    bool there = false;
    for (const element taint : kube_items(kube_at(*object, {"spec", "taints"}))) {
      const bool ours = kube_text(taint, {"key"}) == kHoldTaint;
      if (ours && wanted && kube_text(taint, {"value"}) != value) {
        return absl::AbortedError(
            fmt::format("node {} is held for {}", node, printable(kube_text(taint, {"value"}))));
      }
      there |= ours && kube_text(taint, {"value"}) == value;
      if (!ours || kube_text(taint, {"value"}) != value) {
        taints.push_back(Json::parse(simdjson::minify(taint), nullptr, false));
      }
    }
    if (there == wanted) return absl::OkStatus();
    if (wanted) taints.push_back({{"key", kHoldTaint}, {"value", value}, {"effect", "NoSchedule"}});
    // The list is one value: whoever changes it meanwhile comes before us.
    const std::string version(kube_text(*object, {"metadata", "resourceVersion"}));
    const Json patch =
        Json::array({{{"op", "test"}, {"path", "/metadata/resourceVersion"}, {"value", version}},
                     {{"op", "add"}, {"path", "/spec/taints"}, {"value", taints}}});
    status = change("PATCH", "/api/v1/nodes/" + node, patch.dump(), "application/json-patch+json");
    if (!absl::IsAborted(status)) return with_context(status, fmt::format("node {}", node));
  }
  return with_context(status, fmt::format("node {}", node));
}

absl::Status KubeCalls::set_taint(const std::string& node, const std::string& value) {
  return change_taints(node, value, true);
}

absl::Status KubeCalls::clear_taint(const std::string& node, const std::string& value) {
  return change_taints(node, value, false);
}

absl::Status KubeCalls::verify_landed(const KubePod& pod, const std::string& node) {
  const absl::StatusOr<element> now = get(pod_path(pod.space, pod.name));
  if (!now.ok()) return with_context(now.status(), fmt::format("pod {}", pod.name));
  if (kube_text(*now, {"metadata", "uid"}) != pod.uid) {
    return absl::AbortedError(fmt::format("pod {} is another by now", pod.name));
  }
  const std::string_view on = kube_text(*now, {"spec", "nodeName"});
  if (on == node) return absl::OkStatus();
  return absl::AbortedError(
      fmt::format("pod {} is on {}, not on {}", pod.name, printable(on), node));
}

}  // namespace monkeytree
