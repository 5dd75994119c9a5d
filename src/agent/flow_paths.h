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

namespace monkeytree {

/// The IPv4 address that a node's name stands for, as the machine resolves it; blocking.
std::optional<uint32_t> resolve_node(const std::string& node);

/// Fills in the source ports of flows that have a route: those remembered that still lead to the
/// flow's uplink, else found anew, else 0. Errors: of the source; ports are then 0 where none is
/// remembered.
absl::Status fill_ports(PathSource& source, PortCache& cache, std::vector<FlowPort>& flows);

/// Keeps a file (`monkeytree/ports/v1`) with the RoCE source port of every routed flow of this
/// node, true to the fabric: ports are found when routes come and looked at again from time to
/// time, so that a failed uplink is noticed. Has a thread of its own, since finding takes time.
/// Thread-safe.
class FlowPaths {
 public:
  struct Options {
    uint32_t source_address = 0;
    std::function<std::optional<uint32_t>(const std::string&)> address_of = resolve_node;
    std::string file;
    std::chrono::milliseconds recheck{10000};
    LogSink log = [](LogLevel, std::string_view, const LogFields&) {};
  };
  FlowPaths(std::unique_ptr<PathSource> source, Options options);
  ~FlowPaths();
  FlowPaths(const FlowPaths&) = delete;
  FlowPaths& operator=(const FlowPaths&) = delete;

  /// Returns at once.
  void set_routes(std::vector<PreviousRoute> routes);

 private:
  void run();
  std::vector<FlowPort> flows_of(const std::vector<PreviousRoute>& routes) const;
  void update(const std::vector<PreviousRoute>& routes);

  std::unique_ptr<PathSource> source_;  ///< with what follows, the thread's own
  Options options_;
  PortCache cache_;
  std::string written_;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<PreviousRoute> routes_;
  bool new_routes_ = false, stop_ = false;
  std::thread thread_;  ///< last: uses all of the above
};

}  // namespace monkeytree
