#include "inventory/emulated_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/json.h"
#include "cluster/snapshot_json.h"
#include "inventory/emulated_socket.h"

namespace monkeytree {
namespace {

using Json = nlohmann::json;

/// The fields of a call, read once; a missing one is empty.
struct Call {
  std::string name, node, reservation, id, job, folder;
  int group = 0, worker = 0;
  int64_t timeout_ms = 0;
  std::vector<std::string> nodes, arguments;
  std::map<std::string, std::string> environment;

  WorkerName worker_name() const { return {job, group, worker}; }
  Hold hold() const { return {id, worker_name(), node}; }
};

std::string text_of(JsonObject& object, std::string_view key) {
  const std::optional<JsonValue> value = object.find(key);
  return value ? std::string(value->string().value_or("")) : "";
}

std::vector<std::string> texts_of(JsonObject& object, std::string_view key) {
  std::vector<std::string> out;
  const std::optional<JsonValue> value = object.find(key);
  if (!value) return out;
  for (const JsonValue& item : value->array().value_or(std::vector<JsonValue>{})) {
    out.emplace_back(item.string().value_or(""));
  }
  return out;
}

int number_of(JsonObject& object, std::string_view key) {
  const std::optional<JsonValue> value = object.find(key);
  return value ? value->integer32(0, 1 << 30).value_or(0) : 0;
}

std::optional<Call> read_call(const std::string& text, Diagnostics& diagnostics) {
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, "call", diagnostics);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  Call call;
  call.name = text_of(*root, "call");
  call.job = text_of(*root, "job");
  call.group = number_of(*root, "group");
  call.worker = number_of(*root, "worker");
  call.node = text_of(*root, "node");
  call.id = text_of(*root, "id");
  call.reservation = text_of(*root, "reservation");
  call.folder = text_of(*root, "folder");
  call.timeout_ms = number_of(*root, "timeout_ms");
  call.nodes = texts_of(*root, "nodes");
  call.arguments = texts_of(*root, "arguments");
  if (const std::optional<JsonValue> value = root->find("environment")) {
    if (const std::optional<JsonObject> map = value->object()) {
      for (const JsonObject::Field& field : map->fields()) {
        call.environment.emplace(field.key, field.value.string().value_or(""));
      }
    }
  }
  root->finish(UnknownField::kError);
  if (diagnostics.has_errors()) return std::nullopt;
  return call;
}

Json json_of(const Hold& hold) {
  return {{"id", hold.id},
          {"job", hold.worker.job},
          {"group", hold.worker.group},
          {"worker", hold.worker.worker},
          {"node", hold.node}};
}

Json json_of(const std::vector<Hold>& holds) {
  Json out = Json::array();
  for (const Hold& hold : holds) out.push_back(json_of(hold));
  return out;
}

Json json_of(const Observation& seen) {
  return {{"snapshot", write_snapshot(seen.snapshot)},
          {"unmovable", seen.unmovable},
          {"holds", json_of(seen.holds)},
          {"orphans", json_of(seen.orphans)},
          {"reservations", seen.reservations},
          {"findings", seen.findings}};
}

absl::Status carry_out(Scheduler& cluster, const Call& call, Json& reply) {
  const Deadline deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(call.timeout_ms);
  if (call.name == "describe") {
    reply["text"] = cluster.describe();
    return absl::OkStatus();
  }
  if (call.name == "why_read_only") {
    reply["text"] = cluster.why_read_only();
    return absl::OkStatus();
  }
  if (call.name == "observe") {
    const absl::StatusOr<Observation> seen = cluster.observe(deadline);
    if (seen.ok()) reply.update(json_of(*seen));
    return seen.status();
  }
  if (call.name == "hold") {
    const absl::StatusOr<Hold> hold =
        cluster.hold(call.worker_name(), call.node, call.reservation, deadline);
    if (hold.ok()) reply["holds"] = json_of(std::vector<Hold>{*hold});
    return hold.status();
  }
  if (call.name == "booked") {
    const absl::StatusOr<std::vector<std::string>> nodes = cluster.booked(call.job, deadline);
    if (nodes.ok()) reply["nodes"] = *nodes;
    return nodes.status();
  }
  if (call.name == "start") {
    return cluster.start(call.hold(), {call.arguments, call.folder, call.environment}, deadline);
  }
  if (call.name == "give_back") {
    return cluster.give_back(call.worker_name(), call.node, call.nodes, deadline);
  }
  if (call.name == "cancel") return cluster.cancel(call.hold(), deadline);
  if (call.name == "reserve") return cluster.reserve(call.reservation, call.nodes, deadline);
  if (call.name == "unreserve") return cluster.unreserve(call.reservation, deadline);
  return absl::InvalidArgumentError(fmt::format("there is no call {}", quote(call.name)));
}

std::vector<Hold> read_holds(JsonObject& object, std::string_view key) {
  std::vector<Hold> out;
  const std::optional<JsonValue> list = object.find(key);
  if (!list) return out;
  for (const JsonValue& item : list->array().value_or(std::vector<JsonValue>{})) {
    std::optional<JsonObject> hold = item.object();
    if (!hold) continue;
    out.push_back({text_of(*hold, "id"),
                   {text_of(*hold, "job"), number_of(*hold, "group"), number_of(*hold, "worker")},
                   text_of(*hold, "node")});
  }
  return out;
}

std::string write(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string answer_emulated_call(Scheduler& cluster, const std::string& request) {
  Diagnostics diagnostics;
  const std::optional<Call> call = read_call(request, diagnostics);
  Json reply = Json::object();
  const absl::Status done =
      call ? carry_out(cluster, *call, reply) : absl::InvalidArgumentError(diagnostics.text());
  reply["code"] = static_cast<int>(done.code());
  reply["message"] = std::string(done.message());
  return write(reply);
}

std::string write_emulated_call(const EmulatedCall& call, int64_t timeout_ms) {
  Json json = {{"call", call.name}, {"timeout_ms", timeout_ms}};
  if (!call.hold.worker.job.empty()) json["job"] = call.hold.worker.job;
  json["group"] = call.hold.worker.group;
  json["worker"] = call.hold.worker.worker;
  json["node"] = call.hold.node;
  json["id"] = call.hold.id;
  json["reservation"] = call.reservation;
  json["nodes"] = call.nodes;
  json["arguments"] = call.command.arguments;
  json["folder"] = call.command.folder;
  json["environment"] = Json::object();
  for (const auto& [name, value] : call.command.environment) json["environment"][name] = value;
  return write(json);
}

absl::StatusOr<EmulatedReply> read_emulated_reply(const std::string& text) {
  Diagnostics diagnostics;
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, "reply", diagnostics);
  std::optional<JsonObject> root;
  if (document) root = document->root().object();
  if (!root) return absl::InternalError(diagnostics.text());
  const int code = number_of(*root, "code");
  if (code != 0) {
    return absl::Status(static_cast<absl::StatusCode>(code), text_of(*root, "message"));
  }
  EmulatedReply out;
  out.text = text_of(*root, "text");
  out.nodes = texts_of(*root, "nodes");
  out.seen.holds = read_holds(*root, "holds");
  out.seen.orphans = read_holds(*root, "orphans");
  out.seen.reservations = texts_of(*root, "reservations");
  out.seen.findings = texts_of(*root, "findings");
  if (const std::optional<JsonValue> value = root->find("unmovable")) {
    if (const std::optional<JsonObject> map = value->object()) {
      for (const JsonObject::Field& field : map->fields()) {
        out.seen.unmovable.emplace(field.key, field.value.string().value_or(""));
      }
    }
  }
  const std::string snapshot = text_of(*root, "snapshot");
  if (!snapshot.empty()) {
    std::optional<Snapshot> read = parse_snapshot(snapshot, "snapshot", diagnostics);
    if (read) out.seen.snapshot = *std::move(read);
  }
  if (diagnostics.has_errors()) return absl::InternalError(diagnostics.text());
  return out;
}

}  // namespace monkeytree
