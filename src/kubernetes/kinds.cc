#include "kubernetes/kinds.h"

#include <algorithm>

namespace monkeytree {

std::span<const KubeKindRow> kube_kinds() {
  static const std::vector<KubeKindRow> kRows = {
      {KubeKind::kNode, "Node", "", "nodes", {"v1"}, true},
      {KubeKind::kPod, "Pod", "", "pods", {"v1"}, true},
      {KubeKind::kClaim, "PersistentVolumeClaim", "", "persistentvolumeclaims", {"v1"}, true},
      {KubeKind::kVolume, "PersistentVolume", "", "persistentvolumes", {"v1"}, true},
      {KubeKind::kBudget,
       "PodDisruptionBudget",
       "policy",
       "poddisruptionbudgets",
       {"v1", "v1beta1"},
       true},
      {KubeKind::kJob, "Job", "batch", "jobs", {"v1"}, true},
      {KubeKind::kStatefulSet, "StatefulSet", "apps", "statefulsets", {"v1"}, true},
      {KubeKind::kJobSet, "JobSet", "jobset.x-k8s.io", "jobsets", {"v1alpha2"}},
      {KubeKind::kPyTorchJob, "PyTorchJob", "kubeflow.org", "pytorchjobs", {"v1"}},
      {KubeKind::kLeaderWorkerSet,
       "LeaderWorkerSet",
       "leaderworkerset.x-k8s.io",
       "leaderworkersets",
       {"v1"}},
      {KubeKind::kVolcanoJob, "Job", "batch.volcano.sh", "jobs", {"v1alpha1"}},
      {KubeKind::kTopology,
       "Topology",
       "kueue.x-k8s.io",
       "topologies",
       {"v1beta2", "v1beta1", "v1alpha1"}},
      {KubeKind::kWorkload, "Workload", "kueue.x-k8s.io", "workloads", {"v1beta1", "v1beta2"}},
      {KubeKind::kHyperNode, "HyperNode", "topology.volcano.sh", "hypernodes", {"v1alpha1"}},
      {KubeKind::kPodGroup, "PodGroup", "scheduling.run.ai", "podgroups", {"v2alpha2"}},
  };
  return kRows;
}

const KubeKindRow& row_of(KubeKind kind) { return kube_kinds()[static_cast<size_t>(kind)]; }

std::string_view kube_group_of(std::string_view api_version) {
  const size_t slash = api_version.find('/');
  return slash == std::string_view::npos ? "" : api_version.substr(0, slash);
}

const KubeKindRow* find_kube_kind(std::string_view api_version, std::string_view name) {
  const std::span<const KubeKindRow> rows = kube_kinds();
  const std::string_view group = kube_group_of(api_version);
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const KubeKindRow& row) {
    return row.group == group && row.name == name;
  });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace monkeytree
