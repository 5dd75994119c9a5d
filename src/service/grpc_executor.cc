#include "service/grpc_executor.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "base/status.h"
#include "identity/grpc_credentials.h"
#include "service/grpc_session.h"
#include "wire/agent_proto.h"

namespace monkeytree {

namespace {

std::shared_ptr<grpc::ServerCredentials> credentials_of(const TlsFiles& tls,
                                                        const std::shared_ptr<AgentHub>& hub) {
  if (!tls.configured()) return grpc::InsecureServerCredentials();
  return tls_server_credentials(tls, [hub](const absl::Status& verdict) {
    if (!verdict.ok()) hub->refused({{"reason", std::string(verdict.message())}});
  });
}

}  // namespace

struct GrpcExecutor::Parts {
  std::unique_ptr<AgentService> service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
  std::mutex mutex;
  std::condition_variable stopped;
  bool stop = false;
  std::thread sweeper;
};

GrpcExecutor::GrpcExecutor(std::shared_ptr<AgentHub> hub, std::unique_ptr<Parts> parts)
    : AgentExecutor(std::move(hub)), parts_(std::move(parts)) {}

absl::StatusOr<std::unique_ptr<GrpcExecutor>> GrpcExecutor::start(GrpcExecutorOptions options) {
  const absl::StatusOr<HostPort> listen = parse_host_port(options.listen);
  if (!listen.ok()) return listen.status();
  const bool tls = options.tls.configured();
  if (!listen->loopback && !tls && !options.insecure) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is no loopback address: whoever reaches it could play an agent; expected 127.0.0.1 or "
        "[::1], or `tls:`, or `insecure: true` where the network is trusted",
        options.listen));
  }
  if (tls) {
    const auto identity = read_identity(options.tls, CertificateRole::kController, unix_now_s());
    if (!identity.ok()) return with_context(identity.status(), "tls");
  } else if (!listen->loopback) {
    options.log(LogLevel::kWarning, "insecure: agents are believed without proof of who they are",
                {{"listen", options.listen}});
  }
  auto parts = std::make_unique<Parts>();
  const auto hub =
      std::make_shared<AgentHub>(AgentHub::Options{options.fence, options.heartbeat, options.silent,
                                                   options.patience, options.log, options.leads});
  parts->service = std::make_unique<AgentService>(hub, tls);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen->text(), credentials_of(options.tls, hub), &parts->port);
  builder.RegisterService(parts->service.get());
  builder.SetMaxReceiveMessageSize(kMaxAgentMessage);
  // A second controller on the port must fail, not share it.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  parts->server = builder.BuildAndStart();
  if (!parts->server || parts->port == 0) {
    return absl::UnavailableError(fmt::format("{} cannot be listened on", options.listen));
  }
  Parts* const raw = parts.get();
  parts->sweeper = std::thread([raw, hub] {
    std::unique_lock lock(raw->mutex);
    const auto pace = std::max(hub->options().silent / 4, std::chrono::milliseconds(10));
    while (!raw->stopped.wait_for(lock, pace, [raw] { return raw->stop; })) hub->cut_silent();
  });
  return std::unique_ptr<GrpcExecutor>(new GrpcExecutor(hub, std::move(parts)));
}

GrpcExecutor::~GrpcExecutor() {
  {
    const std::lock_guard lock(parts_->mutex);
    parts_->stop = true;
    parts_->stopped.notify_all();
  }
  parts_->sweeper.join();
  hub().stop();
  parts_->server->Shutdown(std::chrono::system_clock::now());
  parts_->server->Wait();
}

int GrpcExecutor::port() const { return parts_->port; }

}  // namespace monkeytree
