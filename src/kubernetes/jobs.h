#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "kubernetes/grouping.h"
#include "kubernetes/objects.h"

namespace monkeytree {

/// All ranks that a group has on one node.
struct KubeWorker {
  std::string node;
  int gpus = 0;
  std::vector<const KubePod*> pods;
};

/// A replica group; its workers in the order of their first ranks.
struct KubeGroup {
  std::vector<KubeWorker> workers;
};

/// Pods that belong together.
struct KubeJob {
  std::string id, name, space;
  std::string comment;
  std::string keeps;  ///< why its pods must stay; "" where one may be moved
  bool movable = true;
  bool allowed = false;  ///< it, or a pod of it, allows moves
  bool ranked = true;
  bool known = true;
  int rings = 1;
  std::optional<double> start_s;
  std::vector<KubeGroup> groups;
};

/// Bound pods as jobs, by id. Pods that are ending and those of kinds that are not known are jobs
/// of their own that do not move. The result looks into `facts`. O(pods · log pods).
std::vector<KubeJob> kube_jobs(const KubeFacts& facts, const KubeReadRules& rules,
                               std::string_view source, Diagnostics& diagnostics);

}  // namespace monkeytree
