#include "cli/paths.h"

#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agent/asked_paths.h"
#include "agent/probed_paths.h"
#include "base/json.h"
#include "base/status.h"
#include "cli/common.h"
#include "routing/flow_ports.h"
#include "routing/port_search.h"

namespace monkeytree {
namespace {

constexpr int kMaxUplinks = 1024;

constexpr const char* kExamples =
    "Examples:\n"
    "  monkeytree paths 10.3.1.2:5201 --probe\n"
    "                                      which spines answer probes, and their names\n"
    "  monkeytree paths 10.3.1.2:5201 --probe --uplinks 10.255.0.2,10.255.0.6\n"
    "                                      a port for each of these two spines\n"
    "  monkeytree paths 10.3.1.2:4791 --udp --ask 'ssh tor3' --interface swp1 \\\n"
    "      --uplinks swp31,swp32           as the rack's router says, for RoCE\n"
    "  monkeytree paths 10.3.1.2:4791 --udp --predict hash.yaml --uplinks 4\n"
    "                                      as a model of the router's hash says\n"
    "\n"
    "A switch takes one of several equal uplinks by a hash of addresses, protocol and\n"
    "ports. The source port is ours to choose, so it chooses the uplink: bind it\n"
    "before you connect. A port holds until an uplink of either rack fails or comes\n"
    "back. Probes end at the spine and disturb nobody; --ask 'env' asks this machine.";

struct PathsOptions {
  std::string destination, from, ask, predict, interface, uplinks, ports;
  bool probe = false, udp = false, json = false;
  int tries = 200, hops = 2;
};

/// Everything about one run, checked.
struct PathsTask {
  PortSearch search;
  std::string way;                 ///< "probes", "the router", "a hash model"
  std::vector<std::string> names;  ///< of uplinks
  std::unique_ptr<PathSource> source;
};

std::nullopt_t refuse(std::string_view message) {
  print_error(message);
  return std::nullopt;
}

std::optional<int> number(std::string_view text, int low, int high) {
  int value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < low || value > high) return std::nullopt;
  return value;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(at);
    if (end != 0 && !text.empty()) parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<PortRange> read_ports(const PathsOptions& options) {
  if (options.ports.empty()) return options.udp ? kRocePorts : kTcpPorts;
  const size_t dash = options.ports.find('-');
  const auto first = number(options.ports.substr(0, dash), 1, 65535);
  const auto last =
      dash == std::string::npos ? first : number(options.ports.substr(dash + 1), 1, 65535);
  if (!first || !last || *first > *last) {
    return refuse(
        fmt::format("--ports: expected FIRST-LAST of 1 to 65535, found {}", quote(options.ports)));
  }
  return PortRange{static_cast<uint16_t>(*first), static_cast<uint16_t>(*last)};
}

std::optional<PacketHeader> read_flow(const PathsOptions& options) {
  const size_t colon = options.destination.rfind(':');
  const auto address = parse_ipv4(std::string_view(options.destination).substr(0, colon));
  const auto port = colon == std::string::npos
                        ? std::nullopt
                        : number(options.destination.substr(colon + 1), 1, 65535);
  if (!address || !port) {
    return refuse(
        fmt::format("DESTINATION: expected an IPv4 address and a port, for example "
                    "10.3.1.2:5201, found {}",
                    quote(options.destination)));
  }
  PacketHeader flow;
  flow.destination = *address;
  flow.destination_port = static_cast<uint16_t>(*port);
  flow.protocol = options.udp ? Protocol::kUdp : Protocol::kTcp;
  const std::optional<uint32_t> from =
      options.from.empty() ? own_address_towards(*address) : parse_ipv4(options.from);
  if (!from && options.from.empty()) {
    return refuse(fmt::format("no way from this machine to {}; expected --from ADDRESS",
                              ipv4_text(*address)));
  }
  if (!from) {
    return refuse(fmt::format("--from: expected an IPv4 address, found {}", quote(options.from)));
  }
  flow.source = *from;
  return flow;
}

std::unique_ptr<PathSource> probing(const PathsOptions& options,
                                    const std::vector<std::string>& names) {
  ProbedPaths::Options probes;
  probes.hops = options.hops;
  for (size_t i = 0; i < names.size(); ++i) {
    const std::optional<uint32_t> address = parse_ipv4(names[i]);
    if (!address) {
      print_error(fmt::format("--uplinks: expected the IPv4 addresses of spines, found {}",
                              quote(names[i])));
      return nullptr;
    }
    probes.spines[*address] = static_cast<int>(i);
  }
  return std::make_unique<ProbedPaths>(probes);
}

std::unique_ptr<PathSource> asking(const PathsOptions& options,
                                   const std::vector<std::string>& names) {
  AskedPaths::Options router;
  router.command = split(options.ask, ' ');
  router.interface = options.interface;
  for (size_t i = 0; i < names.size(); ++i) router.uplinks[names[i]] = static_cast<int>(i);
  return std::make_unique<AskedPaths>(router);
}

std::unique_ptr<PathSource> predicting(const PathsOptions& options,
                                       const std::vector<std::string>& names) {
  const std::optional<std::string> text = read_input(options.predict);
  if (!text) return nullptr;
  Diagnostics diagnostics;
  const std::optional<HashModel> model = parse_hash_model(*text, options.predict, diagnostics);
  print_findings(diagnostics);
  if (!model) return nullptr;
  std::vector<int> uplinks;
  for (size_t i = 0; i < names.size(); ++i) uplinks.push_back(static_cast<int>(i));
  return std::make_unique<PredictedPaths>(*model, uplinks);
}

std::optional<PathsTask> read_task(const PathsOptions& options) {
  PathsTask task;
  const std::optional<PacketHeader> flow = read_flow(options);
  const std::optional<PortRange> ports = read_ports(options);
  if (!flow || !ports) return std::nullopt;
  task.search.flow = *flow;
  task.search.range = *ports;
  task.search.tries = options.tries;
  if (options.probe + !options.ask.empty() + !options.predict.empty() != 1) {
    return refuse("expected one of --probe, --ask COMMAND and --predict MODEL");
  }
  task.names = split(options.uplinks, ',');
  if (!options.predict.empty() && task.names.size() == 1) {
    const std::optional<int> count = number(task.names.front(), 1, kMaxUplinks);
    task.names.clear();
    for (int i = 0; i < count.value_or(0); ++i) task.names.push_back(std::to_string(i));
  }
  if (task.names.size() > static_cast<size_t>(kMaxUplinks)) {
    return refuse(fmt::format("--uplinks: expected at most {}", kMaxUplinks));
  }
  if (task.names.empty() && !options.probe) {
    return refuse(options.ask.empty()
                      ? fmt::format("--uplinks: expected how many there are, 1 to {}", kMaxUplinks)
                      : "--uplinks: expected the router's interfaces to the spines, for example "
                        "swp31,swp32");
  }
  task.way = options.probe ? "probes" : options.ask.empty() ? "a hash model" : "the router";
  task.source = options.probe          ? probing(options, task.names)
                : !options.ask.empty() ? asking(options, task.names)
                                       : predicting(options, task.names);
  if (!task.source) return std::nullopt;
  return task;
}

const char* protocol_name(const PacketHeader& flow) {
  return flow.protocol == Protocol::kTcp ? "tcp" : "udp";
}

bool has_labels(const PacketHeader& flow) {
  return flow.protocol == Protocol::kUdp && flow.destination_port == kRocePort;
}

std::string found_text(const PathsTask& task, const PortsFound& found, const Paint& paint) {
  const PacketHeader& flow = task.search.flow;
  std::vector<std::string> heading = {"uplink", "name", "source port"};
  if (has_labels(flow)) heading.emplace_back("flow label");
  Table table(heading);
  for (size_t i = 0; i < task.names.size(); ++i) {
    const auto port = found.ports.find(static_cast<int>(i));
    const bool known = port != found.ports.end();
    std::vector<std::string> row = {std::to_string(i), task.names[i],
                                    known ? std::to_string(port->second) : "not found"};
    if (has_labels(flow)) {
      row.push_back(known ? std::to_string(flow_label_of(port->second)) : "-");
    }
    table.add(row);
  }
  return fmt::format("{} to {}:{} {}, by {}: {} of {}, {} tried\n\n{}", ipv4_text(flow.source),
                     ipv4_text(flow.destination), flow.destination_port, protocol_name(flow),
                     task.way, found.ports.size(),
                     counted(static_cast<long long>(task.names.size()), "uplink"),
                     counted(found.tried, "port"), table.text(paint));
}

std::string found_json(const PathsTask& task, const PortsFound& found) {
  const PacketHeader& flow = task.search.flow;
  nlohmann::ordered_json out = {{"schema", "monkeytree/paths/v1"},
                                {"source", ipv4_text(flow.source)},
                                {"destination", ipv4_text(flow.destination)},
                                {"destination_port", flow.destination_port},
                                {"protocol", protocol_name(flow)},
                                {"tried", found.tried},
                                {"uplinks", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < task.names.size(); ++i) {
    nlohmann::ordered_json uplink = {
        {"uplink", i}, {"name", task.names[i]}, {"source_port", nullptr}};
    const auto port = found.ports.find(static_cast<int>(i));
    if (port != found.ports.end()) {
      uplink["source_port"] = port->second;
      if (has_labels(flow)) uplink["flow_label"] = flow_label_of(port->second);
    }
    out["uplinks"].push_back(uplink);
  }
  return out.dump() + "\n";
}

/// `--probe` without uplinks: who answers.
int discover(PathsTask& task) {
  auto& probes = static_cast<ProbedPaths&>(*task.source);
  const std::vector<int> nobody = {0};
  const absl::StatusOr<PortsFound> found = find_ports(probes, task.search, nobody);
  if (!found.ok()) {
    print_error(message_of(found.status()));
    return kExitFailed;
  }
  if (probes.strangers().empty()) {
    print_error(
        fmt::format("no answer to {}; do the switches answer packets whose time to live "
                    "ends there, and is --hops right?",
                    counted(found->tried, "probe")));
    return kExitLimit;
  }
  Table table({"answers from", "probes"});
  std::string names;
  for (const auto& [address, count] : probes.strangers()) {
    table.add({ipv4_text(address), std::to_string(count)});
    names += (names.empty() ? "" : ",") + ipv4_text(address);
  }
  return print_result(table.text(Paint(colors_wanted())) + "\n--uplinks " + names + "\n",
                      kExitDone);
}

int run_paths(const PathsOptions& options) {
  std::optional<PathsTask> task = read_task(options);
  if (!task) return kExitBadInput;
  if (task->names.empty()) return discover(*task);
  std::vector<int> wanted;
  for (size_t i = 0; i < task->names.size(); ++i) wanted.push_back(static_cast<int>(i));
  const absl::StatusOr<PortsFound> found = find_ports(*task->source, task->search, wanted);
  if (!found.ok()) {
    print_error(message_of(found.status()));
    return kExitFailed;
  }
  const int exit_code = found->ports.size() == wanted.size() ? kExitDone : kExitLimit;
  if (options.json) return print_result(found_json(*task, *found), exit_code);
  return print_result(found_text(*task, *found, Paint(colors_wanted())), exit_code);
}

}  // namespace

void add_paths(CLI::App& app, int& exit_code) {
  const auto options = std::make_shared<PathsOptions>();
  CLI::App& command =
      add_command(app, "paths", "the source port that sends a flow up each uplink", kExamples);
  command.add_option("destination", options->destination, "where the flow goes, IPv4")
      ->type_name("ADDRESS:PORT")
      ->required();
  command.add_option("--from", options->from, "where it comes from; default: this machine")
      ->type_name("ADDRESS");
  command.add_flag("--udp", options->udp, "UDP, as RoCE (port 4791); default: TCP");
  command.add_flag("--probe", options->probe, "find out by probes that end at the spine");
  command
      .add_option("--ask", options->ask,
                  "ask the rack's router, a Linux; COMMAND runs there what follows it")
      ->type_name("COMMAND");
  command
      .add_option("--predict", options->predict,
                  "ask a model of the router's hash (YAML, - is standard input)")
      ->type_name("MODEL");
  command
      .add_option("--uplinks", options->uplinks,
                  "for --probe the spines' addresses, for --ask the router's interfaces or the "
                  "spines' addresses, for --predict how many")
      ->type_name("NAME,...|N");
  command
      .add_option("--interface", options->interface,
                  "with --ask: the router's interface that the flow comes in by")
      ->type_name("NAME");
  command.add_option("--ports", options->ports, "source ports that may be used")
      ->type_name("FIRST-LAST");
  command.add_option("--tries", options->tries, "ports to try at most")
      ->check(CLI::Range(1, 65535))
      ->type_name("N")
      ->capture_default_str();
  command.add_option("--hops", options->hops, "with --probe: the spine's place on the path")
      ->check(CLI::Range(1, 255))
      ->type_name("N")
      ->capture_default_str();
  command.add_flag("--json", options->json, "print monkeytree/paths/v1");
  command.callback([options, &exit_code] { exit_code = run_paths(*options); });
}

}  // namespace monkeytree
