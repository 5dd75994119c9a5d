#include "etcd_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::minutes kPatience{2};

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

int free_port() {
  const int probe = bound_socket(0);
  const int port = port_of(probe);
  close(probe);
  return port;
}

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
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execlp("etcd", "etcd", "--data-dir", data.c_str(), "--listen-client-urls", client.c_str(),
           "--advertise-client-urls", client.c_str(), "--listen-peer-urls", peer.c_str(),
           "--initial-advertise-peer-urls", peer.c_str(), "--initial-cluster", cluster.c_str(),
           nullptr);
    _exit(127);
  }
  for (const Clock::time_point limit = Clock::now() + kPatience; Clock::now() < limit;) {
    if (answers(port_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  ADD_FAILURE() << "etcd does not answer: " << log;
}

void EtcdServer::kill() {
  if (process_ == 0) return;
  ::kill(process_, SIGKILL);
  waitpid(process_, nullptr, 0);
  process_ = 0;
}

void EtcdServer::stall() { ::kill(process_, SIGSTOP); }
void EtcdServer::go_on() { ::kill(process_, SIGCONT); }

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
