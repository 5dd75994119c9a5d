#include "inventory/slurm_snapshot.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "base/hostlist.h"
#include "base/json.h"

namespace monkeytree {
namespace {

/// A worker as it goes into a group, and what it truly takes of its node.
struct PlacedWorker {
  NodeId node;
  int slots = 1;
  bool pinned = false;
};

class SnapshotBuilder {
 public:
  SnapshotBuilder(const SlurmFacts& facts, Diagnostics& diagnostics)
      : facts_(facts), diagnostics_(diagnostics) {}

  std::optional<Snapshot> run() {
    const size_t before = diagnostics_.error_count();
    queue_ = lay_out_jobs(facts_.queue, facts_.queue_file, diagnostics_);
    if (diagnostics_.error_count() > before) return std::nullopt;
    index_slurm_nodes();
    add_racks();
    add_unplaced_nodes();
    for (const JobLayout& layout : queue_.jobs) count_use(layout);
    for (const JobLayout& layout : queue_.jobs) add_job(layout);
    report_jobs();
    finish_slots();
    hold_nodes();
    apply_uplinks(facts_.uplinks, facts_.topology_file, out_, diagnostics_);
    bound_unplaced();
    join_islands();
    out_.time_s = facts_.queue.time_s;
    return std::move(out_);
  }

 private:
  void warning(std::string_view file, std::string message) {
    diagnostics_.warning(file, 0, "", std::move(message));
  }
  void note(std::string_view file, std::string message) {
    diagnostics_.note(file, 0, "", std::move(message));
  }
  static std::string listed(const std::vector<std::string>& names) {
    return printable(compress_hostlist(names));
  }

  void index_slurm_nodes() {
    for (const JobLayout& layout : queue_.jobs) {
      for (const JobLayout::Member& member : layout.members) in_use_.insert(member.node);
    }
    if (!facts_.nodes) return;
    for (const SlurmNode& node : *facts_.nodes) {
      slurm_nodes_.emplace(node.name, &node);
      any_gpus_ = any_gpus_ || node.gpus > 0;
    }
  }

  ClassId class_named(const std::string& name) {
    const auto [found, is_new] = classes_.emplace(name, ClassId(out_.classes.size()));
    if (is_new) out_.classes.push_back(name);
    return found->second;
  }

  /// Adds a node to a rack with what Slurm says of it.
  NodeId add_node(const std::string& name, RackId rack) {
    Node node;
    node.name = name;
    node.rack = rack;
    std::string node_class = "default";
    if (const auto known = slurm_nodes_.find(name); known != slurm_nodes_.end()) {
      const SlurmNode& slurm = *known->second;
      node.state = slurm.state;
      node.gpus = slurm.gpus;
      if (slurm.gpus > 0 && !slurm.gpu_type.empty()) node_class = slurm.gpu_type;
      if (slurm.gpus == 0 && any_gpus_) node_class = "cpu";
    }
    node.node_class = class_named(node_class);
    const NodeId id = out_.nodes.push_back(std::move(node));
    out_.racks[rack].nodes.push_back(id);
    node_ids_.emplace(name, id);
    use_.push_back({});
    return id;
  }

  RackId add_rack(const std::string& name, const std::string& island) {
    const auto [found, is_new] = islands_.emplace(island, IslandId(out_.islands.size()));
    if (is_new) out_.islands.push_back(island);
    Rack rack;
    rack.name = name;
    rack.island = found->second;
    return out_.racks.push_back(std::move(rack));
  }

  void add_racks() {
    std::vector<std::string> dropped;
    std::vector<std::string> kept;
    for (const TopologySwitch& leaf : facts_.topology.switches) {
      if (!leaf.leaf) continue;
      const RackId rack = add_rack(leaf.name, leaf.island);
      for (const std::string& name : leaf.nodes) {
        if (facts_.nodes && !slurm_nodes_.contains(name)) {
          (in_use_.contains(name) ? kept : dropped).push_back(name);
          if (!in_use_.contains(name)) continue;
        }
        add_node(name, rack);
      }
    }
    if (!dropped.empty()) {
      warning(facts_.topology_file,
              fmt::format("nodes that Slurm does not know are left out: {}", listed(dropped)));
    }
    if (!kept.empty()) {
      warning(facts_.nodes_file,
              fmt::format("says nothing of nodes that jobs use: {}", listed(kept)));
    }
    if (!facts_.nodes) return;
    std::vector<std::string> nowhere;
    for (const SlurmNode& node : *facts_.nodes) {
      if (!node_ids_.contains(node.name) && !in_use_.contains(node.name)) {
        nowhere.push_back(node.name);
      }
    }
    if (!nowhere.empty()) {
      warning(
          facts_.topology_file,
          fmt::format("no leaf or block holds the nodes {}; they are left out", listed(nowhere)));
    }
  }

  void add_unplaced_nodes() {
    std::vector<std::string> names;
    for (const JobLayout& layout : queue_.jobs) {
      for (const JobLayout::Member& member : layout.members) {
        if (node_ids_.contains(member.node)) continue;
        if (!unplaced_.valid()) {
          unplaced_ = add_rack(unused_rack_name(out_, "unplaced"),
                               out_.islands.empty() ? "" : out_.islands.back());
        }
        out_.nodes[add_node(member.node, unplaced_)].state = NodeState::kReserved;
        names.push_back(member.node);
      }
    }
    if (names.empty()) return;
    warning(
        facts_.topology_file,
        fmt::format("no leaf or block holds nodes that jobs use: {}; they stand in the rack {}, "
                    "whose bound is not checked and whose workers do not move",
                    listed(names), quote(out_.racks[unplaced_].name)));
  }

  /// A node whose GPUs are not known, or that has none, is taken whole.
  bool whole(NodeId node) const { return out_.nodes[node].gpus == 0; }

  /// Jobs without GPUs on nodes that have some compute on CPUs, unless they say otherwise.
  bool left_out(const JobLayout& layout) const {
    if (layout.names_parallelism) return false;
    return std::all_of(layout.members.begin(), layout.members.end(), [&](const auto& member) {
      return member.gpus == 0 && !whole(node_ids_.at(member.node));
    });
  }

  struct Use {
    int workers = 0;    ///< of all jobs
    int gpus_held = 0;  ///< in truth
    int64_t slots = 0;  ///< as the snapshot counts
  };
  Use& use_of(NodeId node) { return use_[static_cast<size_t>(node.value)]; }

  void count_use(const JobLayout& layout) {
    if (left_out(layout)) return;
    for (const JobLayout::Member& member : layout.members) {
      const NodeId node = node_ids_.at(member.node);
      use_of(node).gpus_held += member.gpus > 0 ? member.gpus : out_.nodes[node].gpus;
    }
    for (const Stage& stage : layout.stages) {
      for (const Share& share : stage)
        ++use_of(node_ids_.at(layout.members[share.node].node)).workers;
    }
  }

  void add_job(const JobLayout& layout) {
    if (left_out(layout)) {
      left_out_.push_back(layout.job->id);
      return;
    }
    const SlurmJob& slurm = *layout.job;
    Job job;
    job.id = slurm.id;
    job.name = slurm.name;
    job.user = slurm.user;
    job.partition = slurm.partition;
    job.comment = slurm.comment;
    job.start_s = slurm.start_s;
    job.end_s = slurm.end_s;
    job.movable = layout.movable && !within_a_node(layout) && !facts_.unmovable.contains(slurm.id);
    job.first_group = GroupId(out_.groups.size());
    job.group_count = static_cast<int>(layout.stages.size());
    if (out_.cluster.empty()) out_.cluster = slurm.cluster;
    const JobId id = out_.jobs.push_back(std::move(job));
    std::vector<int> stages_on(layout.members.size(), 0);
    for (const Stage& stage : layout.stages) {
      for (const Share& share : stage) ++stages_on[share.node];
    }
    for (const Stage& stage : layout.stages) add_group(layout, stage, stages_on, id);
    unite_islands(layout);
  }

  /// A single-node job that leaves part of its node to others.
  bool within_a_node(const JobLayout& layout) {
    if (layout.members.size() != 1) return false;
    const Node& node = out_.nodes[node_ids_.at(layout.members[0].node)];
    return node.gpus > 0 && layout.members[0].gpus > 0 && layout.members[0].gpus < node.gpus;
  }

  void add_group(const JobLayout& layout, const Stage& stage, const std::vector<int>& stages_on,
                 JobId job) {
    std::vector<PlacedWorker> workers;
    int slots = 1;
    for (const Share& share : stage) {
      workers.push_back(place(layout, share, stages_on[share.node]));
      slots = std::max(slots, workers.back().slots);
    }
    Group group;
    group.job = job;
    group.rings = layout.rings;
    group.slots = slots;
    for (size_t i = 0; i < workers.size(); ++i) {
      if (workers[i].slots < slots) {
        workers[i].pinned = true;
        uneven_.insert(layout.job->id);
      }
      group.workers.push_back(workers[i].node);
      if (workers[i].pinned) group.pinned.push_back(static_cast<int>(i));
      use_of(workers[i].node).slots += slots;
    }
    out_.groups.push_back(std::move(group));
  }

  PlacedWorker place(const JobLayout& layout, const Share& share, int stages_here) {
    const JobLayout::Member& member = layout.members[share.node];
    PlacedWorker worker;
    worker.node = node_ids_.at(member.node);
    const Node& node = out_.nodes[worker.node];
    if (stages_here > 1) {
      worker.pinned = true;
      shares_node_.insert(layout.job->id);
    }
    if (node.rack == unplaced_ || facts_.pinned.contains({layout.job->id, member.node})) {
      worker.pinned = true;
    }
    if (whole(worker.node)) {
      if (use_of(worker.node).workers > stages_here) {
        worker.pinned = true;
        shared_whole_.insert(node.name);
      }
      return worker;
    }
    const int held = member.gpus > 0 ? member.gpus : node.gpus;
    worker.slots = std::max(1, stages_here > 1 ? share.ranks : held);
    return worker;
  }

  void report_jobs() {
    const auto ids = [](const auto& names) {
      std::string out;
      size_t count = 0;
      for (const std::string& name : names) {
        if (++count > 10) return out + ", ...";
        out += (count == 1 ? "" : ", ") + name;
      }
      return out;
    };
    const std::string& file = facts_.queue_file;
    if (!shares_node_.empty()) {
      note(file, fmt::format("workers on a node that two groups of their job share do not move: "
                             "jobs {}",
                             ids(shares_node_)));
    }
    if (!uneven_.empty()) {
      note(file, fmt::format("workers smaller than others of their group do not move: jobs {}",
                             ids(uneven_)));
    }
    if (!left_out_.empty()) {
      note(file, fmt::format("jobs without GPUs on nodes that have some are left out: {}",
                             ids(left_out_)));
    }
    if (!shared_whole_.empty()) {
      warning(file, fmt::format("several jobs are on {}, and their shares are not known{}; they do "
                                "not move",
                                listed({shared_whole_.begin(), shared_whole_.end()}),
                                facts_.nodes ? "" : " without --nodes"));
    }
  }

  /// Slots that are free stay as many as in truth, whatever the workers are counted as.
  void finish_slots() {
    std::vector<std::string> overfull;
    for (NodeId id : out_.nodes.keys()) {
      Node& node = out_.nodes[id];
      const Use& use = use_of(id);
      if (whole(id)) {
        node.slots = static_cast<int>(std::max<int64_t>(1, use.slots));
        continue;
      }
      if (use.gpus_held > node.gpus) overfull.push_back(node.name);
      node.slots = static_cast<int>(use.slots + std::max(0, node.gpus - use.gpus_held));
    }
    if (overfull.empty()) return;
    warning(facts_.queue_file,
            fmt::format("jobs hold more GPUs than there are on {}; were the files written at the "
                        "same time?",
                        listed(overfull)));
  }

  /// Nodes that Slurm has given away, though the snapshot shows room on them.
  void hold_nodes() {
    std::vector<std::string> names;
    const auto has_room = [&](NodeId id) { return use_of(id).slots < out_.nodes[id].slots; };
    const auto reserve = [&](NodeId id) {
      if (out_.nodes[id].state != NodeState::kUp || !has_room(id)) return;
      out_.nodes[id].state = NodeState::kReserved;
      names.push_back(out_.nodes[id].name);
    };
    for (const std::string& name : queue_.held) {
      if (const auto found = node_ids_.find(name); found != node_ids_.end()) reserve(found->second);
    }
    for (NodeId id : out_.nodes.keys()) {
      const auto known = slurm_nodes_.find(out_.nodes[id].name);
      if (known != slurm_nodes_.end() && known->second->allocated) reserve(id);
    }
    if (names.empty()) return;
    note(facts_.queue_file,
         fmt::format("nodes that Slurm has given away though running jobs leave them room receive "
                     "nothing: {}",
                     listed(names)));
  }

  /// The rack of unplaced nodes has as many uplinks as it can ever need.
  void bound_unplaced() {
    if (!unplaced_.valid()) return;
    int64_t rings = 0;
    for (const Group& group : out_.groups) {
      const bool inside = std::any_of(group.workers.begin(), group.workers.end(), [&](NodeId node) {
        return out_.nodes[node].rack == unplaced_;
      });
      if (inside) rings += group.rings;
    }
    Rack& rack = out_.racks[unplaced_];
    set_uplinks(rack, static_cast<int>(std::clamp<int64_t>(rings, rack.uplinks, kMaxUplinks)));
  }

  IslandId island_root(IslandId island) {
    while (true) {
      const auto found = island_parent_.find(island);
      if (found == island_parent_.end()) return island;
      island = found->second;
    }
  }

  /// A job that runs in two trees shows that something joins them.
  void unite_islands(const JobLayout& layout) {
    if (out_.islands.size() < 2) return;
    IslandId first;
    for (const JobLayout::Member& member : layout.members) {
      const RackId rack = out_.nodes[node_ids_.at(member.node)].rack;
      if (rack == unplaced_) continue;
      const IslandId island = island_root(out_.racks[rack].island);
      if (!first.valid()) first = island;
      if (island == first) continue;
      island_parent_[std::max(island, first)] = std::min(island, first);
      first = std::min(island, first);
      joined_by_.insert(layout.job->id);
    }
  }

  void join_islands() {
    if (joined_by_.empty()) return;
    warning(facts_.topology_file,
            fmt::format("job {} runs across separate trees: they are taken as joined",
                        *joined_by_.begin()));
    std::set<IslandId> left;
    for (Rack& rack : out_.racks) left.insert(rack.island = island_root(rack.island));
    if (left.size() == 1) out_.islands[*left.begin()] = "";
  }

  const SlurmFacts& facts_;
  Diagnostics& diagnostics_;
  QueueLayout queue_;
  Snapshot out_;
  bool any_gpus_ = false;
  absl::flat_hash_set<std::string> in_use_;  ///< nodes of running jobs
  absl::flat_hash_map<std::string, const SlurmNode*> slurm_nodes_;
  absl::flat_hash_map<std::string, NodeId> node_ids_;
  std::map<std::string, ClassId> classes_;
  std::map<std::string, IslandId> islands_;
  std::map<IslandId, IslandId> island_parent_;
  std::vector<Use> use_;  ///< by node
  RackId unplaced_;
  std::set<std::string> shares_node_, uneven_, shared_whole_, joined_by_;
  std::vector<std::string> left_out_;
};

}  // namespace

std::optional<Snapshot> build_snapshot(const SlurmFacts& facts, Diagnostics& diagnostics) {
  return SnapshotBuilder(facts, diagnostics).run();
}

}  // namespace monkeytree
