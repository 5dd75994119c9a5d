#include "kubernetes/client.h"

#include <absl/strings/numbers.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "identity/openssl.h"
#include "kubernetes/reading.h"

namespace monkeytree {
namespace {

using std::chrono::milliseconds;
using Clock = KubeConnection::Clock;

constexpr auto kConnectLimit = milliseconds(10'000);
constexpr auto kCredentialLimit = milliseconds(60'000);
constexpr size_t kMostComplaint = 16 << 10;

/// A peer that is gone without a word is noticed in about this long.
void keep_alive(int socket) {
  const int on = 1, idle_s = 15, every_s = 5, times = 3, unsent_ms = 30'000;
  (void)setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &every_s, sizeof every_s);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
  (void)setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &unsent_ms, sizeof unsent_ms);
}

/// A text as a file that has a name as long as it lives, for a library that wants one.
class NamedText {
 public:
  explicit NamedText(const std::string& text)
      : descriptor_(memfd_create("certificates", MFD_CLOEXEC)) {
    whole_ = descriptor_ >= 0 &&
             ::write(descriptor_, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  NamedText(const NamedText&) = delete;
  NamedText& operator=(const NamedText&) = delete;
  ~NamedText() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  bool whole() const { return whole_; }
  std::string name() const { return fmt::format("/proc/self/fd/{}", descriptor_); }

 private:
  int descriptor_;
  bool whole_ = false;
};

std::optional<milliseconds> retry_after_of(const httplib::Response& response) {
  const std::string text = response.get_header_value("Retry-After");
  int64_t seconds = 0;
  if (!absl::SimpleAtoi(text, &seconds) || seconds < 0 || seconds > 3600) return std::nullopt;
  return milliseconds(seconds * 1000);
}

absl::Status status_of(int status, const std::string& message) {
  switch (status) {
    case 400:
      return absl::InvalidArgumentError(message);
    case 401:
      return absl::UnauthenticatedError(message);
    case 403:
      return absl::PermissionDeniedError(message);
    case 404:
      return absl::NotFoundError(message);
    case 409:
    case 422:
      return absl::AbortedError(message);
    case 410:
      return absl::OutOfRangeError(message);
    case 429:
      return absl::ResourceExhaustedError(message);
    default:
      return absl::UnavailableError(message);
  }
}

class HttpConnection final : public KubeConnection {
 public:
  HttpConnection(const KubeAccess& access, KubeCredentials& credentials)
      : access_(access), credentials_(credentials), authority_(access.authority) {}

  absl::Status check() {
    if (!authority_.whole()) return absl::ResourceExhaustedError("no memory for certificates");
    if (!access_.certificate.empty()) {
      KubeCredentials::Identity identity{"", access_.certificate, access_.key, 0};
      return connect(identity);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> get(const std::string& path, Clock::time_point deadline) override {
    return whole({"GET", path, "", ""}, deadline);
  }

  absl::StatusOr<std::string> change(const std::string& method, const std::string& path,
                                     const std::string& body, const std::string& type,
                                     Clock::time_point deadline) override {
    return whole({method, path, body, type}, deadline);
  }

  absl::Status stream(const std::string& path, milliseconds silence,
                      const std::function<bool(std::string_view)>& take) override {
    return request({"GET", path, "", ""}, silence, Clock::now() + kCredentialLimit, take);
  }

  void stop() override {
    stopped_ = true;
    const std::lock_guard lock(mutex_);
    if (client_) client_->stop();
  }

  std::optional<milliseconds> retry_after() const override { return retry_after_; }

 private:
  /// What is asked of the server.
  struct Call {
    std::string method, path, body, type;  ///< the last is of the body
  };

  absl::StatusOr<std::string> whole(const Call& call, Clock::time_point deadline) {
    std::string answer;
    bool late = false;
    bool long_body = false;
    const auto left =
        std::chrono::duration_cast<milliseconds>(deadline - Clock::now()) + milliseconds(1);
    if (left <= milliseconds(1))
      return absl::DeadlineExceededError(about(call.path, "no time left"));
    const absl::Status status = request(call, left, deadline, [&](std::string_view data) {
      late = Clock::now() > deadline;
      long_body = answer.size() + data.size() > kMaxInputBytes;
      if (late || long_body) return false;
      answer.append(data);
      return true;
    });
    if (long_body) return absl::UnavailableError(about(call.path, "the answer is too long"));
    if (late || (!status.ok() && Clock::now() > deadline && !stopped_)) {
      return absl::DeadlineExceededError(about(call.path, "no whole answer in time"));
    }
    if (!status.ok()) return status;
    return answer;
  }

  std::string about(const std::string& path, std::string_view what) const {
    const size_t query = path.find('?');
    return fmt::format("{}{}: {}", printable(access_.name), path.substr(0, query), what);
  }

  absl::Status connect(const KubeCredentials::Identity& identity) {
    std::unique_ptr<httplib::ClientImpl> client;
    if (access_.tls) {
      auto secure = std::make_unique<httplib::SSLClient>(access_.host, access_.port);
      if (!access_.authority.empty()) secure->set_ca_cert_path(authority_.name());
      secure->enable_server_certificate_verification(!access_.any_server);
      if (!identity.certificate.empty() &&
          !use_certificate(secure->ssl_context(), identity.certificate, identity.key)) {
        return absl::InvalidArgumentError(
            "the client certificate and its key cannot be read, or do not fit");
      }
      client = std::move(secure);
    } else {
      client = std::make_unique<httplib::ClientImpl>(access_.host, access_.port);
    }
    client->set_keep_alive(true);
    client->set_tcp_nodelay(true);
    client->set_connection_timeout(kConnectLimit);
    client->set_write_timeout(kConnectLimit);
    client->set_socket_options([](int socket) { keep_alive(socket); });
    const std::lock_guard lock(mutex_);
    client_ = std::move(client);
    generation_ = identity.generation;
    return absl::OkStatus();
  }

  absl::Status request(const Call& call, milliseconds silence, Clock::time_point deadline,
                       const std::function<bool(std::string_view)>& take) {
    absl::Status status = attempt(call, silence, deadline, take);
    if (!absl::IsUnauthenticated(status)) return status;
    // The token may have been exchanged since it was read.
    credentials_.refused(generation_);
    return attempt(call, silence, deadline, take);
  }

  absl::Status attempt(const Call& call, milliseconds silence, Clock::time_point deadline,
                       const std::function<bool(std::string_view)>& take) {
    retry_after_.reset();
    if (stopped_) return absl::CancelledError("stopped");
    absl::StatusOr<KubeCredentials::Identity> identity =
        credentials_.now(std::min(deadline, Clock::now() + kCredentialLimit));
    if (!identity.ok()) return identity.status();
    if (!client_ || generation_ != identity->generation) {
      if (absl::Status status = connect(*identity); !status.ok()) return status;
    }
    client_->set_read_timeout(silence);
    httplib::Request request;
    request.method = call.method;
    request.path = access_.prefix + call.path;
    request.headers = {{"Accept", "application/json"}, {"User-Agent", "monkeytree"}};
    if (!identity->token.empty()) {
      request.headers.emplace("Authorization", "Bearer " + identity->token);
    }
    if (!call.type.empty()) request.headers.emplace("Content-Type", call.type);
    request.body = call.body;
    int code = 0;
    bool enough = false;
    std::string complaint;
    const auto good = [&] { return code == 200 || code == 201; };
    request.response_handler = [&](const httplib::Response& response) {
      code = response.status;
      if (!good()) retry_after_ = retry_after_of(response);
      if (good()) enough = !take({});
      return !stopped_ && !enough;
    };
    request.content_receiver = [&](const char* data, size_t size, uint64_t, uint64_t) {
      if (stopped_) return false;
      if (good()) {
        enough = !take({data, size});
        return !enough;
      }
      if (complaint.size() < kMostComplaint) complaint.append(data, size);
      return true;
    };
    const httplib::Result answer = client_->send(request);
    if (stopped_) return absl::CancelledError("stopped");
    if (enough) return absl::OkStatus();
    if (good()) {
      return answer
                 ? absl::OkStatus()
                 : absl::UnavailableError(about(
                       call.path, "the answer broke off: " + httplib::to_string(answer.error())));
    }
    if (code == 0) {
      return absl::UnavailableError(about(call.path, httplib::to_string(answer.error())));
    }
    return status_of(code,
                     about(call.path, fmt::format("status {}{}", code, kube_complaint(complaint))));
  }

  const KubeAccess& access_;
  KubeCredentials& credentials_;
  const NamedText authority_;
  std::atomic<bool> stopped_ = false;
  std::mutex mutex_;  ///< guards the pointer against stop()
  std::unique_ptr<httplib::ClientImpl> client_;
  int generation_ = -1;
  std::optional<milliseconds> retry_after_;
};

}  // namespace

std::string kube_complaint(std::string_view body) {
  constexpr size_t kFront = 200;
  simdjson::dom::parser parser;
  simdjson::dom::element root;
  std::string_view message;
  if (parser.parse(body.data(), body.size()).get(root) == simdjson::SUCCESS) {
    message = kube_text(root, {"message"});
  }
  if (message.empty()) message = body.substr(0, kFront);
  if (message.empty()) return "";
  return ", " + printable(message);
}

absl::StatusOr<std::unique_ptr<KubeConnection>> KubeConnection::open(const KubeAccess& access,
                                                                     KubeCredentials& credentials) {
  auto connection = std::make_unique<HttpConnection>(access, credentials);
  if (absl::Status status = connection->check(); !status.ok()) return status;
  return connection;
}

}  // namespace monkeytree
