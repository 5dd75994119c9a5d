#include "agent/session.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <utility>

#include "wire/agent_proto.h"
#include "wire/agents.grpc.pb.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Stream = grpc::ClientReaderWriter<wire::v1::FromAgent, wire::v1::ToAgent>;

constexpr size_t kMaxRunning = 256;  // commands at once

/// One stream to the controller, from hello to its end. Writing is shared by several threads.
class Talk {
 public:
  Talk(Agent& agent, Stream& stream) : agent_(agent), stream_(stream) {}

  bool hello() {
    const AgentHello hello = agent_.hello();
    wire::v1::FromAgent message;
    write_proto(hello, *message.mutable_hello());
    const std::lock_guard lock(mutex_);
    return write(message) && tell_commands(hello.state);
  }

  /// What has changed, or (`always`) a heartbeat.
  bool state(bool always) {
    const std::lock_guard lock(mutex_);
    return tell_state(always);
  }

  /// An answer, and before it what has changed, so that the controller is never behind what it is
  /// told.
  void reply(const AgentReply& reply) {
    wire::v1::FromAgent message;
    write_proto(reply, *message.mutable_reply());
    const std::lock_guard lock(mutex_);
    if (tell_state(false)) write(message);
  }

  /// Nothing is written any more.
  void end() {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }

 private:
  bool write(const wire::v1::FromAgent& message) {
    ended_ = ended_ || !stream_.Write(message);
    return !ended_;
  }

  bool tell_state(bool always) {
    if (ended_) return false;
    AgentState now = agent_.state();
    if (!always && now == told_) return true;
    if (!tell_commands(now)) return false;
    wire::v1::FromAgent message;
    write_proto(now, *message.mutable_state());
    told_ = std::move(now);
    return write(message);
  }

  bool tell_commands(const AgentState& state) {
    std::set<uint64_t> there;
    for (const WorkerState& worker : state.workers) {
      there.insert(worker.instance);
      if (commands_told_.contains(worker.instance)) continue;
      const std::optional<StartCommand> command = agent_.command(worker.instance);
      if (!command) continue;
      wire::v1::FromAgent message;
      write_proto(AgentWorkerCommand{worker.instance, *command}, *message.mutable_worker_command());
      if (!write(message)) return false;
    }
    commands_told_ = std::move(there);
    return true;
  }

  Agent& agent_;
  Stream& stream_;
  std::mutex mutex_;
  bool ended_ = false;
  AgentState told_;
  std::set<uint64_t> commands_told_;
};

class GrpcSession final : public AgentSession {
 public:
  GrpcSession(Agent& agent, AgentSessionOptions options)
      : agent_(agent), options_(std::move(options)), random_(std::random_device()()) {
    agent_.on_change([this] {
      const std::lock_guard lock(mutex_);
      changed_ = true;
      wake_.notify_all();
    });
    thread_ = std::thread([this] { run(); });
  }

  ~GrpcSession() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      if (context_ != nullptr) context_->TryCancel();
      wake_.notify_all();
    }
    agent_.on_change(nullptr);
    agent_.stop();
    thread_.join();
    for (Running& one : running_) one.thread.join();
  }

  bool connected() const override { return connected_; }

 private:
  struct Running {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };

  void run() {
    milliseconds wait = options_.first_retry;
    while (true) {
      const absl::Status status = talk();
      const bool was_connected = connected_.exchange(false);
      std::unique_lock lock(mutex_);
      if (stopping_) return;
      if (was_connected) wait = options_.first_retry;
      const bool refused = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status);
      if (refused) wait = options_.longest_retry;
      std::uniform_real_distribution<double> draw(0.5, 1.5);
      const auto drawn = std::chrono::duration_cast<milliseconds>(wait * draw(random_));
      options_.log(refused ? LogLevel::kError : LogLevel::kWarning, "no controller",
                   {{"controller", options_.controller},
                    {"reason", std::string(status.message())},
                    {"retry_ms", std::to_string(drawn.count())}});
      wake_.wait_for(lock, drawn, [this] { return stopping_; });
      if (stopping_) return;
      wait = std::min(2 * wait, options_.longest_retry);
    }
  }

  /// One connection, until it ends; why it ended.
  absl::Status talk() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // Each try dials anew: a channel that is shared would keep its own back-off.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(kMaxAgentMessage);
    const std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
        options_.controller, grpc::InsecureChannelCredentials(), arguments);
    const auto stub = wire::v1::Agents::NewStub(channel);
    grpc::ClientContext context;
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return absl::CancelledError("stopping");
      context_ = &context;
    }
    const std::shared_ptr<Stream> stream = stub->Session(&context);
    const auto talk = std::make_shared<Talk>(agent_, *stream);
    absl::Status status = listen(*stream, talk);
    // Otherwise the stream has ended by itself, and says why.
    if (!status.ok()) context.TryCancel();
    // Who still waits for a command's end holds `talk`, which writes no more.
    talk->end();
    const grpc::Status ended = stream->Finish();
    {
      const std::lock_guard lock(mutex_);
      context_ = nullptr;
    }
    if (!status.ok()) return status;
    return {static_cast<absl::StatusCode>(ended.error_code()), ended.error_message()};
  }

  absl::Status listen(Stream& stream, const std::shared_ptr<Talk>& talk) {
    if (!talk->hello()) return absl::OkStatus();
    wire::v1::ToAgent message;
    if (!stream.Read(&message)) return absl::OkStatus();
    if (!message.has_welcome() || message.welcome().version() != kAgentProtocolVersion) {
      return absl::FailedPreconditionError("the controller speaks another version");
    }
    if (absl::Status status = agent_.accept_fence(message.welcome().fence()); !status.ok()) {
      return status;
    }
    connected_ = true;
    options_.log(LogLevel::kInfo, "controller",
                 {{"controller", options_.controller},
                  {"epoch", std::to_string(message.welcome().fence())}});
    const milliseconds pace(std::clamp<uint32_t>(message.welcome().heartbeat_ms(), 10, 60'000));
    std::atomic<bool> over{false};
    std::thread heart([&] { beat(*talk, pace, over); });
    absl::Status status;
    while (status.ok() && stream.Read(&message)) status = take(message, talk);
    {
      const std::lock_guard lock(mutex_);
      over = true;
      if (!status.ok() && context_ != nullptr) context_->TryCancel();
      wake_.notify_all();
    }
    heart.join();
    return status;
  }

  void beat(Talk& talk, milliseconds pace, const std::atomic<bool>& over) {
    std::unique_lock lock(mutex_);
    while (!over && !stopping_) {
      const bool changed =
          wake_.wait_for(lock, pace, [&] { return changed_ || over.load() || stopping_; });
      changed_ = false;
      lock.unlock();
      talk.state(!changed);
      lock.lock();
    }
  }

  absl::Status take(const wire::v1::ToAgent& message, const std::shared_ptr<Talk>& talk) {
    if (message.has_routes()) {
      const absl::StatusOr<std::vector<RouteInstruction>> routes = read_proto(message.routes());
      if (routes.ok()) agent_.apply_routes(*routes);
      return routes.status();
    }
    if (!message.has_command()) return absl::OkStatus();
    absl::StatusOr<AgentCommand> command = read_proto(message.command());
    reap();
    if (command.ok() && running_.size() >= kMaxRunning) {
      command = absl::ResourceExhaustedError("the agent carries out too many commands already");
    }
    if (!command.ok()) {
      AgentReply refusal;
      refusal.request = message.command().request();
      refusal.status = command.status();
      talk->reply(refusal);
      return absl::OkStatus();
    }
    const auto done = std::make_shared<std::atomic<bool>>(false);
    running_.push_back({std::thread([this, talk, done, order = *std::move(command)] {
                          talk->reply(agent_.perform(order));
                          *done = true;
                        }),
                        done});
    return absl::OkStatus();
  }

  void reap() {
    for (auto one = running_.begin(); one != running_.end();) {
      if (!*one->done) {
        ++one;
        continue;
      }
      one->thread.join();
      one = running_.erase(one);
    }
  }

  Agent& agent_;
  const AgentSessionOptions options_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false, changed_ = false;
  grpc::ClientContext* context_ = nullptr;
  std::atomic<bool> connected_{false};
  std::list<Running> running_;  ///< only for thread_
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentSession>> AgentSession::start(Agent& agent,
                                                                  AgentSessionOptions options) {
  const absl::StatusOr<HostPort> controller = parse_host_port(options.controller);
  if (!controller.ok()) return controller.status();
  if (!controller->loopback && !options.insecure) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is no loopback address: whoever is there could command this node; expected a "
        "controller on this machine, or `insecure: true` where the network is trusted",
        options.controller));
  }
  if (!controller->loopback) {
    options.log(LogLevel::kWarning, "insecure: the controller is believed without proof",
                {{"controller", options.controller}});
  }
  return std::make_unique<GrpcSession>(agent, std::move(options));
}

}  // namespace monkeytree
