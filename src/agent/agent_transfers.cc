#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "agent/agent.h"
#include "agent/share.h"

/// The part of Agent in which state travels.
namespace monkeytree {

/// Waits for its turn and keeps it while it lives. ok() is false where the deadline came first.
class Agent::Turn {
 public:
  Turn(Agent& agent, std::string key, Deadline deadline) : agent_(agent), key_(std::move(key)) {
    std::unique_lock lock(agent_.mutex_);
    while (agent_.busy_.contains(key_)) {
      if (agent_.turn_.wait_until(lock, deadline) == std::cv_status::timeout) {
        has_ = !agent_.busy_.contains(key_);
        break;
      }
    }
    if (has_) agent_.busy_.insert(key_);
  }
  ~Turn() {
    if (!has_) return;
    const std::lock_guard lock(agent_.mutex_);
    agent_.busy_.erase(key_);
    agent_.turn_.notify_all();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  absl::Status status() const {
    if (has_) return absl::OkStatus();
    return absl::DeadlineExceededError("a transfer of the worker's state is still under way");
  }

 private:
  Agent& agent_;
  std::string key_;
  bool has_ = true;
};

SendOptions Agent::send_options(Deadline deadline) const {
  SendOptions options;
  options.deadline = deadline;
  options.min_bytes_per_s = options_.min_bytes_per_s;
  options.from_address = options_.data_address;
  options.tls = options_.state_tls;
  return options;
}

absl::Status Agent::receive(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const std::string key = staging_key(command.migration, command.worker);
  const Turn turn(*this, key, deadline);
  if (!turn.status().ok()) return turn.status();
  const absl::StatusOr<Workers::Successor> successor =
      workers_->await_successor(command.migration, command.worker, deadline);
  if (!successor.ok()) return successor.status();
  Token old;
  {
    const std::lock_guard lock(mutex_);
    Incoming& incoming = incoming_[key];
    if (incoming.arrived || successor->phase == WorkerPhase::kRestored) {
      reply.arrived = true;
      reply.epoch = static_cast<int64_t>(successor->arena->committed_epoch().value_or(0));
      return absl::OkStatus();
    }
    old = std::exchange(incoming.token, random_token());
    reply.token = incoming.token;
  }
  if (!old.empty()) receiver_->cancel(old);
  for (const Endpoint& endpoint : receiver_->endpoints()) {
    reply.endpoints.push_back(endpoint.text());
  }
  return receiver_->expect(reply.token, successor->arena, deadline);
}

absl::Status Agent::arrived(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const std::string key = staging_key(command.migration, command.worker);
  const Turn turn(*this, key, deadline);
  if (!turn.status().ok()) return turn.status();
  Token token;
  {
    const std::lock_guard lock(mutex_);
    const Incoming& incoming = incoming_[key];
    reply.epoch = incoming.epoch;
    if (incoming.arrived) return absl::OkStatus();
    token = incoming.token;
  }
  if (token.empty()) {
    return absl::FailedPreconditionError(
        fmt::format("no state is on its way to worker {}", to_string(command.worker)));
  }
  const absl::StatusOr<TransferReport> report = receiver_->wait(token, deadline);
  const std::lock_guard lock(mutex_);
  Incoming& incoming = incoming_[key];
  if (!report.ok()) {
    if (receiver_->ended(token)) incoming.token.clear();
    return report.status();
  }
  incoming = {"", true, static_cast<int64_t>(report->epoch)};
  reply.epoch = incoming.epoch;
  options_.log(LogLevel::kInfo, "state arrived",
               {{"migration", command.migration},
                {"worker", to_string(command.worker)},
                {"bytes", std::to_string(report->bytes)},
                {"seconds", fmt::format("{:.3f}", report->seconds)},
                {"connections_lost", std::to_string(report->connections_lost)}});
  return absl::OkStatus();
}

absl::Status Agent::send_arena(const std::string& key, const Arena& arena,
                               const AgentCommand& command, const Token& token, Deadline deadline) {
  const absl::StatusOr<Endpoint> to = Endpoint::parse(command.endpoint);
  if (!to.ok()) return to.status();
  SendOptions options = send_options(deadline);
  if (command.shares > 1) {
    options.buffers = share_of(arena.layout(), command.share, command.shares);
    options.part = static_cast<uint32_t>(command.share);
    if (options.buffers.empty()) return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Sender>> sender =
      Sender::prepare(arena, *to, token, std::move(options));
  if (!sender.ok()) return sender.status();
  {
    const std::lock_guard lock(mutex_);
    sending_[key] = sender->get();
  }
  const absl::StatusOr<TransferReport> report = (*sender)->send();
  {
    const std::lock_guard lock(mutex_);
    sending_.erase(key);
  }
  if (!report.ok()) return report.status();
  options_.log(LogLevel::kInfo, "state sent",
               {{"to", command.endpoint},
                {"bytes", std::to_string(report->bytes)},
                {"seconds", fmt::format("{:.3f}", report->seconds)},
                {"connections_lost", std::to_string(report->connections_lost)}});
  return absl::OkStatus();
}

absl::Status Agent::send(const AgentCommand& command, Deadline deadline) {
  const std::string key = "from " + staging_key(command.migration, command.worker);
  const Turn turn(*this, key, deadline);
  if (!turn.status().ok()) return turn.status();
  const absl::StatusOr<std::shared_ptr<Arena>> arena =
      workers_->paused_arena(command.migration, command.worker, deadline);
  if (!arena.ok()) return arena.status();
  return send_arena(key, **arena, command, command.token, deadline);
}

absl::Status Agent::restore(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const absl::StatusOr<Workers::Successor> successor =
      workers_->await_successor(command.migration, command.worker, deadline);
  if (!successor.ok()) return successor.status();
  bool checked = successor->phase == WorkerPhase::kRestored;
  {
    const std::lock_guard lock(mutex_);
    const auto incoming = incoming_.find(staging_key(command.migration, command.worker));
    checked = checked || (incoming != incoming_.end() && incoming->second.arrived);
  }
  // Another run of this agent has received it: nobody here has seen the checksums hold.
  if (!checked) {
    if (absl::Status status = successor->arena->verify(); !status.ok()) return status;
  }
  const absl::StatusOr<int64_t> iteration =
      workers_->restore(command.migration, command.worker, deadline);
  if (!iteration.ok()) return iteration.status();
  reply.iteration = *iteration;
  return absl::OkStatus();
}

void Agent::cancel_sending(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto sender = sending_.find(key);
  if (sender != sending_.end()) sender->second->cancel();
}

absl::Status Agent::cancel(const AgentCommand& command, Deadline deadline) {
  workers_->call_off(command.migration);
  // Nobody reads the arena any more when the worker goes on.
  const std::string key = "from " + staging_key(command.migration, command.worker);
  cancel_sending(key);
  const Turn turn(*this, key, deadline);
  if (!turn.status().ok()) return turn.status();
  return workers_->cancel(command.migration, command.worker, deadline);
}

absl::Status Agent::undo(const AgentCommand& command, Deadline deadline) {
  workers_->call_off(command.migration);
  const std::string prefix = command.migration + ":";
  std::vector<Token> tokens;
  {
    const std::lock_guard lock(mutex_);
    for (auto one = incoming_.begin(); one != incoming_.end();) {
      if (!one->first.starts_with(prefix)) {
        ++one;
        continue;
      }
      if (!one->second.token.empty()) tokens.push_back(one->second.token);
      one = incoming_.erase(one);
    }
    std::erase_if(reserved_, [&](const auto& one) { return one.first.starts_with(prefix); });
    for (const auto& [key, sender] : sending_) {
      if (key.starts_with("from " + prefix)) sender->cancel();
    }
  }
  for (const Token& token : tokens) receiver_->cancel(token);
  absl::Status status = workers_->end_successors(command.migration, deadline);
  if (!staging_) return status;
  const absl::StatusOr<StagingClient> client = own_staging();
  if (!client.ok()) return client.status();
  for (const StagedState& staged : staging_->states()) {
    if (!staged.key.starts_with(prefix)) continue;
    StagingClient asking = *client;
    const absl::Status dropped = asking.confirm(staged.key, deadline);
    if (!dropped.ok() && !absl::IsNotFound(dropped)) status = dropped;
  }
  note_change();
  return status;
}

absl::Status Agent::reserve_anew(const AgentCommand& command, const Arena& arena, Deadline deadline,
                                 Token& token) {
  const absl::StatusOr<Endpoint> server = Endpoint::parse(command.endpoint);
  if (!server.ok()) return server.status();
  StagingClient client(*server, command.access, options_.state_tls);
  const std::string key = staging_key(command.migration, command.worker);
  absl::StatusOr<Token> reserved = client.reserve(key, arena.layout(), deadline);
  if (absl::IsAlreadyExists(reserved.status())) {
    // Reserved by another run of this agent, which took the token with it.
    absl::Status dropped = client.confirm(key, deadline);
    if (!dropped.ok() && !absl::IsNotFound(dropped)) return dropped;
    reserved = client.reserve(key, arena.layout(), deadline);
  }
  if (!reserved.ok()) return reserved.status();
  token = *std::move(reserved);
  const std::lock_guard lock(mutex_);
  reserved_[key] = token;
  return absl::OkStatus();
}

absl::Status Agent::reserve(const AgentCommand& command, Deadline deadline) {
  const std::string key = staging_key(command.migration, command.worker);
  const Turn turn(*this, "from " + key, deadline);
  if (!turn.status().ok()) return turn.status();
  const absl::StatusOr<std::shared_ptr<Arena>> arena =
      workers_->source_arena(command.worker, deadline);
  if (!arena.ok()) return arena.status();
  {
    const std::lock_guard lock(mutex_);
    if (reserved_.contains(key)) return absl::OkStatus();
  }
  Token token;
  return reserve_anew(command, **arena, deadline, token);
}

absl::Status Agent::stage(const AgentCommand& command, Deadline deadline) {
  const std::string key = staging_key(command.migration, command.worker);
  const Turn turn(*this, "from " + key, deadline);
  if (!turn.status().ok()) return turn.status();
  const absl::StatusOr<std::shared_ptr<Arena>> arena =
      workers_->paused_arena(command.migration, command.worker, deadline);
  if (!arena.ok()) return arena.status();
  const absl::StatusOr<Endpoint> server = Endpoint::parse(command.endpoint);
  if (!server.ok()) return server.status();
  StagingClient client(*server, command.access, options_.state_tls);
  const absl::StatusOr<std::vector<StagedState>> states = client.states(deadline);
  if (!states.ok()) return states.status();
  bool held = false;
  for (const StagedState& state : *states) {
    if (state.key != key) continue;
    if (state.complete && state.epoch == (*arena)->committed_epoch()) return absl::OkStatus();
    held = true;
  }
  Token token;
  {
    const std::lock_guard lock(mutex_);
    const auto reserved = reserved_.find(key);
    if (held && reserved != reserved_.end()) token = reserved->second;
  }
  if (token.empty()) {
    if (absl::Status status = reserve_anew(command, **arena, deadline, token); !status.ok()) {
      return status;
    }
  }
  absl::Status sent = send_arena("from " + key, **arena, command, token, deadline);
  if (sent.ok()) {
    const std::lock_guard lock(mutex_);
    reserved_.erase(key);
  }
  return sent;
}

absl::StatusOr<StagingClient> Agent::own_staging() const {
  if (!staging_) return absl::FailedPreconditionError("this agent has no staging server");
  return StagingClient(staging_->endpoints().front(), staging_access_, options_.state_tls);
}

absl::Status Agent::forward(const AgentCommand& command, Deadline deadline) {
  absl::StatusOr<StagingClient> client = own_staging();
  if (!client.ok()) return client.status();
  const absl::StatusOr<Endpoint> to = Endpoint::parse(command.endpoint);
  if (!to.ok()) return to.status();
  return client->forward(command.key, *to, command.token, send_options(deadline)).status();
}

absl::Status Agent::drop(const AgentCommand& command, Deadline deadline) {
  absl::StatusOr<StagingClient> client = own_staging();
  if (!client.ok()) return client.status();
  const absl::Status status = client->confirm(command.key, deadline);
  note_change();
  return absl::IsNotFound(status) ? absl::OkStatus() : status;
}

}  // namespace monkeytree
