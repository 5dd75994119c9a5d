#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "cluster/worker_name.h"

/// What a worker process and the agent of its node say to each other: one JSON object per packet
/// of a unix socket of type SOCK_SEQPACKET. docs/worker_protocol.md says it for people who write
/// hooks in other languages; the two must agree.
namespace monkeytree {

inline constexpr int kWorkerProtocolVersion = 1;
inline constexpr size_t kMaxWorkerPacket = size_t{64} << 10;
inline constexpr const char* kDefaultAgentSocket = "/run/monkeytree/agent.sock";

/// Where a worker stands. Only a running one changes its state.
enum class WorkerPhase : uint8_t {
  kRunning,   ///< iterates
  kPaused,    ///< stands still after an iteration, its arena committed
  kRetired,   ///< paused, and its successor runs: it will only ever end
  kWaiting,   ///< a successor; its arena waits to be filled
  kRestored,  ///< a successor that has taken up the state and waits to run
};
std::string_view name_of(WorkerPhase phase);  ///< "running", "paused", …

/// How the process was started, so that a successor can be started alike.
struct StartCommand {
  std::vector<std::string> arguments;              ///< program first
  std::string folder;                              ///< absolute
  std::map<std::string, std::string> environment;  ///< what the scheduler would not set by itself
  friend bool operator==(const StartCommand&, const StartCommand&) = default;
};

// From the worker.

/// The first packet of each connection; the memfd of the arena comes with it.
struct WorkerHello {
  WorkerName name;
  int ranks = 1;
  WorkerPhase phase = WorkerPhase::kRunning;
  std::string migration;     ///< that paused it, or "": not paused, or stopped by its peers
  std::string successor_of;  ///< the migration it was started for, until first resumed; or ""
  std::string generation;    ///< the migration that last resumed it, or ""
  int64_t iteration = 0;     ///< the last one done
  int64_t state_bytes = 0;   ///< of the arena's buffers
  /// Workers of a job that say the same here hold the same in their replicated buffers
  /// (is_replicated()) when they stand still after the same iteration. "": nobody else does.
  std::string replicas;
  StartCommand command;
  friend bool operator==(const WorkerHello&, const WorkerHello&) = default;
};

/// It stands still after `iteration`; its arena is committed at `epoch`.
struct WorkerPaused {
  std::string migration;
  int64_t iteration = 0, epoch = 0;
  friend bool operator==(const WorkerPaused&, const WorkerPaused&) = default;
};

/// The successor has taken up what its arena holds and would go on after `iteration`.
struct WorkerRestored {
  std::string migration;
  int64_t iteration = 0;
  friend bool operator==(const WorkerRestored&, const WorkerRestored&) = default;
};

/// After a resume: one iteration has been done, all is well.
struct WorkerStepped {
  std::string migration;
  int64_t iteration = 0;
  friend bool operator==(const WorkerStepped&, const WorkerStepped&) = default;
};

/// It is not, or no longer, held up by the migration.
struct WorkerCancelled {
  std::string migration;
  friend bool operator==(const WorkerCancelled&, const WorkerCancelled&) = default;
};

/// What the migration asked for last cannot be done; nothing has changed.
struct WorkerFailed {
  std::string migration;
  std::string why;  ///< as it came: quote() it before a person sees it
  friend bool operator==(const WorkerFailed&, const WorkerFailed&) = default;
};

struct WorkerProgress {
  int64_t iteration = 0;
  friend bool operator==(const WorkerProgress&, const WorkerProgress&) = default;
};

/// A ring of the worker sends to this address and port, over TCP.
struct WorkerFlow {
  int ring = 0;
  std::string to;  ///< an IPv4 address
  int port = 0;
  friend bool operator==(const WorkerFlow&, const WorkerFlow&) = default;
};

/// All of them, in place of those told before.
struct WorkerFlows {
  std::vector<WorkerFlow> flows;
  friend bool operator==(const WorkerFlows&, const WorkerFlows&) = default;
};

/// It is about to end by itself.
struct WorkerBye {
  friend bool operator==(const WorkerBye&, const WorkerBye&) = default;
};

using FromWorker =
    std::variant<WorkerHello, WorkerPaused, WorkerRestored, WorkerStepped, WorkerCancelled,
                 WorkerFailed, WorkerProgress, WorkerFlows, WorkerBye>;

// To the worker.

struct AgentWelcome {
  std::string node;
  std::string address;  ///< of the node, that reaches the fabric; "" where not known
  friend bool operator==(const AgentWelcome&, const AgentWelcome&) = default;
};

/// The hello was not taken; the connection ends.
struct AgentRefused {
  std::string why;
  friend bool operator==(const AgentRefused&, const AgentRefused&) = default;
};

/// A hint: a migration of the job is about to begin. What its generation needs may be built beside
/// the running one.
struct AgentExpect {
  std::string migration;
  friend bool operator==(const AgentExpect&, const AgentExpect&) = default;
};

struct AgentPause {
  std::string migration;
  friend bool operator==(const AgentPause&, const AgentPause&) = default;
};

/// The arena has been filled and is committed at `epoch`.
struct AgentRestore {
  std::string migration;
  int64_t epoch = 0;
  friend bool operator==(const AgentRestore&, const AgentRestore&) = default;
};

/// A worker of the same job that is new where it is.
struct WorkerPeer {
  int group = 0, worker = 0;
  std::string node, address;
  friend bool operator==(const WorkerPeer&, const WorkerPeer&) = default;
};

/// Goes on, as the generation named by the migration.
struct AgentResume {
  std::string migration;
  std::vector<WorkerPeer> peers;
  friend bool operator==(const AgentResume&, const AgentResume&) = default;
};

/// The successor is about to run: from here on this process only ends.
struct AgentRetire {
  std::string migration;
  friend bool operator==(const AgentRetire&, const AgentRetire&) = default;
};

/// It ends, with exit code 0.
struct AgentRelease {
  std::string migration;
  friend bool operator==(const AgentRelease&, const AgentRelease&) = default;
};

/// The migration is off: its successors end, a worker paused for it goes on.
struct AgentCancel {
  std::string migration;
  friend bool operator==(const AgentCancel&, const AgentCancel&) = default;
};

/// From which source port a flow keeps to its route's uplink.
struct FlowSource {
  WorkerFlow flow;
  int source_port = 0;  ///< 0: none is known
  friend bool operator==(const FlowSource&, const FlowSource&) = default;
};

/// For all flows that the worker has told. Connections are made anew at the next boundary.
struct AgentPorts {
  std::vector<FlowSource> flows;
  friend bool operator==(const AgentPorts&, const AgentPorts&) = default;
};

using ToWorker = std::variant<AgentWelcome, AgentRefused, AgentExpect, AgentPause, AgentRestore,
                              AgentResume, AgentRetire, AgentRelease, AgentCancel, AgentPorts>;

/// Reads one packet. InvalidArgument says what is wrong: not JSON, too long, an unknown type or
/// field, a number out of range, a name that could lead out of a folder. O(bytes).
absl::StatusOr<FromWorker> read_from_worker(std::string_view packet);
absl::StatusOr<ToWorker> read_to_worker(std::string_view packet);

/// One packet. Bytes that are no UTF-8 are replaced. May be longer than kMaxWorkerPacket: who sends
/// checks.
std::string write_packet(const FromWorker& message);
std::string write_packet(const ToWorker& message);

/// Empty where `name` may be the id of a job or of a migration: 1 to 128 of A-Z a-z 0-9 . _ + -,
/// the first a letter or a digit. Otherwise why not.
std::string why_no_id(std::string_view name);
/// The same for names of nodes: up to 255 bytes, without +.
std::string why_no_node(std::string_view name);

}  // namespace monkeytree
