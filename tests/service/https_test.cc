// The controller's HTTPS and the client of the command line, with each other and with strangers.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/eventually.h"
#include "cli/api_client.h"
#include "cli/tls_stream.h"
#include "identity/authority.h"
#include "program.h"
#include "service/http_server.h"
#include "service/test_client.h"

namespace monkeytree {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using Role = CertificateRole;

constexpr int64_t kDay_s = 86400;

class Https : public testing::Test {
 protected:
  Https() {
    folder_.write("ca.crt", ca_.certificate);
    put(signed_by(ca_, {"127.0.0.1"}));
  }

  static Credential signed_by(const Credential& ca, const std::vector<std::string>& hosts,
                              Role role = Role::kController) {
    return issue(ca, role, hosts, {unix_now_s(), 365}).value();
  }
  void put_key(const std::string& key) const {
    chmod(folder_.write("new", key).c_str(), 0600);
    std::filesystem::rename(file("new"), file("controller.key"));
  }
  void put_certificate(const std::string& pem) const {
    folder_.write("new", pem);
    std::filesystem::rename(file("new"), file("controller.crt"));
  }
  void put(const Credential& credential) const {
    put_key(credential.key);
    put_certificate(credential.certificate);
  }
  std::string file(const std::string& name) const { return folder_.path() + "/" + name; }
  TlsFiles files() const {
    return {file("ca.crt"), file("controller.crt"), file("controller.key")};
  }

  absl::Status start(const TlsFiles& tls) {
    HttpServer::Handlers handlers;
    handlers.answer = [this](const HttpRequest& request) {
      HttpResponse response;
      response.body = request.path == "/much" ? std::string(3'000'000, 'x') : request.body + "!";
      if (request.path == "/stream") response.stream = stream_;
      return response;
    };
    handlers.refused = [this](const std::string& line) {
      const std::lock_guard lock(mutex_);
      refused_ += line + "\n";
    };
    server_.reset();
    absl::StatusOr<std::unique_ptr<HttpServer>> server =
        HttpServer::start({"127.0.0.1", 0}, std::move(handlers), HttpLimits(), tls);
    absl::Status status = server.status();
    if (server.ok()) server_ = *std::move(server);
    return status;
  }
  int port() const { return server_->address().port; }
  absl::StatusOr<ApiAnswer> call(const std::string& authorities, const std::string& target = "/",
                                 const std::string& body = "") const {
    return call_api({{"127.0.0.1", port()}, authorities, ""}, body.empty() ? "GET" : "POST", target,
                    body, std::chrono::seconds(60));
  }
  std::string fault(const std::string& authorities) const {
    return std::string(call(authorities).status().message());
  }
  std::string refused() const {
    const std::lock_guard lock(mutex_);
    return refused_;
  }

  TemporaryFolder folder_;
  const Credential ca_ = make_authority({unix_now_s(), 3650}).value();
  const std::shared_ptr<HttpStream> stream_ = std::make_shared<HttpStream>();
  mutable std::mutex mutex_;
  std::string refused_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(Https, AnswersWhoBelievesIt) {
  ASSERT_TRUE(start(files()).ok());
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<ApiAnswer> answer = call(ca_.certificate, "/", "hello");
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->status, 200);
    EXPECT_EQ(answer->body, "hello!");
  }
  EXPECT_EQ(call(ca_.certificate, "/much")->body.size(), 3'000'000U);
  EXPECT_EQ(call(ca_.certificate, "/", std::string(60'000, 'y'))->body.size(), 60'001U);
}

TEST_F(Https, AStreamGoesOnByTls) {
  ASSERT_TRUE(start(files()).ok());
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  {
    TlsStream client(socket);
    ASSERT_EQ(client.shake_hands().state, TlsStream::State::kDone) << client.fault();
    ASSERT_TRUE(client.judge(ca_.certificate, "127.0.0.1").ok());
    client.write("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::string got;
    const auto read_until = [&](const std::string& text) {
      std::array<char, 4096> buffer{};
      while (got.find(text) == std::string::npos) {
        const TlsStream::Progress step = client.read(buffer.data(), buffer.size());
        if (step.state != TlsStream::State::kDone) return false;
        got.append(buffer.data(), step.bytes);
      }
      return true;
    };
    EXPECT_TRUE(read_until("\r\n\r\n"));
    for (const char* event : {"first", "second", "third"}) {
      EXPECT_TRUE(stream_->write(event));
      EXPECT_TRUE(read_until(event));
    }
  }
  close(socket);
  EXPECT_TRUE(eventually([&] { return stream_->gone(); }));
}

TEST_F(Https, StrangersAreNotBelieved) {
  ASSERT_TRUE(start(files()).ok());
  const Credential other = make_authority({unix_now_s(), 3650}).value();
  EXPECT_EQ(call(other.certificate).status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(fault(other.certificate),
              AllOf(HasSubstr("127.0.0.1:"), HasSubstr(" is not believed: the certificate of "
                                                       "controller 127.0.0.1 is signed by ")));
  put(signed_by(ca_, {"head"}));
  EXPECT_TRUE(eventually([&] {
    return fault(ca_.certificate).find("is not for 127.0.0.1, only for head") != std::string::npos;
  }));
}

TEST_F(Https, WhatHasExpiredIsNotBelieved) {
  // A certificate that ends in a moment, and a server that shows it on.
  put(issue(ca_, Role::kController, {"127.0.0.1"}, {unix_now_s() - kDay_s + 2, 1}).value());
  ASSERT_TRUE(start(files()).ok());
  EXPECT_TRUE(eventually([&] {
    return fault(ca_.certificate).find("controller 127.0.0.1 has expired on ") != std::string::npos;
  })) << fault(ca_.certificate);
  const absl::Status again = start(files());
  EXPECT_EQ(again.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(again.message()), AllOf(HasSubstr("tls: "), HasSubstr("controller.crt: "),
                                                  HasSubstr("has expired on")));
}

TEST_F(Https, NobodyFallsBackToPlainText) {
  ASSERT_TRUE(start(files()).ok());
  EXPECT_THAT(fault(""), HasSubstr("for HTTPS --ca or MONKEYTREE_CA_FILE names the CA"));
  EXPECT_EQ(get(port(), "/").find("HTTP/"), std::string::npos);
  EXPECT_TRUE(eventually([&] { return refused().find("what is no TLS") != std::string::npos; }));
  ASSERT_TRUE(start({}).ok());
  EXPECT_THAT(fault(ca_.certificate), HasSubstr("no TLS comes about ("));
  EXPECT_TRUE(call("").ok());
}

TEST_F(Https, ANewCertificateNeedsNoRestart) {
  ASSERT_TRUE(start(files()).ok());
  ASSERT_TRUE(call(ca_.certificate).ok());
  // The new key is there before its certificate: the old ones serve on.
  const Credential next = make_authority({unix_now_s(), 3650}).value();
  const Credential renewed = signed_by(ca_, {"127.0.0.1", "localhost"});
  put_key(renewed.key);
  EXPECT_TRUE(call(ca_.certificate).ok()) << fault(ca_.certificate);
  EXPECT_THAT(refused(), HasSubstr("the certificate stays the old one: "));
  put_certificate(renewed.certificate);
  EXPECT_TRUE(call(ca_.certificate).ok());
  folder_.write("ca.crt", next.certificate);
  put(signed_by(next, {"127.0.0.1"}));
  EXPECT_TRUE(call(next.certificate).ok()) << fault(next.certificate);
  EXPECT_EQ(call(ca_.certificate).status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(Https, ANodesCertificateServesNobody) {
  put(signed_by(ca_, {"127.0.0.1"}, Role::kNode));
  EXPECT_THAT(std::string(start(files()).message()),
              HasSubstr("is a node's, expected a controller's"));
}

}  // namespace
}  // namespace monkeytree
