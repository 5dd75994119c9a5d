#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "base/random.h"
#include "cluster/snapshot.h"

/// Where an arriving job goes: the front-end scheduler's choice among the free nodes.
namespace monkeytree {

enum class PlacementRule : uint8_t {
  kBestFit,   ///< the rack with the fewest free nodes among those with enough; else see FillRule
  kFirstFit,  ///< the free nodes of lowest index
  kRandom,    ///< any free nodes
};

/// How best-fit spreads a job that no rack has room for.
enum class FillRule : uint8_t {
  kPaper,      ///< the rack with the most free nodes, then again the one with the most
  kRemainder,  ///< the same, until a rack has room for the rest; the rest goes where it fits best
};

/// The nodes of a cluster and which of them are free: neither taken by a job nor held, that is,
/// promised to a move. The two are apart, since a node may be promised while a job still sits
/// there. Of racks that are equal for a rule, the lowest index wins; of a rack's free nodes too.
class FreeNodes {
 public:
  /// Nodes in index order, `nodes_per_rack` in each of `racks` racks.
  FreeNodes(int racks, int nodes_per_rack);
  /// The rack of each node.
  explicit FreeNodes(IdVector<NodeId, RackId> rack_of);

  int node_count() const { return static_cast<int>(nodes_.size()); }
  int rack_count() const { return static_cast<int>(free_in_.size()); }
  int free_count() const { return static_cast<int>(free_.size()); }
  int free_in(RackId rack) const { return static_cast<int>(free_in_[rack].size()); }
  RackId rack_of(NodeId node) const { return nodes_[node].rack; }
  bool is_taken(NodeId node) const { return nodes_[node].taken; }
  bool is_held(NodeId node) const { return nodes_[node].held; }
  bool is_free(NodeId node) const { return !is_taken(node) && !is_held(node); }

  /// A job comes to a node that no job has (a free one, or one held for it), or leaves one that it
  /// has. O(log nodes).
  void take(NodeId node);
  void give(NodeId node);
  /// Promises a node that is not promised, or takes the promise back. O(log nodes).
  void hold(NodeId node);
  void release(NodeId node);

  /// Free nodes for a job, ascending; nullopt where fewer than `wanted` (≥ 1) are free. Changes
  /// nothing. `random` serves kRandom, which needs it.
  /// Best-fit O(wanted + nodes of the largest rack), first-fit O(wanted), random O(free nodes).
  std::optional<std::vector<NodeId>> place(int wanted, PlacementRule rule,
                                           FillRule fill = FillRule::kPaper,
                                           RandomSequence* random = nullptr) const;

 private:
  struct Node {
    RackId rack;
    bool taken = false, held = false;
  };

  /// Brings the indexes below up to date with one node's state, `was_free` before.
  void update(NodeId node, bool was_free);
  std::vector<NodeId> best_fit(int wanted, FillRule fill) const;

  IdVector<NodeId, Node> nodes_;
  std::set<NodeId> free_;
  IdVector<RackId, std::set<NodeId>> free_in_;
  std::vector<std::set<RackId>> racks_with_;  ///< by number of free nodes
};

}  // namespace monkeytree
