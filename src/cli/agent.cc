#include "cli/agent.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "agent/agent.h"
#include "agent/config.h"
#include "agent/data_address.h"
#include "agent/flow_paths.h"
#include "agent/probed_paths.h"
#include "agent/session.h"
#include "base/file.h"
#include "cli/common.h"
#include "identity/grpc_credentials.h"

namespace monkeytree {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree agent                        on the machine of the controller\n"
    "  monkeytree agent --config /etc/monkeytree/agent.yaml\n"
    "  monkeytree agent --node n17 --data 10.1.0.0/16 --staging-quota 64GiB\n"
    "  monkeytree agent --controller head:7461 --data eth1 --ca ca.crt \\\n"
    "      --certificate n17.crt --key n17.key      by mutual TLS\n"
    "  monkeytree agent --controller head:7461 --data eth1 --insecure\n"
    "                                          a network that is trusted\n"
    "\n"
    "Options go before what the file says; packaging/agent.yaml shows all fields.\n"
    "Training processes come to the socket (docs/worker_protocol.md). They survive\n"
    "the agent: it may be stopped and started at any time. SIGTERM ends it.\n"
    "Exit code: 0 stopped, 1 could not start, 2 bad usage or configuration.";

struct AgentArguments {
  std::string config_file;
  std::optional<std::string> node, socket, data, staging_quota, routes_file, log;
  std::vector<std::string> controllers;
  std::optional<std::string> ca, certificate, key;
  std::optional<int> slots;
  bool insecure = false;
};

/// The file, and what the command line says in its place; nullopt after a message.
std::optional<AgentConfig> configure(const AgentArguments& arguments) {
  AgentConfig config;
  if (!arguments.config_file.empty()) {
    const std::optional<std::string> text = read_input(arguments.config_file);
    if (!text) return std::nullopt;
    Diagnostics diagnostics;
    const std::optional<AgentConfig> read =
        parse_agent_config(*text, arguments.config_file, diagnostics);
    print_findings(diagnostics);
    if (!read) return std::nullopt;
    config = *read;
  }
  config.node = arguments.node.value_or(config.node);
  if (!arguments.controllers.empty()) config.controllers = arguments.controllers;
  config.socket = arguments.socket.value_or(config.socket);
  config.data = arguments.data.value_or(config.data);
  config.routes_file = arguments.routes_file.value_or(config.routes_file);
  config.slots = arguments.slots.value_or(config.slots);
  config.tls.ca = arguments.ca.value_or(config.tls.ca);
  config.tls.certificate = arguments.certificate.value_or(config.tls.certificate);
  config.tls.key = arguments.key.value_or(config.tls.key);
  config.insecure = config.insecure || arguments.insecure;
  if (arguments.log) config.json_log = *arguments.log == "json";
  if (arguments.staging_quota) {
    const std::optional<int64_t> bytes = parse_bytes(*arguments.staging_quota);
    if (!bytes) {
      print_error("--staging-quota: expected bytes, for example 1073741824 or 64GiB");
      return std::nullopt;
    }
    config.staging_quota = *bytes;
  }
  if (config.node.empty()) {
    char name[256] = {};
    gethostname(name, sizeof(name) - 1);
    config.node = name;
    config.node.resize(std::min(config.node.find('.'), config.node.size()));
  }
  if (const std::string why = why_unusable(config); !why.empty()) {
    print_error(why);
    return std::nullopt;
  }
  return config;
}

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string json_line(LogLevel level, std::string_view event, const LogFields& fields) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json out;
  out["time_s"] =
      static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) /
      1000.0;
  out["level"] = std::string_view(spdlog::level::to_string_view(level_of(level)).data());
  out["event"] = event;
  for (const auto& [name, value] : fields) out[std::string(name)] = value;
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

/// A line an event on standard error.
LogSink log_to_stderr(bool json) {
  const auto logger =
      std::make_shared<spdlog::logger>("agent", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern(json ? "%v" : "time=%Y-%m-%dT%H:%M:%S.%e%z level=%l %v");
  logger->flush_on(spdlog::level::trace);
  return [logger, json](LogLevel level, std::string_view event, const LogFields& fields) {
    logger->log(level_of(level), "{}",
                json ? json_line(level, event, fields) : log_line(event, fields));
  };
}

int stop_event = -1;

extern "C" void on_agent_stop(int) {
  const uint64_t one = 1;
  (void)!write(stop_event, &one, sizeof(one));
}

/// A descriptor that becomes readable when the agent is told to end. A handler, and not a mask:
/// libraries have started threads before main().
int stop_signals() {
  stop_event = eventfd(0, EFD_CLOEXEC);
  struct sigaction action {};
  action.sa_handler = on_agent_stop;
  action.sa_flags = SA_RESTART;
  sigaction(SIGTERM, &action, nullptr);
  sigaction(SIGINT, &action, nullptr);
  signal(SIGHUP, SIG_IGN);  // nothing to read anew, and no reason to leave the workers
  return stop_event;
}

int fail(const absl::Status& status) {
  print_error(std::string(status.message()));
  return absl::IsInvalidArgument(status) ? kExitBadInput : kExitFailed;
}

/// Finds source ports; null where the configuration does not say who the spines are.
std::unique_ptr<FlowPaths> flow_paths(const AgentConfig& config, const AgentOptions& agent) {
  if (config.spines.empty()) return nullptr;
  ProbedPaths::Options probes;
  probes.hops = config.spine_hops;
  for (size_t i = 0; i < config.spines.size(); ++i) {
    probes.spines[parse_ipv4(config.spines[i]).value_or(0)] = static_cast<int>(i);
  }
  FlowPaths::Options options;
  options.source_address = parse_ipv4(agent.data_address).value_or(0);
  options.file = config.ports_file;
  options.log = agent.log;
  return std::make_unique<FlowPaths>(std::make_unique<ProbedPaths>(probes), options);
}

std::vector<PreviousRoute> previous_routes(const std::vector<RouteInstruction>& routes) {
  std::vector<PreviousRoute> out;
  for (const RouteInstruction& r : routes) {
    out.push_back({r.job, r.group, r.ring, r.from, r.to, r.from_rack, r.to_rack, r.uplink});
  }
  return out;
}

int run_agent(const AgentArguments& arguments) {
  const std::optional<AgentConfig> config = configure(arguments);
  if (!config) return kExitBadInput;
  AgentOptions options;
  if (!config->data.empty()) {
    const absl::StatusOr<std::string> address =
        resolve_data_address(config->data, interface_addresses());
    if (!address.ok()) {
      return fail(absl::InvalidArgumentError(
          fmt::format("data: {}", std::string(address.status().message()))));
    }
    options.data_address = *address;
  }
  const int signals = stop_signals();
  options.node = config->node;
  options.slots = config->slots;
  options.socket = config->socket;
  options.staging_quota = config->staging_quota;
  options.staging_folder = staging_folder_of(*config);
  options.ucx = config->ucx;
  if (config->encrypt_state) options.state_tls = config->tls;
  options.min_bytes_per_s = static_cast<uint64_t>(config->min_bytes_per_s);
  options.routes_file = config->routes_file;
  options.log = log_to_stderr(config->json_log);
  const std::unique_ptr<FlowPaths> paths = flow_paths(*config, options);
  if (paths) {
    options.on_routes = [&paths](const std::vector<RouteInstruction>& routes) {
      paths->set_routes(previous_routes(routes));
    };
    options.on_flows = [&paths](const std::map<WorkerName, WorkerFlows>& flows) {
      paths->set_flows(flows);
    };
  }
  options.fence_file = config->socket + ".epoch";
  absl::StatusOr<std::unique_ptr<Agent>> agent = Agent::start(options);
  if (!agent.ok()) return fail(agent.status());
  tell_of_grpc([log = options.log](const std::string& text) {
    log(LogLevel::kWarning, "grpc", {{"text", text}});
  });
  if (paths) {
    paths->on_ports([&agent](const WorkerName& name, const AgentPorts& ports) {
      (*agent)->tell_ports(name, ports);
    });
  }
  AgentSessionOptions session;
  session.controllers = config->controllers;
  session.tls = config->tls;
  session.insecure = config->insecure;
  session.log = options.log;
  options.log(LogLevel::kInfo, "started",
              {{"node", config->node},
               {"socket", config->socket},
               {"controller", fmt::format("{}", fmt::join(config->controllers, ","))},
               {"data", options.data_address}});
  absl::StatusOr<std::unique_ptr<AgentSession>> talk = AgentSession::start(**agent, session);
  if (!talk.ok()) return fail(talk.status());
  pollfd wait{signals, POLLIN, 0};
  while (poll(&wait, 1, -1) < 0 && errno == EINTR) {
  }
  options.log(LogLevel::kInfo, "stopping", {});
  talk->reset();
  if (paths) paths->stop();
  agent->reset();
  return kExitDone;
}

}  // namespace

void add_agent(CLI::App& app, int& exit_code) {
  CLI::App& command = add_command(
      app, "agent", "what runs on each node: moves the state of its workers", kExamples);
  const auto a = std::make_shared<AgentArguments>();
  command.add_option("--config", a->config_file, "YAML; - is standard input")->type_name("FILE");
  command.add_option("--node", a->node, "as the scheduler names it; else the machine's name")
      ->type_name("NAME");
  command.add_option("--slots", a->slots, "GPUs of the node")
      ->check(CLI::Range(1, 4096).description(""))
      ->type_name("N");
  command
      .add_option("--controller", a->controllers,
                  "where it listens for agents; several, by commas, where there is a standby")
      ->delimiter(',')
      ->type_name("HOST:PORT");
  command.add_option("--socket", a->socket, "where worker processes come to")->type_name("PATH");
  command
      .add_option("--data", a->data,
                  "interface, prefix or address that reaches the fabric; state travels there")
      ->type_name("WHERE");
  command
      .add_option("--staging-quota", a->staging_quota,
                  "memory lent to the state of other nodes' workers, for example 64GiB")
      ->type_name("BYTES");
  command.add_option("--routes-file", a->routes_file, "the uplinks of this node's flows go there")
      ->type_name("FILE");
  command.add_option("--log", a->log, "text or json")
      ->check(CLI::IsMember({"text", "json"}).description(""))
      ->type_name("FORM");
  command.add_option("--ca", a->ca, "the CA that signed the controller's certificate")
      ->type_name("FILE");
  command.add_option("--certificate", a->certificate, "the node's own (monkeytree certs)")
      ->type_name("FILE");
  command.add_option("--key", a->key, "of the node's certificate")->type_name("FILE");
  command.add_flag("--insecure", a->insecure,
                   "believe a controller on another machine without proof of who it is");
  command.callback([a, &exit_code] { exit_code = run_agent(*a); });
}

}  // namespace monkeytree
