#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "inventory/read_only_scheduler.h"
#include "kubernetes/cluster_watch.h"
#include "kubernetes/settings.h"

namespace monkeytree {

/// A real Kubernetes, watched. Read-only: it looks and changes nothing, and needs the rights get,
/// list and watch only. docs/kubernetes.md, "Live operation".
class KubernetesScheduler final : public ReadOnlyScheduler {
 public:
  explicit KubernetesScheduler(KubernetesSettings settings, KubeTimes times = {});

  /// `changed` is called, from other threads, when another look may show something new. Once this
  /// has returned the one before is not called any more.
  void on_change(std::function<void()> changed);

  std::string describe() const override;
  std::string why_read_only() const override;
  /// Starts watching at the first call. Unavailable also where nothing has been heard of a kind
  /// that is needed for so long that what is known may be wrong.
  absl::StatusOr<Observation> observe(Deadline deadline) override;

 private:
  absl::StatusOr<KubeClusterWatch*> watch();
  absl::Status stale() const;
  absl::StatusOr<Observation> build();
  void changed();

  const KubernetesSettings settings_;
  const KubeTimes times_;
  std::mutex looking_;  ///< one look at a time
  std::mutex telling_;  ///< guards on_change_, and is held while it is called
  std::function<void()> on_change_;
  mutable std::mutex mutex_;  ///< guards what follows
  std::string server_;
  std::unique_ptr<KubeClusterWatch> watch_;  ///< ends first: it calls changed()
};

}  // namespace monkeytree
