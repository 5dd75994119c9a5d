#pragma once

#include <optional>
#include <vector>

#include "base/random.h"
#include "network/leaf_spine.h"
#include "planning/planner.h"
#include "scheduling/placement.h"
#include "workload/catalogue.h"

namespace monkeytree {

/// A cluster whose jobs come and go, without time: for questions about placements alone. Jobs are
/// drawn from the standard catalogue by weight.
class Churn {
 public:
  /// λ is the fabric's spines.
  Churn(const FabricShape& fabric, PlacementRule rule, uint64_t seed);

  /// Starts jobs until `share` of the nodes is taken; the job that does not fit any more ends it.
  void fill_to(double share);
  /// A job drawn at random ends, and others start until `share` is taken again. O(jobs started).
  void step(double share);
  /// Seats all workers anew by Theorem 1's construction.
  void repack();

  Planner& planner() { return *planner_; }
  int highest_degree() const;
  size_t jobs() const { return jobs_.size(); }
  /// After moves of the planner's workers: which nodes are taken now.
  void refresh();

 private:
  bool start_job();

  FabricShape fabric_;
  PlacementRule rule_;
  RandomSequence random_;
  std::optional<Planner> planner_;  ///< never empty
  FreeNodes free_;
  std::vector<JobId> jobs_;
  int total_weight_ = 0;
};

}  // namespace monkeytree
