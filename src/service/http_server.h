#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "service/address.h"
#include "service/http_message.h"

namespace monkeytree {

/// The open end of an answer that goes on: bytes put here reach the client as it takes them. What
/// waits is bounded; a client that takes nothing for a while is dropped. Thread-safe.
class HttpStream {
 public:
  explicit HttpStream(size_t limit = 64 << 10) : limit_(limit) {}

  /// False where the bytes do not fit any more or the client has gone: nothing was added.
  bool write(std::string_view bytes);
  bool gone() const;
  /// All that was written has been handed to the client's connection.
  bool empty() const;

 private:
  friend class HttpServer;
  std::string take();
  void connect(std::function<void()> wake);
  void end();

  const size_t limit_;
  mutable std::mutex mutex_;
  std::string pending_;
  bool gone_ = false;
  std::function<void()> wake_;
};

struct HttpLimits {
  using Milliseconds = std::chrono::milliseconds;
  size_t connections = 512;
  Milliseconds request{10'000};   ///< for the whole request to come
  Milliseconds response{60'000};  ///< for the whole answer to be taken
  Milliseconds stream{30'000};    ///< a stream's client may take nothing for so long
  int threads = 3;                ///< that answer
  int slow_threads = 2;           ///< that answer what may take long
};

/// HTTP/1.1, one request a connection. One thread does all that waits for clients, so that none of
/// them, however slow, keeps another waiting; a few answer. At the limit of connections the one
/// that has been silent longest makes room.
class HttpServer {
 public:
  struct Handlers {
    std::function<HttpResponse(const HttpRequest&)> answer;
    std::function<bool(const HttpRequest&)> slow;  ///< may take long; empty: nothing does
    std::function<void()> drained;  ///< some stream has room again or is gone; must not block
  };

  /// Unavailable where the address cannot be listened on.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const ListenAddress& address,
                                                           Handlers handlers, HttpLimits limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// With the port that was found where 0 was asked for.
  const ListenAddress& address() const { return address_; }
  /// Connections now; for tests and metrics.
  size_t connections() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  enum class State : uint8_t { kReading, kAnswering, kWriting, kStreaming, kClosing };
  struct Connection {
    int socket = -1;
    State state = State::kReading;
    std::string in, out;
    size_t sent = 0;
    Time deadline;
    std::optional<HttpHead> head;
    std::string peer;
    std::shared_ptr<HttpStream> stream;
  };
  struct Queue {
    std::deque<std::pair<uint64_t, HttpRequest>> waiting;
    std::condition_variable_any wake;
  };

  HttpServer(int listener, int wake, ListenAddress address, Handlers handlers, HttpLimits limits);
  void loop(const std::stop_token& stop);
  void answer(const std::stop_token& stop, Queue& queue);
  void wake() const;

  // On the loop's thread.
  void accept_some();
  bool make_room();
  void read_some(uint64_t id, Connection& connection);
  void request_so_far(uint64_t id, Connection& connection);
  void respond(Connection& connection, HttpResponse response);
  void write_some(Connection& connection);
  void begin_closing(Connection& connection);
  void take_answers();
  void feed_streams();
  void close_late(Time now);
  void close_at(std::map<uint64_t, Connection>::iterator at);
  bool wants_to_write(const Connection& connection) const;
  int poll_once();

  const int listener_, wake_;
  const ListenAddress address_;
  const Handlers handlers_;
  const HttpLimits limits_;
  std::map<uint64_t, Connection> connections_;  ///< the loop's thread only
  uint64_t next_ = 0;
  Time accept_again_;

  mutable std::mutex mutex_;
  Queue quick_, slow_;
  std::vector<std::pair<uint64_t, HttpResponse>> answers_;
  size_t open_ = 0;

  std::vector<std::jthread> threads_;
};

}  // namespace monkeytree
