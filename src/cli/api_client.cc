#include "cli/api_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <memory>
#include <optional>
#include <system_error>

#include "base/status.h"
#include "cli/tls_stream.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kMaxAnswer = size_t{512} << 20;

std::string reason(int error) { return std::generic_category().message(error); }

/// A connection that never waits beyond its deadline.
class Call {
 public:
  Call(const ListenAddress& address, Clock::time_point deadline)
      : address_(address), deadline_(deadline) {}
  ~Call() {
    if (socket_ >= 0) close(socket_);
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  absl::Status connect() {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* raw = nullptr;
    const int fault =
        getaddrinfo(address_.host.c_str(), std::to_string(address_.port).c_str(), &hints, &raw);
    if (fault != 0) return gone(gai_strerror(fault));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> all(raw, &freeaddrinfo);
    absl::Status status;
    for (const addrinfo* one = all.get(); one != nullptr; one = one->ai_next) {
      status = try_one(*one);
      if (status.ok()) return status;
    }
    return status;
  }

  /// TLS from here on, where the other end is who it should be.
  absl::Status secure(const std::string& authorities) {
    tls_ = std::make_unique<TlsStream>(socket_);
    while (true) {
      const TlsStream::Progress step = tls_->shake_hands();
      if (step.state == TlsStream::State::kDone) break;
      if (absl::Status status = wait_after(step); !status.ok()) {
        return absl::IsDeadlineExceeded(status)
                   ? status
                   : gone(fmt::format("no TLS comes about ({}); is it configured there?",
                                      tls_->fault()));
      }
    }
    const absl::Status verdict = tls_->judge(authorities, address_.host);
    return verdict.ok() ? verdict
                        : absl::PermissionDeniedError(fmt::format(
                              "{} is not believed: {}", to_string(address_), message_of(verdict)));
  }

  absl::Status send(std::string_view bytes) {
    while (!bytes.empty()) {
      const TlsStream::Progress step = put(bytes);
      if (step.state == TlsStream::State::kDone) {
        bytes.remove_prefix(step.bytes);
        continue;
      }
      absl::Status status = wait_after(step);
      if (absl::IsDeadlineExceeded(status)) return status;
      // What was refused before it was all sent has its answer waiting.
      if (!status.ok()) return absl::OkStatus();
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> receive() {
    std::string got;
    std::array<char, 64 << 10> buffer;  // NOLINT: filled by take
    while (true) {
      const TlsStream::Progress step = take(buffer.data(), buffer.size());
      if (step.state == TlsStream::State::kEnded) return got;
      if (step.state == TlsStream::State::kDone) {
        got.append(buffer.data(), step.bytes);
        if (got.size() > kMaxAnswer) return gone("an answer without end");
        continue;
      }
      if (absl::Status status = wait_after(step); !status.ok()) return status;
    }
  }

  absl::Status gone(std::string_view why) const {
    return absl::UnavailableError(
        fmt::format("no controller answers at {}: {}", to_string(address_), why));
  }

 private:
  absl::Status late() const {
    return absl::DeadlineExceededError(
        fmt::format("the controller at {} did not answer in time", to_string(address_)));
  }

  TlsStream::Progress put(std::string_view bytes) {
    using State = TlsStream::State;
    if (tls_) return tls_->write(bytes);
    const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) return {State::kDone, static_cast<size_t>(sent)};
    return {errno == EAGAIN || errno == EINTR ? State::kWantsWrite : State::kFailed};
  }

  TlsStream::Progress take(char* to, size_t most) {
    using State = TlsStream::State;
    if (tls_) return tls_->read(to, most);
    const ssize_t count = recv(socket_, to, most, 0);
    if (count > 0) return {State::kDone, static_cast<size_t>(count)};
    if (count == 0) return {State::kEnded};
    return {errno == EAGAIN || errno == EINTR ? State::kWantsRead : State::kFailed};
  }

  /// Until the step can be taken again.
  absl::Status wait_after(const TlsStream::Progress& step) {
    switch (step.state) {
      case TlsStream::State::kWantsRead:
        return wait_for(POLLIN) ? absl::OkStatus() : late();
      case TlsStream::State::kWantsWrite:
        return wait_for(POLLOUT) ? absl::OkStatus() : late();
      default:
        return gone(tls_ ? tls_->fault() : reason(errno));
    }
  }

  absl::Status try_one(const addrinfo& one) {
    if (socket_ >= 0) close(socket_);
    socket_ = socket(one.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (socket_ < 0) return gone(reason(errno));
    if (::connect(socket_, one.ai_addr, one.ai_addrlen) == 0) return absl::OkStatus();
    if (errno != EINPROGRESS) return gone(reason(errno));
    if (!wait_for(POLLOUT)) return late();
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
    return error == 0 ? absl::OkStatus() : gone(reason(error));
  }

  bool wait_for(short events) {
    while (true) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
      if (left <= 0) return false;
      pollfd ready{socket_, events, 0};
      const int count = poll(&ready, 1, static_cast<int>(left));
      if (count > 0) return true;
      if (count < 0 && errno != EINTR) return false;
    }
  }

  const ListenAddress& address_;
  const Clock::time_point deadline_;
  int socket_ = -1;
  std::unique_ptr<TlsStream> tls_;  ///< null: plain
};

/// The Content-Length of a head; nullopt where there is none, or none that is a number.
std::optional<size_t> announced_length(std::string head) {
  std::transform(head.begin(), head.end(), head.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kName = "\r\ncontent-length:";
  size_t at = head.find(kName);
  if (at == std::string::npos) return std::nullopt;
  at = head.find_first_not_of(' ', at + kName.size());
  size_t length = 0;
  if (at == std::string::npos ||
      std::from_chars(head.data() + at, head.data() + head.size(), length).ec != std::errc()) {
    return std::nullopt;
  }
  return length;
}

}  // namespace

absl::StatusOr<ApiAnswer> call_api(const ApiServer& server, std::string_view method,
                                   std::string_view target, std::string_view body,
                                   std::chrono::milliseconds limit) {
  Call call(server.address, Clock::now() + limit);
  if (absl::Status status = call.connect(); !status.ok()) return status;
  if (!server.authorities.empty()) {
    if (absl::Status status = call.secure(server.authorities); !status.ok()) return status;
  }
  std::string request =
      fmt::format("{} {} HTTP/1.1\r\nHost: {}\r\n", method, target, to_string(server.address));
  if (!server.token.empty()) {
    request += fmt::format("Authorization: Bearer {}\r\n", server.token);
  }
  if (!body.empty()) request += "Content-Type: application/json\r\n";
  request += fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
  if (absl::Status status = call.send(request); !status.ok()) return status;
  const absl::StatusOr<std::string> got = call.receive();
  if (!got.ok()) return got.status();
  // The controller ends each answer by closing the connection.
  const size_t end = got->find("\r\n\r\n");
  ApiAnswer answer;
  constexpr size_t kStatusAt = std::string_view("HTTP/1.1 ").size();
  const bool is_http =
      got->starts_with("HTTP/1.") && got->size() >= kStatusAt + 3 && end != std::string::npos &&
      std::from_chars(got->data() + kStatusAt, got->data() + kStatusAt + 3, answer.status).ec ==
          std::errc();
  if (!is_http) {
    return call.gone(server.authorities.empty()
                         ? "what listens there does not speak HTTP; for HTTPS --ca or "
                           "MONKEYTREE_CA_FILE names the CA"
                         : "what listens there does not speak HTTP");
  }
  answer.body = got->substr(end + 4);
  if (const std::optional<size_t> announced = announced_length(got->substr(0, end + 2));
      announced && *announced != answer.body.size()) {
    return call.gone("its answer is cut short");
  }
  return answer;
}

}  // namespace monkeytree
