#include "agent/session.h"

#include <absl/strings/match.h>
#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "identity/grpc_credentials.h"
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

/// The talk with one controller, by a thread of its own: dials until it is asked to stop.
class Line {
 public:
  Line(Agent& agent, const AgentSessionOptions& options, std::string controller)
      : agent_(agent),
        options_(options),
        controller_(std::move(controller)),
        random_(std::random_device()()),
        thread_([this] { run(); }) {}
  Line(const Line&) = delete;
  Line& operator=(const Line&) = delete;
  /// Only after ask_to_stop(), and when the agent carries out nothing any more.
  ~Line() {
    thread_.join();
    for (Running& one : running_) one.thread.join();
  }

  void agent_changed() {
    const std::lock_guard lock(mutex_);
    changed_ = true;
    wake_.notify_all();
  }
  void ask_to_stop() {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    if (context_ != nullptr) context_->TryCancel();
    wake_.notify_all();
  }
  bool connected() const { return connected_; }

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
      const bool refused = absl::IsFailedPrecondition(status) || absl::IsInvalidArgument(status) ||
                           absl::IsPermissionDenied(status);
      if (refused) wait = options_.longest_retry;
      std::uniform_real_distribution<double> draw(0.5, 1.5);
      const auto drawn = std::chrono::duration_cast<milliseconds>(wait * draw(random_));
      options_.log(refused ? LogLevel::kError : LogLevel::kWarning, "no controller",
                   {{"controller", controller_},
                    {"reason", std::string(status.message())},
                    {"retry_ms", std::to_string(drawn.count())}});
      wake_.wait_for(lock, drawn, [this] { return stopping_; });
      if (stopping_) return;
      wait = std::min(2 * wait, options_.longest_retry);
    }
  }

  /// One connection, until it ends; why it ended.
  absl::Status talk() {
    const auto verdict = std::make_shared<Verdict>();
    const auto credentials = credentials_for(verdict);
    if (!credentials.ok()) return credentials.status();
    absl::Status status = talk(*credentials);
    if (connected_) return status;
    return options_.tls.configured() ? why_no_tls(*verdict, status) : why_no_answer(status);
  }

  absl::Status talk(const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10'000);
    arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 10'000);
    arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    // Each try dials anew: a channel that is shared would keep its own back-off.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetMaxReceiveMessageSize(kMaxAgentMessage);
    const std::shared_ptr<grpc::Channel> channel =
        grpc::CreateCustomChannel(controller_, credentials, arguments);
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

  /// What became of the controller's certificate; the handshake may outlive the try.
  struct Verdict {
    std::mutex mutex;
    std::optional<absl::Status> status;  ///< nullopt: none came
  };

  absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> credentials_for(
      const std::shared_ptr<Verdict>& verdict) {
    if (!options_.tls.configured()) return grpc::InsecureChannelCredentials();
    const absl::StatusOr<TlsIdentity> identity =
        read_identity(options_.tls, CertificateRole::kNode, unix_now_s());
    // It may be that new files are just being put there: the usual next try.
    if (!identity.ok()) return absl::UnavailableError(identity.status().message());
    const std::string node = agent_.hello().node;
    const std::vector<std::string>& names = identity->certificate.hosts;
    if (std::find(names.begin(), names.end(), node) == names.end()) {
      return absl::FailedPreconditionError(
          fmt::format("{}: is the certificate of {}, expected one of node {}",
                      options_.tls.certificate, describe(identity->certificate), node));
    }
    if (const std::string warning = expiry_warning(identity->certificate, unix_now_s());
        !warning.empty()) {
      options_.log(LogLevel::kWarning, "certificate", {{"text", warning}});
    }
    const std::string host = parse_host_port(controller_)->host;
    return tls_channel_credentials(*identity, host, [verdict](const absl::Status& status) {
      const std::lock_guard lock(verdict->mutex);
      verdict->status = status;
    });
  }

  /// What gRPC knows of a connection that never became one is little: in our words.
  static absl::Status why_no_tls(Verdict& verdict, const absl::Status& status) {
    const std::lock_guard lock(verdict.mutex);
    const bool judged = verdict.status.has_value();
    if (judged && !verdict.status->ok()) return *verdict.status;
    if (!absl::IsUnavailable(status)) return status;
    return absl::UnavailableError(fmt::format(
        "{} ({})",
        judged ? "the controller hung up: it may not believe this node's certificate, and its log "
                 "says why"
               : "no TLS comes about: is the controller there, and has it tls: in its "
                 "configuration?",
        message_of(status)));
  }

  /// A controller that expects TLS hangs up on what is none.
  static absl::Status why_no_answer(const absl::Status& status) {
    if (!absl::IsUnavailable(status) || !absl::StrContains(status.message(), "closed")) {
      return status;
    }
    return absl::UnavailableError(
        fmt::format("the controller hung up: does it expect TLS (tls: in its configuration)? ({})",
                    message_of(status)));
  }

  absl::Status listen(Stream& stream, const std::shared_ptr<Talk>& talk) {
    if (!talk->hello()) return absl::OkStatus();
    wire::v1::ToAgent message;
    if (!stream.Read(&message)) return absl::OkStatus();
    if (!message.has_welcome() || message.welcome().version() != kAgentProtocolVersion) {
      return absl::FailedPreconditionError("the controller speaks another version");
    }
    if (absl::Status status = welcomed(message.welcome().fence()); !status.ok()) return status;
    connected_ = true;
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

  /// By a controller that leads with that token, or (0) that stands by until it does.
  absl::Status welcomed(uint64_t fence) {
    if (fence != 0) {
      if (absl::Status status = agent_.accept_fence(fence); !status.ok()) return status;
    }
    options_.log(
        LogLevel::kInfo, "controller",
        {{"controller", controller_}, {"epoch", fence == 0 ? "stands by" : std::to_string(fence)}});
    return absl::OkStatus();
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
    if (message.has_welcome()) return welcomed(message.welcome().fence());
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
  const AgentSessionOptions& options_;
  const std::string controller_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false, changed_ = false;
  grpc::ClientContext* context_ = nullptr;
  std::atomic<bool> connected_{false};
  std::list<Running> running_;  ///< only for thread_
  std::thread thread_;
};

class GrpcSession final : public AgentSession {
 public:
  GrpcSession(Agent& agent, AgentSessionOptions options)
      : agent_(agent), options_(std::move(options)) {
    for (const std::string& controller : options_.controllers) {
      lines_.push_back(std::make_unique<Line>(agent_, options_, controller));
    }
    agent_.on_change([this] {
      for (const auto& line : lines_) line->agent_changed();
    });
  }

  ~GrpcSession() override {
    for (const auto& line : lines_) line->ask_to_stop();
    agent_.on_change(nullptr);
    agent_.stop();
    lines_.clear();
  }

  bool connected() const override {
    return std::any_of(lines_.begin(), lines_.end(),
                       [](const auto& line) { return line->connected(); });
  }

 private:
  Agent& agent_;
  const AgentSessionOptions options_;
  std::vector<std::unique_ptr<Line>> lines_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<AgentSession>> AgentSession::start(Agent& agent,
                                                                  AgentSessionOptions options) {
  for (const std::string& text : options.controllers) {
    const absl::StatusOr<HostPort> controller = parse_host_port(text);
    if (!controller.ok()) return controller.status();
    const bool tls = options.tls.configured();
    if (!controller->loopback && !tls && !options.insecure) {
      return absl::InvalidArgumentError(fmt::format(
          "{} is no loopback address: whoever is there could command this node; expected a "
          "controller on this machine, or `tls:`, or `insecure: true` where the network is trusted",
          text));
    }
    if (!controller->loopback && !tls) {
      options.log(LogLevel::kWarning, "insecure: the controller is believed without proof",
                  {{"controller", text}});
    }
  }
  return std::make_unique<GrpcSession>(agent, std::move(options));
}

}  // namespace monkeytree
