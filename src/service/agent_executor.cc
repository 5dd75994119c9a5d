#include "service/agent_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace monkeytree {
namespace {

using std::chrono::steady_clock;
using Calls = std::vector<AgentHub::Call>;

AgentCommand command_for(AgentStep step, const std::string& migration, const WorkerName& worker) {
  AgentCommand out;
  out.step = step;
  out.migration = migration;
  out.worker = worker;
  return out;
}

/// The first answer that is no OK, with the node it came from.
absl::Status worst(const Calls& calls) {
  for (const AgentHub::Call& call : calls) {
    const absl::Status& status = call.reply.status;
    if (!call.done || status.ok()) continue;
    return absl::Status(status.code(),
                        fmt::format("{}: {}", call.node, std::string(status.message())));
  }
  return absl::OkStatus();
}

/// Shared memory within a machine, otherwise the address that reaches the fabric.
std::string choose_endpoint(const std::vector<std::string>& endpoints, bool same_machine) {
  const std::string_view wanted = same_machine ? "shm:" : "tcp:";
  for (const std::string& endpoint : endpoints) {
    if (endpoint.starts_with(wanted)) return endpoint;
  }
  return endpoints.empty() ? "" : endpoints.front();
}

bool same_machine(const AgentHub::Node& a, const AgentHub::Node& b) {
  return !a.hello.machine.empty() && a.hello.machine == b.hello.machine;
}

bool stands_by(WorkerPhase phase) {
  return phase == WorkerPhase::kWaiting || phase == WorkerPhase::kRestored;
}

WorkerReport report_of(const std::string& node, const WorkerState& worker,
                       const StartCommand& command) {
  WorkerReport out;
  out.name = worker.name;
  out.node = node;
  out.migration = worker.migration.empty() ? worker.successor_of : worker.migration;
  out.successor = stands_by(worker.phase);
  out.paused = worker.phase == WorkerPhase::kPaused || worker.phase == WorkerPhase::kRetired;
  out.iteration = worker.iteration;
  out.state_bytes = worker.state_bytes;
  out.command = {command.arguments, command.folder, command.environment};
  return out;
}

/// Where the worker is as far as agents say: the node, and the uid of its process.
std::optional<std::pair<std::string, uint32_t>> place_of(
    const std::map<std::string, AgentHub::Node>& nodes, const WorkerName& worker,
    const std::string& migration) {
  for (const auto& [name, node] : nodes) {
    for (const WorkerState& state : node.state.workers) {
      if (state.name == worker && state.phase != WorkerPhase::kRetired &&
          state.phase != WorkerPhase::kWaiting && state.successor_of != migration) {
        return std::pair(name, state.user);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

std::vector<AgentReport> AgentExecutor::agents() {
  std::vector<AgentReport> out;
  const auto now = steady_clock::now();
  for (const auto& [name, node] : hub_->nodes()) {
    if (node.session == 0) continue;  // only routes are known for it
    AgentReport& report = out.emplace_back();
    report.node = name;
    report.connected = node.link != nullptr;
    report.last_heard_s = std::chrono::duration<double>(now - node.heard).count();
    report.address = node.hello.address;
    for (const WorkerState& worker : node.state.workers) {
      const auto command = node.commands.find(worker.instance);
      if (command == node.commands.end() || worker.ended) continue;
      report.workers.push_back(report_of(name, worker, command->second));
    }
  }
  return out;
}

/// Only the user whose job it is may take its state over.
absl::Status AgentExecutor::check_user(const WorkerName& worker, const std::string& node,
                                       uint32_t user) {
  for (const auto& [name, known] : hub_->nodes()) {
    for (const WorkerState& state : known.state.workers) {
      if (state.name != worker || name == node || state.user == user) continue;
      return absl::FailedPreconditionError(
          fmt::format("the successor of worker {} on {} runs as user {}, the worker as user {}",
                      to_string(worker), node, user, state.user));
    }
  }
  return absl::OkStatus();
}

absl::Status AgentExecutor::prepare(const std::string& migration, const WorkerName& worker,
                                    const std::string& node, int64_t state_bytes,
                                    Deadline deadline) {
  if (node == kStagingNode) return prepare_staging(migration, worker, state_bytes, deadline);
  AgentCommand command = command_for(AgentStep::kPrepare, migration, worker);
  command.state_bytes = state_bytes;
  const AgentReply reply = hub_->call(node, command, deadline);
  if (!reply.status.ok()) return reply.status;
  if (absl::Status status = check_user(worker, node, reply.user); !status.ok()) return status;
  const AgentCommand hint =
      command_for(AgentStep::kAnnounce, migration, WorkerName{worker.job, 0, 0});
  for (const auto& [name, known] : hub_->nodes()) {
    const auto& workers = known.state.workers;
    const bool there = std::any_of(workers.begin(), workers.end(), [&](const WorkerState& one) {
      return one.name.job == worker.job && one.phase == WorkerPhase::kRunning;
    });
    if (there) hub_->send(name, hint);
  }
  return absl::OkStatus();
}

absl::Status AgentExecutor::prepare_staging(const std::string& migration, const WorkerName& worker,
                                            int64_t state_bytes, Deadline deadline) {
  const std::map<std::string, AgentHub::Node> nodes = hub_->nodes();
  const auto place = place_of(nodes, worker, migration);
  if (!place) {
    return absl::NotFoundError(fmt::format("no agent knows worker {}", to_string(worker)));
  }
  const std::string key = staging_key(migration, worker);
  const std::map<std::string, std::string> staged = hub_->staged();
  const auto held = staged.find(key);
  // Most free memory first, another machine than the worker's before its own.
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [name, node] : nodes) {
    const int64_t free = node.hello.staging_quota - node.state.staging_used;
    const bool holds = held != staged.end() && held->second == name;
    if (node.link == nullptr || node.hello.staging_quota == 0) continue;
    if (!holds && free < state_bytes) continue;
    order.emplace_back(holds ? INT64_MAX : name == place->first ? -1 : free, name);
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  absl::Status status = absl::FailedPreconditionError(
      fmt::format("no staging server has {} bytes free", state_bytes));
  for (const auto& [free, name] : order) {
    const AgentHub::Node& server = nodes.at(name);
    AgentCommand command = command_for(AgentStep::kReserve, migration, worker);
    command.access = server.hello.staging_access;
    command.endpoint = choose_endpoint(server.hello.staging_endpoints,
                                       same_machine(server, nodes.at(place->first)));
    const AgentReply reply = hub_->call(place->first, command, deadline);
    status = reply.status;
    if (status.ok()) hub_->note_staged(key, name);
    if (!absl::IsResourceExhausted(status)) return status;
  }
  return absl::FailedPreconditionError(status.message());
}

absl::StatusOr<int64_t> AgentExecutor::pause(const std::string& migration, const std::string& job,
                                             const std::map<WorkerName, std::string>& nodes,
                                             Deadline deadline) {
  Calls calls;
  for (const auto& [worker, node] : nodes) {
    calls.push_back({node, command_for(AgentStep::kPause, migration, worker)});
  }
  hub_->call_all(calls, deadline, true);
  if (absl::Status status = worst(calls); !status.ok()) return status;
  if (calls.empty()) {
    return absl::FailedPreconditionError(fmt::format("job {} has no workers on nodes", job));
  }
  const int64_t iteration = calls.front().reply.iteration;
  for (const AgentHub::Call& call : calls) {
    if (call.reply.iteration == iteration) continue;
    return absl::FailedPreconditionError(
        fmt::format("worker {} paused after iteration {}, worker {} after {}",
                    to_string(calls.front().command.worker), iteration,
                    to_string(call.command.worker), call.reply.iteration));
  }
  return iteration;
}

absl::Status AgentExecutor::to_staging(const std::string& migration, const WorkerName& worker,
                                       const std::string& from, Deadline deadline) {
  const std::string key = staging_key(migration, worker);
  const std::map<std::string, std::string> staged = hub_->staged();
  const auto held = staged.find(key);
  if (held == staged.end()) {
    return absl::FailedPreconditionError(
        fmt::format("no staging server has room for worker {}", to_string(worker)));
  }
  if (absl::Status status = hub_->await({held->second, from}, deadline); !status.ok()) {
    return status;
  }
  const std::map<std::string, AgentHub::Node> nodes = hub_->nodes();
  const AgentHub::Node& server = nodes.at(held->second);
  AgentCommand command = command_for(AgentStep::kStage, migration, worker);
  command.access = server.hello.staging_access;
  command.endpoint =
      choose_endpoint(server.hello.staging_endpoints, same_machine(server, nodes.at(from)));
  return hub_->call(from, command, deadline).status;
}

absl::Status AgentExecutor::transfer(const std::string& migration, const WorkerName& worker,
                                     const std::string& from, const std::string& to,
                                     Deadline deadline) {
  if (to == kStagingNode) return to_staging(migration, worker, from, deadline);
  std::string sender = from, key;
  if (from == kStagingNode) {
    for (const auto& [held, node] : hub_->staged()) {
      if (split_staging_key(held).second != to_string(worker)) continue;
      key = held;
      sender = node;
    }
    if (key.empty()) {
      return absl::NotFoundError(
          fmt::format("no staging server has the state of worker {}", to_string(worker)));
    }
  }
  const AgentReply open =
      hub_->call(to, command_for(AgentStep::kReceive, migration, worker), deadline);
  if (!open.status.ok() || open.arrived) return open.status;
  if (absl::Status status = hub_->await({sender, to}, deadline); !status.ok()) {
    return status;
  }
  const std::map<std::string, AgentHub::Node> nodes = hub_->nodes();
  AgentCommand send =
      command_for(key.empty() ? AgentStep::kSend : AgentStep::kForward, migration, worker);
  send.endpoint = choose_endpoint(open.endpoints, same_machine(nodes.at(sender), nodes.at(to)));
  send.token = open.token;
  send.key = key;
  const AgentReply sent = hub_->call(sender, send, deadline);
  if (!sent.status.ok()) return sent.status;
  return hub_->call(to, command_for(AgentStep::kArrived, migration, worker), deadline).status;
}

absl::Status AgentExecutor::restore(const std::string& migration, const WorkerName& worker,
                                    const std::string& node, Deadline deadline) {
  return hub_->call(node, command_for(AgentStep::kRestore, migration, worker), deadline).status;
}

absl::Status AgentExecutor::resume(const std::string& migration, const std::string& job,
                                   const std::map<WorkerName, std::string>& nodes,
                                   Deadline deadline) {
  std::set<std::string> places;
  for (const auto& [worker, node] : nodes) places.insert(node);
  if (absl::Status status = hub_->await(places, deadline); !status.ok()) return status;
  Calls retire;
  std::vector<WorkerPeer> peers;
  for (const auto& [name, known] : hub_->nodes()) {
    for (const WorkerState& worker : known.state.workers) {
      const auto place = nodes.find(worker.name);
      if (worker.name.job != job || place == nodes.end()) continue;
      const bool moved_in = !worker.successor_of.empty() || worker.generation == migration;
      if (place->second == name && moved_in) {
        peers.push_back({worker.name.group, worker.name.worker, name, known.hello.address});
      } else if (place->second != name && known.link != nullptr) {
        retire.push_back({name, command_for(AgentStep::kRetire, migration, worker.name)});
      }
    }
  }
  hub_->call_all(retire, deadline);
  for (const AgentHub::Call& call : retire) {
    const absl::Status& status = call.reply.status;
    // Whoever is gone cannot run; whoever is out of reach stays paused until it is asked.
    if (status.ok() || absl::IsNotFound(status) || absl::IsUnavailable(status)) continue;
    return absl::Status(status.code(), fmt::format("{}, where the worker leaves: {}", call.node,
                                                   std::string(status.message())));
  }
  Calls calls;
  for (const auto& [worker, node] : nodes) {
    AgentCommand command = command_for(AgentStep::kResume, migration, worker);
    command.peers = peers;
    calls.push_back({node, std::move(command)});
  }
  hub_->call_all(calls, deadline);
  return worst(calls);
}

absl::Status AgentExecutor::release(const std::string& migration, const WorkerName& worker,
                                    const std::string& node, Deadline deadline) {
  if (node != kStagingNode) {
    return hub_->call(node, command_for(AgentStep::kRelease, migration, worker), deadline).status;
  }
  for (const auto& [key, holder] : hub_->staged()) {
    const auto [made_by, name] = split_staging_key(key);
    if (name != to_string(worker) || made_by == migration) continue;
    AgentCommand command = command_for(AgentStep::kDrop, migration, worker);
    command.key = key;
    const AgentReply reply = hub_->call(holder, command, deadline);
    if (!reply.status.ok()) return reply.status;
    hub_->forget_staged(key);
  }
  return absl::OkStatus();
}

absl::Status AgentExecutor::roll_back(const std::string& migration, const std::string& job,
                                      const std::map<WorkerName, std::string>& nodes, bool go_on,
                                      Deadline deadline) {
  hub_->remember_undone(migration);
  const std::map<std::string, std::string> staged = hub_->staged();
  Calls calls;
  for (const auto& [name, known] : hub_->nodes()) {
    if (known.link == nullptr) continue;
    bool concerned = false;
    for (const WorkerState& worker : known.state.workers) {
      concerned = concerned || worker.name.job == job;
    }
    for (const auto& [key, holder] : staged) {
      concerned = concerned || (holder == name && split_staging_key(key).first == migration);
    }
    if (concerned) calls.push_back({name, command_for(AgentStep::kUndo, migration, {job, 0, 0})});
  }
  if (go_on) {
    for (const auto& [worker, node] : nodes) {
      calls.push_back({node, command_for(AgentStep::kCancel, migration, worker)});
    }
  }
  hub_->call_all(calls, deadline);
  if (absl::Status status = worst(calls); !status.ok()) return status;
  for (const auto& [key, holder] : staged) {
    if (split_staging_key(key).first == migration) hub_->forget_staged(key);
  }
  return absl::OkStatus();
}

void AgentExecutor::apply_routes(const std::vector<PreviousRoute>& routes) {
  std::map<std::string, std::vector<RouteInstruction>> by_node;
  for (const PreviousRoute& route : routes) {
    by_node[route.from].push_back({route.job, route.group, route.ring, route.from, route.to,
                                   route.from_rack, route.to_rack, route.uplink});
  }
  hub_->set_routes(std::move(by_node));
}

}  // namespace monkeytree
