#include "kubernetes/pods.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/json_syntax.h"
#include "kubernetes/moves.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using simdjson::dom::element;

/// Annotations that something here reads; the others of a pod may be long.
bool is_used(std::string_view key) {
  constexpr std::array<std::string_view, 12> kUsed = {
      kCommentAnnotation,
      kMovesAnnotation,
      kSuccessorAnnotation,
      kPlaceAnnotation,
      kIndexAnnotation,
      "kueue.x-k8s.io/pod-group-name",
      "kueue.x-k8s.io/pod-group-pod-index",
      "volcano.sh/job-name",
      "volcano.sh/task-spec",
      "volcano.sh/task-index",
      "leaderworkerset.sigs.k8s.io/size",
      "pod-group-name",
  };
  return std::find(kUsed.begin(), kUsed.end(), key) != kUsed.end() ||
         key.starts_with("jobset.sigs.k8s.io/");
}

/// GPUs of one container, 0 where it asks for none.
int gpus_of_container(element container, const std::string& path, const KubeReadRules& rules,
                      std::optional<KubeFault>& fault) {
  for (const char* field : {"requests", "limits"}) {
    const auto quantity = kube_at(container, {"resources", field, rules.gpu_resource});
    if (!quantity) continue;
    const std::optional<int> gpus = kube_quantity(*quantity);
    if (gpus) return *gpus;
    fault =
        KubeFault{fmt::format("{}/resources/{}/{}", path, field, pointer_step(rules.gpu_resource)),
                  "expected a whole number of GPUs"};
    return 0;
  }
  return 0;
}

/// As Kubernetes counts them: what runs together, or one container before it and the sidecars that
/// were started by then.
int gpus_of_pod(element object, const KubeReadRules& rules, std::optional<KubeFault>& fault) {
  constexpr int64_t kMost = 4096;  // of one node, by far
  int64_t sidecars = 0;
  int64_t most = 0;
  size_t index = 0;
  for (const element container : kube_items(kube_at(object, {"spec", "initContainers"}))) {
    const std::string path = fmt::format("/spec/initContainers/{}", index++);
    const int64_t gpus = gpus_of_container(container, path, rules, fault);
    most = std::max(most, sidecars + gpus);
    if (kube_text(container, {"restartPolicy"}) == "Always") sidecars += gpus;
  }
  int64_t together = sidecars;
  index = 0;
  for (const element container : kube_items(kube_at(object, {"spec", "containers"}))) {
    const std::string path = fmt::format("/spec/containers/{}", index++);
    together += gpus_of_container(container, path, rules, fault);
  }
  most = std::max(most, together);
  if (most > kMost) {
    fault = KubeFault{"/spec/containers", fmt::format("asks for more than {} GPUs", kMost)};
    return 0;
  }
  return static_cast<int>(most);
}

void add_terms(element term, std::vector<std::string>& keys) {
  for (const char* field : {"matchExpressions", "matchFields"}) {
    for (const element expression : kube_items(kube_at(term, {field}))) {
      keys.emplace_back(kube_text(expression, {"key"}));
    }
  }
}

/// Keys of node labels that the pod insists on.
std::vector<std::string> selector_keys(element object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : kube_texts(kube_at(object, {"spec", "nodeSelector"}))) {
    keys.emplace_back(key);
  }
  const auto required =
      kube_at(object, {"spec", "affinity", "nodeAffinity",
                       "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"});
  for (const element term : kube_items(required)) add_terms(term, keys);
  std::sort(keys.begin(), keys.end());
  keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
  return keys;
}

/// Devices that every node has lie below these, and our agent's socket.
bool is_on_every_node(std::string_view path) {
  return path == "/run/monkeytree" || path.starts_with("/dev") || path.starts_with("/sys") ||
         path.starts_with("/proc");
}

void read_volumes(element object, KubePod& pod) {
  for (const element volume : kube_items(kube_at(object, {"spec", "volumes"}))) {
    const std::string_view path = kube_text(volume, {"hostPath", "path"});
    if (!path.empty() && !is_on_every_node(path) && pod.pinned.empty()) {
      pod.pinned = fmt::format("it has files of its node, {}", printable(path));
    }
    const std::string_view claim = kube_text(volume, {"persistentVolumeClaim", "claimName"});
    if (!claim.empty()) pod.claims.emplace_back(claim);
    if (kube_at(volume, {"ephemeral"})) {
      // Kubernetes names the claim that it makes for the pod like this.
      pod.claims.push_back(fmt::format("{}-{}", pod.name, kube_text(volume, {"name"})));
    }
  }
  for (const element claim : kube_items(kube_at(object, {"spec", "resourceClaims"}))) {
    pod.counts_unknown = true;
    const std::string_view name = kube_text(claim, {"resourceClaimName"});
    if (!name.empty() && pod.pinned.empty()) {
      pod.pinned = fmt::format("its resource claim {} is of devices of its node", printable(name));
    }
  }
}

void read_marks(element object, KubePod& pod) {
  const auto annotations = kube_texts(kube_at(object, {"metadata", "annotations"}));
  std::vector<std::pair<std::string_view, std::string_view>> used;
  for (const auto& [key, value] : annotations) {
    if (is_used(key)) used.emplace_back(key, value);
    const bool stays =
        ((key == "karpenter.sh/do-not-disrupt" || key == "karpenter.sh/do-not-evict") &&
         value == "true") ||
        (key == "cluster-autoscaler.kubernetes.io/safe-to-evict" && value == "false");
    if (stays && pod.pinned.empty()) pod.pinned = fmt::format("it is marked {}: {}", key, value);
  }
  pod.annotations = KubeLabels(std::move(used));
}

}  // namespace

KubeOwnerRef controller_of(element object) {
  for (const element owner : kube_items(kube_at(object, {"metadata", "ownerReferences"}))) {
    if (!kube_true(owner, {"controller"})) continue;
    return {std::string(kube_text(owner, {"kind"})),
            std::string(kube_group_of(kube_text(owner, {"apiVersion"}))),
            std::string(kube_text(owner, {"name"}))};
  }
  return {};
}

std::optional<KubePod> read_kube_pod(element object, const KubeReadRules& rules,
                                     std::optional<KubeFault>& fault) {
  const std::string_view phase = kube_text(object, {"status", "phase"});
  if (phase == "Succeeded" || phase == "Failed") return std::nullopt;
  KubePod pod;
  pod.gpus = gpus_of_pod(object, rules, fault);
  if (fault) return std::nullopt;
  pod.space = kube_text(object, {"metadata", "namespace"});
  pod.name = kube_text(object, {"metadata", "name"});
  read_marks(object, pod);
  read_volumes(object, pod);
  if (pod.gpus == 0 && !pod.counts_unknown) return std::nullopt;
  pod.uid = kube_text(object, {"metadata", "uid"});
  pod.node = kube_text(object, {"spec", "nodeName"});
  pod.terminating = kube_at(object, {"metadata", "deletionTimestamp"}).has_value();
  pod.start_s = kube_time(kube_text(object, {"status", "startTime"}));
  pod.owner = controller_of(object);
  pod.labels = KubeLabels(kube_texts(kube_at(object, {"metadata", "labels"})));
  pod.selector_keys = selector_keys(object);
  if (pod.annotations.get(kSuccessorAnnotation)) {
    // We have sent it there; the next pod in its place may go elsewhere.
    std::erase(pod.selector_keys, "kubernetes.io/hostname");
  }
  return pod;
}

}  // namespace monkeytree
