#include "agent/flow_paths.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <utility>

#include "base/file.h"
#include "base/status.h"

namespace monkeytree {

std::optional<uint32_t> resolve_node(const std::string& node) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (getaddrinfo(node.c_str(), nullptr, &hints, &found) != 0) return std::nullopt;
  const uint32_t address =
      ntohl(reinterpret_cast<const sockaddr_in*>(found->ai_addr)->sin_addr.s_addr);
  freeaddrinfo(found);
  return address;
}

absl::Status fill_ports(PathSource& source, PortCache& cache, std::vector<FlowPort>& flows) {
  absl::Status status = cache.verify(source).status();
  for (FlowPort& flow : flows) {
    flow.header.source_port = cache.find(flow.header, flow.route.uplink).value_or(0);
    if (flow.header.source_port != 0 || !status.ok()) continue;
    PortSearch search;
    search.flow = flow.header;
    search.range = kRocePorts;
    const std::vector<int> wanted = {flow.route.uplink};
    const absl::StatusOr<PortsFound> found = find_ports(source, search, wanted);
    if (!found.ok()) {
      status = found.status();
    } else if (const auto port = found->ports.find(flow.route.uplink); port != found->ports.end()) {
      flow.header.source_port = port->second;
      cache.keep(flow.header, flow.route.uplink, port->second, flow.route.from_rack,
                 flow.route.to_rack);
    }
  }
  return status;
}

FlowPaths::FlowPaths(std::unique_ptr<PathSource> source, Options options)
    : source_(std::move(source)), options_(std::move(options)), thread_([this] { run(); }) {}

FlowPaths::~FlowPaths() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void FlowPaths::set_routes(std::vector<PreviousRoute> routes) {
  {
    const std::lock_guard lock(mutex_);
    routes_ = std::move(routes);
    new_routes_ = true;
  }
  wake_.notify_all();
}

void FlowPaths::run() {
  std::unique_lock lock(mutex_);
  bool told = false;  // before the first routes the file is left as it is
  while (!stop_) {
    if (!new_routes_) {
      wake_.wait_for(lock, options_.recheck, [this] { return stop_ || new_routes_; });
    }
    if (stop_) return;
    told |= new_routes_;
    new_routes_ = false;
    if (!told) continue;
    const std::vector<PreviousRoute> routes = routes_;
    lock.unlock();
    update(routes);
    lock.lock();
  }
}

/// Flows whose node at the other end has no address are left out.
std::vector<FlowPort> FlowPaths::flows_of(const std::vector<PreviousRoute>& routes) const {
  std::vector<FlowPort> flows;
  std::map<std::string, std::optional<uint32_t>> addresses;
  for (const PreviousRoute& route : routes) {
    if (route.uplink < 0) continue;
    const auto [at, unknown] = addresses.try_emplace(route.to);
    if (unknown) at->second = options_.address_of(route.to);
    if (unknown && !at->second) {
      options_.log(LogLevel::kWarning, "no address", {{"node", route.to}});
    }
    if (!at->second) continue;
    flows.push_back({route, {options_.source_address, *at->second, Protocol::kUdp, 0, kRocePort}});
  }
  return flows;
}

void FlowPaths::update(const std::vector<PreviousRoute>& routes) {
  std::vector<FlowPort> flows = flows_of(routes);
  const absl::Status status = fill_ports(*source_, cache_, flows);
  if (!status.ok()) {
    options_.log(LogLevel::kError, "no paths", {{"reason", std::string(message_of(status))}});
  }
  std::string text = write_flow_ports(flows);
  if (text == written_) return;
  size_t missing = 0;
  for (const FlowPort& flow : flows) missing += flow.header.source_port == 0 ? 1 : 0;
  const absl::Status written = write_file(options_.file, text);
  if (written.ok()) written_ = std::move(text);
  options_.log(written.ok() ? LogLevel::kInfo : LogLevel::kError,
               written.ok() ? "ports" : "ports not written",
               {{"file", options_.file},
                {"flows", std::to_string(flows.size())},
                {"missing", std::to_string(missing)}});
}

}  // namespace monkeytree
