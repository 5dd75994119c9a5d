#include "planning/plan_json.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr std::string_view kSchema = "monkeytree/plan/v1";
constexpr int kMax = std::numeric_limits<int>::max();
constexpr PlanStatus kStatuses[] = {PlanStatus::kCompliant, PlanStatus::kOptimal,
                                    PlanStatus::kFeasible, PlanStatus::kInfeasible,
                                    PlanStatus::kUnknown};

std::string in_quotes(const std::string& text) {
  using Json = nlohmann::json;
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string object_text(const PlanRecord::ByRack& values) {
  std::string out = "{";
  for (const auto& [rack, value] : values) {
    out += fmt::format("{}{}: {}", out.size() > 1 ? ", " : "", in_quotes(rack), value);
  }
  return out + "}";
}

std::string list_text(const std::vector<std::string>& names) {
  std::string out = "[";
  for (const std::string& name : names) {
    out += (out.size() > 1 ? ", " : "") + in_quotes(name);
  }
  return out + "]";
}

std::string rounds_text(const std::vector<std::vector<PlanRecord::Step>>& rounds) {
  std::string out = "[";
  for (size_t r = 0; r < rounds.size(); ++r) {
    out += r > 0 ? ",\n    [" : "\n    [";
    for (size_t i = 0; i < rounds[r].size(); ++i) {
      const PlanRecord::Step& step = rounds[r][i];
      out +=
          fmt::format("{}{{\"job\": {}, \"group\": {}, \"worker\": {}, \"from\": {}, \"to\": {}}}",
                      i > 0 ? ",\n     " : "", in_quotes(step.job), step.group, step.worker,
                      in_quotes(step.from), in_quotes(step.to));
    }
    out += "]";
  }
  return out + (rounds.empty() ? "]" : "\n  ]");
}

PlanRecord::ByRack by_rack_name(const Snapshot& snapshot, const IdVector<RackId, int>& values) {
  PlanRecord::ByRack out;
  out.reserve(values.size());
  for (RackId rack : values.keys()) out.emplace_back(snapshot.racks[rack].name, values[rack]);
  return out;
}

std::string node_name(const Snapshot& snapshot, NodeId node) {
  return node == kStaging ? std::string(kStagingName) : snapshot.nodes[node].name;
}

/// Reads one object of `{rack: number}`.
PlanRecord::ByRack read_by_rack(const std::optional<JsonValue>& value) {
  PlanRecord::ByRack out;
  if (!value) return out;
  const std::optional<JsonObject> object = value->object();
  if (!object) return out;
  for (const JsonObject::Field& field : object->fields()) {
    out.emplace_back(field.key, field.value.integer32(0, kMax).value_or(0));
  }
  return out;
}

int read_count(JsonObject& object, std::string_view key) {
  const std::optional<JsonValue> value = object.require(key);
  return value ? value->integer32(0, kMax).value_or(0) : 0;
}

std::string read_name(JsonObject& object, std::string_view key) {
  const std::optional<JsonValue> value = object.require(key);
  return value ? std::string(value->string().value_or("")) : "";
}

std::optional<int> read_or_null(const std::optional<JsonValue>& value) {
  if (!value || value->is_null()) return std::nullopt;
  return value->integer32(0, kMax);
}

void read_status(JsonObject& root, PlanRecord& plan) {
  const std::optional<JsonValue> value = root.require("status");
  const std::optional<std::string_view> name = value ? value->string() : std::nullopt;
  if (!name) return;
  for (PlanStatus status : kStatuses) {
    if (name_of(status) != *name) continue;
    plan.status = status;
    return;
  }
  value->error(
      fmt::format("unknown status {}, expected compliant, optimal, feasible, infeasible or unknown",
                  quote(*name)));
}

void read_rounds(JsonObject& root, PlanRecord& plan) {
  const std::optional<JsonValue> value = root.require("rounds");
  const std::optional<std::vector<JsonValue>> rounds = value ? value->array() : std::nullopt;
  if (!rounds) return;
  for (const JsonValue& round : *rounds) {
    plan.rounds.emplace_back();
    const std::optional<std::vector<JsonValue>> steps = round.array();
    if (!steps) continue;
    for (const JsonValue& entry : *steps) {
      std::optional<JsonObject> object = entry.object();
      if (!object) continue;
      PlanRecord::Step step;
      step.job = read_name(*object, "job");
      step.group = read_count(*object, "group");
      step.worker = read_count(*object, "worker");
      step.from = read_name(*object, "from");
      step.to = read_name(*object, "to");
      object->finish(UnknownField::kWarning);
      plan.rounds.back().push_back(std::move(step));
    }
  }
}

void read_fragmentation(JsonObject& root, PlanRecord& plan) {
  const std::optional<JsonValue> value = root.require("fragmentation");
  std::optional<JsonObject> object = value ? value->object() : std::nullopt;
  if (!object) return;
  plan.before = read_by_rack(object->require("before"));
  plan.after = read_by_rack(object->require("after"));
  object->finish(UnknownField::kWarning);
}

void read_conflict(JsonObject& root, PlanRecord& plan) {
  const std::optional<JsonValue> value = root.find("conflict");
  const std::optional<std::vector<JsonValue>> racks = value ? value->array() : std::nullopt;
  if (!racks) return;
  for (const JsonValue& rack : *racks) plan.conflict.emplace_back(rack.string().value_or(""));
}

}  // namespace

std::string_view name_of(PlanStatus status) {
  switch (status) {
    case PlanStatus::kCompliant:
      return "compliant";
    case PlanStatus::kOptimal:
      return "optimal";
    case PlanStatus::kFeasible:
      return "feasible";
    case PlanStatus::kInfeasible:
      return "infeasible";
    case PlanStatus::kUnknown:
      return "unknown";
  }
  return "unknown";
}

PlanRecord record_of(const Snapshot& snapshot, const Plan& plan, std::string_view snapshot_sha256) {
  PlanRecord out;
  out.snapshot_sha256 = snapshot_sha256;
  out.bounds = by_rack_name(snapshot, plan.bounds);
  out.status = plan.status;
  out.best_effort = plan.best_effort;
  out.moves = plan.moves;
  out.lower_bound = plan.lower_bound;
  out.excess_before = plan.excess_before;
  out.excess_after = plan.excess_after;
  out.excess_lower_bound = plan.excess_lower_bound;
  out.solve_ms = plan.solve_ms;
  out.before = by_rack_name(snapshot, plan.before);
  out.after = by_rack_name(snapshot, plan.after);
  for (RackId rack : plan.conflict) out.conflict.push_back(snapshot.racks[rack].name);
  for (const Round& round : plan.rounds) {
    out.rounds.emplace_back();
    for (const Move& move : round) {
      out.rounds.back().push_back({snapshot.jobs[snapshot.groups[move.group].job].id,
                                   snapshot.group_index(move.group), move.worker,
                                   node_name(snapshot, move.from), node_name(snapshot, move.to)});
    }
  }
  return out;
}

std::string write_plan(const PlanRecord& plan) {
  std::string out = "{\n";
  const auto field = [&](std::string_view key, std::string value) {
    out += fmt::format("{}  \"{}\": {}", out.size() > 2 ? ",\n" : "", key, value);
  };
  field("schema", fmt::format("\"{}\"", kSchema));
  field("snapshot_sha256", in_quotes(plan.snapshot_sha256));
  field("bounds", object_text(plan.bounds));
  field("status", fmt::format("\"{}\"", name_of(plan.status)));
  if (plan.best_effort) field("best_effort", "true");
  field("moves", fmt::format("{}", plan.moves));
  field("lower_bound", plan.lower_bound ? fmt::format("{}", *plan.lower_bound) : "null");
  field("excess_before", fmt::format("{}", plan.excess_before));
  field("excess_after", fmt::format("{}", plan.excess_after));
  if (plan.excess_lower_bound) {
    field("excess_lower_bound", fmt::format("{}", *plan.excess_lower_bound));
  }
  field("solve_ms", fmt::format("{:.3f}", std::isfinite(plan.solve_ms) ? plan.solve_ms : 0.0));
  field("fragmentation", fmt::format("{{\n    \"before\": {},\n    \"after\": {}\n  }}",
                                     object_text(plan.before), object_text(plan.after)));
  if (!plan.conflict.empty()) field("conflict", list_text(plan.conflict));
  field("rounds", rounds_text(plan.rounds));
  return out + "\n}\n";
}

std::optional<PlanRecord> parse_plan(std::string_view text, std::string_view file,
                                     Diagnostics& diagnostics) {
  const size_t errors = diagnostics.error_count();
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, file, diagnostics);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  if (const auto schema = root->require("schema")) {
    const std::optional<std::string_view> name = schema->string();
    if (name && *name != kSchema) {
      schema->error(fmt::format("unknown schema {}, expected \"{}\"", quote(*name), kSchema));
      return std::nullopt;
    }
  }
  PlanRecord plan;
  plan.snapshot_sha256 = read_name(*root, "snapshot_sha256");
  plan.bounds = read_by_rack(root->require("bounds"));
  read_status(*root, plan);
  if (const auto value = root->find("best_effort")) {
    plan.best_effort = value->boolean().value_or(false);
  }
  plan.moves = read_count(*root, "moves");
  plan.lower_bound = read_or_null(root->require("lower_bound"));
  plan.excess_before = read_count(*root, "excess_before");
  plan.excess_after = read_count(*root, "excess_after");
  plan.excess_lower_bound = read_or_null(root->find("excess_lower_bound"));
  if (const auto value = root->find("solve_ms")) plan.solve_ms = value->number().value_or(0);
  read_fragmentation(*root, plan);
  read_conflict(*root, plan);
  read_rounds(*root, plan);
  root->finish(UnknownField::kWarning);
  if (diagnostics.error_count() != errors) return std::nullopt;
  return plan;
}

}  // namespace monkeytree
