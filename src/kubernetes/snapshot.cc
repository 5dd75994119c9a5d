#include "kubernetes/snapshot.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/hostlist.h"
#include "base/json.h"
#include "kubernetes/jobs.h"
#include "kubernetes/node_classes.h"
#include "kubernetes/pins.h"

namespace monkeytree {
namespace {

class Builder {
 public:
  Builder(const KubeFacts& facts, const KubeRackRules& rules, const KubeReadRules& reading,
          std::string_view source, Diagnostics& diagnostics)
      : facts_(facts),
        reading_(reading),
        source_(source),
        diagnostics_(diagnostics),
        racks_(rules, facts),
        pins_(facts, racks_),
        classes_(facts, racks_, reading.gpu_resource) {}

  std::optional<KubeSnapshot> run(const Uplinks& uplinks) {
    jobs_ = kube_jobs(facts_, reading_, source_, diagnostics_);
    for (const KubeJob& job : jobs_) {
      for (const KubeGroup& group : job.groups) {
        for (const KubeWorker& worker : group.workers) in_use_.insert(worker.node);
      }
    }
    snapshot_.islands.push_back("");
    if (!add_racks()) return std::nullopt;
    add_unplaced();
    count_groups_on_nodes();
    for (const KubeJob& job : jobs_) add_job(job);
    if (!finish_slots()) return std::nullopt;
    reserve_unknown();
    report();
    apply_uplinks(uplinks, source_, snapshot_, diagnostics_);
    bound_unplaced();
    return std::move(out_);
  }

 private:
  void warning(std::string message) { diagnostics_.warning(source_, 0, "", std::move(message)); }
  void note(std::string message) { diagnostics_.note(source_, 0, "", std::move(message)); }
  static std::string nodes_text(const std::vector<std::string>& names) {
    return printable(compress_hostlist(names));
  }

  ClassId class_named(const std::string& name) {
    const auto [found, is_new] = class_ids_.emplace(name, ClassId(snapshot_.classes.size()));
    if (is_new) snapshot_.classes.push_back(name);
    return found->second;
  }

  RackId add_rack(const std::string& name) {
    Rack rack;
    rack.name = name;
    return snapshot_.racks.push_back(std::move(rack));
  }

  NodeId add_node(const std::string& name, const KubeNode* known, RackId rack) {
    Node node;
    node.name = name;
    node.rack = rack;
    node.gpus = known ? known->gpus : 0;
    if (known) node.state = state_of(*known);
    node.node_class = class_named(known ? classes_.name_of(*known) : "default");
    const NodeId id = snapshot_.nodes.push_back(std::move(node));
    snapshot_.racks[rack].nodes.push_back(id);
    ids_.emplace(name, id);
    slots_.push_back(0);
    held_.push_back(0);
    return id;
  }

  static NodeState state_of(const KubeNode& node) {
    bool drains = node.unschedulable;
    for (const KubeTaint& taint : node.taints) {
      if (taint.key == "node.kubernetes.io/not-ready" ||
          taint.key == "node.kubernetes.io/unreachable" ||
          taint.key == "node.kubernetes.io/out-of-service") {
        return NodeState::kDown;
      }
      drains |= taint.key == "node.kubernetes.io/unschedulable" ||
                taint.key == "ToBeDeletedByClusterAutoscaler" ||
                taint.key == "karpenter.sh/disrupted";
    }
    if (!node.ready) return NodeState::kDown;
    return drains ? NodeState::kDrain : NodeState::kUp;
  }

  bool add_racks() {
    std::map<std::string, std::vector<const KubeNode*>> by_rack;
    size_t gpu_nodes = 0;
    for (const auto& [name, node] : facts_.nodes) {
      if (node.gpus == 0 && !in_use_.contains(name)) continue;
      ++gpu_nodes;
      std::string rack = racks_.rack_of(node);
      if (rack.empty()) {
        nowhere_.push_back(name);
      } else {
        by_rack[std::move(rack)].push_back(&node);
      }
    }
    if (by_rack.empty()) return refuse(gpu_nodes);
    for (const auto& [name, nodes] : by_rack) {
      const RackId rack = add_rack(name);
      for (const KubeNode* node : nodes) add_node(node->name, node, rack);
    }
    std::erase_if(nowhere_, [&](const std::string& name) { return in_use_.contains(name); });
    if (!nowhere_.empty()) {
      warning(fmt::format("nothing tells the rack of the nodes {}{}; they are left out",
                          nodes_text(nowhere_), lacking(nowhere_)));
    }
    return true;
  }

  /// " (without the labels a, b)": all that some of the nodes lack.
  std::string lacking(const std::vector<std::string>& names) const {
    std::set<std::string> labels;
    for (const std::string& name : names) {
      const auto node = facts_.nodes.find(name);
      if (node == facts_.nodes.end()) continue;
      for (const std::string& label : racks_.missing(node->second)) labels.insert(label);
    }
    if (labels.empty()) return "";
    std::string list;
    for (const std::string& label : labels) list += (list.empty() ? "" : ", ") + printable(label);
    return fmt::format(" (without the label{} {})", labels.size() == 1 ? "" : "s", list);
  }

  /// Without a single rack there is no snapshot. False.
  bool refuse(size_t gpu_nodes) {
    std::string message =
        gpu_nodes == 0 ? fmt::format("no node has {}", printable(reading_.gpu_resource))
                       : fmt::format("nothing tells the rack of any of the {} GPU nodes, {}{}",
                                     gpu_nodes, nodes_text(nowhere_), lacking(nowhere_));
    std::string seen;
    for (const std::string& preset : presets_seen(facts_)) {
      seen += (seen.empty() ? "" : ", ") + preset;
    }
    if (gpu_nodes > 0 && !seen.empty()) message += "; they have labels of: " + seen;
    diagnostics_.error(source_, 0, "", std::move(message));
    return false;
  }

  void add_unplaced() {
    std::vector<std::string> names;
    for (const std::string& name : in_use_) {
      if (ids_.contains(name)) continue;
      if (!unplaced_.valid()) unplaced_ = add_rack(unused_rack_name(snapshot_, "unplaced"));
      const auto known = facts_.nodes.find(name);
      const KubeNode* node = known == facts_.nodes.end() ? nullptr : &known->second;
      snapshot_.nodes[add_node(name, node, unplaced_)].state = NodeState::kReserved;
      names.push_back(name);
    }
    if (names.empty()) return;
    warning(
        fmt::format("pods of jobs are on nodes whose rack nothing tells: {}{}; they stand in the "
                    "rack {}, whose bound is not checked and whose workers do not move",
                    nodes_text(names), lacking(names), quote(snapshot_.racks[unplaced_].name)));
  }

  /// Groups of a job that are on a node, to find those that share it.
  void count_groups_on_nodes() {
    for (size_t j = 0; j < jobs_.size(); ++j) {
      for (const KubeGroup& group : jobs_[j].groups) {
        for (const KubeWorker& worker : group.workers) ++groups_on_[{j, worker.node}];
      }
    }
  }

  void add_job(const KubeJob& from) {
    const auto index = static_cast<size_t>(&from - jobs_.data());
    Job job;
    job.id = from.id;
    job.name = from.name;
    job.partition = from.space;
    job.comment = from.comment;
    job.start_s = from.start_s;
    job.movable = from.movable && from.keeps.empty();
    job.first_group = GroupId(snapshot_.groups.size());
    job.group_count = static_cast<int>(from.groups.size());
    const bool movable = job.movable;
    const JobId id = snapshot_.jobs.push_back(std::move(job));
    if (!from.keeps.empty()) {
      out_.unmovable.emplace(from.id, from.keeps);
      if (from.known) stay_[from.keeps].push_back(from.id);
    }
    for (const KubeGroup& group : from.groups) add_group(from, index, group, movable, id);
  }

  void add_group(const KubeJob& job, size_t index, const KubeGroup& from, bool movable, JobId id) {
    Group group;
    group.job = id;
    group.rings = job.rings;
    for (const KubeWorker& worker : from.workers) group.slots = std::max(group.slots, worker.gpus);
    for (size_t i = 0; i < from.workers.size(); ++i) {
      const KubeWorker& worker = from.workers[i];
      const NodeId node = ids_.find(worker.node)->second;
      group.workers.push_back(node);
      slots_[static_cast<size_t>(node.value)] += group.slots;
      held_[static_cast<size_t>(node.value)] += worker.gpus;
      if (!movable) continue;
      const std::string why = pin(worker, index, group.slots, node);
      if (why.empty()) continue;
      group.pinned.push_back(static_cast<int>(i));
      stay_[why].push_back(fmt::format("{} on {}", job.id, worker.node));
    }
    snapshot_.groups.push_back(std::move(group));
  }

  /// Why the worker must stay on its node; "" where it may go.
  std::string pin(const KubeWorker& worker, size_t job, int slots, NodeId node) const {
    if (snapshot_.nodes[node].rack == unplaced_) return "nothing tells the rack of its node";
    if (groups_on_.at({job, worker.node}) > 1) return "two groups of its job share its node";
    if (worker.gpus < slots) return "it is smaller than others of its group";
    if (worker.gpus < snapshot_.nodes[node].gpus) return "it holds a part of its node only";
    if (reading_.only_allowed && worker.pods.size() > 1) return "it is several pods";
    for (const KubePod* pod : worker.pods) {
      if (std::string why = pins_.why(*pod); !why.empty()) return why;
    }
    return "";
  }

  /// GPUs that are free stay as many as in truth, whatever the workers are counted as.
  bool finish_slots() {
    constexpr int64_t kMostSlots = int64_t{1} << 30;
    std::vector<std::string> overfull;
    for (NodeId id : snapshot_.nodes.keys()) {
      Node& node = snapshot_.nodes[id];
      const int64_t held = held_[static_cast<size_t>(id.value)];
      const int64_t used = slots_[static_cast<size_t>(id.value)];
      if (held > node.gpus && node.rack != unplaced_) overfull.push_back(node.name);
      const int64_t slots = used + std::max<int64_t>(0, node.gpus - held);
      if (slots > kMostSlots) {
        diagnostics_.error(source_, 0, "",
                           fmt::format("pods hold too many GPUs on {}", quote(node.name)));
        return false;
      }
      node.slots = static_cast<int>(std::max<int64_t>(1, slots));
    }
    if (!overfull.empty()) {
      warning(
          fmt::format("pods hold more GPUs than there are on {}; were the objects written at "
                      "the same time?",
                      nodes_text(overfull)));
    }
    return true;
  }

  /// Nodes on which pods hold devices that nothing counts receive nothing.
  void reserve_unknown() {
    std::vector<std::string> names;
    for (const auto& [key, pod] : facts_.pods) {
      if (!pod.counts_unknown) continue;
      const auto node = ids_.find(pod.node);
      if (node == ids_.end() || snapshot_.nodes[node->second].state != NodeState::kUp) continue;
      snapshot_.nodes[node->second].state = NodeState::kReserved;
      names.push_back(pod.node);
    }
    if (names.empty()) return;
    warning(
        fmt::format("pods hold devices by resource claims, which are not counted, on {}; these "
                    "nodes receive nothing",
                    nodes_text(names)));
  }

  void report() {
    constexpr size_t kMost = 10;
    for (const auto& [why, who] : stay_) {
      std::string list;
      for (size_t i = 0; i < who.size() && i < kMost; ++i) {
        list.append(i == 0 ? "" : ", ").append(printable(who[i]));
      }
      if (who.size() > kMost) list += fmt::format(" and {} more", who.size() - kMost);
      note(fmt::format("does not move, as {}: {}", why, list));
    }
  }

  /// The rack of unplaced nodes has as many uplinks as it can ever need.
  void bound_unplaced() {
    if (!unplaced_.valid()) return;
    int64_t rings = 0;
    for (const Group& group : snapshot_.groups) {
      const bool inside = std::any_of(group.workers.begin(), group.workers.end(), [&](NodeId node) {
        return snapshot_.nodes[node].rack == unplaced_;
      });
      if (inside) rings += group.rings;
    }
    Rack& rack = snapshot_.racks[unplaced_];
    set_uplinks(rack, static_cast<int>(std::clamp<int64_t>(rings, rack.uplinks, kMaxUplinks)));
  }

  const KubeFacts& facts_;
  const KubeReadRules& reading_;
  std::string_view source_;
  Diagnostics& diagnostics_;
  const RackFinder racks_;
  const KubePins pins_;
  const NodeClasses classes_;
  KubeSnapshot out_;
  Snapshot& snapshot_ = out_.snapshot;
  std::vector<KubeJob> jobs_;
  std::set<std::string, std::less<>> in_use_;  ///< nodes with pods of jobs
  std::map<std::string, NodeId, std::less<>> ids_;
  std::map<std::string, ClassId> class_ids_;
  std::map<std::pair<size_t, std::string>, int> groups_on_;  ///< by job and node
  std::vector<int64_t> slots_, held_;  ///< by node: as the snapshot counts, and in truth
  std::vector<std::string> nowhere_;   ///< GPU nodes of no rack
  std::map<std::string, std::vector<std::string>> stay_;  ///< reason → workers or jobs
  RackId unplaced_;
};

}  // namespace

std::optional<KubeSnapshot> build_kube_snapshot(const KubeFacts& facts, const KubeRackRules& rules,
                                                const KubeReadRules& reading,
                                                const Uplinks& uplinks, std::string_view source,
                                                Diagnostics& diagnostics) {
  if (std::string fault = RackFinder::fault(rules, facts); !fault.empty()) {
    diagnostics.error(source, 0, "", std::move(fault));
    return std::nullopt;
  }
  return Builder(facts, rules, reading, source, diagnostics).run(uplinks);
}

}  // namespace monkeytree
