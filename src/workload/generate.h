#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
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

/// Empty where generate_trace() can draw from these options; else what is wrong with them: a load
/// that is not above 0, a mix that names an unknown model, no model that fits the cluster.
std::string generate_fault(const Catalogue& catalogue, const GenerateOptions& options);

/// A Poisson process at the rate load × GPUs ÷ mean(GPU·µs of a job), the mean taken over the mix;
/// models by weight, sizes evenly among the model's. The first job arrives at 0. The same seed
/// gives the same trace on every machine. Sizes above the cluster are not drawn, nor models without
/// another. Expects generate_fault() to be empty. Calls `iteration_us` once for each model and
/// size.
Trace generate_trace(const Catalogue& catalogue, const GenerateOptions& options,
                     const IterationTime& iteration_us);

}  // namespace monkeytree
