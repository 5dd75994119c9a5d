#pragma once

#include <cstdint>
#include <vector>

/// What the ranks of a job do in one iteration.
namespace monkeytree {

/// One thing that a rank does before it goes on to the next. A flow starts when its sender and its
/// receiver have both reached it; a step is over when its time has passed and its flows have ended.
struct Step {
  int64_t compute_us = 0;  ///< > 0: the rank computes; the rest is unused
  int send_to = -1;        ///< rank, or -1
  int64_t send_bytes = 0;
  int receive_from = -1;  ///< rank, or -1
  friend bool operator==(const Step&, const Step&) = default;
};

/// The steps of every rank, by rank. The k-th send from a to b belongs to the k-th receipt by b
/// from a. All ranks start an iteration together, and it ends when all are done.
using RankSteps = std::vector<std::vector<Step>>;

/// Consecutive ranks that exchange gradients: a group of the cluster's snapshot.
struct RankGroup {
  int first_rank = 0;
  int ranks = 0;
  int rings = 1;  ///< parallel rings: the weight of the group in a degree
};

}  // namespace monkeytree
