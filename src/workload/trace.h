#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/diagnostics.h"
#include "workload/catalogue.h"

namespace monkeytree {

/// A job as it arrives. Whole nodes are taken.
struct TraceJob {
  int64_t submit_us = 0;
  std::string model;
  int gpus = 0;
  int64_t iterations = 0;
  friend bool operator==(const TraceJob&, const TraceJob&) = default;
};

/// Ascending by submit time.
using Trace = std::vector<TraceJob>;

/// Reads `submit_us,model,gpus,iterations` with its header. Errors, each with its line: an unknown
/// model, a size that the model cannot have, iterations below 1, a job that was submitted before
/// the row above it. `max_gpus`: a job larger than the cluster is an error too.
std::optional<Trace> parse_trace(std::string_view text, std::string_view file,
                                 const Catalogue& catalogue, int64_t max_gpus,
                                 Diagnostics& diagnostics);

std::string trace_csv(const Trace& trace);

}  // namespace monkeytree
