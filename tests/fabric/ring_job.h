#pragma once

#include <absl/status/statusor.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "fabric.h"
#include "routing/packet_header.h"

namespace monkeytree {

/// Stands in for a data-parallel training job: in each iteration every worker computes, which is a
/// wait, then sends to the next worker of its ring what a ring all-reduce would send, while it
/// receives as much from the one before.
class RingJob {
 public:
  struct Place {
    int rack = 0, host = 0;
  };
  struct Load {
    size_t bytes = 0;  ///< from each worker to the next in an iteration
    std::chrono::milliseconds compute{0};
  };
  /// The source port for the connection from the worker at that position of the ring to the next;
  /// 0: any.
  using Ports = std::function<uint16_t(size_t position, const PacketHeader& flow)>;

  /// Connects the workers, which stand in ring order at `places`.
  static absl::StatusOr<std::unique_ptr<RingJob>> connect(const Fabric& fabric,
                                                          const std::vector<Place>& places,
                                                          const Load& load, const Ports& ports);

  /// Runs until `stop`; the seconds of each iteration as the first worker saw it.
  std::vector<double> run(const std::atomic<bool>& stop);
  /// Iterations that the first worker has done, for other threads.
  int done() const { return done_; }

 private:
  struct Worker {
    Fd to_next, from_before;
  };
  explicit RingJob(const Load& load) : load_(load) {}
  bool exchange(const Worker& worker);

  Load load_;
  std::vector<Worker> workers_;
  std::atomic<int> done_{0};
};

/// Runs jobs at once until each has done `iterations`, and gives the median of each, the first two
/// iterations aside.
std::vector<double> median_iterations(std::vector<std::unique_ptr<RingJob>>& jobs, int iterations);

}  // namespace monkeytree
