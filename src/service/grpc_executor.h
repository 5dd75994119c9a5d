#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "identity/tls_files.h"
#include "service/agent_executor.h"
#include "wire/log.h"

namespace monkeytree {

struct GrpcExecutorOptions {
  std::string listen = "127.0.0.1:0";  ///< host and port; 0 takes a free port
  /// Where configured, controller and agents prove to each other who they are, by TLS.
  TlsFiles tls;
  /// Lets `listen` be no loopback address, though nobody proves who they are.
  bool insecure = false;
  uint64_t fence = 1;  ///< the controller's epoch; grows with each start
  /// Of one of several controllers, in place of `fence`: as AgentHub::Options says.
  std::function<uint64_t()> leads = {};
  std::chrono::milliseconds heartbeat{2000};
  /// An agent that has said nothing for so long counts as not connected.
  std::chrono::milliseconds silent{15000};
  /// How long a call waits for an agent that is not connected: it may be on its way back.
  std::chrono::milliseconds patience{20000};
  LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
};

/// The agents over gRPC: they dial, each keeps one stream, commands go down it. An agent that is
/// slow or gone holds up only the calls that need it. Thread-safe.
class GrpcExecutor final : public AgentExecutor {
 public:
  /// InvalidArgument: `listen` is no address, or not loopback without `tls` or `insecure`;
  /// FailedPrecondition: the files of `tls` are no controller's; Unavailable: `listen` cannot be
  /// listened on.
  static absl::StatusOr<std::unique_ptr<GrpcExecutor>> start(GrpcExecutorOptions options);
  /// Ends all sessions; calls that still wait end with Unavailable.
  ~GrpcExecutor() override;

  int port() const;

 private:
  struct Parts;
  GrpcExecutor(std::shared_ptr<AgentHub> hub, std::unique_ptr<Parts> parts);

  std::unique_ptr<Parts> parts_;
};

}  // namespace monkeytree
