#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/snapshots.h"
#include "cluster/snapshot.h"
#include "planning/plan.h"

namespace monkeytree::bench {

/// How many nodes jobs take.
enum class JobMix {
  kCatalogue,  ///< 2, 3, 4, 6 or 8 nodes, as often as in the paper's workload
  kBroad,      ///< nine in ten as above, the others 12 … 64 nodes, larger ones rarer
};

struct ChurnOptions {
  int racks = 16;
  int nodes_per_rack = 8;
  int uplinks = 2;
  bool weighted = false;  ///< half of the jobs have 8 rings; otherwise all have 1
  JobMix mix = JobMix::kCatalogue;
  /// Nodes that jobs ask for, on average at any time, as a share of all nodes; a queue forms.
  double load = 1.0;
  /// The queue is never empty instead: as full as can be, at all times.
  bool full = false;
  /// At most this share of the nodes is ever used.
  double fill = 1.0;
  /// Percentage of jobs that a scheduler without a topology places: on the first free nodes from a
  /// random rack on.
  int scattered = 0;
  uint64_t seed = 1;
};

/// What happened between two states of the cluster.
struct ChurnEvent {
  std::vector<std::string> departed;  ///< job ids, in order of departure
  std::string arrived;
};

/// A cluster under a scheduler that knows nothing of racks' bounds. Jobs arrive at random and wait
/// in one strict queue; the first is placed best-fit as soon as it fits: in the rack with the
/// fewest sufficient free nodes; where there is none, it fills the rack with the most free nodes,
/// then again the one with the most. Each running job is as likely to end next as any other. It
/// starts full.
class Churn {
 public:
  explicit Churn(const ChurnOptions& options);

  const Snapshot& snapshot() const { return snapshot_; }
  int free_nodes() const { return free_total_; }
  /// Some rack is over its bound.
  bool over() const { return racks_over_ > 0; }
  int racks_over() const { return racks_over_; }

  /// Goes on until the next job is placed. O(racks · pieces of the job).
  ChurnEvent arrive();
  /// The only group of a running job, by the job's id; not valid where it does not run. O(jobs).
  GroupId find(std::string_view job) const;
  /// Carries out a plan.
  void apply(std::span<const Round> rounds);

 private:
  struct Waiting {
    int nodes;
    int rings;
  };
  Waiting draw();
  bool fits(const Waiting& job) const { return free_total_ - spare_ >= job.nodes; }
  std::string end_some_job();
  std::vector<NodeId> best_fit(int nodes);
  std::vector<NodeId> scatter(int nodes);
  void take(RackId rack, int nodes, std::vector<NodeId>& out);
  void release(NodeId node);
  void count(GroupId group, int sign);

  ChurnOptions options_;
  Random random_;
  Snapshot snapshot_;
  IdVector<NodeId, char> used_;  ///< 1 where a worker sits
  IdVector<RackId, int> free_;
  IdVector<RackId, int> degrees_;
  int racks_over_ = 0;
  int free_total_ = 0;
  int spare_ = 0;  ///< nodes that stay free because of `fill`
  std::deque<Waiting> queue_;
  bool filling_ = true;     ///< nobody had to wait yet
  int arrival_weight_ = 0;  ///< how likely an arrival is next, where each running job has weight 1
  int64_t placed_ = 0;
};

/// A cluster, always as full as `fill` allows, that nobody repaired until `over` racks were over
/// their bound, or until so many arrivals that waiting longer is hopeless (then fewer are over).
Snapshot neglected_cluster(ChurnOptions options, int over);

}  // namespace monkeytree::bench
