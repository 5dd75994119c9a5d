#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "routing/flow_ports.h"
#include "routing/port_cache.h"
#include "routing/routes.h"
#include "wire/log.h"
#include "wire/worker_protocol.h"

namespace monkeytree {

/// The IPv4 address that a node's name stands for, as the machine resolves it; blocking.
std::optional<uint32_t> resolve_node(const std::string& node);

/// Fills in the source ports of flows that have a route: those remembered that still lead to the
/// flow's uplink, else found anew, else 0. Errors: of the source; ports are then 0 where none is
/// remembered.
absl::Status fill_ports(PathSource& source, PortCache& cache, std::vector<FlowPort>& flows);

/// Keeps the source ports of this node's routed flows true to the fabric: ports are found when
/// routes or flows come and looked at again from time to time, so that a failed uplink is noticed.
/// Those of RoCE go to a file (`monkeytree/ports/v1`), those of the TCP connections that workers'
/// rings send by are told to the workers. Has a thread of its own, since finding takes time.
/// Thread-safe.
class FlowPaths {
 public:
  struct Options {
    uint32_t source_address = 0;
    std::function<std::optional<uint32_t>(const std::string&)> address_of = resolve_node;
    std::string file;  ///< "": none
    std::chrono::milliseconds recheck{10000};
    LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
  };
  FlowPaths(std::unique_ptr<PathSource> source, Options options);
  ~FlowPaths();
  FlowPaths(const FlowPaths&) = delete;
  FlowPaths& operator=(const FlowPaths&) = delete;

  // All return at once.
  void set_routes(std::vector<PreviousRoute> routes);
  /// A route is a flow's by job, group and ring.
  void set_flows(std::map<WorkerName, WorkerFlows> flows);
  /// Who tells workers of their ports: when they change, and for each worker after set_flows().
  void on_ports(std::function<void(const WorkerName&, const AgentPorts&)> tell);

  /// Nothing is found or told any more.
  void stop();

 private:
  using Tell = std::function<void(const WorkerName&, const AgentPorts&)>;
  struct Wanted {
    std::vector<PreviousRoute> routes;
    std::map<WorkerName, WorkerFlows> flows;
    Tell tell;
    bool routes_came = false;  ///< ever
    bool tell_all = false;     ///< not only what has changed
  };
  void run();
  std::vector<FlowPort> flows_of(const std::vector<PreviousRoute>& routes) const;
  std::vector<FlowPort> connections_of(const Wanted& wanted) const;
  void update(const Wanted& wanted);
  void write(const std::vector<FlowPort>& flows);
  void tell(const Wanted& wanted, const std::vector<FlowPort>& connections);
  void change(const std::function<void(Wanted&)>& how);

  std::unique_ptr<PathSource> source_;  ///< with what follows, the thread's own
  Options options_;
  PortCache cache_;
  std::string written_;
  std::map<WorkerName, AgentPorts> told_;

  std::mutex mutex_;
  std::condition_variable wake_;
  Wanted wanted_;
  bool changed_ = false, stop_ = false;
  std::thread thread_;  ///< last: uses all of the above
};

}  // namespace monkeytree
