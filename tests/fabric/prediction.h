#pragma once

#include <cstdint>
#include <vector>

/// What the simulator says of ring jobs that stand where they stand.
namespace monkeytree {

/// A job of one rank a host whose gradients go round a ring.
struct PredictedJob {
  struct Host {
    int rack = 0, host = 0;
    int spine = -1;  ///< by which it reaches the next one; -1: that is in the same rack
  };
  std::vector<Host> ring;
  int64_t compute_us = 0;
  int64_t piece_bytes = 0;  ///< of each of the 2 (n − 1) messages that a rank sends in an iteration
};

/// Seconds of an iteration of each job while all run at once. All links carry `bytes_per_s`.
std::vector<double> predicted_iterations(const std::vector<PredictedJob>& jobs, int racks,
                                         int hosts, int spines, double bytes_per_s);

}  // namespace monkeytree
