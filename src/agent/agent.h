#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "agent/workers.h"
#include "state/staging.h"
#include "state/transfer.h"
#include "wire/agent_messages.h"
#include "wire/log.h"

namespace monkeytree {

struct AgentOptions {
  std::string node;
  int slots = 0;                           ///< 0: not known
  std::string socket;                      ///< where workers come
  std::string data_address = "127.0.0.1";  ///< that reaches the fabric
  int64_t staging_quota = 0;               ///< bytes of memory lent to the state of others; 0: none
  /// Where staged state is kept, so that it outlives this process; "": nowhere but in it.
  std::string staging_folder;
  std::string routes_file;  ///< where route instructions are written; "": nowhere
  /// Told of route instructions when they come; returns at once.
  std::function<void(const std::vector<RouteInstruction>&)> on_routes;
  /// Told of what the rings of workers send when it changes; returns at once.
  std::function<void(const std::map<WorkerName, WorkerFlows>&)> on_flows;
  /// Remembers the highest fence, so that a restart does not let an older controller in; "": only
  /// in memory.
  std::string fence_file;
  std::chrono::milliseconds settle{5000};                   ///< as of Workers::Options
  std::function<std::string(pid_t)> job_of = slurm_job_of;  ///< as of Workers::Options
  uint64_t min_bytes_per_s = 0;  ///< a slower path is refused before the bulk copy
  bool ucx = false;              ///< state of others is taken by UCX as well
  TlsFiles state_tls;            ///< of state that travels between nodes; none: it is not encrypted
  LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
};

/// What runs on each node: carries out a controller's commands for the workers of the node. Knows
/// nothing of how commands come. Thread-safe; perform() may run many times at once.
///
/// What holds whatever is asked in whatever order: a paused worker keeps its state until it is
/// released, also when its process dies; a successor does not run before it is resumed; a worker
/// whose successor has been resumed never runs again; a command with an older fence than seen does
/// nothing. A command that is repeated is answered as before.
class Agent {
 public:
  /// AlreadyExists where another agent has the socket.
  static absl::StatusOr<std::unique_ptr<Agent>> start(AgentOptions options);
  /// Workers live on; they come back to the next agent.
  ~Agent();

  /// Does what the command asks and returns when it is done, at the latest when its time is over.
  AgentReply perform(const AgentCommand& command);

  AgentHello hello() const;
  AgentState state() const;
  std::optional<StartCommand> command(uint64_t instance) const {
    return workers_->command(instance);
  }
  /// `changed` is called, without a lock, whenever state() has something new. nullptr: no more.
  void on_change(std::function<void()> changed);

  /// FailedPrecondition where a younger controller has been seen.
  absl::Status accept_fence(uint64_t fence);

  void apply_routes(const std::vector<RouteInstruction>& routes);
  std::vector<RouteInstruction> routes() const;
  void tell_ports(const WorkerName& name, const AgentPorts& ports) {
    workers_->tell_ports(name, ports);
  }

  /// Makes running perform() calls end soon.
  void stop();

 private:
  /// A transfer into a successor on this node.
  struct Incoming {
    Token token;
    bool arrived = false;
    int64_t epoch = 0;
  };
  /// One transfer at a time for a key.
  class Turn;

  explicit Agent(AgentOptions options) : options_(std::move(options)) {}
  absl::Status set_up();
  absl::Status start_staging(const std::vector<std::string>& addresses);
  void load_fence();

  absl::Status prepare(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status pause(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status receive(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status arrived(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status send(const AgentCommand& command, Deadline deadline);
  absl::Status restore(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status resume(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status cancel(const AgentCommand& command, Deadline deadline);
  absl::Status undo(const AgentCommand& command, Deadline deadline);
  absl::Status reserve(const AgentCommand& command, Deadline deadline);
  absl::Status reserve_anew(const AgentCommand& command, const Arena& arena, Deadline deadline,
                            Token& token);
  absl::Status stage(const AgentCommand& command, Deadline deadline);
  absl::Status forward(const AgentCommand& command, Deadline deadline);
  absl::Status drop(const AgentCommand& command, Deadline deadline);
  absl::Status carry_out(const AgentCommand& command, Deadline deadline, AgentReply& reply);
  absl::Status send_arena(const std::string& key, const Arena& arena, const AgentCommand& command,
                          const Token& token, Deadline deadline);
  void cancel_sending(const std::string& key);
  SendOptions send_options(Deadline deadline) const;
  absl::StatusOr<StagingClient> own_staging() const;
  void note_change();

  AgentOptions options_;
  uint64_t instance_ = 0;
  std::string machine_, staging_access_;
  std::unique_ptr<Receiver> receiver_;
  std::unique_ptr<StagingServer> staging_;

  mutable std::mutex mutex_;
  std::condition_variable turn_;
  uint64_t fence_ = 0;
  std::map<std::string, Incoming> incoming_;  ///< by migration and worker
  std::map<std::string, Token> reserved_;     ///< by key: room taken at staging servers
  std::map<std::string, Sender*> sending_;    ///< by migration and worker
  std::set<std::string> busy_;                ///< whose turn it is
  std::vector<RouteInstruction> routes_;

  std::mutex changed_mutex_;
  std::function<void()> changed_;

  std::unique_ptr<Workers> workers_;  ///< last: its thread calls note_change()
};

}  // namespace monkeytree
