#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

/// For tests: a client that says exactly what it is told, byte by byte if need be.
namespace monkeytree {

class RawClient {
 public:
  explicit RawClient(int port, int receive_buffer = 0) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (receive_buffer > 0) {
      setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~RawClient() { hang_up(); }
  RawClient(RawClient&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), connected_(other.connected_) {}
  RawClient& operator=(RawClient&&) = delete;

  bool connected() const { return connected_; }
  void hang_up() {
    if (socket_ >= 0) close(std::exchange(socket_, -1));
  }

  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  /// All until the other end closes.
  std::string read_all() {
    return read_until([](const std::string&) { return false; });
  }
  /// Until it holds `text` (or the other end closes).
  std::string read_until(const std::string& text) {
    return read_until([&](const std::string& got) { return got.find(text) != std::string::npos; });
  }

  template <class Enough>
  std::string read_until(const Enough& enough)
    requires(!std::is_convertible_v<Enough, std::string>)
  {
    std::string got;
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(120);
    while (!enough(got) && std::chrono::steady_clock::now() < limit) {
      pollfd ready{socket_, POLLIN, 0};
      if (poll(&ready, 1, 1000) <= 0) continue;
      std::array<char, 4096> buffer{};
      const ssize_t count = recv(socket_, buffer.data(), buffer.size(), 0);
      if (count <= 0) break;
      got.append(buffer.data(), static_cast<size_t>(count));
    }
    return got;
  }

 private:
  int socket_ = -1;
  bool connected_ = false;
};

/// One request, all of its answer.
inline std::string ask(int port, std::string_view bytes) {
  RawClient client(port);
  client.send(bytes);
  return client.read_all();
}

inline std::string get(int port, std::string_view target) {
  return ask(port, "GET " + std::string(target) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
}

inline std::string body_of(const std::string& answer) {
  const size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

inline int status_of(const std::string& answer) {
  return answer.size() < 12 ? 0 : std::atoi(answer.c_str() + 9);
}

}  // namespace monkeytree
