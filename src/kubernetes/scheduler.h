#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "inventory/scheduler.h"
#include "kubernetes/cluster_watch.h"
#include "kubernetes/moving.h"
#include "kubernetes/settings.h"

namespace monkeytree {

/// A real Kubernetes, watched. Without a webhook it looks and changes nothing, and needs the rights
/// get, list and watch only; with one it replaces pods. docs/kubernetes.md, "Live operation".
class KubernetesScheduler final : public Scheduler {
 public:
  explicit KubernetesScheduler(KubernetesSettings settings, KubeTimes times = {});
  ~KubernetesScheduler() override;

  /// Opens the webhook, where there is one; before anything else is asked.
  absl::Status listen();
  /// The port it has; 0 where there is none.
  int webhook_port() const { return webhook_ ? webhook_->port() : 0; }

  /// `changed` is called, from other threads, when another look may show something new. Once this
  /// has returned the one before is not called any more.
  void on_change(std::function<void()> changed);

  std::string describe() const override;
  std::string why_read_only() const override;
  /// Starts watching at the first call. Unavailable also where nothing has been heard of a kind
  /// that is needed for so long that what is known may be wrong.
  absl::StatusOr<Observation> observe(Deadline deadline) override;
  bool replaces_workers() const override { return true; }

  // As KubeMoving has them.
  absl::StatusOr<Hold> hold(const WorkerName& worker, const std::string& node,
                            const std::string& reservation, Deadline deadline) override;
  absl::Status start(const Hold& hold, const WorkerCommand& command, Deadline deadline) override;
  absl::Status give_back(const WorkerName& worker, const std::string& node,
                         const std::vector<std::string>& order, Deadline deadline) override;
  absl::Status cancel(const Hold& hold, Deadline deadline) override;
  absl::Status reserve(const std::string& name, const std::vector<std::string>& nodes,
                       Deadline deadline) override;
  absl::Status unreserve(const std::string& name, Deadline deadline) override;
  absl::StatusOr<std::vector<std::string>> booked(const std::string& job,
                                                  Deadline deadline) override;

 private:
  absl::StatusOr<KubeClusterWatch*> watch();
  absl::Status stale() const;
  absl::StatusOr<Observation> build();
  /// What moves; FailedPrecondition where nothing is moved, Unavailable before the cluster is
  /// known.
  absl::StatusOr<KubeMoving*> moving(Deadline deadline);
  void changed();

  const KubernetesSettings settings_;
  const KubeTimes times_;
  std::mutex looking_;  ///< one look at a time
  std::mutex telling_;  ///< guards on_change_, and is held while it is called
  std::function<void()> on_change_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::string server_;
  std::optional<KubeAccess> access_;
  std::unique_ptr<KubeClusterWatch> watch_;  ///< ends before what is above: it calls changed()
  std::unique_ptr<KubeMoving> moving_;
  std::unique_ptr<KubeWebhook> webhook_;  ///< ends first: it asks moving_
};

}  // namespace monkeytree
