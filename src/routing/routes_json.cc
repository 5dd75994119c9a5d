#include "routing/routes_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/json.h"

namespace monkeytree {
namespace {

constexpr std::string_view kSchema = "monkeytree/routes/v1";

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string uplink_text(int uplink) { return uplink < 0 ? "null" : fmt::format("{}", uplink); }

/// A JSON array with an item a line; items come from `item(i)`.
template <class Item>
void write_lines(std::string& out, std::string_view key, size_t count, const Item& item) {
  fmt::format_to(std::back_inserter(out), "  \"{}\": [", key);
  for (size_t i = 0; i < count; ++i) {
    out += i == 0 ? "\n    " : ",\n    ";
    item(i);
  }
  out += count == 0 ? "]" : "\n  ]";
}

/// Names quoted once; a job's flows repeat them thousands of times.
struct QuotedNames {
  explicit QuotedNames(const Snapshot& snapshot) {
    for (const Job& job : snapshot.jobs) jobs.push_back(quoted(job.id));
    for (const Node& node : snapshot.nodes) nodes.push_back(quoted(node.name));
    for (const Rack& rack : snapshot.racks) racks.push_back(quoted(rack.name));
  }
  IdVector<JobId, std::string> jobs;
  IdVector<NodeId, std::string> nodes;
  IdVector<RackId, std::string> racks;
};

void write_flow(std::string& out, const Snapshot& snapshot, const QuotedNames& names,
                const RoutedFlow& routed) {
  const Flow& flow = routed.flow;
  const Group& group = snapshot.groups[flow.group];
  fmt::format_to(std::back_inserter(out),
                 R"({{"job": {}, "group": {}, "ring": {}, "from": {}, "to": {}, "from_rack": {}, )"
                 R"("to_rack": {}, "uplink": {}}})",
                 names.jobs[group.job], snapshot.group_index(flow.group), flow.ring,
                 names.nodes[group.workers[static_cast<size_t>(flow.from_worker)]],
                 names.nodes[group.workers[static_cast<size_t>(flow.to_worker)]],
                 names.racks[flow.from_rack], names.racks[flow.to_rack],
                 uplink_text(routed.uplink));
}

PreviousRoute read_flow(JsonObject& object) {
  PreviousRoute route;
  const auto name = [&](const char* key) {
    const std::optional<JsonValue> value = object.require(key);
    return std::string(value ? value->nonempty_string().value_or("") : "");
  };
  const auto number = [&](const char* key) {
    const std::optional<JsonValue> value = object.find(key);
    return value ? value->integer32(0, INT_MAX).value_or(0) : 0;
  };
  route.job = name("job");
  route.group = number("group");
  route.ring = number("ring");
  route.from = name("from");
  route.to = name("to");
  route.from_rack = name("from_rack");
  route.to_rack = name("to_rack");
  if (const std::optional<JsonValue> uplink = object.require("uplink")) {
    if (!uplink->is_null()) route.uplink = uplink->integer32(0, INT_MAX).value_or(-1);
  }
  object.finish(UnknownField::kWarning);
  return route;
}

/// A flow is one hop of one ring: it cannot leave the same node twice.
void report_repeats(const std::vector<PreviousRoute>& routes, const std::vector<JsonValue>& items) {
  std::vector<size_t> order(routes.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](size_t i) {
    const PreviousRoute& r = routes[i];
    return std::tie(r.job, r.group, r.ring, r.from, r.to);
  };
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
  for (size_t k = 1; k < order.size(); ++k) {
    if (key(order[k]) != key(order[k - 1])) continue;
    items[order[k]].error("the same flow as in " + items[order[k - 1]].path() +
                          "; expected each flow once");
  }
}

std::vector<PreviousRoute> read_flows(const JsonValue& value) {
  std::vector<PreviousRoute> routes;
  const std::optional<std::vector<JsonValue>> items = value.array();
  if (!items) return routes;
  std::vector<JsonValue> read;
  for (const JsonValue& item : *items) {
    std::optional<JsonObject> object = item.object();
    if (!object) continue;
    routes.push_back(read_flow(*object));
    read.push_back(item);
  }
  report_repeats(routes, read);
  return routes;
}

}  // namespace

std::string write_routes(const Snapshot& snapshot, const Routes& routes) {
  const QuotedNames names(snapshot);
  std::string out;
  out.reserve(routes.flows.size() * 150 + 256);
  fmt::format_to(std::back_inserter(out),
                 "{{\n  \"schema\": \"{}\",\n  \"colors\": {},\n  \"isolated\": {},\n"
                 "  \"best_effort\": {},\n  \"proved\": {},\n  \"kept\": {},\n"
                 "  \"recolored\": {},\n",
                 kSchema, routes.colors, routes.isolated, routes.best_effort, routes.proved,
                 routes.kept, routes.recolored);
  write_lines(out, "shared", routes.shared.size(), [&](size_t i) {
    const Shared& shared = routes.shared[i];
    fmt::format_to(std::back_inserter(out),
                   R"({{"rack": {}, "uplink": {}, "direction": "{}", "flows": [{}]}})",
                   names.racks[shared.rack], shared.uplink, shared.up ? "up" : "down",
                   fmt::join(shared.flows, ", "));
  });
  fmt::format_to(std::back_inserter(out), ",\n  \"unroutable\": [{}],\n",
                 fmt::join(routes.unroutable, ", "));
  write_lines(out, "flows", routes.flows.size(),
              [&](size_t i) { write_flow(out, snapshot, names, routes.flows[i]); });
  out += ",\n";
  write_lines(out, "orders", routes.orders.size(), [&](size_t i) {
    const GroupId group(i);
    fmt::format_to(std::back_inserter(out), R"({{"job": {}, "group": {}, "order": [{}]}})",
                   names.jobs[snapshot.groups[group].job], snapshot.group_index(group),
                   fmt::join(routes.orders[group], ", "));
  });
  out += "\n}\n";
  return out;
}

std::optional<std::vector<PreviousRoute>> parse_routes(std::string_view text, std::string_view file,
                                                       Diagnostics& diagnostics) {
  const size_t errors_before = diagnostics.error_count();
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, file, diagnostics);
  if (!document) return std::nullopt;
  std::optional<JsonObject> root = document->root().object();
  if (!root) return std::nullopt;
  if (const std::optional<JsonValue> schema = root->require("schema")) {
    const std::optional<std::string_view> name = schema->string();
    if (name && *name != kSchema) {
      schema->error(fmt::format("unknown schema {}, expected \"{}\"", quote(*name), kSchema));
      return std::nullopt;  // what follows is some other format
    }
  }
  std::vector<PreviousRoute> routes;
  if (const std::optional<JsonValue> flows = root->require("flows")) routes = read_flows(*flows);
  // Written for other readers; the flows say all that recolouring needs.
  for (const char* key : {"colors", "isolated", "best_effort", "proved", "kept", "recolored",
                          "shared", "unroutable", "orders"}) {
    root->find(key);
  }
  root->finish(UnknownField::kWarning);
  if (diagnostics.error_count() > errors_before) return std::nullopt;
  return routes;
}

}  // namespace monkeytree
