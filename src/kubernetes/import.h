#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/diagnostics.h"
#include "cluster/snapshot.h"
#include "inventory/json_stream.h"
#include "kubernetes/objects.h"
#include "kubernetes/racks.h"

/// From what `kubectl get … -o json` prints to a snapshot. docs/kubernetes.md.
namespace monkeytree {

struct KubernetesFiles {
  std::vector<std::string> objects;  ///< lists of objects, of any kinds; "-" is standard input
  KubeRackRules racks;
  KubeReadRules reading;
  std::string uplinks;  ///< a number, a file, or ""
};

/// Files of objects may be this large.
inline constexpr uint64_t kMaxKubernetesBytes = uint64_t{2} << 30;

/// In which file each object was read, by its kind and key.
using KubeSeen = std::map<std::pair<KubeKind, std::string>, std::string>;

/// Reads one list, or a single object, into `facts`; kinds that are not known are left out. Objects
/// that were `seen` before are warned of. False after an error.
bool read_kube_list(const ReadBytes& read, std::string_view file, const KubeReadRules& rules,
                    KubeSeen& seen, KubeFacts& facts, Diagnostics& diagnostics);

/// Reads all files, whatever is wrong with one of them, so that all findings come in one run.
/// nullopt exactly when there was an error.
std::optional<Snapshot> import_kubernetes(const KubernetesFiles& files, Diagnostics& diagnostics);

}  // namespace monkeytree
