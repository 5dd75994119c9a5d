#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <vector>

#include "wire/agent_messages.h"
#include "wire/agents.pb.h"

/// The messages of agent_messages.h on the wire. Readers take what any peer may send: names and
/// sizes are checked as those of workers are, InvalidArgument says what is wrong.
namespace monkeytree {

/// Longest message that either side takes.
inline constexpr int kMaxAgentMessage = 4 << 20;
inline constexpr int kMaxWorkersPerNode = 256;

void write_proto(const AgentCommand& command, wire::v1::Command& out);
void write_proto(const AgentReply& reply, wire::v1::Reply& out);
void write_proto(const AgentState& state, wire::v1::AgentState& out);
void write_proto(const AgentHello& hello, wire::v1::Hello& out);
void write_proto(const AgentWorkerCommand& command, wire::v1::WorkerCommand& out);
void write_proto(const std::vector<RouteInstruction>& routes, wire::v1::Routes& out);

absl::StatusOr<AgentCommand> read_proto(const wire::v1::Command& in);
absl::StatusOr<AgentReply> read_proto(const wire::v1::Reply& in);
absl::StatusOr<AgentState> read_proto(const wire::v1::AgentState& in);
/// FailedPrecondition: another version.
absl::StatusOr<AgentHello> read_proto(const wire::v1::Hello& in);
absl::StatusOr<AgentWorkerCommand> read_proto(const wire::v1::WorkerCommand& in);
absl::StatusOr<std::vector<RouteInstruction>> read_proto(const wire::v1::Routes& in);

}  // namespace monkeytree
