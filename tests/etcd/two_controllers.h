#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/world.h"
#include "etcd_server.h"
#include "inventory/emulated_processes.h"
#include "inventory/emulated_scheduler.h"
#include "inventory/emulated_socket.h"
#include "shared_keys.h"

namespace monkeytree {

/// Two controllers that share an etcd, agents and training jobs, all as processes, around an
/// emulated cluster of two racks in this one.
class TwoControllers {
 public:
  TwoControllers();
  ~TwoControllers();

  struct Settings {
    std::string mode = "enforce";
    bool by_wires = false;  ///< each reaches etcd by a wire of its own
  };
  explicit TwoControllers(const Settings& settings);

  EtcdServer& etcd() { return etcd_; }
  EmulatedScheduler& cluster() { return cluster_; }
  Wire& wire(size_t controller) { return *wires_[controller]; }

  void start(size_t controller);
  void signal(size_t controller, int number);
  bool runs(size_t controller) { return controllers_[controller].running(); }

  /// Which leads by its own word; nullopt: none.
  std::optional<size_t> leader();
  /// Waits for one; the other than `except`, where given.
  size_t await_leader(std::optional<size_t> except = std::nullopt);
  std::string get(size_t controller, const std::string& path) const;
  /// The HTTP status, and what the answer says.
  std::pair<int, std::string> post(size_t controller, const std::string& path) const;

  /// A job of one worker on each of the nodes. `iterations` 0: until it is ended.
  std::string submit(const std::vector<std::string>& nodes, int64_t state_bytes = 1 << 20);
  /// Two of them across the racks, whose uplinks are enough for one; one move mends it.
  void collide(int64_t state_bytes = 1 << 20);
  const std::vector<std::string>& jobs() const { return jobs_; }
  void end_jobs();
  bool all_within();
  const SharedKeys& shared() const { return shared_; }

  int64_t iterations(const std::string& job, int worker) const;
  /// "" or what is wrong with the logs of the jobs: each iteration of each worker once, in order,
  /// by one process after the other, all sums agreeing.
  std::string wrong_with_logs() const;
  /// Nodes on which workers of the jobs have run, less those they began on.
  int moved() const;
  /// The ends of all logs, for a failed test.
  std::string logs() const;

 private:
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  void write_configurations(const Settings& settings);

  std::string folder_;
  EtcdServer etcd_;
  std::array<std::unique_ptr<Wire>, 2> wires_;
  SharedKeys shared_;
  EmulatedProcesses processes_;
  EmulatedScheduler cluster_;
  std::unique_ptr<EmulatedServer> server_;
  std::array<int, 2> http_{}, agents_ports_{};
  std::array<Process, 2> controllers_;
  std::vector<Process> agents_;
  std::vector<std::string> jobs_;
};

}  // namespace monkeytree
