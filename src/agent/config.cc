#include "agent/config.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/json.h"
#include "base/yaml.h"
#include "identity/tls_config.h"
#include "routing/packet_header.h"
#include "wire/agent_messages.h"

namespace monkeytree {

std::optional<int64_t> parse_bytes(std::string_view text) {
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc() || value < 0) return std::nullopt;
  const std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  constexpr std::array<std::pair<std::string_view, double>, 10> kUnits = {
      {{"", 1},
       {"B", 1},
       {"kB", 1e3},
       {"MB", 1e6},
       {"GB", 1e9},
       {"TB", 1e12},
       {"KiB", 1024.0},
       {"MiB", 1048576.0},
       {"GiB", 1073741824.0},
       {"TiB", 1099511627776.0}}};
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = value * factor;
    if (bytes > 9e15 || bytes != std::floor(bytes)) return std::nullopt;
    return static_cast<int64_t>(bytes);
  }
  return std::nullopt;
}

namespace {

void read_spines(const YamlValue& value, std::vector<std::string>& spines) {
  const std::optional<std::vector<YamlValue>> list = value.list();
  for (const YamlValue& item : list.value_or(std::vector<YamlValue>())) {
    const std::optional<std::string> address = item.nonempty_string();
    if (!address) continue;
    if (!parse_ipv4(*address)) item.error_expected("the IPv4 address of a spine");
    spines.push_back(*address);
  }
}

/// One, or a list of all that may lead.
void read_controllers(const YamlValue& value, std::vector<std::string>& controllers) {
  std::vector<std::string> found;
  if (!value.is_list()) {
    if (const auto one = value.nonempty_string()) found.push_back(*one);
  } else {
    for (const YamlValue& item : value.list().value_or(std::vector<YamlValue>())) {
      if (const auto one = item.nonempty_string()) found.push_back(*one);
    }
    if (found.empty()) value.error_expected("HOST:PORT, or several of them");
  }
  if (!found.empty()) controllers = std::move(found);
}

}  // namespace

std::optional<AgentConfig> parse_agent_config(std::string_view text, std::string_view file,
                                              Diagnostics& diagnostics) {
  const size_t errors = diagnostics.error_count();
  const std::optional<YamlValue> root = parse_yaml(text, file, diagnostics);
  if (!root) return std::nullopt;
  AgentConfig config;
  const YamlMap map =
      root->map({"node", "slots", "controller", "socket", "data", "staging_quota", "staging_folder",
                 "min_bandwidth", "routes_file", "ports_file", "spines", "spine_hops", "tls",
                 "encrypt_state", "ucx", "insecure", "log"});
  const auto take_text = [&](std::string_view key, std::string& into) {
    if (const YamlValue* value = map.find(key)) into = value->nonempty_string().value_or(into);
  };
  const auto take_bytes = [&](std::string_view key, int64_t& into) {
    const YamlValue* value = map.find(key);
    if (value == nullptr) return;
    const std::optional<std::string> given = value->nonempty_string();
    if (!given) return;
    const std::optional<int64_t> bytes = parse_bytes(*given);
    if (!bytes) value->error_expected("bytes, for example 1073741824 or 64GiB");
    into = bytes.value_or(into);
  };
  take_text("node", config.node);
  if (const YamlValue* value = map.find("controller")) {
    read_controllers(*value, config.controllers);
  }
  take_text("socket", config.socket);
  take_text("data", config.data);
  take_text("staging_folder", config.staging_folder);
  take_text("routes_file", config.routes_file);
  take_text("ports_file", config.ports_file);
  if (const YamlValue* value = map.find("spines")) read_spines(*value, config.spines);
  if (const YamlValue* value = map.find("spine_hops")) {
    config.spine_hops = value->integer32(1, 255).value_or(2);
  }
  take_bytes("staging_quota", config.staging_quota);
  take_bytes("min_bandwidth", config.min_bytes_per_s);
  if (const YamlValue* value = map.find("slots")) {
    config.slots = value->integer32(1, 4096).value_or(0);
  }
  if (const YamlValue* value = map.find("tls")) config.tls = read_tls(*value);
  if (const YamlValue* value = map.find("encrypt_state")) {
    config.encrypt_state = value->boolean().value_or(false);
  }
  if (const YamlValue* value = map.find("ucx")) config.ucx = value->boolean().value_or(false);
  if (const YamlValue* value = map.find("insecure")) {
    config.insecure = value->boolean().value_or(false);
  }
  if (const YamlValue* value = map.find("log")) {
    constexpr std::array<std::string_view, 2> kForms = {"text", "json"};
    config.json_log = value->one_of(kForms).value_or(0) == 1;
  }
  if (diagnostics.error_count() > errors) return std::nullopt;
  return config;
}

std::string staging_folder_of(const AgentConfig& config) {
  if (!config.staging_folder.empty()) return config.staging_folder;
  return config.socket == kDefaultAgentSocket ? "/dev/shm/monkeytree" : config.socket + ".staged";
}

std::string why_unusable(const AgentConfig& config) {
  if (!config.node.empty()) {
    const std::string why = why_no_node(config.node);
    if (!why.empty()) return fmt::format("node: {} {}", quote(config.node), why);
  }
  std::string far;  // a controller on another machine
  for (const std::string& text : config.controllers) {
    const absl::StatusOr<HostPort> controller = parse_host_port(text);
    if (!controller.ok()) {
      return fmt::format("controller: {}", std::string(controller.status().message()));
    }
    if (!controller->loopback && far.empty()) far = text;
  }
  if (config.socket.front() != '/') {
    return fmt::format("socket: expected an absolute path, found {}", quote(config.socket));
  }
  if (!config.staging_folder.empty() && config.staging_folder.front() != '/') {
    return fmt::format("staging_folder: expected an absolute path, found {}",
                       quote(config.staging_folder));
  }
  if (!config.ports_file.empty() && config.spines.empty()) {
    return "spines: expected the addresses by which the spines answer probes, since there is a "
           "ports_file";
  }
  if (const std::string why = why_no_tls_files(config.tls, config.insecure); !why.empty()) {
    return "tls: " + why;
  }
  if (config.encrypt_state && !config.tls.configured()) {
    return "encrypt_state: expected tls: its files say who this node is";
  }
  if (config.encrypt_state && config.ucx) {
    return "ucx: expected false with encrypt_state: state does not travel by both at once";
  }
  if (far.empty()) return "";
  if (!config.tls.configured() && !config.insecure) {
    return fmt::format(
        "controller: {} is no loopback address: whoever is there could command this node; expected "
        "a controller on this machine, or tls, or insecure: true where the network is trusted",
        far);
  }
  if (config.data.empty()) {
    return "data: expected the interface, prefix or address that reaches the fabric, since the "
           "controller is on another machine";
  }
  return "";
}

}  // namespace monkeytree
