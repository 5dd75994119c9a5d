#pragma once

#include <memory>

#include "control/executor.h"
#include "service/agent_hub.h"

namespace monkeytree {

/// The steps of migrations as conversations with agents, wherever the hub's links lead.
/// Thread-safe.
class AgentExecutor : public Executor {
 public:
  explicit AgentExecutor(std::shared_ptr<AgentHub> hub) : hub_(std::move(hub)) {}

  std::vector<AgentReport> agents() override;
  absl::Status prepare(const std::string& migration, const WorkerName& worker,
                       const std::string& node, int64_t state_bytes, Deadline deadline) override;
  absl::StatusOr<int64_t> pause(const std::string& migration, const std::string& job,
                                const std::map<WorkerName, std::string>& nodes,
                                Deadline deadline) override;
  absl::Status transfer(const std::string& migration, const WorkerName& worker,
                        const std::string& from, const std::string& to, Deadline deadline) override;
  absl::Status restore(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override;
  absl::Status resume(const std::string& migration, const std::string& job,
                      const std::map<WorkerName, std::string>& nodes, Deadline deadline) override;
  absl::Status release(const std::string& migration, const WorkerName& worker,
                       const std::string& node, Deadline deadline) override;
  absl::Status roll_back(const std::string& migration, const std::string& job,
                         const std::map<WorkerName, std::string>& nodes, bool go_on,
                         Deadline deadline) override;
  void apply_routes(const std::vector<PreviousRoute>& routes) override;
  /// As of AgentHub.
  void leadership_changed() { hub_->leadership_changed(); }

 protected:
  AgentHub& hub() { return *hub_; }

 private:
  absl::Status prepare_staging(const std::string& migration, const WorkerName& worker,
                               int64_t state_bytes, Deadline deadline);
  absl::Status to_staging(const std::string& migration, const WorkerName& worker,
                          const std::string& from, Deadline deadline);
  /// Workers on other nodes that hold what `worker`, on `from`, holds, and where they are.
  using Places = std::vector<std::pair<WorkerName, std::string>>;
  Places replicas_of(const std::string& migration, const WorkerName& worker,
                     const std::string& from);
  absl::Status transfer_in_shares(const AgentCommand& alone, const std::string& from,
                                  const std::string& to, const Places& replicas, Deadline deadline);
  absl::Status transfer_whole(const std::string& migration, const WorkerName& worker,
                              const std::string& from, const std::string& to, Deadline deadline);
  void announce(const std::string& migration, const WorkerName& worker);
  absl::Status check_user(const WorkerName& worker, const std::string& node, uint32_t user);

  const std::shared_ptr<AgentHub> hub_;
};

}  // namespace monkeytree
