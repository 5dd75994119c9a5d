#include "service/api_try.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "base/json.h"
#include "base/json_syntax.h"
#include "cluster/snapshot_json.h"
#include "control/what_if.h"
#include "inventory/slurm_snapshot.h"
#include "service/api_common.h"

namespace monkeytree {
namespace {

using Clock = std::chrono::steady_clock;

HttpResponse busy() {
  HttpResponse response = http_error(503, "busy with another what-if or import: ask again soon");
  response.headers["Retry-After"] = "1";
  return response;
}

/// All faults, a line each.
HttpResponse bad_request(const Diagnostics& diagnostics) {
  std::string text;
  for (const Finding& finding : diagnostics.findings()) {
    if (finding.severity != Severity::kError) continue;
    if (!text.empty()) text += "\n";
    text += finding.text();
  }
  return http_error(400, text);
}

nlohmann::ordered_json warnings_of(const Diagnostics& diagnostics) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : diagnostics.findings()) list.push_back(finding.text());
  return list;
}

/// The texts of an import and what says how to read them.
struct Texts {
  std::string topology, topology_name;
  std::string_view jobs, nodes;
  Uplinks uplinks;
};

std::optional<Texts> read_texts(JsonObject& root, const Diagnostics& diagnostics) {
  Texts texts;
  const auto text = [&](const char* key, bool required) -> std::string_view {
    const std::optional<JsonValue> value = required ? root.require(key) : root.find(key);
    return value ? value->string().value_or("") : "";
  };
  texts.topology = text("topology", true);
  texts.jobs = text("jobs", true);
  texts.nodes = text("nodes", false);
  texts.topology_name = text("topology_name", false);
  if (const auto uplinks = root.find("uplinks")) {
    texts.uplinks.given = true;
    texts.uplinks.everywhere = uplinks->integer32(0, kMaxUplinks).value_or(kDefaultUplinks);
  }
  root.finish(UnknownField::kError);
  if (diagnostics.has_errors()) return std::nullopt;
  return texts;
}

std::string too_many(size_t most) { return fmt::format("more than {} JSON values", most); }

}  // namespace

std::optional<Snapshot> import_texts(std::string_view request, Diagnostics& diagnostics,
                                     size_t most_values) {
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(request, "", diagnostics);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  std::optional<Texts> texts = read_texts(*root, diagnostics);
  if (!texts) return std::nullopt;
  for (const auto& [file, text] : {std::pair("jobs", texts->jobs), {"nodes", texts->nodes}}) {
    if (has_more_values(text, most_values)) diagnostics.error(file, 0, "", too_many(most_values));
  }
  if (diagnostics.has_errors()) return std::nullopt;
  SlurmFacts facts;
  facts.topology_file = "topology";
  facts.queue_file = "jobs";
  facts.nodes_file = "nodes";
  const ReadText read = [&](const std::string& name) -> absl::StatusOr<std::string> {
    if (name == facts.topology_file) return texts->topology;
    return absl::NotFoundError("another file is named here, which an import by HTTP does not have");
  };
  std::optional<Topology> topology =
      read_topology(facts.topology_file, texts->topology_name, read, diagnostics);
  std::optional<SlurmQueue> queue =
      read_squeue(bytes_of(texts->jobs), facts.queue_file, diagnostics);
  if (!texts->nodes.empty()) {
    facts.nodes = read_slurm_nodes(std::string(texts->nodes), facts.nodes_file, diagnostics);
    if (!facts.nodes) return std::nullopt;
  }
  if (!topology || !queue) return std::nullopt;
  facts.topology = *std::move(topology);
  facts.queue = *std::move(queue);
  facts.uplinks = std::move(texts->uplinks);
  return build_snapshot(facts, diagnostics);
}

HttpResponse TryApi::what_if(const HttpRequest& request, const Snapshot* live) {
  const std::unique_lock lock(one_, std::try_to_lock);
  if (!lock) return busy();
  if (has_more_values(request.body, limits_.values))
    return http_error(413, too_many(limits_.values));
  const Clock::time_point deadline = Clock::now() + limits_.time;
  WhatIfLimits limits;
  limits.work_limit = limits_.work;
  limits.stop = [&] {
    return Clock::now() >= deadline || (request.forsaken && request.forsaken());
  };
  Diagnostics diagnostics;
  std::optional<std::string> answer = monkeytree::what_if(request.body, live, limits, diagnostics);
  return answer ? json_answer(*std::move(answer)) : bad_request(diagnostics);
}

HttpResponse TryApi::import(const HttpRequest& request) {
  const std::unique_lock lock(one_, std::try_to_lock);
  if (!lock) return busy();
  if (has_more_values(request.body, limits_.values))
    return http_error(413, too_many(limits_.values));
  Diagnostics diagnostics;
  const std::optional<Snapshot> snapshot = import_texts(request.body, diagnostics, limits_.values);
  if (!snapshot) return bad_request(diagnostics);
  const nlohmann::ordered_json answer = {{"files", {{"snapshot", write_snapshot(*snapshot)}}},
                                         {"warnings", warnings_of(diagnostics)}};
  return json_answer(answer.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                     "\n");
}

bool TryApi::slow(const HttpRequest& request) {
  return request.path == kWhatIf || request.path == kImport;
}

size_t TryApi::most_body(const HttpRequest& request) const {
  return request.method == "POST" && slow(request) ? limits_.body : kMaxHttpBody;
}

}  // namespace monkeytree
