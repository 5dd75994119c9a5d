#include "service/agent_hub.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

milliseconds time_left(Deadline deadline) {
  const auto left = std::chrono::duration_cast<milliseconds>(deadline - steady_clock::now());
  return std::clamp(left, milliseconds(0), milliseconds(3'600'000));
}

bool mentions(const AgentState& state, const std::string& migration) {
  return std::any_of(state.workers.begin(), state.workers.end(),
                     [&](const WorkerState& worker) { return worker.successor_of == migration; }) ||
         std::any_of(state.staged.begin(), state.staged.end(), [&](const StagedKey& staged) {
           return split_staging_key(staged.key).first == migration;
         });
}

}  // namespace

AgentHub::Node* AgentHub::current(const std::string& node, uint64_t session) {
  const auto found = nodes_.find(node);
  if (found == nodes_.end() || found->second.session != session) return nullptr;
  return &found->second;
}

uint64_t AgentHub::came(AgentHello hello, AgentLink* link) {
  const std::lock_guard lock(mutex_);
  Node& node = nodes_[hello.node];
  const bool other = node.hello.instance != hello.instance;
  if (node.link != nullptr) {
    options_.log(LogLevel::kWarning, other ? "another agent of the node" : "agent dialled again",
                 {{"node", hello.node}});
    node.link->cut();
  }
  options_.log(LogLevel::kInfo, "agent came",
               {{"node", hello.node},
                {"address", hello.address},
                {"workers", std::to_string(hello.state.workers.size())}});
  node.link = link;
  node.session = ++last_session_;
  node.heard = steady_clock::now();
  node.commands.clear();
  node.state = std::exchange(hello.state, AgentState());
  node.hello = std::move(hello);
  if (!node.routes.empty() && fence() != 0) link->send(node.routes);
  node.undoing.clear();
  undo_late(node);
  drop_late(node);
  changed_.notify_all();
  return node.session;
}

void AgentHub::told(const std::string& node, uint64_t session, AgentState state) {
  const std::lock_guard lock(mutex_);
  Node* const known = current(node, session);
  if (known == nullptr) return;
  known->heard = steady_clock::now();
  std::erase_if(known->commands, [&](const auto& one) {
    return std::none_of(state.workers.begin(), state.workers.end(),
                        [&](const WorkerState& worker) { return worker.instance == one.first; });
  });
  known->state = std::move(state);
  undo_late(*known);
}

void AgentHub::undo_late(Node& node) {
  const uint64_t fence = this->fence();
  if (node.link == nullptr || fence == 0) return;
  for (const std::string& migration : undone_) {
    if (node.undoing.contains(migration) || !mentions(node.state, migration)) continue;
    node.undoing.insert(migration);
    AgentCommand undo;
    undo.fence = fence;
    undo.step = AgentStep::kUndo;
    undo.migration = migration;
    undo.timeout = milliseconds(30'000);
    node.link->send(undo);
  }
}

void AgentHub::drop_late(Node& node) {
  const uint64_t fence = this->fence();
  if (fence == 0) return;
  for (const auto& [worker, except] : let_go_) {
    for (const StagedKey& staged : node.state.staged) {
      if (!is_state_of(staged.key, worker, except)) continue;
      AgentCommand drop;
      drop.fence = fence;
      drop.step = AgentStep::kDrop;
      drop.migration = except;
      drop.worker = worker;
      drop.key = staged.key;
      drop.timeout = milliseconds(30'000);
      node.link->send(drop);
    }
  }
}

void AgentHub::told(const std::string& node, uint64_t session, AgentWorkerCommand command) {
  const std::lock_guard lock(mutex_);
  Node* const known = current(node, session);
  if (known == nullptr || known->commands.size() > 1024) return;
  known->heard = steady_clock::now();
  known->commands[command.instance] = std::move(command.command);
}

void AgentHub::replied(const std::string& node, uint64_t session, AgentReply reply) {
  const std::lock_guard lock(mutex_);
  Node* const known = current(node, session);
  if (known == nullptr) return;
  known->heard = steady_clock::now();
  const auto waiting = waiting_.find(reply.request);
  if (waiting == waiting_.end() || waiting->second->call->node != node) return;
  waiting->second->call->reply = std::move(reply);
  waiting->second->call->done = true;
  changed_.notify_all();
}

void AgentHub::left(const std::string& node, uint64_t session) {
  const std::lock_guard lock(mutex_);
  Node* const known = current(node, session);
  if (known == nullptr) return;
  known->link = nullptr;
  options_.log(LogLevel::kWarning, "agent left", {{"node", node}});
  changed_.notify_all();
}

/// Sends what is not sent, or is not any more, and gives up what nobody will answer.
void AgentHub::attend(Waiting& waiting, uint64_t fence, Deadline deadline) {
  Call& call = *waiting.call;
  const auto now = steady_clock::now();
  const auto found = nodes_.find(call.node);
  const Node* const node = found == nodes_.end() ? nullptr : &found->second;
  const bool connected = node != nullptr && node->link != nullptr;
  if (waiting.session != 0 && (!connected || node->session != waiting.session)) {
    waiting.session = 0;
    waiting.since = now;
  }
  const auto give_up = [&](absl::Status status) {
    call.reply.status = std::move(status);
    call.done = true;
  };
  if (stopped_) return give_up(absl::UnavailableError("the controller is stopping"));
  // Also in a later term of its own: what was under way has been taken up anew.
  if (fence == 0 || this->fence() != fence) {
    return give_up(absl::UnavailableError("this controller does not lead any more"));
  }
  if (now >= deadline) {
    return give_up(absl::DeadlineExceededError(
        connected ? fmt::format("node {} has not done it by the deadline", call.node)
                  : fmt::format("the agent of node {} is not connected", call.node)));
  }
  if (waiting.session != 0) return;
  if (connected) {
    call.command.timeout = time_left(deadline);
    waiting.session = node->session;
    return node->link->send(call.command);
  }
  if (now >= waiting.since + options_.patience) {
    give_up(
        absl::UnavailableError(fmt::format("the agent of node {} is not connected", call.node)));
  }
}

void AgentHub::call_all(std::vector<Call>& calls, Deadline deadline, bool stop_early) {
  std::unique_lock lock(mutex_);
  const uint64_t fence = this->fence();
  std::vector<Waiting> waiting(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].command.request = ++last_request_;
    calls[i].command.fence = fence;
    waiting[i] = {&calls[i], 0, steady_clock::now()};
    waiting_[calls[i].command.request] = &waiting[i];
  }
  while (true) {
    bool all_done = true, failed = false;
    Deadline wake = deadline;
    for (Waiting& one : waiting) {
      if (!one.call->done) attend(one, fence, deadline);
      all_done = all_done && one.call->done;
      failed = failed || (one.call->done && !one.call->reply.status.ok());
      if (!one.call->done && one.session == 0) {
        wake = std::min(wake, one.since + options_.patience);
      }
    }
    if (all_done || (failed && stop_early)) break;
    changed_.wait_until(lock, wake);
  }
  for (const Call& call : calls) waiting_.erase(call.command.request);
}

AgentReply AgentHub::call(const std::string& node, AgentCommand command, Deadline deadline) {
  std::vector<Call> calls = {{node, std::move(command)}};
  call_all(calls, deadline);
  return calls.front().reply;
}

void AgentHub::send(const std::string& node, AgentCommand command) {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  const uint64_t fence = this->fence();
  if (found == nodes_.end() || found->second.link == nullptr || fence == 0) return;
  command.fence = fence;
  command.timeout = milliseconds(30'000);
  found->second.link->send(command);
}

void AgentHub::visit(const std::function<void(const std::string&, const Node&)>& look) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, node] : nodes_) look(name, node);
}

AgentHello AgentHub::hello(const std::string& node) const {
  const std::lock_guard lock(mutex_);
  const auto found = nodes_.find(node);
  return found == nodes_.end() ? AgentHello() : found->second.hello;
}

absl::Status AgentHub::await(const std::set<std::string>& nodes, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Deadline until = std::min(deadline, steady_clock::now() + options_.patience);
  for (const std::string& name : nodes) {
    while (true) {
      const auto found = nodes_.find(name);
      if (found != nodes_.end() && found->second.link != nullptr) break;
      if (stopped_ || fence() == 0 || steady_clock::now() >= until) {
        return absl::UnavailableError(fmt::format("the agent of node {} is not connected", name));
      }
      changed_.wait_until(lock, until);
    }
  }
  return absl::OkStatus();
}

void AgentHub::set_routes(std::map<std::string, std::vector<RouteInstruction>> routes) {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, list] : routes) nodes_.try_emplace(name);
  for (auto& [name, node] : nodes_) {
    const auto found = routes.find(name);
    std::vector<RouteInstruction> list;
    if (found != routes.end()) list = std::move(found->second);
    if (list == node.routes && !node.routes_unsure) continue;
    node.routes = std::move(list);
    node.routes_unsure = false;
    if (node.link != nullptr) node.link->send(node.routes);
  }
}

void AgentHub::remember_undone(const std::string& migration) {
  const std::lock_guard lock(mutex_);
  if (std::find(undone_.begin(), undone_.end(), migration) != undone_.end()) return;
  undone_.push_back(migration);
  if (undone_.size() > 1024) undone_.pop_front();
}

void AgentHub::note_staged(const std::string& key, const std::string& node) {
  const std::lock_guard lock(mutex_);
  staged_[key] = node;
  std::erase_if(let_go_, [&](const auto& one) {
    return split_staging_key(key).second == to_string(one.first);
  });
}

void AgentHub::forget_staged(const std::string& key) {
  const std::lock_guard lock(mutex_);
  staged_.erase(key);
}

std::map<std::string, std::string> AgentHub::staged() const {
  const std::lock_guard lock(mutex_);
  std::map<std::string, std::string> out = staged_;
  for (const auto& [name, node] : nodes_) {
    for (const StagedKey& staged : node.state.staged) out.emplace(staged.key, name);
  }
  return out;
}

std::optional<std::pair<std::string, std::string>> AgentHub::find_staged(
    const WorkerName& worker, const std::string& except) const {
  for (const auto& one : staged_) {
    if (is_state_of(one.first, worker, except)) return one;
  }
  for (const auto& [name, node] : nodes_) {
    for (const StagedKey& staged : node.state.staged) {
      if (is_state_of(staged.key, worker, except)) return std::pair(staged.key, name);
    }
  }
  return std::nullopt;
}

absl::StatusOr<std::optional<std::pair<std::string, std::string>>> AgentHub::await_staged(
    const WorkerName& worker, const std::string& except, Deadline deadline) {
  std::unique_lock lock(mutex_);
  const Deadline all_there = started_ + options_.patience;
  while (true) {
    std::optional<std::pair<std::string, std::string>> found = find_staged(worker, except);
    if (found || steady_clock::now() >= all_there) return found;
    if (stopped_ || fence() == 0 || steady_clock::now() >= deadline) {
      return absl::UnavailableError(fmt::format(
          "the controller has just started, and no agent has come yet that has the staged state of "
          "worker {}",
          to_string(worker)));
    }
    changed_.wait_until(lock, std::min(deadline, all_there));
  }
}

void AgentHub::remember_let_go(const WorkerName& worker, const std::string& except) {
  const std::lock_guard lock(mutex_);
  let_go_[worker] = except;
}

void AgentHub::refused(LogFields fields) {
  if (!refusals_.pass(steady_clock::now())) {
    const std::lock_guard lock(mutex_);
    ++refusals_unsaid_;
    return;
  }
  size_t unsaid = 0;
  {
    const std::lock_guard lock(mutex_);
    unsaid = std::exchange(refusals_unsaid_, 0);
  }
  if (unsaid > 0) fields.emplace_back("not_logged_before", std::to_string(unsaid));
  options_.log(LogLevel::kWarning, "agent refused", fields);
}

void AgentHub::cut_silent() {
  const std::lock_guard lock(mutex_);
  const auto now = steady_clock::now();
  for (auto& [name, node] : nodes_) {
    if (node.link == nullptr || now - node.heard < options_.silent) continue;
    options_.log(LogLevel::kWarning, "agent silent", {{"node", name}});
    node.link->cut();
    node.link = nullptr;
    changed_.notify_all();
  }
}

void AgentHub::leadership_changed() {
  const std::lock_guard lock(mutex_);
  const uint64_t fence = this->fence();
  if (std::exchange(known_fence_, fence) == fence) return;
  for (auto& [name, node] : nodes_) {
    node.routes.clear();
    node.routes_unsure = true;
    if (node.link != nullptr && fence != 0) node.link->welcome(fence);
  }
  changed_.notify_all();
}

void AgentHub::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [name, node] : nodes_) {
    if (node.link != nullptr) node.link->cut();
    node.link = nullptr;
  }
  changed_.notify_all();
}

}  // namespace monkeytree
