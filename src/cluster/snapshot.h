#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/id.h"

/// The state of a cluster at one moment: racks with their uplinks, nodes with their slots, jobs
/// with their groups, and on which node each worker of a group sits. Everything else reads it,
/// changes it or shows it. The words and the JSON form are in docs/formats.md.
namespace monkeytree {

using RackId = Id<struct RackTag>;
using NodeId = Id<struct NodeTag>;
using JobId = Id<struct JobTag>;
using GroupId = Id<struct GroupTag>;
using ClassId = Id<struct ClassTag>;    ///< a node class; a worker moves only within its class
using IslandId = Id<struct IslandTag>;  ///< a connected part of the fabric that nothing crosses

/// What shares one top-of-rack switch.
struct Rack {
  std::string name;
  int uplinks = 2;          ///< as configured; see bound()
  std::vector<int> spines;  ///< spines reached by working uplinks, ascending; bound() of them
  std::vector<int> failed;  ///< spines whose uplink has failed, ascending
  std::string pod;
  IslandId island{0};
  std::vector<NodeId> nodes;  ///< in file order

  /// λ: the number of usable uplinks.
  int bound() const { return static_cast<int>(spines.size()); }
  friend bool operator==(const Rack&, const Rack&) = default;
};

enum class NodeState : uint8_t { kUp, kDrain, kDown, kReserved };

/// Only an up node receives workers; a worker on any other may stay, its place is not refilled.
struct Node {
  std::string name;
  RackId rack;
  NodeState state = NodeState::kUp;
  ClassId node_class{0};
  int slots = 1;
  int gpus = 0;  ///< 0 where unknown
  friend bool operator==(const Node&, const Node&) = default;
};

/// A replica group: the workers whose ring (or `rings` parallel rings) carries gradients.
struct Group {
  JobId job;
  int rings = 1;                ///< parallel rings: the weight of the group in a degree
  int slots = 1;                ///< slots that each worker takes on its node
  std::vector<NodeId> workers;  ///< node of each worker in logical order
  std::vector<int> pinned;      ///< indices of workers that must not move, ascending, no repeats

  bool is_pinned(int worker) const;
  friend bool operator==(const Group&, const Group&) = default;
};

struct Job {
  std::string id;
  std::string name;
  bool movable = true;      ///< false pins every worker
  int64_t state_bytes = 0;  ///< state of ONE worker
  std::string user, partition, comment;
  std::optional<double> start_s, end_s;
  GroupId first_group;  ///< groups of a job are consecutive
  int group_count = 0;
  friend bool operator==(const Job&, const Job&) = default;
};

struct Snapshot {
  std::string name, cluster;
  std::optional<double> time_s;
  IdVector<RackId, Rack> racks;
  IdVector<NodeId, Node> nodes;
  IdVector<JobId, Job> jobs;
  IdVector<GroupId, Group> groups;
  IdVector<ClassId, std::string> classes;   ///< names; "default" unless the file says otherwise
  IdVector<IslandId, std::string> islands;  ///< names; "" for racks that name none

  /// Index of a group within its job, from 0.
  int group_index(GroupId group) const {
    return group.value - jobs[groups[group].job].first_group.value;
  }
  /// Pinned, or of a job that is not movable.
  bool immovable(GroupId group, int worker) const;
  RackId rack_of(GroupId group, int worker) const {
    return nodes[groups[group].workers[static_cast<size_t>(worker)]].rack;
  }
  /// Replaces the uplinks of every rack (`--uplinks N`): spines 0 … n−1, none failed.
  void set_uplinks(int n);

  friend bool operator==(const Snapshot&, const Snapshot&) = default;
};

/// The most uplinks a rack may have.
inline constexpr int kMaxUplinks = 65536;

/// `name`, with as many "_" behind it as make it no rack's; for a rack that no file knows.
std::string unused_rack_name(const Snapshot& snapshot, std::string name);

std::string_view name_of(NodeState state);  ///< "up", "drain", "down", "reserved"

}  // namespace monkeytree
