#pragma once

#include <memory>
#include <string>
#include <vector>

#include "control/executor.h"
#include "process.h"

namespace monkeytree {

/// Agents of a few nodes and an executor that reaches them. Two worlds stand behind it: all in this
/// process without gRPC, and real programs over gRPC.
class World {
 public:
  virtual ~World() = default;
  virtual Executor& executor() = 0;
  /// The controller's process ends, a new one comes with the next epoch.
  virtual void restart_controller() = 0;
  virtual void start_agent(const std::string& node, int64_t staging_quota = 0) = 0;
  /// As by kill -9; nothing is told to anybody.
  virtual void kill_agent(const std::string& node) = 0;
  /// The controller does not hear the agent and the agent not the controller, but both live.
  virtual void cut_off(const std::string& node, bool cut) = 0;

  const std::string& folder() const { return folder_; }
  std::string socket(const std::string& node) const { return folder_ + "/" + node + ".sock"; }
  /// Where the agent of the node writes what it does.
  std::string log_file(const std::string& node) const {
    return folder_ + "/" + node + ".agent.log";
  }
  bool connected(const std::string& node);

 protected:
  World();
  void remove_folder();
  std::string folder_;
};

/// The world of this test program.
std::unique_ptr<World> make_world();

}  // namespace monkeytree
