#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cluster/ended.h"
#include "cluster/snapshot_json.h"

namespace monkeytree {
namespace {

using Json = nlohmann::ordered_json;

/// On one line; bytes that are not UTF-8 are replaced.
std::string line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void put(Json& json, const char* key, const std::string& text) {
  if (!text.empty()) json[key] = text;
}

void put(Json& json, const char* key, const std::optional<double>& number) {
  if (number) json[key] = *number;
}

Json rack_json(const Snapshot& snapshot, const Rack& rack) {
  Json json;
  json["name"] = rack.name;
  std::vector<int> reached;
  std::merge(rack.spines.begin(), rack.spines.end(), rack.failed.begin(), rack.failed.end(),
             std::back_inserter(reached));
  json["uplinks"] = reached.size();
  const bool plain = reached.empty() || (reached.front() == 0 &&
                                         static_cast<size_t>(reached.back()) + 1 == reached.size());
  if (!plain) json["spines"] = reached;
  if (!rack.failed.empty()) json["failed"] = rack.failed;
  put(json, "pod", rack.pod);
  if (snapshot.islands.contains(rack.island)) put(json, "island", snapshot.islands[rack.island]);
  Json& nodes = json["nodes"] = Json::array();
  for (NodeId node : rack.nodes) nodes.push_back(snapshot.nodes[node].name);
  return json;
}

/// Null where every attribute holds its default.
Json node_json(const Snapshot& snapshot, const Node& node) {
  Json json;
  if (node.state != NodeState::kUp) json["state"] = name_of(node.state);
  if (snapshot.classes.contains(node.node_class) &&
      snapshot.classes[node.node_class] != "default") {
    json["class"] = snapshot.classes[node.node_class];
  }
  if (node.slots != 1) json["slots"] = node.slots;
  if (node.gpus != 0) json["gpus"] = node.gpus;
  return json;
}

Json group_json(const Snapshot& snapshot, const Group& group) {
  Json json;
  if (group.rings != 1) json["rings"] = group.rings;
  if (group.slots != 1) json["slots"] = group.slots;
  Json& workers = json["workers"] = Json::array();
  for (NodeId node : group.workers) workers.push_back(snapshot.nodes[node].name);
  if (!group.pinned.empty()) json["pinned"] = group.pinned;
  return json;
}

Json job_json(const Snapshot& snapshot, const Job& job) {
  Json json;
  json["id"] = job.id;
  put(json, "name", job.name);
  put(json, "user", job.user);
  put(json, "partition", job.partition);
  put(json, "comment", job.comment);
  put(json, "start_s", job.start_s);
  put(json, "end_s", job.end_s);
  if (!job.movable) json["movable"] = false;
  if (job.state_bytes != 0) json["state_bytes"] = job.state_bytes;
  Json& groups = json["groups"] = Json::array();
  for (int i = 0; i < job.group_count; ++i) {
    groups.push_back(group_json(snapshot, snapshot.groups[GroupId(job.first_group.value + i)]));
  }
  return json;
}

/// `items` between brackets, a line each.
std::string block(char open, const std::vector<std::string>& items, char close) {
  std::string out(1, open);
  for (size_t i = 0; i < items.size(); ++i) {
    out.append(i == 0 ? "\n    " : ",\n    ").append(items[i]);
  }
  if (!items.empty()) out.append("\n  ");
  out.push_back(close);
  return out;
}

}  // namespace

std::string write_snapshot(const Snapshot& snapshot) {
  Json head;
  head["schema"] = "monkeytree/snapshot/v1";
  put(head, "name", snapshot.name);
  put(head, "cluster", snapshot.cluster);
  put(head, "time_s", snapshot.time_s);
  std::string out = "{";
  for (const auto& [key, value] : head.items()) {
    out.append("\n  ").append(line(key)).append(": ").append(line(value)).append(",");
  }
  std::vector<std::string> racks;
  for (const Rack& rack : snapshot.racks) racks.push_back(line(rack_json(snapshot, rack)));
  out.append("\n  \"fabric\": {\"racks\": ").append(block('[', racks, ']')).append("}");
  std::vector<std::string> nodes;
  for (const Rack& rack : snapshot.racks) {
    for (NodeId id : rack.nodes) {
      const Json json = node_json(snapshot, snapshot.nodes[id]);
      if (!json.is_null()) nodes.push_back(line(snapshot.nodes[id].name) + ": " + line(json));
    }
  }
  if (!nodes.empty()) out.append(",\n  \"nodes\": ").append(block('{', nodes, '}'));
  std::vector<std::string> jobs;
  for (const Job& job : snapshot.jobs) {
    if (!has_ended(snapshot, job)) jobs.push_back(line(job_json(snapshot, job)));
  }
  out.append(",\n  \"jobs\": ").append(block('[', jobs, ']')).append("\n}\n");
  return out;
}

}  // namespace monkeytree
