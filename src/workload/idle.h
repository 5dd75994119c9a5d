#pragma once

#include <cstdint>

#include "workload/model.h"
#include "workload/steps.h"

namespace monkeytree {

/// Time of one iteration on a network where every flow runs at its NIC's full rate: the ideal of a
/// job alone. Exact there, since a rank sends and receives at most one flow at a time. A flow takes
/// ⌈bytes ÷ bytes_per_us⌉; with `nvlink` none between ranks of one node, `gpus_per_node` in a row.
/// -1 where the steps wait for each other for ever, which those of a model do not. O(steps).
int64_t idle_iteration_us(const RankSteps& steps, double bytes_per_us, int gpus_per_node,
                          bool nvlink);

/// The same for a model, its pipeline without the bubble: all that a rank computes, then all that
/// it sends but activations, one after another. Models without a pipeline take their ideal time.
/// What the paper's authors divide by (`mean: no-bubble`). All flows leave the node.
int64_t no_bubble_iteration_us(const Model& model, int gpus, double bytes_per_us);

}  // namespace monkeytree
