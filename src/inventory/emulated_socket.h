#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "inventory/emulated_scheduler.h"
#include "inventory/scheduler.h"

/// An emulated cluster in another process: a unix socket, one JSON object there and one back for
/// each call.
namespace monkeytree {

/// Answers calls on the socket, each in a thread of its own, until it is destroyed; then it waits
/// for calls under way. The socket is the user's only.
class EmulatedServer {
 public:
  static absl::StatusOr<std::unique_ptr<EmulatedServer>> open(Scheduler& cluster,
                                                              const std::string& socket);
  ~EmulatedServer();
  EmulatedServer(const EmulatedServer&) = delete;
  EmulatedServer& operator=(const EmulatedServer&) = delete;

 private:
  EmulatedServer(Scheduler& cluster, std::string socket, int listening);
  void accept_calls();
  void serve(int connection);

  Scheduler& cluster_;
  const std::string socket_;
  const int listening_;
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::condition_variable fewer_;
  int calls_ = 0;  ///< under way
  std::thread thread_;
};

/// The cluster behind such a socket. Unavailable where nobody answers there.
class EmulatedProxy final : public Scheduler {
 public:
  explicit EmulatedProxy(std::string socket);

  std::string describe() const override;
  std::string why_read_only() const override;
  bool replaces_workers() const override { return false; }
  absl::StatusOr<Observation> observe(Deadline deadline) override;
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
  const std::string socket_;
};

/// One call as text, answered by the cluster: the server's inner half, without the socket. Any
/// bytes are answered.
std::string answer_emulated_call(Scheduler& cluster, const std::string& request);

}  // namespace monkeytree
