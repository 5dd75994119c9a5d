#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace monkeytree {

/// The kinds of objects that are read.
enum class KubeKind : uint8_t {
  kNode,
  kPod,
  kClaim,
  kVolume,
  kBudget,
  kJob,
  kStatefulSet,
  kJobSet,
  kPyTorchJob,
  kLeaderWorkerSet,
  kVolcanoJob,
  kTopology,
  kWorkload,
  kHyperNode,
  kPodGroup,
};

struct KubeKindRow {
  KubeKind kind;
  std::string_view name;                   ///< as objects carry it: "PersistentVolumeClaim"
  std::string_view group;                  ///< "" for the core
  std::string_view plural;                 ///< in paths of the server
  std::vector<std::string_view> versions;  ///< that we read, the best first
  bool needed = false;  ///< every server has it, and without it there is nothing to see
};

/// All kinds, in the order of KubeKind.
std::span<const KubeKindRow> kube_kinds();
const KubeKindRow& row_of(KubeKind kind);
/// By what objects carry: "batch/v1" and "Job". Null for kinds that are not read.
const KubeKindRow* find_kube_kind(std::string_view api_version, std::string_view name);

/// "batch" of "batch/v1", "" of "v1".
std::string_view kube_group_of(std::string_view api_version);

}  // namespace monkeytree
