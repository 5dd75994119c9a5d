#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "inventory/scheduler.h"
#include "kubernetes/client.h"
#include "kubernetes/cluster_watch.h"
#include "kubernetes/moves.h"

namespace monkeytree {

class KubeCalls;

/// The steps by which a worker's pod is replaced by one on another node; each as Scheduler has it.
/// docs/kubernetes.md, "Moving".
///
/// A reservation is a taint on its nodes. A worker that leaves is given an object of its own, then
/// its pod is evicted. The owner makes the next pod at once; the server asks us before it does, and
/// we answer when we know where to. What objects say is compared before each change, and an object
/// that somebody else has changed is left as it is.
class KubeMoving {
 public:
  /// All must outlive it. `space`: namespace of the objects.
  KubeMoving(const KubeAccess& access, const KubeClusterWatch& watch, std::string space,
             KubeReadRules rules);

  /// Reads what an earlier controller has left; once. The other calls fail before.
  absl::Status load(Deadline deadline);
  /// Holds and reservations, for people and for who tidies up.
  void add_to(Observation& out) const;

  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline);
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline);
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline);
  absl::Status cancel(const Hold& hold, Deadline deadline);
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline);
  absl::Status unreserve(const std::string& name, Deadline deadline);
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job, Deadline deadline) const;

  /// The answer to an admission review; "" where it is none. Waits some seconds where the pod takes
  /// the place of one that was evicted and it is not known yet where it belongs.
  std::string answer(const std::string& review);
  /// answer() does not wait any more.
  void stop();

 private:
  std::optional<KubeMove> find(const WorkerName& worker) const;
  /// Puts the move into its object and then into moves_. Aborted where the object is not as we know
  /// it; then it is read anew.
  absl::Status write(KubeCalls& calls, KubeMove move);
  absl::Status erase(KubeCalls& calls, const KubeMove& move);
  /// The worker runs where it was sent.
  absl::Status finish(KubeCalls& calls, const KubeMove& move);
  absl::StatusOr<KubeMove> leaving(const WorkerName& worker, const std::string& node,
                                   const std::vector<std::string>& order) const;
  /// Pods in place of the one that left: the one sent for this migration, and others.
  struct Successors {
    std::vector<KubePod> sent, others;
    std::string node_fault;  ///< why none can come to the node; or ""
  };
  Successors successors(const KubeMove& move) const;
  absl::Status evict_sent(KubeCalls& calls, const KubeMove& move) const;
  bool owner_lives(const KubeFacts& facts, const KubeMove& move) const;
  absl::Status ready() const;

  const KubeAccess& access_;
  const KubeClusterWatch& watch_;
  const std::string space_;
  const KubeReadRules rules_;
  KubeCredentials credentials_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool loaded_ = false, stopped_ = false;
  std::map<std::string, KubeMove> moves_;  ///< by id
  /// By name: nodes, and the uids of the pods that were there before.
  std::map<std::string, std::map<std::string, std::set<std::string>>> reserved_;
};

}  // namespace monkeytree
