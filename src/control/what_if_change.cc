#include "control/what_if_change.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/counted.h"
#include "cluster/ended.h"
#include "inventory/uplinks.h"
#include "scheduling/placement.h"

namespace monkeytree {
namespace {

constexpr int kMaxRings = 1000;
constexpr int kMaxGpus = 1 << 24;

/// The jobs that are not kept go, with their groups; those after them move up. O(workers).
template <class Keep>
void keep_jobs(Snapshot& snapshot, Keep keep) {
  IdVector<JobId, Job> jobs;
  IdVector<GroupId, Group> groups;
  for (const JobId id : snapshot.jobs.keys()) {
    if (!keep(id)) continue;
    Job job = std::move(snapshot.jobs[id]);
    const GroupId first = std::exchange(job.first_group, GroupId(groups.size()));
    const int count = job.group_count;
    const JobId now = jobs.push_back(std::move(job));
    for (int g = 0; g < count; ++g) {
      Group group = std::move(snapshot.groups[GroupId(first.value + g)]);
      group.job = now;
      groups.push_back(std::move(group));
    }
  }
  snapshot.jobs = std::move(jobs);
  snapshot.groups = std::move(groups);
}

/// Carries out one change after the other on a snapshot.
class Changer {
 public:
  explicit Changer(Snapshot& snapshot) : snapshot_(snapshot) {}

  /// A sentence; "" after a fault.
  std::string apply(const JsonValue& value) {
    std::optional<JsonObject> change = value.object();
    if (!change) return "";
    const std::optional<JsonValue> what = change->require("do");
    const std::optional<std::string_view> name = what ? what->string() : std::nullopt;
    if (!name) return "";
    std::string done;
    if (*name == "uplinks") {
      done = uplinks(*change);
    } else if (*name == "fail-uplink") {
      done = fail_uplink(*change);
    } else if (*name == "drain") {
      done = drain(*change);
    } else if (*name == "add-job") {
      done = add_job(*change);
    } else if (*name == "remove-job") {
      done = remove_job(*change);
    } else {
      what->error(fmt::format(
          "expected uplinks, fail-uplink, drain, add-job or remove-job, found {}", quote(*name)));
      return "";
    }
    change->finish(UnknownField::kError);
    return done;
  }

 private:
  std::optional<RackId> rack(const JsonValue& value) {
    const std::optional<std::string_view> name = value.string();
    if (!name) return std::nullopt;
    for (const RackId id : snapshot_.racks.keys()) {
      if (snapshot_.racks[id].name == *name) return id;
    }
    value.error(fmt::format("there is no rack {}", quote(*name)));
    return std::nullopt;
  }

  std::optional<RackId> required_rack(JsonObject& change) {
    const std::optional<JsonValue> value = change.require("rack");
    return value ? rack(*value) : std::nullopt;
  }

  std::string uplinks(JsonObject& change) {
    const std::optional<JsonValue> number = change.require("uplinks");
    const int count = number ? number->integer32(0, kMaxUplinks).value_or(-1) : -1;
    const std::optional<JsonValue> named = change.find("rack");
    const std::optional<RackId> only = named ? rack(*named) : std::nullopt;
    if (count < 0 || (named && !only)) return "";
    if (!only) {
      snapshot_.set_uplinks(count);
      return fmt::format("every rack has {}", counted(count, "uplink"));
    }
    set_uplinks(snapshot_.racks[*only], count);
    return fmt::format("rack {} has {}", snapshot_.racks[*only].name, counted(count, "uplink"));
  }

  std::string fail_uplink(JsonObject& change) {
    const std::optional<RackId> at = required_rack(change);
    const std::optional<JsonValue> named = change.find("spine");
    const std::optional<int> wanted = named ? named->integer32(0, kMaxUplinks) : std::nullopt;
    if (!at || (named && !wanted)) return "";
    Rack& rack = snapshot_.racks[*at];
    if (rack.spines.empty()) {
      change.error(fmt::format("rack {} has no uplink that works", quote(rack.name)));
      return "";
    }
    const int spine = wanted.value_or(rack.spines.back());
    const auto found = std::find(rack.spines.begin(), rack.spines.end(), spine);
    if (found == rack.spines.end()) {
      named->error(
          fmt::format("rack {} has no working uplink to spine {}", quote(rack.name), spine));
      return "";
    }
    rack.spines.erase(found);
    rack.failed.insert(std::lower_bound(rack.failed.begin(), rack.failed.end(), spine), spine);
    return fmt::format("rack {} loses its uplink to spine {}", rack.name, spine);
  }

  std::string drain(JsonObject& change) {
    const std::optional<JsonValue> one = change.find("node");
    if (one) {
      const std::optional<std::string_view> name = one->string();
      if (!name) return "";
      for (Node& node : snapshot_.nodes) {
        if (node.name != *name) continue;
        node.state = NodeState::kDrain;
        return fmt::format("node {} is drained", node.name);
      }
      one->error(fmt::format("there is no node {}", quote(*name)));
      return "";
    }
    const std::optional<RackId> at = required_rack(change);
    if (!at) return "";
    for (const NodeId node : snapshot_.racks[*at].nodes) {
      if (snapshot_.nodes[node].state != NodeState::kUp) continue;
      snapshot_.nodes[node].state = NodeState::kDrain;
    }
    return fmt::format("rack {} is drained: nothing comes, what runs there may stay",
                       snapshot_.racks[*at].name);
  }

  std::string remove_job(JsonObject& change) {
    const std::optional<JsonValue> value = change.require("job");
    const std::optional<std::string_view> name = value ? value->string() : std::nullopt;
    if (!name) return "";
    for (const JobId id : snapshot_.jobs.keys()) {
      if (snapshot_.jobs[id].id != *name) continue;
      keep_jobs(snapshot_, [id](JobId job) { return job != id; });
      return fmt::format("job {} ends", *name);
    }
    value->error(fmt::format("there is no job {}", quote(*name)));
    return "";
  }

  /// Nodes that a new job sees as alike.
  struct Kind {
    IslandId island;
    ClassId node_class;
    int slots = 1, gpus = 0;
    int gpus_each() const { return gpus > 0 ? gpus : slots; }
    friend auto operator<=>(const Kind&, const Kind&) = default;
  };

  std::map<Kind, std::vector<NodeId>> free_nodes() const {
    IdVector<NodeId, char> taken(snapshot_.nodes.size(), false);
    for (const Group& group : snapshot_.groups) {
      for (const NodeId node : group.workers) taken[node] = true;
    }
    std::map<Kind, std::vector<NodeId>> kinds;
    for (const NodeId id : snapshot_.nodes.keys()) {
      const Node& node = snapshot_.nodes[id];
      if (taken[id] || node.state != NodeState::kUp) continue;
      kinds[{snapshot_.racks[node.rack].island, node.node_class, node.slots, node.gpus}].push_back(
          id);
    }
    return kinds;
  }

  std::vector<NodeId> best_fit(const std::vector<NodeId>& kind, int wanted) const {
    IdVector<NodeId, RackId> racks;
    for (const Node& node : snapshot_.nodes) racks.push_back(node.rack);
    FreeNodes nodes(std::move(racks));
    auto free = kind.begin();
    for (const NodeId id : snapshot_.nodes.keys()) {
      if (free != kind.end() && *free == id) {
        ++free;
      } else {
        nodes.take(id);
      }
    }
    return nodes.place(wanted, PlacementRule::kBestFit).value_or(std::vector<NodeId>());
  }

  std::string add_job(JsonObject& change) {
    const std::optional<JsonValue> id = change.require("id");
    const std::optional<std::string_view> name = id ? id->nonempty_string() : std::nullopt;
    const auto number = [&](const char* key, int most) -> std::optional<int> {
      const std::optional<JsonValue> value = change.find(key);
      return value ? value->integer32(1, most) : std::optional<int>(0);
    };
    const int most_nodes = static_cast<int>(std::max<size_t>(1, snapshot_.nodes.size()));
    const std::optional<int> nodes = number("nodes", most_nodes), gpus = number("gpus", kMaxGpus),
                             groups = number("groups", most_nodes),
                             rings = number("rings", kMaxRings);
    if (!name || !nodes || !gpus || !groups || !rings) return "";
    if ((*nodes == 0) == (*gpus == 0)) {
      change.error("expected either nodes or gpus");
      return "";
    }
    for (const Job& job : snapshot_.jobs) {
      if (job.id != *name) continue;
      id->error(fmt::format("there is a job {} already", quote(*name)));
      return "";
    }
    return place_job(change, std::string(*name), *nodes, *gpus, std::max(1, *groups),
                     std::max(1, *rings));
  }

  std::string place_job(JsonObject& change, std::string name, int nodes, int gpus, int groups,
                        int rings) {
    const Kind* chosen = nullptr;
    const std::map<Kind, std::vector<NodeId>> kinds = free_nodes();
    const auto wanted = [&](const Kind& kind) {
      return nodes > 0 ? nodes : (gpus + kind.gpus_each() - 1) / kind.gpus_each();
    };
    size_t most = 0;
    for (const auto& [kind, free] : kinds) {
      most = std::max(most, free.size());
      if (free.size() < static_cast<size_t>(wanted(kind))) continue;
      if (chosen == nullptr || free.size() > kinds.at(*chosen).size()) chosen = &kind;
    }
    if (chosen == nullptr) {
      change.error(fmt::format("no room: at most {} of one kind {} free",
                               counted(static_cast<int64_t>(most), "node"),
                               most == 1 ? "is" : "are"));
      return "";
    }
    const int count = wanted(*chosen);
    if (count % groups != 0) {
      change.error(
          fmt::format("{} cannot be parted into {} equal groups", counted(count, "node"), groups));
      return "";
    }
    put_job(std::move(name), best_fit(kinds.at(*chosen), count), chosen->slots, groups, rings);
    return fmt::format("job {} comes, {}", snapshot_.jobs.back().id, counted(count, "node"));
  }

  void put_job(std::string name, const std::vector<NodeId>& nodes, int slots, int groups,
               int rings) {
    Job job;
    job.id = std::move(name);
    job.first_group = GroupId(snapshot_.groups.size());
    job.group_count = groups;
    const JobId id = snapshot_.jobs.push_back(std::move(job));
    const auto size = static_cast<std::ptrdiff_t>(nodes.size()) / groups;
    for (int g = 0; g < groups; ++g) {
      Group group;
      group.job = id;
      group.rings = rings;
      group.slots = slots;
      group.workers.assign(nodes.begin() + g * size, nodes.begin() + (g + 1) * size);
      snapshot_.groups.push_back(std::move(group));
    }
  }

  Snapshot& snapshot_;
};

}  // namespace

void drop_ended_jobs(Snapshot& snapshot) {
  keep_jobs(snapshot, [&snapshot](JobId id) { return !has_ended(snapshot, snapshot.jobs[id]); });
}

std::vector<std::string> apply_changes(const JsonValue& changes, Snapshot& snapshot) {
  std::vector<std::string> said;
  const std::optional<std::vector<JsonValue>> list = changes.array();
  if (!list) return said;
  if (list->size() > kMaxChanges) {
    changes.error(fmt::format("{} changes, expected at most {}", list->size(), kMaxChanges));
    return said;
  }
  Changer changer(snapshot);
  for (const JsonValue& change : *list) said.push_back(changer.apply(change));
  return said;
}

}  // namespace monkeytree
