#include "service/http_server.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kBacklog = 256;
constexpr int kMostAccepted = 64;  ///< in one turn of the loop
constexpr size_t kPiece = 64 << 10;
constexpr int kSendBuffer = 128 << 10;
/// What a client may still say while we take leave; a reset would lose our last words.
constexpr std::chrono::milliseconds kLeave{2000};
constexpr std::chrono::milliseconds kWithoutDescriptors{100};
constexpr std::chrono::milliseconds kLongestTurn{1000};

std::string reason(int error) { return std::generic_category().message(error); }

/// The numeric address of the other end.
std::string peer_of(const sockaddr_storage& address, socklen_t length) {
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host.data(), host.size(),
                  nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  const std::string_view text = host.data();
  constexpr std::string_view kMapped = "::ffff:";
  return std::string(text.starts_with(kMapped) ? text.substr(kMapped.size()) : text);
}

struct Listener {
  int socket = -1;
  int port = 0;
};

absl::StatusOr<Listener> listen_on(const ListenAddress& address) {
  const auto failed = [&](const std::string& why) {
    return absl::UnavailableError(fmt::format("cannot listen on {}: {}", to_string(address), why));
  };
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* raw = nullptr;
  const int fault =
      getaddrinfo(address.host.c_str(), std::to_string(address.port).c_str(), &hints, &raw);
  if (fault != 0) return failed(gai_strerror(fault));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(raw, &freeaddrinfo);
  Listener listener;
  listener.socket = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener.socket < 0) return failed(reason(errno));
  const int on = 1;
  setsockopt(listener.socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (bind(listener.socket, found->ai_addr, found->ai_addrlen) != 0 ||
      listen(listener.socket, kBacklog) != 0 ||
      getsockname(listener.socket, reinterpret_cast<sockaddr*>(&bound), &length) != 0) {
    const int error = errno;
    close(listener.socket);
    return failed(reason(error));
  }
  listener.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  return listener;
}

}  // namespace

bool HttpStream::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (gone_ || pending_.size() + bytes.size() > limit_) return false;
  pending_ += bytes;
  if (wake_) wake_();
  return true;
}

bool HttpStream::gone() const {
  const std::lock_guard lock(mutex_);
  return gone_;
}

bool HttpStream::empty() const {
  const std::lock_guard lock(mutex_);
  return pending_.empty();
}

std::string HttpStream::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(pending_, {});
}

void HttpStream::connect(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void HttpStream::end() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  pending_.clear();
  wake_ = nullptr;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const ListenAddress& address,
                                                              Handlers handlers,
                                                              HttpLimits limits) {
  const absl::StatusOr<Listener> listener = listen_on(address);
  if (!listener.ok()) return listener.status();
  const int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake < 0) {
    close(listener->socket);
    return absl::UnavailableError(fmt::format("no eventfd: {}", reason(errno)));
  }
  return std::unique_ptr<HttpServer>(new HttpServer(
      listener->socket, wake, {address.host, listener->port}, std::move(handlers), limits));
}

HttpServer::HttpServer(int listener, int wake, ListenAddress address, Handlers handlers,
                       HttpLimits limits)
    : listener_(listener),
      wake_(wake),
      address_(std::move(address)),
      handlers_(std::move(handlers)),
      limits_(limits) {
  for (int i = 0; i < limits_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { answer(stop, quick_); });
  }
  for (int i = 0; i < limits_.slow_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { answer(stop, slow_); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { loop(stop); });
}

HttpServer::~HttpServer() {
  for (std::jthread& thread : threads_) thread.request_stop();
  wake();
  threads_.clear();
  for (auto& [id, connection] : connections_) {
    if (connection.stream) connection.stream->end();
    close(connection.socket);
  }
  close(listener_);
  close(wake_);
}

size_t HttpServer::connections() const {
  const std::lock_guard lock(mutex_);
  return open_;
}

void HttpServer::wake() const {
  const uint64_t one = 1;
  // Full means that it is awake already.
  [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
}

void HttpServer::answer(const std::stop_token& stop, Queue& queue) {
  while (true) {
    std::pair<uint64_t, HttpRequest> next;
    {
      std::unique_lock lock(mutex_);
      if (!queue.wake.wait(lock, stop, [&] { return !queue.waiting.empty(); })) return;
      next = std::move(queue.waiting.front());
      queue.waiting.pop_front();
    }
    HttpResponse response;
    try {
      response = handlers_.answer(next.second);
    } catch (const std::exception& error) {
      response = http_error(500, error.what());
    }
    {
      const std::lock_guard lock(mutex_);
      answers_.emplace_back(next.first, std::move(response));
    }
    wake();
  }
}

void HttpServer::loop(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    poll_once();
    take_answers();
    feed_streams();
    close_late(Clock::now());
    const std::lock_guard lock(mutex_);
    open_ = connections_.size();
  }
}

bool HttpServer::wants_to_write(const Connection& connection) const {
  return connection.sent < connection.out.size();
}

int HttpServer::poll_once() {
  const Time now = Clock::now();
  Time until = now + kLongestTurn;
  std::vector<pollfd> polled;
  std::vector<uint64_t> ids;
  const bool accepting = now >= accept_again_;
  if (!accepting) until = std::min(until, accept_again_);
  polled.push_back({wake_, POLLIN, 0});
  polled.push_back({accepting ? listener_ : -1, POLLIN, 0});
  for (const auto& [id, connection] : connections_) {
    short events = 0;
    if (connection.state != State::kAnswering && connection.state != State::kWriting) {
      events |= POLLIN;
    }
    if (wants_to_write(connection)) events |= POLLOUT;
    // While an answer is made nothing is asked of the connection, not even whether it broke.
    polled.push_back({connection.state == State::kAnswering ? -1 : connection.socket, events, 0});
    ids.push_back(id);
    until = std::min(until, connection.deadline);
  }
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(until - now).count();
  const int ready = poll(polled.data(), polled.size(), static_cast<int>(std::max<long>(wait, 0)));
  if (ready <= 0) return ready;
  if (polled[0].revents != 0) {
    uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const short events = polled[i + 2].revents;
    if (events == 0) continue;
    const auto at = connections_.find(ids[i]);
    if ((events & POLLOUT) != 0) write_some(at->second);
    if ((events & (POLLIN | POLLHUP | POLLERR)) != 0 && at->second.socket >= 0) {
      read_some(ids[i], at->second);
    }
    if (at->second.socket < 0) close_at(at);
  }
  if ((polled[1].revents & POLLIN) != 0) accept_some();
  return ready;
}

bool HttpServer::make_room() {
  if (connections_.size() < limits_.connections) return true;
  // The oldest of those that have not said what they want.
  const auto silent = std::find_if(connections_.begin(), connections_.end(), [](const auto& entry) {
    return entry.second.state == State::kReading || entry.second.state == State::kClosing;
  });
  if (silent == connections_.end()) return false;
  close_at(silent);
  return true;
}

void HttpServer::accept_some() {
  for (int i = 0; i < kMostAccepted; ++i) {
    sockaddr_storage address{};
    socklen_t length = sizeof address;
    const int socket = accept4(listener_, reinterpret_cast<sockaddr*>(&address), &length,
                               SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        accept_again_ = Clock::now() + kWithoutDescriptors;
      }
      return;
    }
    if (!make_room()) {
      const std::string full =
          write_http_response(http_error(503, "too many connections"), /*with_body=*/true);
      [[maybe_unused]] const ssize_t sent =
          send(socket, full.data(), full.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      close(socket);
      continue;
    }
    const int on = 1;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    // What waits for a client is bounded in the kernel too, which would let it grow to megabytes.
    setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
    Connection& connection = connections_[next_++];
    connection.socket = socket;
    connection.peer = peer_of(address, length);
    connection.deadline = Clock::now() + limits_.request;
  }
}

void HttpServer::read_some(uint64_t id, Connection& connection) {
  std::array<char, 16 << 10> buffer{};
  const ssize_t got = recv(connection.socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    close(connection.socket);
    connection.socket = -1;
    return;
  }
  // What comes after a request is not looked at.
  if (connection.state == State::kClosing || connection.state == State::kWriting) return;
  if (connection.state == State::kStreaming) return begin_closing(connection);
  connection.in.append(buffer.data(), static_cast<size_t>(got));
  request_so_far(id, connection);
}

void HttpServer::request_so_far(uint64_t id, Connection& connection) {
  if (!connection.head) {
    const std::optional<size_t> end = end_of_http_head(connection.in);
    if (end.value_or(connection.in.size()) > kMaxHttpHead) {
      return respond(connection, http_error(431, fmt::format("a request whose head is more than "
                                                             "{} bytes",
                                                             kMaxHttpHead)));
    }
    if (!end) return;
    HttpFault fault;
    connection.head = parse_http_head(std::string_view(connection.in).substr(0, *end), fault);
    if (!connection.head) return respond(connection, http_error(fault.status, fault.message));
    connection.in.erase(0, *end);
  }
  if (connection.in.size() < connection.head->body_bytes) return;
  if (connection.in.size() > connection.head->body_bytes) {
    return respond(connection, http_error(400,
                                          "more than one request, or more content than "
                                          "Content-Length says"));
  }
  HttpRequest request = std::move(connection.head->request);
  connection.head->request.method = request.method;
  request.body = std::exchange(connection.in, {});
  request.peer = connection.peer;
  connection.state = State::kAnswering;
  connection.deadline = Time::max();
  Queue& queue = handlers_.slow && handlers_.slow(request) ? slow_ : quick_;
  {
    const std::lock_guard lock(mutex_);
    queue.waiting.emplace_back(id, std::move(request));
  }
  queue.wake.notify_one();
}

void HttpServer::take_answers() {
  std::vector<std::pair<uint64_t, HttpResponse>> answers;
  {
    const std::lock_guard lock(mutex_);
    answers.swap(answers_);
  }
  for (auto& [id, response] : answers) {
    const auto at = connections_.find(id);
    if (at == connections_.end()) {
      if (response.stream) response.stream->end();
      continue;
    }
    respond(at->second, std::move(response));
    if (at->second.socket < 0) close_at(at);
  }
}

void HttpServer::respond(Connection& connection, HttpResponse response) {
  const bool head_only = connection.head && connection.head->request.method == "HEAD";
  if (head_only) response.stream = nullptr;
  connection.out = write_http_response(response, !head_only);
  connection.sent = 0;
  connection.in.clear();
  connection.stream = std::move(response.stream);
  if (connection.stream) {
    connection.state = State::kStreaming;
    connection.deadline = Clock::now() + limits_.stream;
    connection.stream->connect([this] { wake(); });
  } else {
    connection.state = State::kWriting;
    connection.deadline = Clock::now() + limits_.response;
  }
  write_some(connection);
}

void HttpServer::write_some(Connection& connection) {
  while (wants_to_write(connection)) {
    const size_t size = std::min(kPiece, connection.out.size() - connection.sent);
    const ssize_t sent = send(connection.socket, connection.out.data() + connection.sent, size,
                              MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) return;
    if (sent < 0) {
      close(connection.socket);
      connection.socket = -1;
      return;
    }
    connection.sent += static_cast<size_t>(sent);
    if (connection.state == State::kStreaming) {
      connection.deadline = Clock::now() + limits_.stream;
    }
  }
  if (connection.state == State::kStreaming) {
    connection.deadline = Time::max();
    return;
  }
  if (connection.state == State::kWriting) begin_closing(connection);
}

void HttpServer::begin_closing(Connection& connection) {
  if (connection.stream) connection.stream->end();
  shutdown(connection.socket, SHUT_WR);
  connection.state = State::kClosing;
  connection.out.clear();
  connection.sent = 0;
  connection.deadline = Clock::now() + kLeave;
}

void HttpServer::feed_streams() {
  bool drained = false;
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    Connection& connection = here->second;
    if (connection.state != State::kStreaming || wants_to_write(connection)) continue;
    std::string more = connection.stream->take();
    if (more.empty()) continue;
    drained = true;
    connection.out = std::move(more);
    connection.sent = 0;
    connection.deadline = Clock::now() + limits_.stream;
    write_some(connection);
    if (connection.socket < 0) close_at(here);
  }
  if (drained && handlers_.drained) handlers_.drained();
}

void HttpServer::close_late(Time now) {
  for (auto at = connections_.begin(); at != connections_.end();) {
    const auto here = at++;
    Connection& connection = here->second;
    if (now < connection.deadline) continue;
    if (connection.state == State::kReading) {
      respond(connection, http_error(408, "the request did not come in time"));
      if (connection.socket >= 0) continue;
    }
    close_at(here);
  }
}

void HttpServer::close_at(std::map<uint64_t, Connection>::iterator at) {
  if (at->second.stream) {
    at->second.stream->end();
    if (handlers_.drained) handlers_.drained();
  }
  if (at->second.socket >= 0) close(at->second.socket);
  connections_.erase(at);
}

}  // namespace monkeytree
