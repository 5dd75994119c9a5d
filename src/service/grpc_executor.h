#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/executor.h"
#include "wire/log.h"

namespace monkeytree {

struct GrpcExecutorOptions {
  std::string listen = "127.0.0.1:0";  ///< host and port; 0 takes a free port
  /// Lets `listen` be no loopback address, though nobody proves who they are.
  bool insecure = false;
  uint64_t fence = 1;  ///< the controller's epoch; grows with each start
  std::chrono::milliseconds heartbeat{2000};
  /// An agent that has said nothing for so long counts as not connected.
  std::chrono::milliseconds silent{15000};
  /// How long a call waits for an agent that is not connected: it may be on its way back.
  std::chrono::milliseconds patience{20000};
  LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
};

/// The agents over gRPC: they dial, each keeps one stream, commands go down it. An agent that is
/// slow or gone holds up only the calls that need it. Thread-safe.
class GrpcExecutor final : public Executor {
 public:
  /// InvalidArgument: `listen` is no address, or not loopback without `insecure`; Unavailable: it
  /// cannot be listened on.
  static absl::StatusOr<std::unique_ptr<GrpcExecutor>> start(GrpcExecutorOptions options);
  /// Ends all sessions; calls that still wait end with Unavailable.
  ~GrpcExecutor() override;

  int port() const;

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

 private:
  struct Parts;
  explicit GrpcExecutor(std::unique_ptr<Parts> parts);
  absl::Status prepare_staging(const std::string& migration, const WorkerName& worker,
                               int64_t state_bytes, Deadline deadline);
  absl::Status to_staging(const std::string& migration, const WorkerName& worker,
                          const std::string& from, Deadline deadline);
  absl::Status check_user(const WorkerName& worker, const std::string& node, uint32_t user);

  std::unique_ptr<Parts> parts_;
};

}  // namespace monkeytree
