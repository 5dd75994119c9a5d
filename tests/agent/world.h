#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "control/executor.h"

namespace monkeytree {

/// A process that ends with the test.
class Process {
 public:
  Process() = default;
  Process(const std::vector<std::string>& arguments,
          const std::map<std::string, std::string>& environment, const std::string& log);
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process();

  pid_t id() const { return id_; }
  /// Sends the signal; for SIGKILL and SIGTERM also waits for the end.
  void signal(int number);
  bool running();
  /// The exit code, 128 + signal where it was killed.
  int wait();

 private:
  pid_t id_ = 0;
  int exit_code_ = -1;
  bool ended_ = true;
};

/// Waits until it holds; false after a minute and a half.
bool eventually(const std::function<bool()>& holds);

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
