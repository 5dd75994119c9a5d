#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>
#include <simdjson.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "inventory/scheduler.h"
#include "kubernetes/client.h"
#include "kubernetes/objects.h"

namespace monkeytree {

/// Waits a moment before another look at the cluster; false where the deadline comes first.
bool pause_until(Deadline deadline);

/// What one step asks of the server, over one connection, by its deadline. A change that fails the
/// comparison that goes with it is Aborted.
class KubeCalls {
 public:
  KubeCalls(const KubeAccess& access, KubeCredentials& credentials, Deadline deadline)
      : access_(access), credentials_(credentials), deadline_(deadline) {}

  /// What stands at the path; good until the next get().
  absl::StatusOr<simdjson::dom::element> get(const std::string& path);
  absl::Status change(const std::string& method, const std::string& path, const std::string& body,
                      const std::string& type = "application/json");
  /// resourceVersion of the object that the last change() gave.
  std::string version_of_answer();

  /// Evicts the pod if it is still the one with that uid; what is gone already is OK. With `wait`
  /// it is gone when this returns. FailedPrecondition where a budget allows no disruption.
  absl::Status evict(const std::string& space, const std::string& pod, const std::string& uid,
                     bool wait);
  /// Pods with GPUs on the node, those that are ending too.
  absl::StatusOr<std::vector<KubePod>> pods_on(const std::string& node, const KubeReadRules& rules);
  /// The label by which a pod selects the node. FailedPrecondition where it can take none now.
  absl::StatusOr<std::string> fit_node(const std::string& node);
  /// kHoldTaint with this value. Aborted where it stands there with another, NotFound where the
  /// node is gone.
  absl::Status set_taint(const std::string& node, const std::string& value);
  /// Without it, where it has this value.
  absl::Status clear_taint(const std::string& node, const std::string& value);
  /// The server's own word that the pod is on the node.
  absl::Status verify_landed(const KubePod& pod, const std::string& node);

 private:
  absl::StatusOr<KubeConnection*> connection();
  absl::Status change_taints(const std::string& node, const std::string& value, bool wanted);

  const KubeAccess& access_;
  KubeCredentials& credentials_;
  const Deadline deadline_;
  std::unique_ptr<KubeConnection> connection_;
  std::string page_, answer_;
  simdjson::dom::parser parser_;
};

}  // namespace monkeytree
