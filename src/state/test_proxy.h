#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "state/connection.h"

namespace monkeytree {

/// For tests: stands between two sides of a tcp transfer and harms it, at a byte counted over all
/// connections from the sender.
class TestProxy {
 public:
  enum class Harm { kNone, kCut, kFlip, kStall };
  struct Options {
    Harm harm = Harm::kNone;
    uint64_t at_byte = 0;
    int times = 1;             ///< how often; each further time after at_byte more bytes
    uint64_t bytes_per_s = 0;  ///< of a slow path; 0: unlimited
  };

  TestProxy(Endpoint target, Options options) : target_(std::move(target)), options_(options) {
    Endpoint any{Endpoint::Transport::kTcp, "127.0.0.1", 0, ""};
    listener_ = *listen_at(any);
    acceptor_ = std::thread([this] { accept_loop(); });
  }
  ~TestProxy() {
    stopping_ = true;
    acceptor_.join();
    for (std::thread& pump : pumps_) pump.join();
  }

  Endpoint endpoint() const { return listener_.endpoint; }
  uint64_t bytes() const { return bytes_; }
  int harms() const { return harms_; }

 private:
  void accept_loop() {
    while (!stopping_) {
      pollfd entry{listener_.socket.get(), POLLIN, 0};
      if (poll(&entry, 1, 10) <= 0) continue;
      Fd from(accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!from.valid()) continue;
      pumps_.emplace_back([this, fd = from.release()] { pump(Fd(fd)); });
    }
  }

  static bool write_all(int fd, const std::byte* data, size_t bytes) {
    while (bytes > 0) {
      const ssize_t sent = ::send(fd, data, bytes, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      data += sent;
      bytes -= static_cast<size_t>(sent);
    }
    return true;
  }

  Fd connect_to_target() const {
    Fd to(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(target_.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(to.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      to.reset();
    }
    return to;
  }

  void pump(Fd from) {
    const Fd to = connect_to_target();
    if (!to.valid()) return;
    std::vector<std::byte> buffer(size_t{64} << 10);
    while (!stopping_) {
      pollfd entries[2] = {{from.get(), POLLIN, 0}, {to.get(), POLLIN, 0}};
      if (poll(entries, 2, 10) <= 0) continue;
      if (entries[0].revents != 0 && !forward(from.get(), to.get(), buffer, true)) return;
      if (entries[1].revents != 0 && !forward(to.get(), from.get(), buffer, false)) return;
    }
  }

  bool forward(int from, int to, std::vector<std::byte>& buffer, bool to_receiver) {
    const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
    if (got <= 0) return false;
    auto count = static_cast<size_t>(got);
    if (to_receiver && !harm(buffer, count)) {
      write_all(to, buffer.data(), count);
      return false;
    }
    if (options_.bytes_per_s > 0) {
      std::this_thread::sleep_for(
          std::chrono::microseconds(count * 1000000 / options_.bytes_per_s));
    }
    return write_all(to, buffer.data(), count);
  }

  /// False: the connection is to be cut after the first `count` bytes.
  bool harm(std::vector<std::byte>& buffer, size_t& count) {
    const std::lock_guard lock(mutex_);
    const uint64_t before = bytes_;
    bytes_ += count;
    const uint64_t next = options_.at_byte * static_cast<uint64_t>(harms_ + 1);
    if (options_.harm == Harm::kNone || harms_ >= options_.times || bytes_ <= next) return true;
    ++harms_;
    const size_t at = next > before ? static_cast<size_t>(next - before) : 0;
    if (options_.harm == Harm::kFlip) {
      buffer[at] ^= std::byte{0x10};
      return true;
    }
    if (options_.harm == Harm::kStall) {
      while (!stopping_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    count = at;
    return false;
  }

  const Endpoint target_;
  const Options options_;
  Listener listener_;
  std::atomic<bool> stopping_ = false;
  std::atomic<uint64_t> bytes_ = 0;
  std::atomic<int> harms_ = 0;
  std::mutex mutex_;
  std::thread acceptor_;
  std::vector<std::thread> pumps_;  ///< of the acceptor until it has ended
};

}  // namespace monkeytree
