#include "etcd_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "base/eventually.h"

namespace monkeytree {
namespace {

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

int bound_socket(int port) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    return listener;
  }
  close(listener);
  return -1;
}

int port_of(int listener) {
  sockaddr_in address{};
  socklen_t length = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.sin_port);
}

int dial(int port) {
  const int out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(port);
  if (connect(out, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return out;
  close(out);
  return -1;
}

bool answers(int port) {
  const int out = dial(port);
  if (out < 0) return false;
  close(out);
  return true;
}

bool pass_on(int from, int to) {
  std::array<char, 16384> buffer{};
  const ssize_t got = recv(from, buffer.data(), buffer.size(), 0);
  if (got <= 0) return false;
  for (ssize_t sent = 0; sent < got;) {
    const ssize_t one =
        send(to, buffer.data() + sent, static_cast<size_t>(got - sent), MSG_NOSIGNAL);
    if (one <= 0) return false;
    sent += one;
  }
  return true;
}

}  // namespace

std::string EtcdServer::missing() {
  return std::system("command -v etcd >/dev/null 2>&1") == 0 ? "" : "there is no etcd here";
}

EtcdServer::EtcdServer() : port_(free_port()), peer_port_(free_port()) {
  std::string folder = testing::TempDir() + "monkeytree-etcd-XXXXXX";
  folder_ = mkdtemp(folder.data()) == nullptr ? "" : folder;
  start();
}

EtcdServer::~EtcdServer() {
  kill();
  std::error_code error;
  std::filesystem::remove_all(folder_, error);
}

void EtcdServer::start() {
  const std::string client = endpoint(), peer = "http://127.0.0.1:" + std::to_string(peer_port_);
  const std::string cluster = "default=" + peer, data = folder_ + "/data", log = folder_ + "/log";
  process_ = Process({"etcd", "--data-dir", data, "--listen-client-urls", client,
                      "--advertise-client-urls", client, "--listen-peer-urls", peer,
                      "--initial-advertise-peer-urls", peer, "--initial-cluster", cluster},
                     {}, log);
  EXPECT_TRUE(eventually([this] { return answers(port_); })) << "etcd does not answer: " << log;
}

void EtcdServer::kill() { process_.signal(SIGKILL); }
void EtcdServer::stall() { process_.signal(SIGSTOP); }
void EtcdServer::go_on() { process_.signal(SIGCONT); }

Wire::Wire(int to) : to_(to), listener_(bound_socket(0)), port_(port_of(listener_)) {
  listen(listener_, 64);
  thread_ = std::thread([this] { run(); });
}

Wire::~Wire() {
  stop_ = true;
  thread_.join();
  for (const Pair& pair : pairs_) {
    close(pair.near);
    close(pair.far);
  }
  close(listener_);
}

void Wire::run() {
  while (!stop_) {
    std::vector<pollfd> wait = {{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      wait.push_back({pair.near, POLLIN, 0});
      wait.push_back({pair.far, POLLIN, 0});
    }
    if (cut_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    if (poll(wait.data(), wait.size(), 10) <= 0) continue;
    std::vector<Pair> kept;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      const Pair& pair = pairs_[i];
      const bool lives = (wait[1 + 2 * i].revents == 0 || pass_on(pair.near, pair.far)) &&
                         (wait[2 + 2 * i].revents == 0 || pass_on(pair.far, pair.near));
      if (lives) {
        kept.push_back(pair);
      } else {
        close(pair.near);
        close(pair.far);
      }
    }
    pairs_ = std::move(kept);
    if (wait[0].revents != 0) {
      const int near = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      const int far = dial(to_);
      if (near >= 0 && far >= 0) {
        pairs_.push_back({near, far});
      } else {
        if (near >= 0) close(near);
        if (far >= 0) close(far);
      }
    }
  }
}

}  // namespace monkeytree
