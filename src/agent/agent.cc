#include "agent/agent.h"

#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <random>
#include <utility>

#include "base/file.h"

namespace monkeytree {
namespace {

using std::chrono::steady_clock;

/// Equal for processes that can reach each other's abstract sockets.
std::string this_machine() {
  const absl::StatusOr<std::string> boot = read_file("/proc/sys/kernel/random/boot_id", 64);
  char name[64] = {};
  const ssize_t length = readlink("/proc/self/ns/net", name, sizeof(name) - 1);
  if (!boot.ok() || length <= 0) return "";
  return fmt::format("{} {}", boot->substr(0, boot->find('\n')), name);
}

uint64_t draw_instance() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

std::string tcp_address(const std::string& host) {
  return host.find(':') == std::string::npos ? fmt::format("tcp:{}:0", host)
                                             : fmt::format("tcp:[{}]:0", host);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Agent>> Agent::start(AgentOptions options) {
  std::unique_ptr<Agent> agent(new Agent(std::move(options)));
  if (absl::Status status = agent->set_up(); !status.ok()) return status;
  return agent;
}

absl::Status Agent::set_up() {
  instance_ = draw_instance();
  machine_ = this_machine();
  load_fence();
  const std::vector<std::string> addresses = {tcp_address(options_.data_address), "shm:"};
  ReceiverOptions receiving;
  receiving.addresses = addresses;
  if (options_.ucx) {
    receiving.addresses.push_back("ucx" + tcp_address(options_.data_address).substr(3));
  }
  receiving.tls = options_.state_tls;
  absl::StatusOr<std::unique_ptr<Receiver>> receiver = Receiver::listen(receiving);
  if (!receiver.ok()) return receiver.status();
  receiver_ = *std::move(receiver);
  if (options_.staging_quota > 0) {
    if (absl::Status status = start_staging(addresses); !status.ok()) return status;
  }
  Workers::Options workers;
  workers.socket = options_.socket;
  workers.welcome = {options_.node, options_.data_address};
  workers.log = options_.log;
  workers.settle = options_.settle;
  workers.job_of = options_.job_of;
  workers.changed = [this] { note_change(); };
  workers.flows_changed = options_.on_flows;
  absl::StatusOr<std::unique_ptr<Workers>> listening = Workers::listen(std::move(workers));
  if (!listening.ok()) return listening.status();
  workers_ = *std::move(listening);
  return absl::OkStatus();
}

absl::Status Agent::start_staging(const std::vector<std::string>& addresses) {
  staging_access_ = random_token();
  StagingOptions staging;
  staging.addresses = addresses;
  staging.folder = options_.staging_folder;
  staging.quota_bytes = static_cast<uint64_t>(options_.staging_quota);
  staging.access = staging_access_;
  staging.tls = options_.state_tls;
  absl::StatusOr<std::unique_ptr<StagingServer>> server = StagingServer::start(std::move(staging));
  if (!server.ok()) return server.status();
  staging_ = *std::move(server);
  struct statfs system {};
  if (statfs(options_.staging_folder.c_str(), &system) == 0 && system.f_type != TMPFS_MAGIC) {
    options_.log(LogLevel::kWarning, "staging on a disk",
                 {{"folder", options_.staging_folder},
                  {"reason", "it is not in tmpfs: workers wait for the disk while they stand"}});
  }
  for (const FoundState& found : staging_->found()) {
    const bool whole = found.status.ok();
    options_.log(whole ? LogLevel::kInfo : LogLevel::kWarning,
                 whole ? "staged state found" : "staged state lost",
                 {{"key", found.key},
                  {"bytes", std::to_string(found.bytes)},
                  {"reason", whole ? "an earlier agent held it; its checksums hold"
                                   : std::string(found.status.message())}});
  }
  return absl::OkStatus();
}

Agent::~Agent() { stop(); }

void Agent::stop() {
  if (workers_) workers_->stop_waiting();
  const std::lock_guard lock(mutex_);
  for (const auto& [key, incoming] : incoming_) {
    if (!incoming.token.empty() && !incoming.arrived) receiver_->cancel(incoming.token);
  }
  for (const auto& [key, sender] : sending_) sender->cancel();
}

void Agent::on_change(std::function<void()> changed) {
  const std::lock_guard lock(changed_mutex_);
  changed_ = std::move(changed);
}

void Agent::note_change() {
  const std::lock_guard lock(changed_mutex_);
  if (changed_) changed_();
}

void Agent::load_fence() {
  if (options_.fence_file.empty()) return;
  const absl::StatusOr<std::string> text = read_file(options_.fence_file, 64);
  if (text.ok()) std::from_chars(text->data(), text->data() + text->size(), fence_);
}

absl::Status Agent::accept_fence(uint64_t fence) {
  const std::lock_guard lock(mutex_);
  if (fence < fence_) {
    return absl::FailedPreconditionError(fmt::format(
        "a controller of epoch {} is refused, one of epoch {} has been seen", fence, fence_));
  }
  if (fence == fence_) return absl::OkStatus();
  fence_ = fence;
  if (options_.fence_file.empty()) return absl::OkStatus();
  const absl::Status written = write_file(options_.fence_file, fmt::format("{}\n", fence));
  if (!written.ok()) {
    options_.log(LogLevel::kWarning, "fence not written",
                 {{"file", options_.fence_file}, {"reason", std::string(written.message())}});
  }
  return absl::OkStatus();
}

AgentHello Agent::hello() const {
  AgentHello out;
  out.node = options_.node;
  out.instance = instance_;
  out.slots = options_.slots;
  out.address = options_.data_address;
  out.machine = machine_;
  out.staging_quota = options_.staging_quota;
  out.staging_access = staging_access_;
  if (staging_) {
    for (const Endpoint& one : staging_->endpoints()) out.staging_endpoints.push_back(one.text());
  }
  {
    const std::lock_guard lock(mutex_);
    out.fence = fence_;
  }
  out.state = state();
  return out;
}

AgentState Agent::state() const {
  AgentState out;
  out.workers = workers_->states();
  if (!staging_) return out;
  out.staging_used = static_cast<int64_t>(staging_->used_bytes());
  for (const StagedState& one : staging_->states()) {
    out.staged.push_back({one.key, static_cast<int64_t>(one.bytes), one.complete});
  }
  return out;
}

void Agent::apply_routes(const std::vector<RouteInstruction>& routes) {
  const std::lock_guard lock(mutex_);
  routes_ = routes;
  options_.log(LogLevel::kInfo, "routes", {{"flows", std::to_string(routes.size())}});
  if (options_.on_routes) options_.on_routes(routes);
  if (options_.routes_file.empty()) return;
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const RouteInstruction& route : routes) {
    out.push_back({{"job", route.job},
                   {"group", route.group},
                   {"ring", route.ring},
                   {"from", route.from},
                   {"to", route.to},
                   {"from_rack", route.from_rack},
                   {"to_rack", route.to_rack},
                   {"uplink", route.uplink}});
  }
  const std::string text =
      out.dump(1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  const absl::Status written = write_file(options_.routes_file, text);
  if (written.ok()) return;
  options_.log(LogLevel::kError, "routes not written",
               {{"file", options_.routes_file}, {"reason", std::string(written.message())}});
}

std::vector<RouteInstruction> Agent::routes() const {
  const std::lock_guard lock(mutex_);
  return routes_;
}

AgentReply Agent::perform(const AgentCommand& command) {
  const auto begun = steady_clock::now();
  AgentReply reply;
  reply.request = command.request;
  reply.status = accept_fence(command.fence);
  if (reply.status.ok()) {
    const absl::Status status = carry_out(command, begun + command.timeout, reply);
    reply.status = status;
  }
  const double seconds = std::chrono::duration<double>(steady_clock::now() - begun).count();
  LogFields fields = {{"step", std::string(name_of(command.step))},
                      {"migration", command.migration},
                      {"worker", to_string(command.worker)},
                      {"seconds", fmt::format("{:.3f}", seconds)}};
  if (!reply.status.ok()) fields.emplace_back("reason", reply.status.ToString());
  options_.log(reply.status.ok() ? LogLevel::kInfo : LogLevel::kWarning,
               reply.status.ok() ? "step done" : "step failed", fields);
  return reply;
}

absl::Status Agent::carry_out(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const std::string why = why_no_id(command.migration);
  if (!why.empty()) return absl::InvalidArgumentError(fmt::format("the migration's id {}", why));
  switch (command.step) {
    case AgentStep::kPrepare:
      return prepare(command, deadline, reply);
    case AgentStep::kAnnounce:
      workers_->announce(command.migration, command.worker.job);
      workers_->warm(command.worker).IgnoreError();  // most often it is on another node
      return absl::OkStatus();
    case AgentStep::kPause:
      return pause(command, deadline, reply);
    case AgentStep::kReceive:
      return receive(command, deadline, reply);
    case AgentStep::kSend:
      return send(command, deadline);
    case AgentStep::kArrived:
      return arrived(command, deadline, reply);
    case AgentStep::kRestore:
      return restore(command, deadline, reply);
    case AgentStep::kRetire:
      return workers_->retire(command.migration, command.worker, deadline);
    case AgentStep::kResume:
      return resume(command, deadline, reply);
    case AgentStep::kRelease:
      return workers_->release(command.migration, command.worker, deadline);
    case AgentStep::kCancel:
      return cancel(command, deadline);
    case AgentStep::kUndo:
      return undo(command, deadline);
    case AgentStep::kReserve:
      return reserve(command, deadline);
    case AgentStep::kStage:
      return stage(command, deadline);
    case AgentStep::kForward:
      return forward(command, deadline);
    case AgentStep::kDrop:
      return drop(command, deadline);
  }
  return absl::UnimplementedError("no such step");
}

absl::Status Agent::prepare(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const absl::StatusOr<Workers::Successor> successor =
      workers_->await_successor(command.migration, command.worker, deadline);
  if (!successor.ok()) return successor.status();
  const auto have = static_cast<int64_t>(successor->arena->payload_bytes());
  if (have < command.state_bytes) {
    return absl::FailedPreconditionError(
        fmt::format("the successor of worker {} has room for {} bytes of state, {} are to come",
                    to_string(command.worker), have, command.state_bytes));
  }
  reply.user = successor->user;
  if (successor->phase == WorkerPhase::kRestored) return absl::OkStatus();
  return workers_->warm(command.worker);
}

absl::Status Agent::pause(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const absl::StatusOr<WorkerPaused> paused =
      workers_->pause(command.migration, command.worker, deadline);
  if (!paused.ok()) return paused.status();
  reply.iteration = paused->iteration;
  reply.epoch = paused->epoch;
  return absl::OkStatus();
}

absl::Status Agent::resume(const AgentCommand& command, Deadline deadline, AgentReply& reply) {
  const absl::StatusOr<int64_t> iteration =
      workers_->resume(command.migration, command.worker, command.peers, deadline);
  if (!iteration.ok()) return iteration.status();
  reply.iteration = *iteration;
  const std::lock_guard lock(mutex_);
  incoming_.erase(staging_key(command.migration, command.worker));
  return absl::OkStatus();
}

}  // namespace monkeytree
