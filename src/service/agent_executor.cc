#include "service/agent_executor.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <tuple>
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

/// Shared memory within a machine, otherwise the address that reaches the fabric: by UCX where the
/// receiver offers it.
std::string choose_endpoint(const std::vector<std::string>& endpoints, bool same_machine) {
  for (const std::string_view wanted : {same_machine ? "shm:" : "ucx:", "tcp:"}) {
    for (const std::string& endpoint : endpoints) {
      if (endpoint.starts_with(wanted)) return endpoint;
    }
  }
  return endpoints.empty() ? "" : endpoints.front();
}

bool same_machine(const AgentHello& a, const AgentHello& b) {
  return !a.machine.empty() && a.machine == b.machine;
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

/// Whether the process is the worker that the migration would move, as far as its agent says.
bool is_source(const WorkerState& state, const WorkerName& worker, const std::string& migration) {
  return state.name == worker && state.phase != WorkerPhase::kRetired &&
         state.phase != WorkerPhase::kWaiting && state.successor_of != migration;
}

}  // namespace

std::vector<AgentReport> AgentExecutor::agents() {
  std::vector<AgentReport> out;
  const auto now = std::chrono::steady_clock::now();
  hub_->visit([&](const std::string& name, const AgentHub::Node& node) {
    if (node.session == 0) return;  // only routes are known for it
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
  });
  return out;
}

/// Only the user whose job it is may take its state over.
absl::Status AgentExecutor::check_user(const WorkerName& worker, const std::string& node,
                                       uint32_t user) {
  absl::Status status;
  hub_->visit([&](const std::string& name, const AgentHub::Node& known) {
    for (const WorkerState& state : known.state.workers) {
      if (state.name != worker || name == node || state.user == user) continue;
      status = absl::FailedPreconditionError(
          fmt::format("the successor of worker {} on {} runs as user {}, the worker as user {}",
                      to_string(worker), node, user, state.user));
    }
  });
  return status;
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
  announce(migration, worker);
  return absl::OkStatus();
}

/// Tells the job's other workers, and the agent of the one that leaves, to get ready. Nothing
/// depends on it.
void AgentExecutor::announce(const std::string& migration, const WorkerName& worker) {
  std::vector<std::string> places;
  hub_->visit([&](const std::string& name, const AgentHub::Node& known) {
    const auto& workers = known.state.workers;
    const bool there = std::any_of(workers.begin(), workers.end(), [&](const WorkerState& one) {
      return one.name.job == worker.job && one.phase == WorkerPhase::kRunning;
    });
    if (there) places.push_back(name);
  });
  for (const std::string& name : places) {
    hub_->send(name, command_for(AgentStep::kAnnounce, migration, worker));
  }
}

absl::Status AgentExecutor::prepare_staging(const std::string& migration, const WorkerName& worker,
                                            int64_t state_bytes, Deadline deadline) {
  const std::string key = staging_key(migration, worker);
  const std::map<std::string, std::string> staged = hub_->staged();
  const auto held = staged.find(key);
  std::string place;
  std::vector<std::pair<int64_t, std::string>> order;  // free bytes, node
  hub_->visit([&](const std::string& name, const AgentHub::Node& node) {
    const auto& workers = node.state.workers;
    const bool source = std::any_of(workers.begin(), workers.end(), [&](const WorkerState& one) {
      return is_source(one, worker, migration);
    });
    if (source) place = name;
    if (node.link == nullptr || node.hello.staging_quota == 0) return;
    const int64_t free = node.hello.staging_quota - node.state.staging_used;
    const bool holds = held != staged.end() && held->second == name;
    if (holds || free >= state_bytes) order.emplace_back(holds ? INT64_MAX : free, name);
  });
  if (place.empty()) {
    return absl::NotFoundError(fmt::format("no agent knows worker {}", to_string(worker)));
  }
  // Most free memory first; the machine that the worker is on is the last choice.
  for (auto& [free, name] : order) {
    if (name == place && free != INT64_MAX) free = -1;
  }
  std::stable_sort(order.begin(), order.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  absl::Status status = absl::FailedPreconditionError(
      fmt::format("no staging server has {} bytes free", state_bytes));
  for (const auto& [free, name] : order) {
    const AgentHello server = hub_->hello(name);
    AgentCommand command = command_for(AgentStep::kReserve, migration, worker);
    command.access = server.staging_access;
    command.endpoint =
        choose_endpoint(server.staging_endpoints, same_machine(server, hub_->hello(place)));
    status = hub_->call(place, command, deadline).status;
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
  // Nobody is stopped for an agent that may not come.
  std::set<std::string> places;
  for (const auto& [worker, node] : nodes) places.insert(node);
  if (absl::Status status = hub_->await(places, deadline); !status.ok()) return status;
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
  const AgentHello server = hub_->hello(held->second);
  AgentCommand command = command_for(AgentStep::kStage, migration, worker);
  command.access = server.staging_access;
  command.endpoint =
      choose_endpoint(server.staging_endpoints, same_machine(server, hub_->hello(from)));
  return hub_->call(from, command, deadline).status;
}

AgentExecutor::Places AgentExecutor::replicas_of(const std::string& migration,
                                                 const WorkerName& worker,
                                                 const std::string& from) {
  constexpr size_t kMostReplicas = 3;  // with the worker's own, enough to fill a fast link
  Places out;
  const std::string set = [&] {
    std::string found;
    hub_->visit([&](const std::string& name, const AgentHub::Node& node) {
      for (const WorkerState& one : node.state.workers) {
        if (name == from && is_source(one, worker, migration)) found = one.replicas;
      }
    });
    return found;
  }();
  if (set.empty()) return out;
  hub_->visit([&](const std::string& name, const AgentHub::Node& node) {
    if (node.link == nullptr || name == from || out.size() == kMostReplicas) return;
    for (const WorkerState& one : node.state.workers) {
      const bool stands = one.phase == WorkerPhase::kPaused || one.phase == WorkerPhase::kRunning;
      if (one.name.job != worker.job || one.name == worker || one.replicas != set || !stands ||
          one.ended) {
        continue;
      }
      out.emplace_back(one.name, name);
      return;
    }
  });
  return out;
}

/// The worker that leaves sends what only it has, and it and its replicas send the rest at once.
absl::Status AgentExecutor::transfer_in_shares(const AgentCommand& alone, const std::string& from,
                                               const std::string& to, const Places& replicas,
                                               Deadline deadline) {
  const AgentReply open =
      hub_->call(to, command_for(AgentStep::kReceive, alone.migration, alone.worker), deadline);
  if (!open.status.ok() || open.arrived) return open.status;
  Calls calls = {{from, alone}};
  for (const auto& [name, node] : replicas) {
    calls.push_back({node, command_for(AgentStep::kSend, alone.migration, name)});
  }
  for (size_t i = 0; i < calls.size(); ++i) {
    AgentCommand& command = calls[i].command;
    command.endpoint =
        choose_endpoint(open.endpoints, same_machine(hub_->hello(calls[i].node), hub_->hello(to)));
    command.token = open.token;
    command.share = static_cast<int>(i);
    command.shares = static_cast<int>(calls.size());
  }
  hub_->call_all(calls, deadline, true);
  if (absl::Status status = worst(calls); !status.ok()) return status;
  return hub_->call(to, command_for(AgentStep::kArrived, alone.migration, alone.worker), deadline)
      .status;
}

absl::Status AgentExecutor::transfer(const std::string& migration, const WorkerName& worker,
                                     const std::string& from, const std::string& to,
                                     Deadline deadline) {
  if (to == kStagingNode) return to_staging(migration, worker, from, deadline);
  if (from != kStagingNode) {
    const Places replicas = replicas_of(migration, worker, from);
    const auto now = steady_clock::now();
    // Half of the time is left for the worker that leaves to send all of it.
    if (!replicas.empty() && transfer_in_shares(command_for(AgentStep::kSend, migration, worker),
                                                from, to, replicas, now + (deadline - now) / 2)
                                 .ok()) {
      return absl::OkStatus();
    }
  }
  return transfer_whole(migration, worker, from, to, deadline);
}

absl::Status AgentExecutor::transfer_whole(const std::string& migration, const WorkerName& worker,
                                           const std::string& from, const std::string& to,
                                           Deadline deadline) {
  std::string sender = from, key;
  if (from == kStagingNode) {
    const auto held = hub_->await_staged(worker, migration, deadline);
    if (!held.ok()) return held.status();
    if (!*held) {
      return absl::NotFoundError(
          fmt::format("no staging server has the state of worker {}", to_string(worker)));
    }
    std::tie(key, sender) = **held;
  }
  const AgentReply open =
      hub_->call(to, command_for(AgentStep::kReceive, migration, worker), deadline);
  if (!open.status.ok() || open.arrived) return open.status;
  if (absl::Status status = hub_->await({sender, to}, deadline); !status.ok()) {
    return status;
  }
  AgentCommand send =
      command_for(key.empty() ? AgentStep::kSend : AgentStep::kForward, migration, worker);
  send.endpoint =
      choose_endpoint(open.endpoints, same_machine(hub_->hello(sender), hub_->hello(to)));
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
  hub_->visit([&](const std::string& name, const AgentHub::Node& known) {
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
  });
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
  // A controller that has just started does not know yet who has it.
  const auto held = hub_->await_staged(worker, migration, deadline);
  if (!held.ok()) return held.status();
  for (const auto& [key, holder] : hub_->staged()) {
    if (!is_state_of(key, worker, migration)) continue;
    AgentCommand command = command_for(AgentStep::kDrop, migration, worker);
    command.key = key;
    const AgentReply reply = hub_->call(holder, command, deadline);
    if (!reply.status.ok()) return reply.status;
    hub_->forget_staged(key);
  }
  hub_->remember_let_go(worker, migration);
  return absl::OkStatus();
}

absl::Status AgentExecutor::roll_back(const std::string& migration, const std::string& job,
                                      const std::map<WorkerName, std::string>& nodes, bool go_on,
                                      Deadline deadline) {
  hub_->remember_undone(migration);
  const std::map<std::string, std::string> staged = hub_->staged();
  Calls calls;
  hub_->visit([&](const std::string& name, const AgentHub::Node& known) {
    if (known.link == nullptr) return;
    bool concerned = false;
    for (const WorkerState& worker : known.state.workers) {
      concerned = concerned || worker.name.job == job;
    }
    for (const auto& [key, holder] : staged) {
      concerned = concerned || (holder == name && split_staging_key(key).first == migration);
    }
    if (concerned) calls.push_back({name, command_for(AgentStep::kUndo, migration, {job, 0, 0})});
  });
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
