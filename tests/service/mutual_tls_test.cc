// Controller and agents that prove to each other who they are, and all who cannot.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "agent/agent.h"
#include "agent/session.h"
#include "base/eventually.h"
#include "identity/authority.h"
#include "identity/grpc_credentials.h"
#include "program.h"
#include "service/grpc_executor.h"
#include "wire/agent_proto.h"
#include "wire/agents.grpc.pb.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using testing::AllOf;
using testing::HasSubstr;
using Role = CertificateRole;

/// What one side has said.
class Log {
 public:
  LogSink sink() {
    return [this](LogLevel, std::string_view event, const LogFields& fields) {
      const std::lock_guard lock(mutex_);
      text_ += log_line(event, fields) + "\n";
    };
  }
  bool says(const std::string& text) const {
    const std::lock_guard lock(mutex_);
    return text_.find(text) != std::string::npos;
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
};

/// An agent in this process.
struct RunningAgent {
  Log log;
  std::unique_ptr<Agent> agent;
  std::unique_ptr<AgentSession> session;

  bool connected() const { return session->connected(); }
};

class MutualTls : public testing::Test {
 protected:
  MutualTls() {
    put("ca", ca_);
    put("controller", signed_by(ca_, Role::kController, {"127.0.0.1"}));
    for (const char* node : {"n1", "n2"}) put(node, signed_by(ca_, Role::kNode, {node}));
  }

  static int64_t now_s() { return unix_now_s(); }
  static Credential authority() { return make_authority({now_s(), 3650}).value(); }
  static Credential signed_by(const Credential& ca, Role role,
                              const std::vector<std::string>& hosts) {
    return issue(ca, role, hosts, {now_s(), 365}).value();
  }
  /// A node's certificate that is not in force any more, of the same CA.
  Credential expired(Role role, const std::string& host) {
    const int64_t then_s = now_s() - int64_t{400} * 86400;
    return issue({renew_authority(ca_, {then_s, 3650}).value(), ca_.key}, role, {host},
                 {then_s, 365})
        .value();
  }
  /// As `monkeytree certs` puts them there: renamed, the key first.
  void put(const std::string& name, const Credential& credential) const {
    chmod(folder_.write(name + ".new", credential.key).c_str(), 0600);
    std::filesystem::rename(file(name + ".new"), file(name + ".key"));
    put_certificate(name, credential.certificate);
  }
  void put_certificate(const std::string& name, const std::string& pem) const {
    folder_.write(name + ".new", pem);
    std::filesystem::rename(file(name + ".new"), file(name + ".crt"));
  }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  TlsFiles files(const std::string& name, const std::string& ca = "ca") const {
    return {file(ca + ".crt"), file(name + ".crt"), file(name + ".key")};
  }

  void start_controller(const TlsFiles& tls, int port = 0) {
    GrpcExecutorOptions options;
    options.tls = tls;
    options.listen = fmt::format("127.0.0.1:{}", port);
    options.log = log_.sink();
    executor_.reset();
    // The port may take a moment to be free again.
    ASSERT_TRUE(eventually([&] {
      absl::StatusOr<std::unique_ptr<GrpcExecutor>> started = GrpcExecutor::start(options);
      if (started.ok()) executor_ = *std::move(started);
      return executor_ != nullptr;
    }));
  }
  std::unique_ptr<RunningAgent> start_agent(const std::string& node, const TlsFiles& tls,
                                            int port = 0) {
    auto out = std::make_unique<RunningAgent>();
    AgentOptions options;
    options.node = node;
    options.socket = file(fmt::format("agent{}.sock", ++agents_));
    out->agent = Agent::start(options).value();
    AgentSessionOptions session;
    session.controllers = {fmt::format("127.0.0.1:{}", port != 0 ? port : executor_->port())};
    session.tls = tls;
    session.first_retry = milliseconds(20);
    session.longest_retry = milliseconds(100);
    session.log = out->log.sink();
    out->session = AgentSession::start(*out->agent, session).value();
    return out;
  }
  bool knows(const std::string& node) const {
    for (const AgentReport& agent : executor_->agents()) {
      if (agent.node == node && agent.connected) return true;
    }
    return false;
  }
  /// How a stream ends that begins with the hello of a node.
  grpc::Status say_hello(const std::string& node,
                         const std::shared_ptr<grpc::ChannelCredentials>& credentials) const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = wire::v1::Agents::NewStub(grpc::CreateCustomChannel(
        fmt::format("127.0.0.1:{}", executor_->port()), credentials, arguments));
    grpc::ClientContext context;
    const auto stream = stub->Session(&context);
    AgentHello hello;
    hello.node = node;
    hello.address = "127.0.0.1";
    wire::v1::FromAgent message;
    write_proto(hello, *message.mutable_hello());
    stream->Write(message);
    wire::v1::ToAgent answer;
    if (stream->Read(&answer)) context.TryCancel();
    return stream->Finish();
  }
  /// Who talks TLS and shows this certificate, or none.
  std::shared_ptr<grpc::ChannelCredentials> stranger(const Credential& own) const {
    return grpc::SslCredentials({folder_.read("ca.crt"), own.key, own.certificate});
  }

  TemporaryFolder folder_;
  const Credential ca_ = authority();
  Log log_;  ///< the controller's
  std::unique_ptr<GrpcExecutor> executor_;
  int agents_ = 0;
};

TEST_F(MutualTls, TheRightOnesTalk) {
  start_controller(files("controller"));
  const auto one = start_agent("n1", files("n1")), two = start_agent("n2", files("n2"));
  EXPECT_TRUE(eventually([&] { return one->connected() && two->connected(); }))
      << one->log.text() << log_.text();
  EXPECT_TRUE(eventually([&] { return knows("n1") && knows("n2"); }));
  EXPECT_FALSE(log_.says("refused"));
}

TEST_F(MutualTls, WithoutACertificateNobodyIsHeard) {
  start_controller(files("controller"));
  EXPECT_EQ(say_hello("n1", stranger({})).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([&] {
    return log_.says("event=\"agent refused\" reason=\"no certificate\"");
  })) << log_.text();
  EXPECT_FALSE(knows("n1"));
}

TEST_F(MutualTls, AnotherAuthoritysNodeIsRefusedInBothLogs) {
  const Credential other = authority();
  put("n1", signed_by(other, Role::kNode, {"n1"}));
  put_certificate("both", ca_.certificate + other.certificate);
  start_controller(files("controller"));
  const auto agent = start_agent("n1", files("n1", "both"));
  EXPECT_TRUE(eventually([&] { return log_.says("of node n1 is signed by "); })) << log_.text();
  EXPECT_TRUE(eventually([&] {
    return agent->log.says("the controller hung up: it may not believe this node's certificate");
  })) << agent->log.text();
  EXPECT_FALSE(agent->connected());
  EXPECT_FALSE(knows("n1"));
}

TEST_F(MutualTls, AnotherAuthoritysControllerIsRefused) {
  const Credential other = authority();
  put("other", other);
  put("controller", signed_by(other, Role::kController, {"127.0.0.1"}));
  put_certificate("both", ca_.certificate + other.certificate);
  start_controller(files("controller", "both"));
  const auto agent = start_agent("n1", files("n1"));
  EXPECT_TRUE(eventually([&] {
    return agent->log.says("the certificate of controller 127.0.0.1 is signed by ");
  })) << agent->log.text();
  EXPECT_FALSE(agent->connected());
}

TEST_F(MutualTls, AControllerOfAnotherNameIsRefused) {
  put("controller", signed_by(ca_, Role::kController, {"head", "10.0.0.1"}));
  start_controller(files("controller"));
  const auto agent = start_agent("n1", files("n1"));
  EXPECT_TRUE(eventually([&] {
    return agent->log.says("of controller head is not for 127.0.0.1, only for head, 10.0.0.1");
  })) << agent->log.text();
  EXPECT_FALSE(agent->connected());
}

TEST_F(MutualTls, WhatHasExpiredIsRefusedUntilItIsRenewed) {
  const Credential old = expired(Role::kNode, "n1");
  start_controller(files("controller"));
  EXPECT_EQ(say_hello("n1", stranger(old)).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([&] { return log_.says("of node n1 has expired on "); })) << log_.text();
  EXPECT_FALSE(knows("n1"));
  // The agent knows by itself, and takes up the new one without a restart.
  put("n1", old);
  const auto agent = start_agent("n1", files("n1"));
  EXPECT_TRUE(eventually([&] { return agent->log.says("of node n1 has expired on "); }))
      << agent->log.text();
  EXPECT_FALSE(agent->connected());
  put("n1", signed_by(ca_, Role::kNode, {"n1"}));
  EXPECT_TRUE(eventually([&] { return agent->connected(); })) << agent->log.text();
}

TEST_F(MutualTls, AnExpiredControllerIsRefusedAndDoesNotStart) {
  start_controller(files("controller"));
  // It expires while it runs; connections that are made before that is seen are good.
  put("controller", expired(Role::kController, "127.0.0.1"));
  EXPECT_TRUE(eventually([&] {
    const auto agent = start_agent("n1", files("n1"));
    eventually([&] { return agent->connected() || agent->log.says("no controller"); });
    return agent->log.says("controller 127.0.0.1 has expired on ");
  }));
  GrpcExecutorOptions options;
  options.tls = files("controller");
  const absl::Status status = GrpcExecutor::start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(
      std::string(status.message()),
      AllOf(HasSubstr("tls: "), HasSubstr("controller.crt: "), HasSubstr("has expired on")));
}

TEST_F(MutualTls, AnAgentSpeaksForItsOwnNodeOnly) {
  start_controller(files("controller"));
  const TlsIdentity n2 = read_identity(files("n2"), Role::kNode, now_s()).value();
  const grpc::Status status =
      say_hello("n1", tls_channel_credentials(n2, "127.0.0.1", [](const absl::Status&) {}));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(status.error_message(),
            "its certificate is that of node n2: it may not speak for node n1");
  EXPECT_TRUE(eventually([&] { return log_.says("it may not speak for node n1"); }));
  EXPECT_FALSE(knows("n1"));
  EXPECT_FALSE(knows("n2"));
  const auto agent = start_agent("n1", files("n2"));
  EXPECT_TRUE(eventually([&] {
    return agent->log.says("n2.crt: is the certificate of node n2, expected one of node n1");
  })) << agent->log.text();
}

TEST_F(MutualTls, ANodePosesAsNoController) {
  // With a node's files nothing of ours starts; somebody else's program would.
  GrpcExecutorOptions options;
  options.tls = files("n2");
  EXPECT_THAT(std::string(GrpcExecutor::start(options).status().message()),
              HasSubstr("is a node's, expected a controller's"));
  put("imposter", signed_by(ca_, Role::kNode, {"127.0.0.1"}));
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort(
      "127.0.0.1:0", tls_server_credentials(files("imposter"), [](const absl::Status&) {}), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto agent = start_agent("n1", files("n1"), port);
  EXPECT_TRUE(eventually([&] {
    return agent->log.says("node 127.0.0.1 is a node's, expected a controller's");
  })) << agent->log.text();
  EXPECT_FALSE(agent->connected());
  agent->session.reset();
  server->Shutdown();
  queue->Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue->Next(&tag, &ok);) {
  }
}

TEST_F(MutualTls, AControllersCertificateIsNoAgents) {
  start_controller(files("controller"));
  const Credential controller = signed_by(ca_, Role::kController, {"n1"});
  EXPECT_EQ(say_hello("n1", stranger(controller)).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([&] { return log_.says("is a controller's, expected a node's"); }))
      << log_.text();
}

TEST_F(MutualTls, NobodyFallsBackToPlainText) {
  // For the rest of the process, so it outlives the test.
  static Log grpc;
  tell_of_grpc([](const std::string& text) { grpc.sink()(LogLevel::kWarning, text, {}); });
  start_controller(files("controller"));
  const auto plain = start_agent("n1", {});
  EXPECT_TRUE(eventually([&] { return plain->log.says("does it expect TLS"); }))
      << plain->log.text();
  EXPECT_EQ(say_hello("n1", grpc::InsecureChannelCredentials()).error_code(),
            grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(eventually([&] { return grpc.says("what came spoke no TLS"); })) << grpc.text();
  EXPECT_FALSE(knows("n1"));
  start_controller({});
  const auto careful = start_agent("n2", files("n2"));
  EXPECT_TRUE(eventually([&] { return careful->log.says("has it tls: in its configuration?"); }))
      << careful->log.text();
  EXPECT_FALSE(careful->connected());
  EXPECT_FALSE(knows("n2"));
}

TEST_F(MutualTls, CertificatesAndAuthoritiesChangeWithoutARestart) {
  put_certificate("trusted", ca_.certificate);
  start_controller(files("controller", "trusted"));
  const int port = executor_->port();
  put_certificate("trusted-by-n1", ca_.certificate);
  const auto agent = start_agent("n1", files("n1", "trusted-by-n1"));
  ASSERT_TRUE(eventually([&] { return knows("n1"); }));
  // First all believe both, then all get certificates of the new CA.
  const Credential next = authority();
  put_certificate("trusted", ca_.certificate + next.certificate);
  put_certificate("trusted-by-n1", ca_.certificate + next.certificate);
  put("n1", signed_by(next, Role::kNode, {"n1"}));
  put("controller", signed_by(next, Role::kController, {"127.0.0.1"}));
  put("next", next);
  put("n2", signed_by(next, Role::kNode, {"n2"}));
  const auto young = start_agent("n2", files("n2", "next"));  // believes the new CA only
  EXPECT_TRUE(eventually([&] { return knows("n2"); })) << young->log.text();
  EXPECT_TRUE(agent->connected());  // a connection that stands goes on
  put_certificate("trusted", next.certificate);
  start_controller(files("controller", "trusted"), port);
  EXPECT_TRUE(eventually([&] { return knows("n1") && knows("n2"); })) << agent->log.text();
}

TEST_F(MutualTls, OtherMachinesAreHeardByTlsOnly) {
  GrpcExecutorOptions options;
  options.listen = "0.0.0.0:0";
  EXPECT_THAT(std::string(GrpcExecutor::start(options).status().message()), HasSubstr("`tls:`"));
  options.tls = files("controller");
  EXPECT_TRUE(GrpcExecutor::start(options).ok());
}

}  // namespace
}  // namespace monkeytree
