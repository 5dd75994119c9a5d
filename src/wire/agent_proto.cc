#include "wire/agent_proto.h"

#include <absl/strings/string_view.h>
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr uint32_t kMaxIndex = 999'999;
constexpr uint64_t kMaxCount = uint64_t{1} << 62;
constexpr size_t kMaxText = 4096;

/// The first fault of a message.
class Check {
 public:
  void that(bool holds, std::string_view field, std::string_view what) {
    if (holds || !fault_.empty()) return;
    fault_ = fmt::format("{}: {}", field, what);
  }
  std::string text(const std::string& value, std::string_view field) {
    that(value.size() <= kMaxText, field, "too long");
    return value;
  }
  std::string id(const std::string& value, std::string_view field, bool may_be_empty = true) {
    if (value.empty() && may_be_empty) return value;
    const std::string why = why_no_id(value);
    that(why.empty(), field, fmt::format("{} {}", quote(value), why));
    return value;
  }
  std::string node(const std::string& value, std::string_view field) {
    const std::string why = why_no_node(value);
    that(why.empty(), field, fmt::format("{} {}", quote(value), why));
    return value;
  }
  int index(uint32_t value, std::string_view field) {
    that(value <= kMaxIndex, field, "out of range");
    return static_cast<int>(value);
  }
  int64_t count(uint64_t value, std::string_view field) {
    that(value <= kMaxCount, field, "out of range");
    return static_cast<int64_t>(value);
  }
  WorkerName name(const wire::v1::WorkerName& in, bool may_be_empty = false) {
    return {id(in.job(), "worker.job", may_be_empty), index(in.group(), "worker.group"),
            index(in.worker(), "worker.worker")};
  }
  /// The value, unless a fault was found.
  template <class T>
  absl::StatusOr<T> result(T value) const {
    if (fault_.empty()) return value;
    return absl::InvalidArgumentError(fault_);
  }
  absl::Status status() const {
    return fault_.empty() ? absl::OkStatus() : absl::InvalidArgumentError(fault_);
  }

 private:
  std::string fault_;
};

void write_name(const WorkerName& name, wire::v1::WorkerName& out) {
  out.set_job(name.job);
  out.set_group(static_cast<uint32_t>(name.group));
  out.set_worker(static_cast<uint32_t>(name.worker));
}

WorkerState read_worker(const wire::v1::WorkerState& in, Check& check) {
  WorkerState out;
  out.instance = in.instance();
  out.name = check.name(in.name());
  check.that(in.phase() != wire::v1::WorkerState::UNKNOWN &&
                 wire::v1::WorkerState::Phase_IsValid(in.phase()),
             "phase", "unknown");
  out.phase = static_cast<WorkerPhase>(in.phase() - 1);
  out.migration = check.id(in.migration(), "migration");
  out.successor_of = check.id(in.successor_of(), "successor_of");
  out.generation = check.id(in.generation(), "generation");
  out.iteration = check.count(in.iteration(), "iteration");
  out.state_bytes = check.count(in.state_bytes(), "state_bytes");
  out.user = in.user();
  out.connected = in.connected();
  out.ended = in.ended();
  out.replicas = check.id(in.replicas(), "replicas");
  return out;
}

std::vector<std::string> read_endpoints(const google::protobuf::RepeatedPtrField<std::string>& in,
                                        Check& check) {
  check.that(in.size() <= 64, "endpoints", "too many");
  std::vector<std::string> out;
  for (const std::string& text : in) out.push_back(check.text(text, "endpoints"));
  return out;
}

}  // namespace

void write_proto(const AgentCommand& command, wire::v1::Command& out) {
  out.set_request(command.request);
  out.set_fence(command.fence);
  out.set_step(static_cast<wire::v1::Command::Step>(static_cast<int>(command.step) + 1));
  out.set_migration(command.migration);
  write_name(command.worker, *out.mutable_worker());
  out.set_timeout_ms(static_cast<uint64_t>(std::max<int64_t>(0, command.timeout.count())));
  out.set_state_bytes(static_cast<uint64_t>(command.state_bytes));
  for (const WorkerPeer& peer : command.peers) {
    wire::v1::Peer& one = *out.add_peers();
    one.set_group(static_cast<uint32_t>(peer.group));
    one.set_worker(static_cast<uint32_t>(peer.worker));
    one.set_node(peer.node);
    one.set_address(peer.address);
  }
  out.set_endpoint(command.endpoint);
  out.set_token(command.token);
  out.set_access(command.access);
  out.set_key(command.key);
  out.set_share(static_cast<uint32_t>(command.share));
  out.set_shares(static_cast<uint32_t>(command.shares));
}

absl::StatusOr<AgentCommand> read_proto(const wire::v1::Command& in) {
  Check check;
  AgentCommand out;
  out.request = in.request();
  out.fence = in.fence();
  if (in.step() == wire::v1::Command::UNKNOWN || !wire::v1::Command::Step_IsValid(in.step())) {
    return absl::UnimplementedError(
        fmt::format("step {} is not known to this agent", static_cast<int>(in.step())));
  }
  out.step = static_cast<AgentStep>(in.step() - 1);
  out.migration = check.id(in.migration(), "migration", false);
  out.worker = check.name(in.worker(), true);
  check.that(in.timeout_ms() <= 86'400'000, "timeout_ms", "longer than a day");
  out.timeout = std::chrono::milliseconds(in.timeout_ms());
  out.state_bytes = check.count(in.state_bytes(), "state_bytes");
  check.that(in.peers_size() <= 1024, "peers", "more than 1024");
  for (const wire::v1::Peer& peer : in.peers()) {
    out.peers.push_back(
        {check.index(peer.group(), "peers.group"), check.index(peer.worker(), "peers.worker"),
         check.node(peer.node(), "peers.node"), check.text(peer.address(), "peers.address")});
  }
  out.endpoint = check.text(in.endpoint(), "endpoint");
  out.token = check.text(in.token(), "token");
  out.access = check.text(in.access(), "access");
  out.key = check.text(in.key(), "key");
  const uint32_t shares = std::max<uint32_t>(in.shares(), 1);
  check.that(shares <= 64 && in.share() < shares, "share", "not one of 1 to 64 shares");
  out.share = static_cast<int>(in.share());
  out.shares = static_cast<int>(shares);
  return check.result(std::move(out));
}

void write_proto(const AgentReply& reply, wire::v1::Reply& out) {
  out.set_request(reply.request);
  out.set_code(static_cast<uint32_t>(reply.status.code()));
  out.set_message(std::string(reply.status.message()));
  out.set_iteration(static_cast<uint64_t>(reply.iteration));
  out.set_epoch(static_cast<uint64_t>(reply.epoch));
  out.set_arrived(reply.arrived);
  for (const std::string& endpoint : reply.endpoints) out.add_endpoints(endpoint);
  out.set_token(reply.token);
  out.set_user(reply.user);
}

absl::StatusOr<AgentReply> read_proto(const wire::v1::Reply& in) {
  Check check;
  AgentReply out;
  out.request = in.request();
  const auto code = static_cast<absl::StatusCode>(in.code());
  out.status = absl::Status(in.code() <= 16 ? code : absl::StatusCode::kUnknown,
                            printable(std::string_view(in.message()).substr(0, kMaxText)));
  out.iteration = check.count(in.iteration(), "iteration");
  out.epoch = check.count(in.epoch(), "epoch");
  out.arrived = in.arrived();
  out.endpoints = read_endpoints(in.endpoints(), check);
  out.token = check.text(in.token(), "token");
  out.user = in.user();
  return check.result(std::move(out));
}

void write_proto(const AgentState& state, wire::v1::AgentState& out) {
  for (const WorkerState& worker : state.workers) {
    wire::v1::WorkerState& one = *out.add_workers();
    one.set_instance(worker.instance);
    write_name(worker.name, *one.mutable_name());
    one.set_phase(static_cast<wire::v1::WorkerState::Phase>(static_cast<int>(worker.phase) + 1));
    one.set_migration(worker.migration);
    one.set_successor_of(worker.successor_of);
    one.set_generation(worker.generation);
    one.set_iteration(static_cast<uint64_t>(worker.iteration));
    one.set_state_bytes(static_cast<uint64_t>(worker.state_bytes));
    one.set_user(worker.user);
    one.set_connected(worker.connected);
    one.set_ended(worker.ended);
    one.set_replicas(worker.replicas);
  }
  for (const StagedKey& staged : state.staged) {
    wire::v1::StagedKey& one = *out.add_staged();
    one.set_key(staged.key);
    one.set_bytes(static_cast<uint64_t>(staged.bytes));
    one.set_complete(staged.complete);
  }
  out.set_staging_used(static_cast<uint64_t>(state.staging_used));
}

absl::StatusOr<AgentState> read_proto(const wire::v1::AgentState& in) {
  Check check;
  AgentState out;
  check.that(in.workers_size() <= kMaxWorkersPerNode, "workers", "too many");
  for (const wire::v1::WorkerState& worker : in.workers()) {
    out.workers.push_back(read_worker(worker, check));
    if (!check.status().ok()) return check.status();
  }
  for (const wire::v1::StagedKey& staged : in.staged()) {
    out.staged.push_back({check.text(staged.key(), "staged.key"),
                          check.count(staged.bytes(), "staged.bytes"), staged.complete()});
  }
  out.staging_used = check.count(in.staging_used(), "staging_used");
  return check.result(std::move(out));
}

void write_proto(const AgentHello& hello, wire::v1::Hello& out) {
  out.set_version(static_cast<uint32_t>(hello.version));
  out.set_node(hello.node);
  out.set_instance(hello.instance);
  out.set_slots(static_cast<uint32_t>(hello.slots));
  out.set_address(hello.address);
  out.set_machine(hello.machine);
  out.set_fence(hello.fence);
  out.set_staging_quota(static_cast<uint64_t>(hello.staging_quota));
  for (const std::string& endpoint : hello.staging_endpoints) out.add_staging_endpoints(endpoint);
  out.set_staging_access(hello.staging_access);
  write_proto(hello.state, *out.mutable_state());
}

absl::StatusOr<AgentHello> read_proto(const wire::v1::Hello& in) {
  if (in.version() != kAgentProtocolVersion) {
    return absl::FailedPreconditionError(
        fmt::format("the agent speaks version {} of the protocol, this controller version {}",
                    in.version(), kAgentProtocolVersion));
  }
  Check check;
  AgentHello out;
  out.node = check.node(in.node(), "node");
  out.instance = in.instance();
  out.slots = check.index(in.slots(), "slots");
  out.address = check.text(in.address(), "address");
  out.machine = check.text(in.machine(), "machine");
  out.fence = in.fence();
  out.staging_quota = check.count(in.staging_quota(), "staging_quota");
  out.staging_endpoints = read_endpoints(in.staging_endpoints(), check);
  out.staging_access = check.text(in.staging_access(), "staging_access");
  absl::StatusOr<AgentState> state = read_proto(in.state());
  if (!state.ok()) return state.status();
  out.state = *std::move(state);
  return check.result(std::move(out));
}

void write_proto(const AgentWorkerCommand& command, wire::v1::WorkerCommand& out) {
  out.set_instance(command.instance);
  for (const std::string& argument : command.command.arguments) out.add_arguments(argument);
  out.set_folder(command.command.folder);
  for (const auto& [name, value] : command.command.environment) {
    (*out.mutable_environment())[name] = value;
  }
}

absl::StatusOr<AgentWorkerCommand> read_proto(const wire::v1::WorkerCommand& in) {
  Check check;
  AgentWorkerCommand out;
  out.instance = in.instance();
  size_t bytes = in.folder().size();
  for (const std::string& argument : in.arguments()) {
    bytes += argument.size();
    out.command.arguments.push_back(argument);
  }
  out.command.folder = in.folder();
  for (const auto& [name, value] : in.environment()) {
    bytes += name.size() + value.size();
    out.command.environment[name] = value;
  }
  check.that(!out.command.arguments.empty(), "arguments", "empty");
  check.that(bytes <= 2 * kMaxWorkerPacket, "worker_command", "too long");
  return check.result(std::move(out));
}

void write_proto(const std::vector<RouteInstruction>& routes, wire::v1::Routes& out) {
  for (const RouteInstruction& route : routes) {
    wire::v1::Route& one = *out.add_routes();
    one.set_job(route.job);
    one.set_group(static_cast<uint32_t>(route.group));
    one.set_ring(static_cast<uint32_t>(route.ring));
    one.set_from(route.from);
    one.set_to(route.to);
    one.set_from_rack(route.from_rack);
    one.set_to_rack(route.to_rack);
    one.set_uplink(route.uplink);
  }
}

absl::StatusOr<std::vector<RouteInstruction>> read_proto(const wire::v1::Routes& in) {
  Check check;
  std::vector<RouteInstruction> out;
  for (const wire::v1::Route& route : in.routes()) {
    out.push_back({check.text(route.job(), "job"), check.index(route.group(), "group"),
                   check.index(route.ring(), "ring"), check.text(route.from(), "from"),
                   check.text(route.to(), "to"), check.text(route.from_rack(), "from_rack"),
                   check.text(route.to_rack(), "to_rack"), route.uplink()});
  }
  return check.result(std::move(out));
}

}  // namespace monkeytree
