#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "process.h"

namespace monkeytree {

/// A real etcd of one member, as a process of its own that ends with its owner.
class EtcdServer {
 public:
  /// Why none can be started here, or "".
  static std::string missing();

  EtcdServer();
  ~EtcdServer();
  EtcdServer(const EtcdServer&) = delete;
  EtcdServer& operator=(const EtcdServer&) = delete;

  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  const std::string& folder() const { return folder_; }

  void start();  ///< again, with what it had; waits until it answers
  void kill();   ///< as power would
  void stall();  ///< it lives and does not answer
  void go_on();

 private:
  std::string folder_;
  int port_, peer_port_;
  Process process_;
};

/// A wire to a port of loopback that can be cut: then what is sent is neither taken nor refused, as
/// behind a switch that has failed.
class Wire {
 public:
  explicit Wire(int to);
  ~Wire();
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  int port() const { return port_; }
  std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
  void cut(bool cut) { cut_ = cut; }

 private:
  struct Pair {
    int near, far;
  };
  void run();

  const int to_;
  int listener_ = -1, port_ = 0;
  std::atomic<bool> cut_ = false, stop_ = false;
  std::vector<Pair> pairs_;
  std::thread thread_;
};

}  // namespace monkeytree
