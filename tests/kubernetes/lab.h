#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "control_plane.h"

namespace monkeytree {

/// A control plane with racks "row/a", "row/b", … of GPU nodes, and MonkeyTree's accounts, rights
/// and webhook as the manifests of enforce mode have them. Its jobs lie where a test wants them.
class KubeLab {
 public:
  using Json = KubeControlPlane::Json;

  explicit KubeLab(int nodes_per_rack, int racks = 4);
  /// From now on the server asks at webhook_port() about pods, and makes none without an answer.
  void register_webhook();

  KubeControlPlane& plane() { return *plane_; }
  bool good() const { return plane_ != nullptr; }
  /// Whose racks have the uplinks, as lines of a controller's configuration.
  std::string scheduler_section(int uplinks) const;
  std::string kubeconfig() const { return kubeconfig_; }
  std::string certificate() const { return plane_->folder() + "/server.pem"; }
  std::string key() const { return plane_->folder() + "/server.key"; }
  int webhook_port() const { return webhook_port_; }
  const std::string& token() const { return token_; }

  std::string rack_of(const std::string& node) const;
  /// Only these take new pods.
  void open(const std::set<int>& nodes);
  void open_all();
  /// A StatefulSet or Job whose pods lie on these nodes, a whole node each; its name is its app.
  void place(const std::string& name, const std::string& kind, const std::set<int>& nodes,
             bool allowed = true, const std::string& more_labels = "");
  void remove(const std::string& name, const std::string& kind);

  struct Pod {
    std::string name, uid, node, phase;
  };
  /// Those that are not about to end, by name.
  std::vector<Pod> pods_of(const std::string& app);
  std::set<std::string> uids_of(const std::string& app);
  std::vector<std::string> nodes_with_our_taint();
  int move_objects();
  /// Racks' degrees by the server's own words, for one ring a job.
  std::map<std::string, int> degrees(const std::vector<std::string>& apps);

 private:
  int nodes_per_rack_, racks_;
  std::unique_ptr<KubeControlPlane> plane_;
  std::string token_, kubeconfig_;
  int webhook_port_ = 0;
};

}  // namespace monkeytree
