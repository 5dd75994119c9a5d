#include "wire/worker_protocol.h"

#include <absl/strings/str_cat.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <utility>

#include "base/diagnostics.h"
#include "base/json.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxCount = int64_t{1} << 62;
constexpr int kMaxIndex = 999'999;
constexpr int kMaxRanks = 4096;
constexpr size_t kMaxId = 128, kMaxNode = 255, kMaxWhy = 1000, kMaxAddress = 64;
constexpr size_t kMaxArguments = 1024, kMaxVariables = 1024, kMaxPeers = 1024;
constexpr size_t kMaxFlows = 256;
constexpr int kMaxPort = 65535;
constexpr std::string_view kPhases[] = {"running", "paused", "retired", "waiting", "restored"};

bool letter_or_digit(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; }

std::string why_unfit(std::string_view name, size_t longest, std::string_view others) {
  if (name.empty()) return "is empty";
  if (name.size() > longest) return fmt::format("is longer than {} bytes", longest);
  if (!letter_or_digit(name.front())) return "does not begin with a letter or a digit";
  const bool fit = std::all_of(name.begin(), name.end(), [&](char c) {
    return letter_or_digit(c) || others.find(c) != std::string_view::npos;
  });
  return fit ? "" : fmt::format("holds more than letters, digits and {}", others);
}

std::string why_no_address(std::string_view text) {
  if (text.size() > kMaxAddress) return fmt::format("is longer than {} bytes", kMaxAddress);
  const bool fit = std::all_of(text.begin(), text.end(), [](char c) {
    return letter_or_digit(c) || std::string_view(".:%-_").find(c) != std::string_view::npos;
  });
  return fit ? "" : "is no address";
}

std::string why_no_folder(std::string_view path) {
  if (path.empty() || path.front() != '/') return "is not absolute";
  if (path.size() > 4096) return "is longer than 4096 bytes";
  if (path.find('\0') != std::string_view::npos) return "holds a NUL byte";
  const std::string framed = fmt::format("{}/", path);
  return framed.find("/../") == std::string::npos ? "" : "holds ..";
}

std::string why_no_variable(std::string_view name) {
  const bool fit =
      !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
      std::all_of(name.begin(), name.end(), [](char c) { return letter_or_digit(c) || c == '_'; });
  return fit ? "" : "is no name of a variable";
}

/// Takes the fields of one packet; what is wrong goes to the diagnostics behind it.
class Fields {
 public:
  explicit Fields(JsonObject object) : object_(std::move(object)) {}

  std::string text(std::string_view key, size_t longest) {
    const std::optional<JsonValue> value = object_.require(key);
    return value ? text_of(*value, longest) : "";
  }
  static std::string text_of(const JsonValue& value, size_t longest) {
    const std::string_view text = value.string().value_or("");
    if (text.size() > longest) value.error(fmt::format("longer than {} bytes", longest));
    if (text.find('\0') != std::string_view::npos) value.error("holds a NUL byte");
    return std::string(text);
  }
  template <class Why>
  std::string checked(std::string_view key, Why why, bool may_be_empty = false) {
    const std::optional<JsonValue> value = object_.require(key);
    if (!value) return "";
    const std::string_view text = value->string().value_or("");
    if (text.empty() && may_be_empty) return "";
    const std::string fault = why(text);
    if (!fault.empty()) value->error(fmt::format("{} {}", quote(text), fault));
    return std::string(text);
  }
  std::string id(std::string_view key, bool may_be_empty = false) {
    return checked(key, why_no_id, may_be_empty);
  }
  int64_t number(std::string_view key, int64_t low, int64_t high) {
    const std::optional<JsonValue> value = object_.require(key);
    return value ? value->integer(low, high).value_or(low) : low;
  }
  int64_t count(std::string_view key) { return number(key, 0, kMaxCount); }
  int index(std::string_view key) { return static_cast<int>(number(key, 0, kMaxIndex)); }
  std::vector<JsonValue> list(std::string_view key, size_t longest) {
    const std::optional<JsonValue> value = object_.require(key);
    std::optional<std::vector<JsonValue>> list;
    if (value) list = value->array();
    if (!list) return {};
    if (list->size() <= longest) return *std::move(list);
    value->error(fmt::format("{} elements, at most {} are taken", list->size(), longest));
    return {};
  }
  std::optional<Fields> object(std::string_view key) {
    const std::optional<JsonValue> value = object_.require(key);
    return value ? of(*value) : std::nullopt;
  }
  static std::optional<Fields> of(const JsonValue& value) {
    std::optional<JsonObject> object = value.object();
    return object ? std::optional<Fields>(Fields(*std::move(object))) : std::nullopt;
  }
  JsonObject& all() { return object_; }
  void finish() { object_.finish(UnknownField::kError); }

 private:
  JsonObject object_;
};

std::map<std::string, std::string> read_environment(Fields& fields) {
  std::map<std::string, std::string> out;
  std::optional<Fields> environment = fields.object("environment");
  if (!environment) return out;
  if (environment->all().fields().size() > kMaxVariables) {
    environment->all().error(fmt::format("more than {} variables", kMaxVariables));
    return out;
  }
  for (const JsonObject::Field& field : environment->all().fields()) {
    const std::string fault = why_no_variable(field.key);
    if (!fault.empty()) field.value.error(fmt::format("{} {}", quote(field.key), fault));
    out[std::string(field.key)] = Fields::text_of(field.value, kMaxWorkerPacket);
  }
  return out;
}

StartCommand read_command(Fields& fields) {
  StartCommand out;
  std::optional<Fields> command = fields.object("command");
  if (!command) return out;
  for (const JsonValue& value : command->list("arguments", kMaxArguments)) {
    out.arguments.push_back(Fields::text_of(value, kMaxWorkerPacket));
  }
  if (out.arguments.empty() || out.arguments.front().empty()) {
    command->all().error("arguments: the program is missing");
  }
  out.folder = command->checked("folder", why_no_folder);
  out.environment = read_environment(*command);
  command->finish();
  return out;
}

WorkerPhase read_phase(Fields& fields) {
  const std::optional<JsonValue> value = fields.all().require("phase");
  if (!value) return WorkerPhase::kRunning;
  const std::string_view text = value->string().value_or("");
  const auto* const found = std::find(std::begin(kPhases), std::end(kPhases), text);
  if (found == std::end(kPhases)) {
    value->error_expected("running, paused, retired, waiting or restored");
    return WorkerPhase::kRunning;
  }
  return static_cast<WorkerPhase>(found - std::begin(kPhases));
}

WorkerHello read_hello(Fields& fields) {
  WorkerHello hello;
  fields.number("v", kWorkerProtocolVersion, kWorkerProtocolVersion);
  hello.name.job = fields.id("job");
  hello.name.group = fields.index("group");
  hello.name.worker = fields.index("worker");
  hello.ranks = static_cast<int>(fields.number("ranks", 1, kMaxRanks));
  hello.phase = read_phase(fields);
  hello.migration = fields.id("migration", true);
  hello.successor_of = fields.id("successor_of", true);
  hello.generation = fields.id("generation", true);
  hello.iteration = fields.count("iteration");
  hello.state_bytes = fields.count("state_bytes");
  if (fields.all().find("replicas")) hello.replicas = fields.id("replicas", true);
  hello.command = read_command(fields);
  const bool stands_by =
      hello.phase == WorkerPhase::kWaiting || hello.phase == WorkerPhase::kRestored;
  if (stands_by && hello.successor_of.empty()) {
    fields.all().error(fmt::format("phase {} without successor_of", name_of(hello.phase)));
  }
  return hello;
}

std::vector<WorkerPeer> read_peers(Fields& fields) {
  std::vector<WorkerPeer> peers;
  for (const JsonValue& value : fields.list("peers", kMaxPeers)) {
    std::optional<Fields> peer = Fields::of(value);
    if (!peer) continue;
    WorkerPeer& out = peers.emplace_back();
    out.group = peer->index("group");
    out.worker = peer->index("worker");
    out.node = peer->checked("node", why_no_node);
    out.address = peer->checked("address", why_no_address);
    peer->finish();
  }
  return peers;
}

WorkerFlow read_flow(Fields& fields) {
  WorkerFlow flow;
  flow.ring = fields.index("ring");
  flow.to = fields.checked("to", why_no_address);
  flow.port = static_cast<int>(fields.number("port", 1, kMaxPort));
  return flow;
}

WorkerFlows read_flows(Fields& fields) {
  WorkerFlows out;
  for (const JsonValue& value : fields.list("flows", kMaxFlows)) {
    std::optional<Fields> flow = Fields::of(value);
    if (!flow) continue;
    out.flows.push_back(read_flow(*flow));
    flow->finish();
  }
  return out;
}

AgentPorts read_ports(Fields& fields) {
  AgentPorts out;
  for (const JsonValue& value : fields.list("flows", kMaxFlows)) {
    std::optional<Fields> flow = Fields::of(value);
    if (!flow) continue;
    FlowSource& source = out.flows.emplace_back();
    source.flow = read_flow(*flow);
    source.source_port = static_cast<int>(flow->number("source_port", 0, kMaxPort));
    flow->finish();
  }
  return out;
}

std::optional<FromWorker> read_from(std::string_view type, Fields& fields) {
  if (type == "hello") return read_hello(fields);
  if (type == "paused") {
    const std::string migration = fields.id("migration");
    const int64_t iteration = fields.count("iteration");
    return WorkerPaused{migration, iteration, fields.count("epoch")};
  }
  if (type == "restored") {
    const std::string migration = fields.id("migration");
    return WorkerRestored{migration, fields.count("iteration")};
  }
  if (type == "stepped") {
    const std::string migration = fields.id("migration");
    return WorkerStepped{migration, fields.count("iteration")};
  }
  if (type == "cancelled") return WorkerCancelled{fields.id("migration")};
  if (type == "failed") {
    const std::string migration = fields.id("migration");
    return WorkerFailed{migration, fields.text("why", kMaxWhy)};
  }
  if (type == "progress") return WorkerProgress{fields.count("iteration")};
  if (type == "flows") return read_flows(fields);
  if (type == "bye") return WorkerBye{};
  return std::nullopt;
}

std::optional<ToWorker> read_to(std::string_view type, Fields& fields) {
  if (type == "welcome") {
    const std::string node = fields.checked("node", why_no_node);
    return AgentWelcome{node, fields.checked("address", why_no_address)};
  }
  if (type == "refused") return AgentRefused{fields.text("why", kMaxWhy)};
  if (type == "expect") return AgentExpect{fields.id("migration")};
  if (type == "pause") return AgentPause{fields.id("migration")};
  if (type == "restore") {
    const std::string migration = fields.id("migration");
    return AgentRestore{migration, fields.count("epoch")};
  }
  if (type == "resume") {
    const std::string migration = fields.id("migration");
    return AgentResume{migration, read_peers(fields)};
  }
  if (type == "retire") return AgentRetire{fields.id("migration")};
  if (type == "release") return AgentRelease{fields.id("migration")};
  if (type == "cancel") return AgentCancel{fields.id("migration")};
  if (type == "ports") return read_ports(fields);
  return std::nullopt;
}

template <class Message, class Read>
absl::StatusOr<Message> read_packet(std::string_view packet, Read read) {
  if (packet.size() > kMaxWorkerPacket) {
    return absl::InvalidArgumentError(
        fmt::format("a packet of {} bytes, at most {} are taken", packet.size(), kMaxWorkerPacket));
  }
  Diagnostics diagnostics;
  std::optional<Message> message;
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(packet, "packet", diagnostics);
  std::optional<JsonObject> object;
  if (document) object = document->root().object();
  if (object) {
    Fields fields(*std::move(object));
    const std::string type = fields.text("type", kMaxId);
    message = read(type, fields);
    if (message) {
      fields.finish();
    } else if (!diagnostics.has_errors()) {
      fields.all().error(fmt::format("unknown type {}", quote(type)));
    }
  }
  if (message && !diagnostics.has_errors()) return *std::move(message);
  for (const Finding& finding : diagnostics.findings()) {
    if (finding.severity == Severity::kError) return absl::InvalidArgumentError(finding.text());
  }
  return absl::InvalidArgumentError("packet: not understood");
}

Json json_of(const StartCommand& command) {
  Json out;
  out["arguments"] = command.arguments;
  out["folder"] = command.folder;
  out["environment"] = command.environment;
  return out;
}

Json with_migration(const char* type, const std::string& migration) {
  return Json{{"type", type}, {"migration", migration}};
}

Json json_of(const WorkerFlow& flow) {
  return Json{{"ring", flow.ring}, {"to", flow.to}, {"port", flow.port}};
}

struct ToJson {
  Json operator()(const WorkerHello& m) const {
    return Json{{"type", "hello"},
                {"v", kWorkerProtocolVersion},
                {"job", m.name.job},
                {"group", m.name.group},
                {"worker", m.name.worker},
                {"ranks", m.ranks},
                {"phase", std::string(name_of(m.phase))},
                {"migration", m.migration},
                {"successor_of", m.successor_of},
                {"generation", m.generation},
                {"iteration", m.iteration},
                {"state_bytes", m.state_bytes},
                {"replicas", m.replicas},
                {"command", json_of(m.command)}};
  }
  Json operator()(const WorkerPaused& m) const {
    Json out = with_migration("paused", m.migration);
    out["iteration"] = m.iteration;
    out["epoch"] = m.epoch;
    return out;
  }
  Json operator()(const WorkerRestored& m) const {
    Json out = with_migration("restored", m.migration);
    out["iteration"] = m.iteration;
    return out;
  }
  Json operator()(const WorkerStepped& m) const {
    Json out = with_migration("stepped", m.migration);
    out["iteration"] = m.iteration;
    return out;
  }
  Json operator()(const WorkerCancelled& m) const {
    return with_migration("cancelled", m.migration);
  }
  Json operator()(const WorkerFailed& m) const {
    Json out = with_migration("failed", m.migration);
    out["why"] = m.why;
    return out;
  }
  Json operator()(const WorkerProgress& m) const {
    return Json{{"type", "progress"}, {"iteration", m.iteration}};
  }
  Json operator()(const WorkerFlows& m) const {
    Json flows = Json::array();
    for (const WorkerFlow& flow : m.flows) flows.push_back(json_of(flow));
    return Json{{"type", "flows"}, {"flows", std::move(flows)}};
  }
  Json operator()(const WorkerBye&) const { return Json{{"type", "bye"}}; }

  Json operator()(const AgentWelcome& m) const {
    return Json{{"type", "welcome"}, {"node", m.node}, {"address", m.address}};
  }
  Json operator()(const AgentRefused& m) const { return Json{{"type", "refused"}, {"why", m.why}}; }
  Json operator()(const AgentExpect& m) const { return with_migration("expect", m.migration); }
  Json operator()(const AgentPause& m) const { return with_migration("pause", m.migration); }
  Json operator()(const AgentRestore& m) const {
    Json out = with_migration("restore", m.migration);
    out["epoch"] = m.epoch;
    return out;
  }
  Json operator()(const AgentResume& m) const {
    Json out = with_migration("resume", m.migration);
    Json peers = Json::array();
    for (const WorkerPeer& peer : m.peers) {
      peers.push_back(Json{{"group", peer.group},
                           {"worker", peer.worker},
                           {"node", peer.node},
                           {"address", peer.address}});
    }
    out["peers"] = std::move(peers);
    return out;
  }
  Json operator()(const AgentRetire& m) const { return with_migration("retire", m.migration); }
  Json operator()(const AgentRelease& m) const { return with_migration("release", m.migration); }
  Json operator()(const AgentCancel& m) const { return with_migration("cancel", m.migration); }
  Json operator()(const AgentPorts& m) const {
    Json flows = Json::array();
    for (const FlowSource& source : m.flows) {
      flows.push_back(json_of(source.flow));
      flows.back()["source_port"] = source.source_port;
    }
    return Json{{"type", "ports"}, {"flows", std::move(flows)}};
  }
};

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string_view name_of(WorkerPhase phase) { return kPhases[static_cast<size_t>(phase)]; }

absl::StatusOr<FromWorker> read_from_worker(std::string_view packet) {
  return read_packet<FromWorker>(packet, read_from);
}

absl::StatusOr<ToWorker> read_to_worker(std::string_view packet) {
  return read_packet<ToWorker>(packet, read_to);
}

std::string write_packet(const FromWorker& message) { return dump(std::visit(ToJson(), message)); }
std::string write_packet(const ToWorker& message) { return dump(std::visit(ToJson(), message)); }

std::string why_no_id(std::string_view name) { return why_unfit(name, kMaxId, "._+-"); }
std::string why_no_node(std::string_view name) { return why_unfit(name, kMaxNode, "._-"); }

}  // namespace monkeytree
