#include "agent/flow_paths.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <set>
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
    if (flow.route.uplink < 0) continue;
    flow.header.source_port = cache.find(flow.header, flow.route.uplink).value_or(0);
    if (flow.header.source_port != 0 || !status.ok()) continue;
    PortSearch search;
    search.flow = flow.header;
    search.range = flow.header.protocol == Protocol::kTcp ? kTcpPorts : kRocePorts;
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

FlowPaths::~FlowPaths() { stop(); }

void FlowPaths::stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void FlowPaths::change(const std::function<void(Wanted&)>& how) {
  {
    const std::lock_guard lock(mutex_);
    how(wanted_);
    changed_ = true;
  }
  wake_.notify_all();
}

void FlowPaths::set_routes(std::vector<PreviousRoute> routes) {
  change([&](Wanted& wanted) {
    wanted.routes = std::move(routes);
    wanted.routes_came = true;
  });
}

void FlowPaths::set_flows(std::map<WorkerName, WorkerFlows> flows) {
  change([&](Wanted& wanted) {
    wanted.flows = std::move(flows);
    wanted.tell_all = true;
  });
}

void FlowPaths::on_ports(std::function<void(const WorkerName&, const AgentPorts&)> tell) {
  change([&](Wanted& wanted) {
    wanted.tell = std::move(tell);
    wanted.tell_all = true;
  });
}

void FlowPaths::run() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (!changed_) {
      wake_.wait_for(lock, options_.recheck, [this] { return stop_ || changed_; });
    }
    if (stop_) return;
    changed_ = false;
    const Wanted wanted = wanted_;
    wanted_.tell_all = false;
    // Before the first routes the file is left as it is, and connections as the kernel makes them.
    if (!wanted.routes_came) continue;
    lock.unlock();
    update(wanted);
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

/// A connection for each flow of each worker, in their order; uplink -1 where it has no route.
std::vector<FlowPort> FlowPaths::connections_of(const Wanted& wanted) const {
  std::vector<FlowPort> out;
  for (const auto& [name, told] : wanted.flows) {
    for (const WorkerFlow& flow : told.flows) {
      FlowPort& made = out.emplace_back();
      made.header = {options_.source_address, parse_ipv4(flow.to).value_or(0), Protocol::kTcp, 0,
                     static_cast<uint16_t>(flow.port)};
      for (const PreviousRoute& route : wanted.routes) {
        if (route.job == name.job && route.group == name.group && route.ring == flow.ring) {
          made.route = route;
        }
      }
    }
  }
  return out;
}

void FlowPaths::update(const Wanted& wanted) {
  std::vector<FlowPort> flows;
  if (!options_.file.empty()) flows = flows_of(wanted.routes);
  const size_t to_write = flows.size();
  const std::vector<FlowPort> connections = connections_of(wanted);
  std::set<PacketHeader> headers;
  flows.insert(flows.end(), connections.begin(), connections.end());
  for (const FlowPort& flow : flows) headers.insert(flow.header);
  cache_.keep_only(headers);
  const absl::Status status = fill_ports(*source_, cache_, flows);
  if (!status.ok()) {
    options_.log(LogLevel::kError, "no paths", {{"reason", std::string(message_of(status))}});
  }
  const auto middle = flows.begin() + static_cast<std::ptrdiff_t>(to_write);
  tell(wanted, {middle, flows.end()});
  flows.erase(middle, flows.end());
  if (!options_.file.empty()) write(flows);
}

/// `connections` as of connections_of(), with their ports.
void FlowPaths::tell(const Wanted& wanted, const std::vector<FlowPort>& connections) {
  std::map<WorkerName, AgentPorts> ports;
  auto next = connections.begin();
  for (const auto& [name, told] : wanted.flows) {
    for (const WorkerFlow& flow : told.flows) {
      ports[name].flows.push_back({flow, next++->header.source_port});
    }
  }
  for (const auto& [name, found] : ports) {
    if (!wanted.tell_all && told_[name] == found) continue;
    for (const FlowSource& source : found.flows) {
      options_.log(LogLevel::kInfo, "port",
                   {{"worker", to_string(name)},
                    {"to", source.flow.to},
                    {"port", std::to_string(source.source_port)}});
    }
    if (wanted.tell) wanted.tell(name, found);
  }
  told_ = std::move(ports);
}

void FlowPaths::write(const std::vector<FlowPort>& flows) {
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
