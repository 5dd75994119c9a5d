#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <string>

#include "cluster/worker_name.h"
#include "state/arena.h"

namespace monkeytree {

/// The state of a stand-in worker: every byte is a function of the worker's name, the iteration
/// and what the ring has summed so far, so that a wrong, torn or stale byte is noticed; in the
/// buffer model/shared of the job's name in place of the worker's, so that it is equal at all
/// workers.
class TrainingState {
 public:
  /// `bytes` of state, besides a few words; as of iteration 0.
  static absl::StatusOr<TrainingState> create(WorkerName name, int64_t bytes);

  Arena& arena() { return arena_; }
  int64_t iteration() const;
  uint64_t sum() const;  ///< of all iterations so far: equal at all workers of a ring

  /// What the worker gives to the ring in the next iteration.
  uint64_t contribution() const;
  /// One iteration has been done: all bytes change.
  void step(uint64_t ring_sum);

  /// DataLoss says which byte is not what it must be.
  absl::Status check() const;

 private:
  explicit TrainingState(WorkerName name, Arena arena)
      : name_(std::move(name)), arena_(std::move(arena)) {}
  void fill();
  uint64_t word(uint64_t index) const;
  uint64_t first_word(size_t buffer) const;

  WorkerName name_;
  Arena arena_;
};

/// 64 bits that depend on every byte; never 0.
uint64_t hash_text(const std::string& text);

}  // namespace monkeytree
