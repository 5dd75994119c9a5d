#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cluster/worker_name.h"
#include "wire/worker_protocol.h"

/// What a controller and the agents of its nodes say to each other, as plain values. agent_proto.h
/// gives their form on the wire.
namespace monkeytree {

inline constexpr int kAgentProtocolVersion = 1;

/// What one agent is asked to do for one worker, or (announce, undo, the staging server's part) for
/// a job or a migration. All may be repeated.
enum class AgentStep : uint8_t {
  kPrepare,   ///< the worker's successor stands ready, with memory for `state_bytes`
  kAnnounce,  ///< the workers of the job on this node are told that the migration comes; the arena
              ///< of the one that leaves is warmed
  kPause,     ///< the worker stands still, its state committed
  kReceive,   ///< the successor's memory is open for a transfer: gives endpoints and a token
  kSend,      ///< the paused worker's state goes to `endpoint` under `token`
  kArrived,   ///< what kReceive opened has become whole
  kRestore,   ///< the successor has taken it up
  kRetire,    ///< the worker's successor is about to run: it will only ever end
  kResume,    ///< the worker goes on, and has done one good iteration
  kRelease,   ///< the worker ends, its memory is let go
  kCancel,    ///< the worker goes on as if nothing had been asked
  kUndo,      ///< successors of the migration end; what it has put into staging is dropped
  kReserve,   ///< room for the worker's state is taken at the staging server `endpoint`
  kStage,     ///< the paused worker's state goes there
  kForward,   ///< this agent's staging server sends `key` to `endpoint` under `token`
  kDrop,      ///< this agent's staging server lets go of `key`
};
inline constexpr int kAgentSteps = 16;
std::string_view name_of(AgentStep step);  ///< "prepare", "announce", …

struct AgentCommand {
  uint64_t request = 0;  ///< the reply repeats it
  uint64_t fence = 0;    ///< the controller's epoch; older ones than seen are refused
  AgentStep step = AgentStep::kPrepare;
  std::string migration;
  WorkerName worker;  ///< kUndo, kForward, kDrop: not used
  std::chrono::milliseconds timeout{0};
  int64_t state_bytes = 0;        ///< kPrepare
  std::vector<WorkerPeer> peers;  ///< kResume
  std::string endpoint, token;    ///< kSend, kForward; kReserve and kStage: endpoint
  std::string access, key;        ///< of the staging server; kForward and kDrop: key
  int share = 0, shares = 1;      ///< kSend: which of how many shares of the state (share_of())
  friend bool operator==(const AgentCommand&, const AgentCommand&) = default;
};

struct AgentReply {
  uint64_t request = 0;
  absl::Status status;
  int64_t iteration = 0;               ///< kPause, kRestore, kResume
  int64_t epoch = 0;                   ///< kPause, kArrived, kReceive where arrived
  bool arrived = false;                ///< kReceive: nothing is left to send
  std::vector<std::string> endpoints;  ///< kReceive
  std::string token;                   ///< kReceive
  uint32_t user = 0;                   ///< kPrepare: uid of the successor
  friend bool operator==(const AgentReply&, const AgentReply&) = default;
};

/// A worker as its agent sees it. Its StartCommand is told once a session, by `instance`.
struct WorkerState {
  uint64_t instance = 0;  ///< unique in one run of the agent
  WorkerName name;
  WorkerPhase phase = WorkerPhase::kRunning;
  std::string migration, successor_of, generation;
  int64_t iteration = 0, state_bytes = 0;
  std::string replicas;   ///< as of WorkerHello
  uint32_t user = 0;      ///< uid of the process
  bool connected = true;  ///< otherwise it has lost its agent for the moment
  bool ended = false;     ///< the process is gone; the agent still keeps its paused state
  friend bool operator==(const WorkerState&, const WorkerState&) = default;
};

/// A state in the staging server. Its key is staging_key().
struct StagedKey {
  std::string key;
  int64_t bytes = 0;
  bool complete = false;
  friend bool operator==(const StagedKey&, const StagedKey&) = default;
};

/// What changes at an agent.
struct AgentState {
  std::vector<WorkerState> workers;  ///< by name
  std::vector<StagedKey> staged;     ///< by key
  int64_t staging_used = 0;          ///< bytes
  friend bool operator==(const AgentState&, const AgentState&) = default;
};

/// The first message of an agent.
struct AgentHello {
  int version = kAgentProtocolVersion;
  std::string node;
  uint64_t instance = 0;  ///< drawn at each start of the agent
  int slots = 0;          ///< 0: not known
  std::string address;    ///< that reaches the fabric
  std::string machine;    ///< equal for agents between which shared memory works
  uint64_t fence = 0;     ///< the highest seen
  int64_t staging_quota = 0;
  std::vector<std::string> staging_endpoints;
  std::string staging_access;
  AgentState state;
  friend bool operator==(const AgentHello&, const AgentHello&) = default;
};

struct AgentWorkerCommand {
  uint64_t instance = 0;
  StartCommand command;
  friend bool operator==(const AgentWorkerCommand&, const AgentWorkerCommand&) = default;
};

/// The uplink of one ring flow that leaves the agent's node.
struct RouteInstruction {
  std::string job;
  int group = 0, ring = 0;
  std::string from, to;  ///< nodes
  std::string from_rack, to_rack;
  int uplink = -1;
  friend bool operator==(const RouteInstruction&, const RouteInstruction&) = default;
};

/// "12.0.1:4711/0/3": the migration that put it there, and the worker.
std::string staging_key(const std::string& migration, const WorkerName& worker);
/// The two parts; empty migration where the key is none of ours.
std::pair<std::string, std::string> split_staging_key(std::string_view key);
/// The key is of this worker's state, put there by another migration than `except`.
bool is_state_of(std::string_view key, const WorkerName& worker, std::string_view except);

/// Host and port of "10.0.0.1:4711", "[::1]:4711" or "localhost:4711". InvalidArgument says what
/// was expected.
struct HostPort {
  std::string host;
  int port = 0;
  bool loopback = false;
  std::string text() const;
};
absl::StatusOr<HostPort> parse_host_port(std::string_view text);

}  // namespace monkeytree
