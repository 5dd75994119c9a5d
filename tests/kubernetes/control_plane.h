#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "process.h"

namespace monkeytree {

/// A real control plane of Kubernetes: etcd, apiserver, scheduler and controller-manager, as
/// scripts/kubernetes builds them, on free ports; and a stand-in for the kubelets, which runs
/// nothing: bound pods become Running, pods that are ending are gone. Ends with its owner, also
/// when that crashes; folders that a crash left are removed by the next.
class KubeControlPlane {
 public:
  using Json = nlohmann::json;

  /// Why tests must be skipped on this machine: "" where nothing is missing.
  static std::string missing();
  /// Null after a failure, which is then one of the test.
  static std::unique_ptr<KubeControlPlane> start();
  ~KubeControlPlane();
  KubeControlPlane(const KubeControlPlane&) = delete;
  KubeControlPlane& operator=(const KubeControlPlane&) = delete;

  /// Holds ca.pem; client.pem and client.key of an administrator; other.pem of nobody here.
  const std::string& folder() const { return folder_; }
  std::string server() const;
  /// What somebody with this token uses; the administrator's without one. A path.
  std::string kubeconfig(const std::string& name, const std::string& token = "") const;

  /// A call as the administrator; an answer other than 2xx is a failure of the test.
  Json call(const std::string& method, const std::string& path, const Json& body = nullptr);
  /// POST of objects written as YAML documents, each to where its kind goes.
  void create(const std::string& yaml);
  /// The status of a call, whatever it is; "" for `body`: none.
  int status_of(const std::string& method, const std::string& path, const std::string& body,
                const std::string& token, const std::string& type = "application/json",
                std::string* answer = nullptr) const;

  /// A node with GPUs, ready.
  void add_node(const std::string& name, const std::map<std::string, std::string>& labels,
                int gpus);
  void cordon(const std::string& node, bool cordoned);

  /// Called by the stand-in before a bound pod is Running, and before one that ends is gone.
  struct Containers {
    std::function<void(const Json& pod)> start;
    std::function<void(const std::string& uid)> end;
  };
  void run(Containers containers);
  /// A token of the namespace's account.
  std::string token_of(const std::string& space, const std::string& account);
  /// etcd forgets all but the newest state, as it does every five minutes.
  void compact();

  /// "apiserver" and the others: ends it as by a crash, or starts it again and waits for it.
  void kill(const std::string& program);
  void restart(const std::string& program);

 private:
  KubeControlPlane() = default;
  bool prepare();
  void launch(const std::string& program);
  bool wait_ready();
  void stand_in(const std::stop_token& stop);
  std::vector<std::string> arguments_of(const std::string& program) const;

  std::string folder_, programs_;
  std::map<std::string, int> ports_;
  std::map<std::string, Process> processes_;
  std::mutex containers_mutex_;
  Containers containers_;
  std::set<std::string> started_;  ///< uids, by the stand-in's thread
  std::jthread kubelets_;
};

}  // namespace monkeytree
