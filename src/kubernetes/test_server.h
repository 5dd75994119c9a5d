#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

/// A server of HTTP that does what a real one will not do on demand.
namespace monkeytree {

/// One request, and what is sent back, byte by byte as a test wants it.
class TestExchange {
 public:
  TestExchange(int socket, std::string head, const std::atomic<bool>& ending)
      : socket_(socket), head_(std::move(head)), ending_(ending) {
    const size_t from = head_.find(' ') + 1;
    target_ = head_.substr(from, head_.find(' ', from) - from);
  }

  const std::string& target() const { return target_; }
  std::string path() const { return target_.substr(0, target_.find('?')); }
  bool asks(std::string_view text) const { return head_.find(text) != std::string::npos; }

  void send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
  }
  void answer(int status, std::string_view body, std::string_view headers = {}) {
    send(fmt::format(
        "HTTP/1.1 {} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{}\r\n", status,
        body.size(), headers));
    send(body);
  }
  void begin_chunks() { send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"); }
  void chunk(std::string_view bytes) { send(fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes)); }
  void end_chunks() { send("0\r\n\r\n"); }
  /// Says nothing more, and keeps the connection open, until the server ends or the client goes.
  void hang() {
    char byte = 0;
    while (!ending_) {
      const ssize_t got = recv(socket_, &byte, 1, MSG_DONTWAIT);
      if (got == 0) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    close();
  }
  /// Breaks the connection off.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

 private:
  int socket_;
  std::string head_, target_;
  const std::atomic<bool>& ending_;
  bool closed_ = false;
};

class TestServer {
 public:
  using Handler = std::function<void(TestExchange&)>;

  explicit TestServer(Handler handler) : handler_(std::move(handler)) {
    listening_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (bind(listening_, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
        listen(listening_, 64) != 0 ||
        getsockname(listening_, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
      std::abort();
    }
    port_ = ntohs(address.sin_port);
    accepting_ = std::thread([this] { accept_all(); });
  }
  ~TestServer() {
    ending_ = true;
    shutdown(listening_, SHUT_RDWR);
    accepting_.join();
    {
      const std::lock_guard lock(mutex_);
      for (const int each : sockets_) shutdown(each, SHUT_RDWR);
    }
    for (std::thread& thread : threads_) thread.join();
    for (const int each : sockets_) ::close(each);
    ::close(listening_);
  }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

 private:
  void accept_all() {
    while (!ending_) {
      const int client = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client < 0) continue;
      const std::lock_guard lock(mutex_);
      sockets_.push_back(client);
      threads_.emplace_back([this, client] { serve(client); });
    }
  }

  void serve(int client) {
    std::string input;
    char buffer[4096];
    while (!ending_) {
      const size_t end = input.find("\r\n\r\n");
      if (end == std::string::npos) {
        const ssize_t got = recv(client, buffer, sizeof buffer, 0);
        if (got <= 0) break;
        input.append(buffer, static_cast<size_t>(got));
        continue;
      }
      TestExchange exchange(client, input.substr(0, end), ending_);
      input.erase(0, end + 4);
      handler_(exchange);
      if (exchange.closed()) break;
    }
    shutdown(client, SHUT_RDWR);
  }

  Handler handler_;
  int listening_ = -1;
  int port_ = 0;
  std::atomic<bool> ending_ = false;
  std::mutex mutex_;
  std::list<int> sockets_;
  std::list<std::thread> threads_;
  std::thread accepting_;
};

}  // namespace monkeytree
