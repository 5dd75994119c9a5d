#include "service/grpc_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/json.h"
#include "identity/grpc_credentials.h"
#include "wire/agent_proto.h"

namespace monkeytree {
namespace {

using Stream = grpc::ServerBidiReactor<wire::v1::FromAgent, wire::v1::ToAgent>;

constexpr size_t kMaxQueue = 4096;  // messages that an agent has not taken

grpc::Status refusal(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

/// One stream of one agent, from its opening to its end; deletes itself then.
class Session final : public Stream, public AgentLink {
 public:
  Session(std::shared_ptr<AgentHub> hub, grpc::CallbackServerContext* context, bool identified)
      : hub_(std::move(hub)), context_(context), peer_(context->peer()), identified_(identified) {
    StartRead(&incoming_);
  }

  // With the hub's lock held, so that the session is still there.
  void send(const AgentCommand& command) override {
    wire::v1::ToAgent message;
    write_proto(command, *message.mutable_command());
    enqueue(std::move(message));
  }
  void send(const std::vector<RouteInstruction>& routes) override {
    wire::v1::ToAgent message;
    write_proto(routes, *message.mutable_routes());
    enqueue(std::move(message));
  }
  void welcome(uint64_t fence) override {
    wire::v1::ToAgent message;
    message.mutable_welcome()->set_version(kAgentProtocolVersion);
    message.mutable_welcome()->set_fence(fence);
    message.mutable_welcome()->set_heartbeat_ms(
        static_cast<uint32_t>(hub_->options().heartbeat.count()));
    enqueue(std::move(message));
  }
  void cut() override { context_->TryCancel(); }

 private:
  void enqueue(wire::v1::ToAgent message) {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (queue_.size() >= kMaxQueue) return context_->TryCancel();
    queue_.push_back(std::move(message));
    if (queue_.size() == 1) StartWrite(&queue_.front());
  }

  void finish(const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (std::exchange(finished_, true)) return;
    Finish(status);
  }

  void OnWriteDone(bool ok) override {
    const std::lock_guard lock(mutex_);
    if (!ok || finished_) return;  // reading fails too, and ends it
    queue_.pop_front();
    if (!queue_.empty()) StartWrite(&queue_.front());
  }

  void OnReadDone(bool ok) override {
    if (!ok) return finish(grpc::Status::OK);
    if (const absl::Status status = take(); !status.ok()) {
      hub_->refused({{"peer", peer_}, {"node", node_}, {"reason", std::string(status.message())}});
      return finish(refusal(status));
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }

  void OnDone() override {
    if (session_ != 0) hub_->left(node_, session_);
    delete this;
  }

  absl::Status take() {
    using Kind = wire::v1::FromAgent::MessageCase;
    const Kind kind = incoming_.message_case();
    if (session_ == 0 && kind != Kind::kHello) {
      return absl::InvalidArgumentError("the first message must be a hello");
    }
    switch (kind) {
      case Kind::kHello:
        return take_hello();
      case Kind::kState: {
        absl::StatusOr<AgentState> state = read_proto(incoming_.state());
        if (!state.ok()) return state.status();
        hub_->told(node_, session_, *std::move(state));
        break;
      }
      case Kind::kWorkerCommand: {
        absl::StatusOr<AgentWorkerCommand> command = read_proto(incoming_.worker_command());
        if (!command.ok()) return command.status();
        hub_->told(node_, session_, *std::move(command));
        break;
      }
      case Kind::kReply: {
        absl::StatusOr<AgentReply> reply = read_proto(incoming_.reply());
        if (!reply.ok()) return reply.status();
        hub_->replied(node_, session_, *std::move(reply));
        break;
      }
      case Kind::MESSAGE_NOT_SET:
        break;
    }
    return absl::OkStatus();  // of a later version
  }

  absl::Status take_hello() {
    if (session_ != 0) return absl::InvalidArgumentError("a second hello");
    absl::StatusOr<AgentHello> hello = read_proto(incoming_.hello());
    if (!hello.ok()) return hello.status();
    if (absl::Status status = check_identity(hello->node); !status.ok()) return status;
    node_ = hello->node;
    welcome(hub_->fence());
    session_ = hub_->came(*std::move(hello), this);
    return absl::OkStatus();
  }

  absl::Status check_identity(const std::string& node) const {
    if (!identified_) return absl::OkStatus();
    const std::vector<std::string> names =
        names_of_peer(*context_->auth_context()).value_or(std::vector<std::string>());
    if (std::find(names.begin(), names.end(), node) != names.end()) return absl::OkStatus();
    return absl::PermissionDeniedError(
        fmt::format("its certificate is that of {}: it may not speak for node {}",
                    names.empty() ? "nobody" : "node " + printable(names.front()), node));
  }

  const std::shared_ptr<AgentHub> hub_;
  grpc::CallbackServerContext* const context_;
  const std::string peer_;
  const bool identified_;
  wire::v1::FromAgent incoming_;
  std::string node_;
  uint64_t session_ = 0;  ///< 0 before the hello

  std::mutex mutex_;                     ///< after the hub's
  std::deque<wire::v1::ToAgent> queue_;  ///< the first is being written
  bool finished_ = false;
};

}  // namespace

Stream* AgentService::Session(grpc::CallbackServerContext* context) {
  return new monkeytree::Session(hub_, context, identified_);
}

}  // namespace monkeytree
