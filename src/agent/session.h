#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "agent/agent.h"
#include "identity/tls_files.h"
#include "wire/log.h"

namespace monkeytree {

struct AgentSessionOptions {
  /// All that may lead: each is told everything, and the one that leads commands.
  std::vector<std::string> controllers = {"127.0.0.1:7461"};
  /// Where configured, agent and controller prove to each other who they are, by TLS. The files are
  /// read at each try.
  TlsFiles tls;
  /// Lets the controller be beyond this machine, though neither side proves who it is.
  bool insecure = false;
  std::chrono::milliseconds first_retry{500}, longest_retry{15000};
  LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
};

/// Keeps an agent connected to its controllers: dials, tells what the agent knows, has it carry out
/// commands, dials again after a while that is drawn, so that a restarted controller is not run
/// over by all agents at once.
class AgentSession {
 public:
  /// InvalidArgument: no address, or not loopback without `tls` or `insecure`. The agent outlives
  /// it.
  static absl::StatusOr<std::unique_ptr<AgentSession>> start(Agent& agent,
                                                             AgentSessionOptions options);
  virtual ~AgentSession() = default;

  virtual bool connected() const = 0;
};

}  // namespace monkeytree
