#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "inventory/uplinks.h"
#include "kubernetes/objects.h"
#include "kubernetes/racks.h"

namespace monkeytree {

struct KubeSnapshot {
  Snapshot snapshot;
  std::map<std::string, std::string> unmovable;  ///< job id → why none of its workers may move
};

/// Puts a snapshot together from the objects of a cluster.
///
/// A node's slots are its GPUs, a worker all pods of a group on one node. Nodes without GPUs are
/// left out, GPU nodes whose rack nothing tells as well, with a warning that names them; where pods
/// of jobs run there they stand in a rack "unplaced" from which and to which nothing moves. Workers
/// that hold a part of a node, or whose pods must stay for any reason docs/kubernetes.md names, are
/// pinned, and a note says why. `source` names the objects in findings.
/// nullopt exactly when there was an error. O(objects · log objects).
std::optional<KubeSnapshot> build_kube_snapshot(const KubeFacts& facts, const KubeRackRules& rules,
                                                const KubeReadRules& reading,
                                                const Uplinks& uplinks, std::string_view source,
                                                Diagnostics& diagnostics);

}  // namespace monkeytree
