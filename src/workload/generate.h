#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "workload/catalogue.h"
#include "workload/trace.h"

namespace monkeytree {

struct GenerateOptions {
  double load = 0.9;  ///< of the cluster's GPU time
  int jobs = 2000;
  int64_t min_iterations = 100, max_iterations = 1000;  ///< drawn evenly, both included
  int64_t cluster_gpus = 1024;
  uint64_t seed = 1;
  /// Models and their weights; empty is the catalogue's own weights.
  std::vector<std::pair<std::string, int>> mix;
};

/// Run time of one iteration of a job alone on an idle fabric, µs.
using IterationTime = std::function<int64_t(const Model& model, int gpus)>;

/// A Poisson process at the rate load × GPUs ÷ mean(GPU·µs of a job), the mean taken over the mix;
/// models by weight, sizes evenly among the model's. The first job arrives at 0. The same seed
/// gives the same trace on every machine. Sizes above the cluster are not drawn.
Trace generate_trace(const Catalogue& catalogue, const GenerateOptions& options,
                     const IterationTime& iteration_us);

}  // namespace monkeytree
