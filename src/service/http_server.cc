#include "service/http_server.h"

#include <fmt/format.h>
#include <linux/tcp.h>
#include <microhttpd.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <exception>
#include <map>
#include <optional>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/status.h"
#include "service/http_certificate.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

constexpr int kBacklog = 256;
constexpr int kSendBuffer = 128 << 10;
/// The library's memory for a connection: its head, and what goes out of it.
constexpr size_t kConnectionMemory = kMaxHttpHead;
/// Connections beyond the limit, while others make room.
constexpr unsigned kSpare = 64;
constexpr size_t kPiece = 16 << 10;
/// So much content that is too large is still read, so that our refusal is not lost in a reset.
constexpr uint64_t kMostDiscarded = 1 << 20;
constexpr std::chrono::milliseconds kTick{200};
constexpr const char* kTlsPriorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

std::string reason(int error) { return std::generic_category().message(error); }

/// The numeric address of the other end.
std::string peer_of(const sockaddr* address) {
  if (address == nullptr) return "";
  const socklen_t length =
      address->sa_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  std::array<char, NI_MAXHOST> host{};
  if (getnameinfo(address, length, host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
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

MHD_Response* plain_response(std::string body) {
  auto owned = std::make_unique<std::string>(std::move(body));
  std::string& text = *owned;
  return MHD_create_response_from_buffer_with_free_callback_cls(
      text.size(), text.data(), [](void* whose) { delete static_cast<std::string*>(whose); },
      owned.release());
}

}  // namespace

bool HttpStream::write(std::string_view bytes) {
  const std::lock_guard lock(mutex_);
  if (gone_ || pending_.size() + bytes.size() > limit_) return false;
  pending_ += bytes;
  if (std::exchange(resting_, false) && wake_) wake_();
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

std::optional<size_t> HttpStream::take(char* to, size_t most, const std::function<void()>& rest) {
  const std::lock_guard lock(mutex_);
  if (gone_) return std::nullopt;
  const size_t count = std::min(most, pending_.size());
  if (count == 0) {
    resting_ = true;
    rest();
  }
  pending_.copy(to, count);
  pending_.erase(0, count);
  return count;
}

void HttpStream::connect(std::function<void()> wake) {
  const std::lock_guard lock(mutex_);
  wake_ = std::move(wake);
}

void HttpStream::end() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  pending_.clear();
  if (std::exchange(resting_, false) && wake_) wake_();
}

void HttpStream::disconnect() {
  const std::lock_guard lock(mutex_);
  gone_ = true;
  pending_.clear();
  resting_ = false;
  wake_ = nullptr;
}

/// The library's daemon, what we know of its connections, and the threads that answer.
class HttpServer::Daemon {
 public:
  Daemon(Handlers handlers, HttpLimits limits, std::unique_ptr<HttpCertificate> certificate)
      : handlers_(std::move(handlers)), limits_(limits), certificate_(std::move(certificate)) {}
  ~Daemon() { stop(); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  bool start(int listener);
  size_t connections() const {
    const std::lock_guard lock(mutex_);
    return connections_.size();
  }

 private:
  enum class State : uint8_t { kReading, kAnswering, kWriting, kStreaming, kCut };
  struct Connection {
    uint64_t number = 0;
    MHD_Connection* handle = nullptr;
    int socket = -1;
    std::string peer;
    // Of the library's thread.
    std::string target;
    HttpRequest request;
    bool begun = false;
    size_t most_body = kMaxHttpBody;
    std::optional<HttpFault> fault;
    // Of all threads.
    std::atomic<bool> forsaken = false;  ///< nobody waits for the answer
    // Of mutex_.
    State state = State::kReading;
    Time deadline;
    std::optional<HttpResponse> answer;
    std::shared_ptr<HttpStream> stream;
  };
  struct Queue {
    std::deque<Connection*> waiting;  ///< each stays until it is answered
    std::condition_variable_any wake;
  };

  /// The library's end of a stream's answer; its own as long as the answer is.
  struct StreamEnd {
    Daemon& daemon;
    Connection& connection;
    std::shared_ptr<HttpStream> stream;
    std::string first;  ///< goes out before what is written to the stream

    ~StreamEnd();
    ssize_t read(char* to, size_t most);
  };

  struct Callbacks;

  void stop();

  // On the library's thread.
  void on_connection(MHD_Connection* handle, void** context, bool opened);
  void forget(Connection& connection);
  void forget_body(Connection& connection);
  MHD_Result on_request(Connection& connection, std::string_view method, std::string_view version,
                        std::string_view content);
  void read_head(Connection& connection, std::string_view method, std::string_view version);
  MHD_Result on_whole_request(Connection& connection);
  MHD_Result refuse(Connection& connection);
  MHD_Result send(Connection& connection, HttpResponse response);
  MHD_Response* stream_response(Connection& connection, HttpResponse& response);

  // On ours.
  void answer(const std::stop_token& stop, Queue& queue);
  void watch(const std::stop_token& stop);
  void look_for_forsaken();

  // With mutex_ held.
  void cut_late();
  void make_room(Connection& newest);
  void cut(Connection& connection, int status, const std::string& why);
  static void send_at_once(const Connection& connection, int status, const std::string& why);

  const Handlers handlers_;
  const HttpLimits limits_;
  const std::unique_ptr<HttpCertificate> certificate_;  ///< null: plain HTTP
  MHD_Daemon* daemon_ = nullptr;
  size_t body_bytes_ = 0;  ///< of all connections together; of the library's thread

  mutable std::mutex mutex_;
  std::map<uint64_t, std::unique_ptr<Connection>> connections_;
  uint64_t next_ = 0;
  Queue quick_, slow_;
  bool stopping_ = false;
  std::condition_variable_any tick_;

  std::vector<std::jthread> threads_;
};

/// What the library calls, each handed to its method.
struct HttpServer::Daemon::Callbacks {
  static Connection* context_of(MHD_Connection* handle) {
    const MHD_ConnectionInfo* info =
        MHD_get_connection_info(handle, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info ? static_cast<Connection*>(info->socket_context) : nullptr;
  }
  static MHD_Result request(void* self, MHD_Connection* handle, const char* /*url*/,
                            const char* method, const char* version, const char* content,
                            size_t* size, void** /*context*/) {
    Connection* connection = context_of(handle);
    if (connection == nullptr) return MHD_NO;
    const std::string_view piece(content ? content : "", std::exchange(*size, 0));
    return static_cast<Daemon*>(self)->on_request(*connection, method, version, piece);
  }
  static void connection(void* self, MHD_Connection* handle, void** context,
                         MHD_ConnectionNotificationCode what) {
    static_cast<Daemon*>(self)->on_connection(handle, context,
                                              what == MHD_CONNECTION_NOTIFY_STARTED);
  }
  /// The path as it was written: ours to decode.
  static void* target(void* /*self*/, const char* target, MHD_Connection* handle) {
    if (Connection* connection = context_of(handle)) connection->target = target;
    return nullptr;
  }
  static void log(void* self, const char* format, va_list arguments) {
    std::array<char, 512> text{};
    vsnprintf(text.data(), text.size(), format, arguments);
    std::string line = text.data();
    line.erase(std::min(line.find_first_of("\n<"), line.size()));  // without the page it sends
    if (const auto& refused = static_cast<Daemon*>(self)->handlers_.refused) refused(line);
  }
};

bool HttpServer::Daemon::start(int listener) {
  unsigned flags = MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  std::vector<MHD_OptionItem> tls;
  if (certificate_) {
    flags |= MHD_USE_TLS;
    tls.push_back(
        {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, reinterpret_cast<void*>(&HttpCertificate::show)});
    tls.push_back({MHD_OPTION_HTTPS_PRIORITIES, 0, const_cast<char*>(kTlsPriorities)});
  }
  tls.push_back({MHD_OPTION_END, 0, nullptr});
  daemon_ = MHD_start_daemon(
      flags, 0, nullptr, nullptr, &Callbacks::request, this, MHD_OPTION_EXTERNAL_LOGGER,
      &Callbacks::log, this, MHD_OPTION_LISTEN_SOCKET, listener, MHD_OPTION_NOTIFY_CONNECTION,
      &Callbacks::connection, this, MHD_OPTION_URI_LOG_CALLBACK, &Callbacks::target, this,
      MHD_OPTION_CONNECTION_LIMIT, static_cast<unsigned>(limits_.connections) + kSpare,
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionMemory, MHD_OPTION_ARRAY, tls.data(),
      MHD_OPTION_END);
  if (daemon_ == nullptr) return false;
  for (int i = 0; i < limits_.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { answer(stop, quick_); });
  }
  for (int i = 0; i < limits_.slow_threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { answer(stop, slow_); });
  }
  threads_.emplace_back([this](const std::stop_token& stop) { watch(stop); });
  return true;
}

void HttpServer::Daemon::stop() {
  for (std::jthread& thread : threads_) thread.request_stop();
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [number, connection] : connections_) connection->forsaken = true;
  }
  threads_.clear();
  if (daemon_ == nullptr) return;
  // The library stops only when no connection rests; from here on none begins to.
  std::vector<std::shared_ptr<HttpStream>> streams;
  std::vector<MHD_Connection*> resting;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (const auto& [number, connection] : connections_) {
      if (connection->stream) streams.push_back(connection->stream);
      if (connection->state != State::kAnswering) continue;
      if (!connection->answer) {
        connection->answer = http_error(503, "the controller stops");
        resting.push_back(connection->handle);
      }
    }
  }
  for (const auto& stream : streams) stream->end();
  for (MHD_Connection* handle : resting) MHD_resume_connection(handle);
  MHD_stop_daemon(daemon_);
}

void HttpServer::Daemon::on_connection(MHD_Connection* handle, void** context, bool opened) {
  if (!opened) {
    if (auto* connection = static_cast<Connection*>(std::exchange(*context, nullptr))) {
      forget(*connection);
    }
    return;
  }
  if (certificate_) certificate_->serve_this_thread();
  auto connection = std::make_unique<Connection>();
  connection->handle = handle;
  connection->socket =
      MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  connection->peer =
      peer_of(MHD_get_connection_info(handle, MHD_CONNECTION_INFO_CLIENT_ADDRESS)->client_addr);
  connection->deadline = Clock::now() + limits_.request;
  // What waits for a client is bounded in the kernel too, which would let it grow to megabytes.
  setsockopt(connection->socket, SOL_SOCKET, SO_SNDBUF, &kSendBuffer, sizeof kSendBuffer);
  *context = connection.get();
  const std::lock_guard lock(mutex_);
  connection->number = next_++;
  Connection& newest = *connection;
  connections_.emplace(newest.number, std::move(connection));
  if (connections_.size() > limits_.connections) make_room(newest);
}

void HttpServer::Daemon::forget(Connection& connection) {
  // What is no request line at all the library hangs up on without a word.
  tcp_info info{};
  socklen_t size = sizeof info;
  const bool said = getsockopt(connection.socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
                    info.tcpi_bytes_received > 0;
  if (said && !connection.begun && handlers_.refused) {
    handlers_.refused(fmt::format("from {}: {}", connection.peer,
                                  certificate_ ? "what is no TLS, or no HTTP request, or does not "
                                                 "believe our certificate"
                                               : "what is no HTTP request"));
  }
  forget_body(connection);
  const std::lock_guard lock(mutex_);
  connections_.erase(connection.number);
}

void HttpServer::Daemon::make_room(Connection& newest) {
  // The oldest of those that have not said what they want.
  for (const auto& [number, connection] : connections_) {
    if (connection->state != State::kReading || connection.get() == &newest) continue;
    return cut(*connection, 503, "too many connections, and this one was silent");
  }
  cut(newest, 503, "too many connections");
}

/// Past the library, which has sent nothing yet: its own limits of time know no words, and no whole
/// request.
void HttpServer::Daemon::send_at_once(const Connection& connection, int status,
                                      const std::string& why) {
  const std::string body = http_error(status, why).body;
  const std::string text = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n"
      "Connection: close\r\n\r\n{}",
      status, MHD_get_reason_phrase_for(static_cast<unsigned>(status)), body.size(), body);
  [[maybe_unused]] const ssize_t sent =
      ::send(connection.socket, text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

void HttpServer::Daemon::cut(Connection& connection, int status, const std::string& why) {
  if (connection.state == State::kReading) {
    if (!certificate_) send_at_once(connection, status, why);
    if (handlers_.refused) handlers_.refused(fmt::format("from {}: {}", connection.peer, why));
  }
  shutdown(connection.socket, SHUT_RDWR);
  connection.state = State::kCut;
  connection.deadline = Time::max();
}

void HttpServer::Daemon::read_head(Connection& connection, std::string_view method,
                                   std::string_view version) {
  HttpRequest& request = connection.request;
  request.method = method;
  request.peer = connection.peer;
  request.forsaken = [&connection] { return connection.forsaken.load(); };
  connection.fault = read_target(connection.target, request);
  if (connection.fault) return;
  const MHD_KeyValueIteratorN each = [](void* whose, MHD_ValueKind /*kind*/, const char* name,
                                        size_t name_size, const char* value, size_t value_size) {
    auto& to = *static_cast<Connection*>(whose);
    to.fault = read_header({name, name_size}, value ? std::string_view(value, value_size) : "",
                           to.request);
    return to.fault ? MHD_NO : MHD_YES;
  };
  MHD_get_connection_values_n(connection.handle, MHD_HEADER_KIND, each, &connection);
  if (handlers_.most_body) connection.most_body = handlers_.most_body(request);
  if (!connection.fault) {
    connection.fault = check_head(request, version == "HTTP/1.0", connection.most_body);
  }
}

MHD_Result HttpServer::Daemon::on_request(Connection& connection, std::string_view method,
                                          std::string_view version, std::string_view content) {
  if (!std::exchange(connection.begun, true)) {
    read_head(connection, method, version);
    const bool much = announced_bytes(connection.request) > kMostDiscarded;
    return connection.fault && much ? refuse(connection) : MHD_YES;
  }
  if (content.empty()) return connection.fault ? refuse(connection) : on_whole_request(connection);
  if (connection.fault) return MHD_YES;
  std::string& body = connection.request.body;
  if (body.size() + content.size() > connection.most_body) {
    connection.fault = {413, fmt::format("a body of more than {} bytes", connection.most_body)};
  } else if (body_bytes_ + content.size() > limits_.bodies) {
    connection.fault = {503, "the bodies of other requests take all the room there is"};
  }
  if (connection.fault) {
    forget_body(connection);
  } else {
    body += content;
    body_bytes_ += content.size();
  }
  return MHD_YES;
}

void HttpServer::Daemon::forget_body(Connection& connection) {
  body_bytes_ -= connection.request.body.size();
  std::string().swap(connection.request.body);
}

MHD_Result HttpServer::Daemon::refuse(Connection& connection) {
  const HttpFault& fault = *connection.fault;
  if (handlers_.refused) {
    handlers_.refused(fmt::format("from {}: {} {}", connection.peer, fault.status, fault.message));
  }
  return send(connection, http_error(fault.status, fault.message));
}

MHD_Result HttpServer::Daemon::on_whole_request(Connection& connection) {
  std::optional<HttpResponse> answer;
  {
    const bool slow = handlers_.slow && handlers_.slow(connection.request);
    const std::lock_guard lock(mutex_);
    if (connection.state == State::kCut) return MHD_NO;
    answer = std::exchange(connection.answer, std::nullopt);
    if (!answer && stopping_) answer = http_error(503, "the controller stops");
    if (!answer) {
      connection.state = State::kAnswering;
      connection.deadline = Time::max();
      MHD_suspend_connection(connection.handle);
      Queue& queue = slow ? slow_ : quick_;
      queue.waiting.push_back(&connection);
      queue.wake.notify_one();
      return MHD_YES;
    }
  }
  return send(connection, *std::move(answer));
}

MHD_Response* HttpServer::Daemon::stream_response(Connection& connection, HttpResponse& response) {
  std::unique_ptr<StreamEnd> end(
      new StreamEnd{*this, connection, std::move(response.stream), std::move(response.body)});
  MHD_Connection* handle = connection.handle;
  end->stream->connect([handle] { MHD_resume_connection(handle); });
  return MHD_create_response_from_callback(
      MHD_SIZE_UNKNOWN, kPiece,
      [](void* whose, uint64_t /*at*/, char* to, size_t most) -> ssize_t {
        return static_cast<StreamEnd*>(whose)->read(to, most);
      },
      end.release(), [](void* whose) { delete static_cast<StreamEnd*>(whose); });
}

ssize_t HttpServer::Daemon::StreamEnd::read(char* to, size_t most) {
  std::optional<size_t> count;
  if (first.empty()) {
    count = stream->take(to, most, [this] {
      MHD_suspend_connection(connection.handle);
      const std::lock_guard lock(daemon.mutex_);
      connection.deadline = Time::max();
    });
    if (!count) return MHD_CONTENT_READER_END_OF_STREAM;
    if (*count == 0) return 0;
    if (daemon.handlers_.drained) daemon.handlers_.drained();
  } else {
    count = first.copy(to, most);
    first.erase(0, *count);
  }
  const std::lock_guard lock(daemon.mutex_);
  if (connection.state == State::kStreaming) {
    connection.deadline = Clock::now() + daemon.limits_.stream;
  }
  return static_cast<ssize_t>(*count);
}

HttpServer::Daemon::StreamEnd::~StreamEnd() {
  stream->disconnect();
  if (daemon.handlers_.drained) daemon.handlers_.drained();
}

MHD_Result HttpServer::Daemon::send(Connection& connection, HttpResponse response) {
  if (connection.request.method == "HEAD" && response.stream) {
    response.stream->disconnect();
    response.stream = nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    if (connection.state == State::kCut) return MHD_NO;
    if (response.stream && stopping_) {
      response.stream->disconnect();
      response = http_error(503, "the controller stops");
    }
    connection.stream = response.stream;
    connection.state = response.stream ? State::kStreaming : State::kWriting;
    connection.deadline = Clock::now() + (response.stream ? limits_.stream : limits_.response);
  }
  const std::map<std::string, std::string> headers = std::move(response.headers);
  const std::string type = std::move(response.content_type);
  const auto status = static_cast<unsigned>(response.status);
  MHD_Response* out = response.stream ? stream_response(connection, response)
                                      : plain_response(std::move(response.body));
  if (out == nullptr) return MHD_NO;
  // No chunks, and the connection ends with the answer: nothing of one can be taken for the next.
  MHD_set_response_options(out, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
  MHD_add_response_header(out, "Content-Type", type.c_str());
  if (!headers.contains("Cache-Control")) {
    MHD_add_response_header(out, "Cache-Control", "no-store");
  }
  MHD_add_response_header(out, "X-Content-Type-Options", "nosniff");
  for (const auto& [name, value] : headers) {
    MHD_add_response_header(out, name.c_str(), value.c_str());
  }
  const MHD_Result queued = MHD_queue_response(connection.handle, status, out);
  MHD_destroy_response(out);
  return queued;
}

void HttpServer::Daemon::answer(const std::stop_token& stop, Queue& queue) {
  while (true) {
    Connection* next = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (!queue.wake.wait(lock, stop, [&] { return !queue.waiting.empty(); })) return;
      next = queue.waiting.front();
      queue.waiting.pop_front();
    }
    HttpResponse response;
    try {
      response = handlers_.answer(next->request);
    } catch (const std::exception& error) {
      response = http_error(500, error.what());
    }
    MHD_Connection* handle = next->handle;
    {
      const std::lock_guard lock(mutex_);
      next->answer = std::move(response);
    }
    MHD_resume_connection(handle);
  }
}

void HttpServer::Daemon::watch(const std::stop_token& stop) {
  const std::chrono::milliseconds tick =
      std::min({kTick, limits_.request, limits_.response, limits_.stream});
  while (!stop.stop_requested()) {
    {
      std::unique_lock lock(mutex_);
      tick_.wait_for(lock, stop, tick, [] { return false; });
      if (stop.stop_requested()) return;
      cut_late();
    }
    look_for_forsaken();
  }
}

void HttpServer::Daemon::cut_late() {
  const Time now = Clock::now();
  for (const auto& [number, connection] : connections_) {
    if (now >= connection->deadline) cut(*connection, 408, "the request did not come in time");
  }
}

void HttpServer::Daemon::look_for_forsaken() {
  // The library does not look at a connection that rests, not even whether its client has gone.
  std::vector<std::shared_ptr<HttpStream>> ended;
  {
    const std::lock_guard lock(mutex_);
    std::vector<pollfd> polled;
    std::vector<Connection*> resting;
    for (const auto& [number, connection] : connections_) {
      if (connection->state != State::kStreaming && connection->state != State::kAnswering)
        continue;
      polled.push_back({connection->socket, POLLRDHUP, 0});
      resting.push_back(connection.get());
    }
    if (poll(polled.data(), polled.size(), 0) <= 0) return;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents == 0) continue;
      resting[i]->forsaken = true;
      if (resting[i]->stream) ended.push_back(resting[i]->stream);
    }
  }
  for (const auto& stream : ended) stream->end();
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::start(const ListenAddress& address,
                                                              Handlers handlers, HttpLimits limits,
                                                              const TlsFiles& tls) {
  std::unique_ptr<HttpCertificate> certificate;
  if (tls.configured()) {
    absl::StatusOr<std::unique_ptr<HttpCertificate>> loaded =
        HttpCertificate::load(tls, handlers.refused);
    if (!loaded.ok()) return with_context(loaded.status(), "tls");
    certificate = *std::move(loaded);
  }
  const absl::StatusOr<Listener> listener = listen_on(address);
  if (!listener.ok()) return listener.status();
  auto daemon = std::make_unique<Daemon>(std::move(handlers), limits, std::move(certificate));
  if (!daemon->start(listener->socket)) {
    close(listener->socket);
    return absl::UnavailableError(
        fmt::format("cannot serve {}: the HTTP library does not start", to_string(address)));
  }
  return std::unique_ptr<HttpServer>(
      new HttpServer(std::move(daemon), {address.host, listener->port}));
}

HttpServer::HttpServer(std::unique_ptr<Daemon> daemon, ListenAddress address)
    : daemon_(std::move(daemon)), address_(std::move(address)) {}

HttpServer::~HttpServer() = default;

size_t HttpServer::connections() const { return daemon_->connections(); }

}  // namespace monkeytree
