#include "service/grpc_executor.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "service/grpc_session.h"
#include "wire/agent_proto.h"

namespace monkeytree {

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
  if (!listen->loopback && !options.insecure) {
    return absl::InvalidArgumentError(fmt::format(
        "{} is no loopback address: whoever reaches it could play an agent; expected 127.0.0.1 or "
        "[::1], or `insecure: true` where the network is trusted",
        options.listen));
  }
  if (!listen->loopback) {
    options.log(LogLevel::kWarning, "insecure: agents are believed without proof of who they are",
                {{"listen", options.listen}});
  }
  auto parts = std::make_unique<Parts>();
  const auto hub = std::make_shared<AgentHub>(AgentHub::Options{
      options.fence, options.heartbeat, options.silent, options.patience, options.log});
  parts->service = std::make_unique<AgentService>(hub);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(listen->text(), grpc::InsecureServerCredentials(), &parts->port);
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
