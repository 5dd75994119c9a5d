#include "control/what_if.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/counted.h"
#include "base/json.h"
#include "base/sha256.h"
#include "cluster/fragmentation.h"
#include "cluster/snapshot_json.h"
#include "control/case_text.h"
#include "control/decision.h"
#include "control/gain.h"
#include "control/what_if_change.h"
#include "planning/order.h"
#include "planning/plan_json.h"
#include "routing/routes_json.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostListed = 20;  ///< racks; files.plan names all
/// More would take longer to route than a person waits.
constexpr int64_t kMostFlows = 300'000, kMostOfARack = 4096;

struct Request {
  Snapshot snapshot;
  std::vector<std::string> changes;
  PlanOptions options;
};

std::string why_too_many_flows(const Snapshot& snapshot) {
  int64_t all = 0, most = 0;
  for (const int degree : fragmentation(snapshot)) {
    all += degree;
    most = std::max<int64_t>(most, degree);
  }
  if (all <= kMostFlows && most <= kMostOfARack) return "";
  return fmt::format("{} flows leave their racks, {} of them one rack: expected at most {} and {}",
                     all, most, kMostFlows, kMostOfARack);
}

std::optional<Request> read_request(std::string_view text, const Snapshot* live,
                                    const WhatIfLimits& limits, Diagnostics& diagnostics) {
  const std::unique_ptr<JsonDocument> document =
      JsonDocument::parse(text.empty() ? "{}" : text, "", diagnostics);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  Request request;
  if (const auto given = root->find("snapshot")) {
    std::optional<Snapshot> snapshot = parse_snapshot(*given, diagnostics);
    if (!snapshot) return std::nullopt;
    request.snapshot = *std::move(snapshot);
  } else if (live == nullptr) {
    root->error("expected a snapshot, as nothing is known of the cluster yet");
    return std::nullopt;
  } else {
    request.snapshot = *live;
    drop_ended_jobs(request.snapshot);
  }
  if (const auto changes = root->find("changes")) {
    request.changes = apply_changes(*changes, request.snapshot);
  }
  if (const std::string why = why_too_many_flows(request.snapshot); !why.empty()) root->error(why);
  request.options.work_limit = limits.work_limit;
  request.options.stop = limits.stop;
  if (const auto wanted = root->find("work_limit")) {
    request.options.work_limit = wanted->integer(0, limits.work_limit).value_or(0);
  }
  if (const auto wanted = root->find("best_effort")) {
    request.options.best_effort = wanted->boolean().value_or(false);
  }
  root->finish(UnknownField::kError);
  if (diagnostics.has_errors()) return std::nullopt;
  return request;
}

/// What people read first where there are no moves to explain.
std::string without_moves(const Snapshot& snapshot, const Plan& plan) {
  switch (plan.status) {
    case PlanStatus::kCompliant:
      return "Every rack is within its bound: nothing to do.\n";
    case PlanStatus::kInfeasible: {
      std::string racks;
      for (size_t i = 0; i < plan.conflict.size() && i < kMostListed; ++i) {
        racks += " " + snapshot.racks[plan.conflict[i]].name;
      }
      if (plan.conflict.size() > kMostListed) {
        racks += fmt::format(" and {} more", plan.conflict.size() - kMostListed);
      }
      return fmt::format("No placement meets every bound, which is proved. In conflict:{}\n",
                         racks);
    }
    case PlanStatus::kUnknown:
      return "No plan was found within the limits on work and time, nor a proof that there is "
             "none.\n";
    case PlanStatus::kFeasible:
      return fmt::format(
          "Nothing that makes the excess of {} less was found within the limits on work and "
          "time.\n",
          plan.excess_before);
    case PlanStatus::kOptimal:
      return fmt::format("No move makes the excess of {} less.\n", plan.excess_before);
  }
  return "";
}

std::string explanation(const Snapshot& snapshot, const Plan& plan, const std::string& plan_text,
                        const std::string& decision) {
  PlanEntry entry;
  entry.moves = plan.moves;
  entry.plan = plan_text;
  entry.decision = decision;
  if (plan.moves > 0) return explain(entry, {}, {});
  std::string text = without_moves(snapshot, plan);
  if (plan.excess_before == 0) return text;
  // Racks over their bound and what they share; the heading is about moves.
  const std::string rest = explain(entry, {}, {});
  const size_t body = rest.find("\n\n");
  return body == std::string::npos ? text : text + rest.substr(body + 1);
}

std::string routes_text(const Snapshot& snapshot, const std::optional<Routes>& routed) {
  return routed ? write_routes(snapshot, *routed) : "null\n";
}

std::string quoted(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::optional<std::string> what_if(std::string_view request_text, const Snapshot* live,
                                   const WhatIfLimits& limits, Diagnostics& diagnostics) {
  const std::optional<Request> request = read_request(request_text, live, limits, diagnostics);
  if (!request) return std::nullopt;
  const Snapshot& snapshot = request->snapshot;
  const Plan made = plan(snapshot, request->options);
  const Snapshot after = apply_rounds(snapshot, made.rounds);
  const PlanRoutes routed = routes_of(snapshot, made);
  const Gain gain = estimate_gain(snapshot, made, routed, GainRules(), snapshot.time_s);

  const std::string snapshot_text = write_snapshot(snapshot);
  const std::string plan_text = write_plan(record_of(snapshot, made, sha256(snapshot_text)));
  const std::string decision = decision_json(snapshot, made, routed, gain, {}, {});
  const Json head = {
      {"schema", "monkeytree/what-if/v1"},
      {"changes", request->changes},
      {"status", name_of(made.status)},
      {"moves", made.moves},
      {"lower_bound", made.lower_bound ? Json(*made.lower_bound) : Json()},
      {"gain", {{"regained_gpu_h", gain.regained_gpu_h}, {"paused_gpu_h", gain.paused_gpu_h}}},
      {"explanation", explanation(snapshot, made, plan_text, decision)},
      {"files",
       {{"snapshot", snapshot_text}, {"plan", plan_text}, {"case", case_text(snapshot, made)}}}};
  // The routes are JSON already.
  std::string out = quoted(head);
  out.pop_back();
  out += fmt::format(",\"routes_before\": {},\"routes_after\": {}}}\n",
                     routes_text(snapshot, routed.before),
                     made.rounds.empty() ? "null" : routes_text(after, routed.after));
  return out;
}

}  // namespace monkeytree
