#include "service/api_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cluster/fragmentation.h"
#include "control/decision.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of_json(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

/// JSON that we wrote into the journal ourselves; null where there is none.
Json stored(const std::string& text) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json() : json;
}

Json or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

Json worker_json(const WorkerName& worker) {
  return {{"job", worker.job}, {"group", worker.group}, {"worker", worker.worker}};
}

Json plan_head(const PlanEntry& plan) {
  return {{"id", plan.id},
          {"made_s", plan.made_s},
          {"ended_s", or_null(plan.ended_s)},
          {"state", name_of(plan.state)},
          {"moves", plan.moves},
          {"reason", plan.reason},
          {"approved_by", plan.approved_by}};
}

Json migration_json(const Migration& migration) {
  Json moves = Json::array();
  for (const WorkerMove& move : migration.moves) {
    moves.push_back({{"group", move.worker.group},
                     {"worker", move.worker.worker},
                     {"from", move.from},
                     {"to", move.to},
                     {"state_bytes", move.state_bytes}});
  }
  return {{"id", migration.id},
          {"round", migration.round},
          {"job", migration.job},
          {"state", name_of(migration.state)},
          {"heading", name_of(migration.heading)},
          {"reason", migration.reason},
          {"iteration", migration.iteration ? Json(*migration.iteration) : Json()},
          {"moves", moves}};
}

Json step_json(const StepEntry& step) {
  return {
      {"migration", step.migration},      {"step", name_of(step.step)},
      {"attempt", step.attempt},          {"began_s", step.began_s},
      {"ended_s", or_null(step.ended_s)}, {"outcome", step.ended_s ? Json(step.outcome) : Json()}};
}

Json event_object(const Event& event) {
  return {{"id", event.id},
          {"time_s", event.time_s},
          {"kind", event.kind},
          {"text", event.text},
          {"data", stored(event.data)}};
}

Json racks_over(const Snapshot& snapshot) {
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  Json list = Json::array();
  for (const RackId rack : snapshot.racks.keys()) {
    const int bound = snapshot.racks[rack].bound();
    if (degrees[rack] <= bound) continue;
    list.push_back(
        {{"rack", snapshot.racks[rack].name}, {"degree", degrees[rack]}, {"bound", bound}});
  }
  return list;
}

Json leadership_json(const ControllerView& view) {
  if (!view.leadership) return {};
  const LeadershipView& now = *view.leadership;
  return {{"name", now.name},      {"leads", now.leads},
          {"leader", now.leader},  {"address", now.address},
          {"token", now.token},    {"lease_left_s", static_cast<double>(now.left.count()) / 1000},
          {"trouble", now.trouble}};
}

}  // namespace

std::string status_json(const ControllerView& view, double now_s, bool insecure,
                        std::string_view mode) {
  const bool seen = view.observed_s > 0;
  const auto connected = std::count_if(view.agents.begin(), view.agents.end(),
                                       [](const AgentReport& agent) { return agent.connected; });
  Json cluster;
  if (view.snapshot) {
    // A job that has ended keeps its place in a snapshot that is kept up to date.
    const auto jobs =
        std::count_if(view.snapshot->jobs.begin(), view.snapshot->jobs.end(), [&](const Job& job) {
          for (int g = 0; g < job.group_count; ++g) {
            const GroupId group(static_cast<size_t>(job.first_group.value + g));
            if (!view.snapshot->groups[group].workers.empty()) return true;
          }
          return false;
        });
    cluster = {{"name", view.snapshot->cluster},
               {"racks", view.snapshot->racks.size()},
               {"nodes", view.snapshot->nodes.size()},
               {"jobs", jobs}};
  }
  const Json json = {
      {"version", MONKEYTREE_VERSION},
      {"mode", mode.empty() ? name_of(view.mode) : mode},
      {"paused", view.paused},
      {"paused_why", view.paused_why},
      {"ready", view.ready},
      {"trouble", view.trouble},
      {"insecure", insecure},
      {"scheduler", view.scheduler},
      {"read_only", view.read_only},
      {"observed_s", seen ? Json(view.observed_s) : Json()},
      {"observation_age_s", seen ? Json(std::max(0.0, now_s - view.observed_s)) : Json()},
      {"reconcile_ms", view.reconcile_ms},
      {"plan_ms", view.plan_ms},
      {"leadership", leadership_json(view)},
      {"cluster", cluster},
      {"racks_over", view.snapshot ? racks_over(*view.snapshot) : Json::array()},
      {"running", view.running},
      {"waiting", view.waiting},
      {"agents", {{"known", view.agents.size()}, {"connected", connected}}},
      {"held_back", view.held_back.empty() ? Json::object() : Json(view.held_back)},
      {"findings", view.findings},
      {"orphans", view.orphans}};
  return text_of_json(json);
}

std::string fragmentation_json(const ControllerView& view) {
  const Snapshot& snapshot = *view.snapshot;
  const IdVector<RackId, int> degrees = fragmentation(snapshot);
  Json racks = Json::array();
  for (const RackId rack : snapshot.racks.keys()) {
    const int bound = snapshot.racks[rack].bound();
    racks.push_back({{"rack", snapshot.racks[rack].name},
                     {"degree", degrees[rack]},
                     {"bound", bound},
                     {"over", degrees[rack] > bound}});
  }
  return text_of_json({{"observed_s", view.observed_s},
                       {"excess", excess(degrees, bounds(snapshot))},
                       {"racks", racks}});
}

std::string plans_json(const std::vector<PlanEntry>& plans) {
  Json list = Json::array();
  for (const PlanEntry& plan : plans) list.push_back(plan_head(plan));
  return text_of_json({{"plans", list}});
}

std::string plan_json(const PlanEntry& plan, const std::vector<Migration>& migrations,
                      const std::vector<StepEntry>& steps) {
  Json json = plan_head(plan);
  json["explanation"] = explain(plan, migrations, steps);
  json["plan"] = stored(plan.plan);
  json["decision"] = stored(plan.decision);
  json["migrations"] = Json::array();
  for (const Migration& migration : migrations) {
    json["migrations"].push_back(migration_json(migration));
  }
  json["steps"] = Json::array();
  for (const StepEntry& step : steps) json["steps"].push_back(step_json(step));
  return text_of_json(json);
}

std::string routes_json(const ControllerView& view) {
  Json list = Json::array();
  for (const PreviousRoute& route : *view.routes) {
    list.push_back({{"job", route.job},
                    {"group", route.group},
                    {"ring", route.ring},
                    {"from", route.from},
                    {"to", route.to},
                    {"from_rack", route.from_rack},
                    {"to_rack", route.to_rack},
                    {"uplink", route.uplink < 0 ? Json() : Json(route.uplink)}});
  }
  return text_of_json({{"applied", view.mode == Mode::kEnforce}, {"flows", list}});
}

std::string agents_json(const ControllerView& view) {
  Json list = Json::array();
  for (const AgentReport& agent : view.agents) {
    Json workers = Json::array();
    for (const WorkerReport& worker : agent.workers) {
      Json one = worker_json(worker.name);
      one["migration"] = worker.migration;
      one["successor"] = worker.successor;
      one["paused"] = worker.paused;
      one["iteration"] = worker.iteration;
      one["state_bytes"] = worker.state_bytes;
      workers.push_back(one);
    }
    list.push_back({{"node", agent.node},
                    {"connected", agent.connected},
                    {"last_heard_s", agent.last_heard_s},
                    {"address", agent.address},
                    {"workers", workers}});
  }
  return text_of_json({{"agents", list}});
}

std::string event_json(const Event& event) {
  return event_object(event).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string history_json(const std::vector<Event>& events) {
  Json list = Json::array();
  for (const Event& event : events) list.push_back(event_object(event));
  return text_of_json({{"events", list}});
}

std::string audit_json(const std::vector<AuditEntry>& entries) {
  Json list = Json::array();
  for (const AuditEntry& entry : entries) {
    list.push_back({{"id", entry.id},
                    {"time_s", entry.time_s},
                    {"who", entry.who},
                    {"role", entry.role},
                    {"from", entry.from},
                    {"call", entry.call},
                    {"said", entry.said},
                    {"outcome", entry.outcome}});
  }
  return text_of_json({{"calls", list}});
}

}  // namespace monkeytree
