#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "base/json.h"
#include "cluster/snapshot_json.h"

namespace monkeytree {
namespace {

constexpr std::string_view kSchema = "monkeytree/snapshot/v1";
constexpr std::string_view kReservedName = "@staging";  ///< stands for staging in plans
constexpr int kMaxSlots = 1000000;
constexpr int kMaxRings = 1000000;
constexpr int kMaxGpus = 1000000;

/// A sum of counts that are not negative, kept below a limit so that nobody downstream has to think
/// of overflow.
class Total {
 public:
  explicit Total(int64_t limit) : limit_(limit) {}

  /// Adds amount · times; false, and nothing added, where the sum would pass the limit.
  bool add(int64_t amount, int64_t times) {
    if (amount > 0 && times > (limit_ - sum_) / amount) return false;
    sum_ += amount * times;
    return true;
  }

 private:
  int64_t limit_;
  int64_t sum_ = 0;
};

/// Numbers names by first appearance.
template <class Key>
class Names {
 public:
  explicit Names(IdVector<Key, std::string>& names) : names_(names) {}

  Key intern(std::string_view name) {
    const auto [at, fresh] = ids_.try_emplace(std::string(name), Key(names_.size()));
    if (fresh) names_.push_back(std::string(name));
    return at->second;
  }

 private:
  IdVector<Key, std::string>& names_;
  absl::flat_hash_map<std::string, Key> ids_;
};

/// Reads one document. Goes on after a fault; what it has built is worth something only when none
/// was reported.
class SnapshotReader {
 public:
  Snapshot read(const JsonValue& value) {
    std::optional<JsonObject> root = value.object();
    if (!root) return std::move(out_);
    const std::optional<JsonValue> schema = root->require("schema");
    if (!schema) return std::move(out_);
    const std::optional<std::string_view> found = schema->string();
    if (!found) return std::move(out_);
    if (*found != kSchema) {
      schema->error_expected(fmt::format("\"{}\"", kSchema));
      return std::move(out_);
    }
    read_string(*root, "name", out_.name);
    read_string(*root, "cluster", out_.cluster);
    read_number(*root, "time_s", out_.time_s);
    if (const auto fabric = root->require("fabric")) read_fabric(*fabric);
    const auto nodes = root->find("nodes");
    read_nodes(nodes);
    if (const auto jobs = root->find("jobs")) read_jobs(*jobs);
    root->finish(UnknownField::kWarning);
    return std::move(out_);
  }

 private:
  static void read_string(JsonObject& object, std::string_view key, std::string& out) {
    if (const auto field = object.find(key)) out = field->string().value_or("");
  }

  static void read_number(JsonObject& object, std::string_view key, std::optional<double>& out) {
    if (const auto field = object.find(key)) out = field->number();
  }

  static void read_int(JsonObject& object, std::string_view key, int low, int high, int& out) {
    if (const auto field = object.find(key)) out = field->integer32(low, high).value_or(out);
  }

  void read_fabric(const JsonValue& value) {
    std::optional<JsonObject> fabric = value.object();
    if (!fabric) return;
    if (const auto pods = fabric->find("pods")) {
      pods->note("reserved for fabrics of three tiers, not used yet");
    }
    if (const auto racks = fabric->require("racks")) {
      if (const auto list = racks->array()) {
        out_.racks.reserve(list->size());
        for (const JsonValue& rack : *list) read_rack(rack);
      }
    }
    fabric->finish(UnknownField::kWarning);
  }

  void read_rack(const JsonValue& value) {
    std::optional<JsonObject> object = value.object();
    if (!object) return;
    Rack rack;
    const RackId id(out_.racks.size());
    if (const auto name = object->require("name")) {
      rack.name = name->nonempty_string().value_or("");
      const auto [at, fresh] = racks_.try_emplace(rack.name, id);
      if (!fresh && !rack.name.empty()) {
        name->error(fmt::format("rack {} is already at /fabric/racks/{}, expected each name once",
                                quote(rack.name), at->second.value));
      }
    }
    read_uplinks(*object, rack);
    read_string(*object, "pod", rack.pod);
    std::string island;
    read_string(*object, "island", island);
    rack.island = islands_.intern(island);
    if (const auto nodes = object->require("nodes")) read_node_names(*nodes, id, rack);
    object->finish(UnknownField::kWarning);
    out_.racks.push_back(std::move(rack));
  }

  /// `uplinks`, `spines` and `failed` together say which spines the rack still reaches.
  void read_uplinks(JsonObject& object, Rack& rack) {
    const auto uplinks = object.find("uplinks");
    const auto spines = object.find("spines");
    const auto failed = object.find("failed");
    std::optional<int> count;
    if (uplinks) {
      count = uplinks->integer32(0, kMaxUplinks);
      if (!count) return;
    }
    std::vector<int> reached;
    if (spines) {
      std::optional<std::vector<int>> listed = spine_set(*spines);
      if (!listed) return;
      reached = *std::move(listed);
      if (count && static_cast<size_t>(*count) != reached.size()) {
        return spines->error(fmt::format("{} spines for {} uplinks, expected one spine an uplink",
                                         reached.size(), *count));
      }
    } else if (count) {
      reached.resize(static_cast<size_t>(*count));
      std::iota(reached.begin(), reached.end(), 0);
    } else {
      return object.error("no field \"uplinks\", expected the number of uplinks of the rack");
    }
    rack.uplinks = static_cast<int>(reached.size());
    if (!uplink_total_.add(rack.uplinks, 1)) {
      return object.error("too many uplinks in the fabric, expected fewer than 2^26 in all");
    }
    if (failed) read_failed(*failed, reached, rack);
    std::set_difference(reached.begin(), reached.end(), rack.failed.begin(), rack.failed.end(),
                        std::back_inserter(rack.spines));
  }

  static void read_failed(const JsonValue& value, const std::vector<int>& reached, Rack& rack) {
    std::optional<std::vector<int>> failed = spine_set(value);
    if (!failed) return;
    for (int spine : *failed) {
      if (std::binary_search(reached.begin(), reached.end(), spine)) continue;
      value.error(
          fmt::format("spine {} is none of the rack's, expected one that it reaches", spine));
    }
    rack.failed = *std::move(failed);
  }

  /// Ascending; an error for a repeat.
  static std::optional<std::vector<int>> spine_set(const JsonValue& value) {
    const auto list = value.array();
    if (!list) return std::nullopt;
    std::vector<int> spines;
    for (const JsonValue& item : *list) {
      const std::optional<int> spine = item.integer32(0, kMaxUplinks - 1);
      if (!spine) return std::nullopt;
      spines.push_back(*spine);
    }
    std::sort(spines.begin(), spines.end());
    const auto twice = std::adjacent_find(spines.begin(), spines.end());
    if (twice == spines.end()) return spines;
    value.error(fmt::format("spine {} stands here twice, expected each once", *twice));
    return std::nullopt;
  }

  void read_node_names(const JsonValue& value, RackId rack_id, Rack& rack) {
    const auto list = value.array();
    if (!list) return;
    rack.nodes.reserve(list->size());
    for (const JsonValue& item : *list) {
      const std::optional<std::string_view> name = item.nonempty_string();
      if (!name) continue;
      if (*name == kReservedName) {
        item.error("a node cannot have this name, which stands for staging in plans");
        continue;
      }
      const NodeId id(out_.nodes.size());
      const auto [at, fresh] = nodes_.try_emplace(*name, id);
      if (!fresh) {
        const RackId other = out_.nodes[at->second].rack;
        const std::string& other_name = other == rack_id ? rack.name : out_.racks[other].name;
        item.error(fmt::format("node {} is already in rack {}, expected each node once",
                               quote(*name), quote(other_name)));
        continue;
      }
      Node node;
      node.name = *name;
      node.rack = rack_id;
      out_.nodes.push_back(std::move(node));
      rack.nodes.push_back(id);
    }
  }

  void read_nodes(const std::optional<JsonValue>& value) {
    std::vector<std::string_view> classes(out_.nodes.size(), "default");
    std::optional<JsonObject> map;
    if (value) map = value->object();
    if (map) {
      for (const JsonObject::Field& field : map->fields()) {
        const auto at = nodes_.find(field.key);
        if (at == nodes_.end()) {
          field.value.error(fmt::format("node {} is in no rack, expected a node of the fabric",
                                        quote(field.key)));
          continue;
        }
        read_node(field.value, out_.nodes[at->second],
                  classes[static_cast<size_t>(at->second.value)]);
      }
    }
    for (NodeId node : out_.nodes.keys()) {
      out_.nodes[node].node_class = classes_.intern(classes[static_cast<size_t>(node.value)]);
    }
  }

  void read_node(const JsonValue& value, Node& node, std::string_view& node_class) {
    std::optional<JsonObject> object = value.object();
    if (!object) return;
    if (const auto state = object->find("state")) read_state(*state, node);
    if (const auto name = object->find("class")) {
      node_class = name->nonempty_string().value_or(node_class);
    }
    read_int(*object, "slots", 1, kMaxSlots, node.slots);
    read_int(*object, "gpus", 0, kMaxGpus, node.gpus);
    if (!slot_total_.add(node.slots, 1)) value.error("too many slots, expected fewer than 2^31");
    object->finish(UnknownField::kWarning);
  }

  static void read_state(const JsonValue& value, Node& node) {
    const std::optional<std::string_view> found = value.string();
    if (!found) return;
    for (NodeState state :
         {NodeState::kUp, NodeState::kDrain, NodeState::kDown, NodeState::kReserved}) {
      if (*found != name_of(state)) continue;
      node.state = state;
      return;
    }
    value.error_expected("\"up\", \"drain\", \"down\" or \"reserved\"");
  }

  void read_jobs(const JsonValue& value) {
    const auto list = value.array();
    if (!list) return;
    used_.assign(out_.nodes.size(), 0);
    out_.jobs.reserve(list->size());
    for (const JsonValue& job : *list) read_job(job);
  }

  void read_job(const JsonValue& value) {
    std::optional<JsonObject> object = value.object();
    if (!object) return;
    Job job;
    const JobId id(out_.jobs.size());
    if (const auto name = object->require("id")) {
      job.id = name->nonempty_string().value_or("");
      const auto [at, fresh] = jobs_.try_emplace(job.id, id);
      if (!fresh && !job.id.empty()) {
        name->error(fmt::format("job {} is already at /jobs/{}, expected each id once",
                                quote(job.id), at->second.value));
      }
    }
    read_string(*object, "name", job.name);
    if (const auto movable = object->find("movable")) job.movable = movable->boolean() != false;
    if (const auto bytes = object->find("state_bytes")) {
      job.state_bytes = bytes->integer(0, std::numeric_limits<int64_t>::max()).value_or(0);
    }
    read_string(*object, "user", job.user);
    read_string(*object, "partition", job.partition);
    read_string(*object, "comment", job.comment);
    read_number(*object, "start_s", job.start_s);
    read_number(*object, "end_s", job.end_s);
    job.first_group = GroupId(out_.groups.size());
    read_groups(*object, id, job);
    job.group_count = static_cast<int>(out_.groups.size()) - job.first_group.value;
    object->finish(UnknownField::kWarning);
    out_.jobs.push_back(std::move(job));
  }

  /// `groups`, or the fields of one group in the job itself.
  void read_groups(JsonObject& job, JobId id, const Job& attributes) {
    const auto groups = job.find("groups");
    const auto workers = job.find("workers");
    if (groups && workers) {
      return workers->error("\"workers\" beside \"groups\", expected one of them");
    }
    if (workers) return read_group(job, id, attributes);
    if (!groups) return job.error("no field \"groups\", expected it, or \"workers\"");
    const auto list = groups->array();
    if (!list) return;
    for (const JsonValue& group : *list) {
      std::optional<JsonObject> object = group.object();
      if (!object) continue;
      read_group(*object, id, attributes);
      object->finish(UnknownField::kWarning);
    }
  }

  void read_group(JsonObject& object, JobId job, const Job& attributes) {
    Group group;
    group.job = job;
    read_int(object, "rings", 1, kMaxRings, group.rings);
    read_int(object, "slots", 1, kMaxSlots, group.slots);
    if (const auto workers = object.require("workers")) read_workers(*workers, group);
    if (const auto pinned = object.find("pinned")) read_pinned(*pinned, group);
    const auto size = static_cast<int64_t>(group.workers.size());
    if (!ring_total_.add(group.rings, size)) {
      object.error("too many rings, expected the sum of rings x workers below 2^31");
    }
    if (!state_total_.add(attributes.state_bytes, size)) {
      object.error("too much state, expected the sum of state_bytes x workers below 2^63");
    }
    out_.groups.push_back(std::move(group));
  }

  void read_workers(const JsonValue& value, Group& group) {
    const auto list = value.array();
    if (!list) return;
    if (list->empty()) return value.error("no worker, expected at least one");
    group.workers.reserve(list->size());
    for (const JsonValue& item : *list) {
      const std::optional<std::string_view> name = item.string();
      if (!name) continue;
      const auto at = nodes_.find(*name);
      if (at == nodes_.end()) {
        item.error(fmt::format("worker on node {}, expected a node of the fabric", quote(*name)));
        group.workers.push_back(NodeId());  // keeps the indices that `pinned` refers to
        continue;
      }
      group.workers.push_back(at->second);
      take_slots(item, at->second, group.slots);
    }
  }

  void take_slots(const JsonValue& worker, NodeId id, int slots) {
    const Node& node = out_.nodes[id];
    int64_t& used = used_[static_cast<size_t>(id.value)];
    const bool fitted = used <= node.slots;
    used += slots;
    if (!fitted || used <= node.slots) return;
    worker.error(fmt::format("{} slots used on node {}, expected at most its {}", used,
                             quote(node.name), node.slots));
  }

  static void read_pinned(const JsonValue& value, Group& group) {
    const auto list = value.array();
    if (!list) return;
    for (const JsonValue& item : *list) {
      const auto last = static_cast<int>(group.workers.size()) - 1;
      if (const auto index = item.integer32(0, last)) group.pinned.push_back(*index);
    }
    std::sort(group.pinned.begin(), group.pinned.end());
    group.pinned.erase(std::unique(group.pinned.begin(), group.pinned.end()), group.pinned.end());
  }

  Snapshot out_;
  absl::flat_hash_map<std::string, RackId> racks_;
  absl::flat_hash_map<std::string_view, NodeId> nodes_;
  absl::flat_hash_map<std::string, JobId> jobs_;
  Names<ClassId> classes_{out_.classes};
  Names<IslandId> islands_{out_.islands};
  std::vector<int64_t> used_;  ///< slots taken on each node
  Total uplink_total_{int64_t{1} << 26};
  Total slot_total_{std::numeric_limits<int32_t>::max()};
  Total ring_total_{std::numeric_limits<int32_t>::max()};
  Total state_total_{std::numeric_limits<int64_t>::max()};
};

}  // namespace

std::optional<Snapshot> parse_snapshot(std::string_view text, std::string_view file,
                                       Diagnostics& diagnostics) {
  const std::unique_ptr<JsonDocument> document = JsonDocument::parse(text, file, diagnostics);
  if (!document) return std::nullopt;
  return parse_snapshot(document->root(), diagnostics);
}

std::optional<Snapshot> parse_snapshot(const JsonValue& value, Diagnostics& diagnostics) {
  const size_t errors = diagnostics.error_count();
  Snapshot snapshot = SnapshotReader().read(value);
  if (diagnostics.error_count() > errors) return std::nullopt;
  return snapshot;
}

}  // namespace monkeytree
