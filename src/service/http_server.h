#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "identity/tls_files.h"
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
  /// What waits, at most `most` bytes into `to`. Where there is nothing `rest` is called, and the
  /// next write (or end) calls `wake_`. Nullopt: the stream is over.
  std::optional<size_t> take(char* to, size_t most, const std::function<void()>& rest);
  void connect(std::function<void()> wake);
  /// The client is gone, or is to go.
  void end();
  /// Nobody may be woken any more.
  void disconnect();

  const size_t limit_;
  mutable std::mutex mutex_;
  std::string pending_;
  bool gone_ = false, resting_ = false;
  std::function<void()> wake_;
};

struct HttpLimits {
  using Milliseconds = std::chrono::milliseconds;
  size_t connections = 512;
  size_t bodies = size_t{256} << 20;  ///< bytes of all requests' bodies together; 503 above
  Milliseconds request{10'000};       ///< for the whole request to come
  Milliseconds response{60'000};      ///< for the whole answer to be taken
  Milliseconds stream{30'000};        ///< a stream's client may take nothing for so long
  int threads = 3;                    ///< that answer
  int slow_threads = 2;               ///< that answer what may take long
};

/// HTTP/1.1 by GNU libmicrohttpd, one request a connection. One thread waits for all clients, so
/// that none of them, however slow, keeps another waiting; a few answer. With `tls` it is HTTPS,
/// and what is none is hung up on. Each request and each answer has a deadline as a whole. At the
/// limit of connections the one that has been silent longest makes room.
class HttpServer {
 public:
  struct Handlers {
    std::function<HttpResponse(const HttpRequest&)> answer;
    std::function<bool(const HttpRequest&)> slow;  ///< may take long; empty: nothing does
    /// Bytes that the body of such a request may have; empty: kMaxHttpBody.
    std::function<size_t(const HttpRequest&)> most_body;
    std::function<void()> drained;  ///< some stream has room again or is gone; must not block
    /// A line for the log on what was refused before it could be answered; must not block.
    std::function<void(const std::string&)> refused;
  };

  /// Unavailable where the address cannot be listened on; FailedPrecondition where the files of
  /// `tls` are no controller's.
  static absl::StatusOr<std::unique_ptr<HttpServer>> start(const ListenAddress& address,
                                                           Handlers handlers, HttpLimits limits,
                                                           const TlsFiles& tls = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  /// With the port that was found where 0 was asked for.
  const ListenAddress& address() const { return address_; }
  /// Connections now; for tests and metrics.
  size_t connections() const;

 private:
  class Daemon;
  HttpServer(std::unique_ptr<Daemon> daemon, ListenAddress address);

  const std::unique_ptr<Daemon> daemon_;
  const ListenAddress address_;
};

}  // namespace monkeytree
