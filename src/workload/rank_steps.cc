#include <algorithm>
#include <cassert>
#include <cstddef>
#include <utility>
#include <variant>

#include "workload/model.h"

namespace monkeytree {
namespace {

/// Appends the steps of one phase after another to all ranks.
class StepWriter {
 public:
  StepWriter(int ranks, PipelineSchedule schedule)
      : steps_(static_cast<size_t>(ranks)), ranks_(ranks), schedule_(schedule) {}

  void operator()(const Compute& phase) {
    for (int rank = 0; rank < ranks_; ++rank) compute(rank, phase.us);
  }

  void operator()(const AllReduce& phase) { ring(0, 1, ranks_, 1, phase.bytes); }

  void operator()(const StridedRing& phase) {
    ring(0, phase.stride, ranks_ / phase.stride, phase.stride, phase.bytes);
  }

  void operator()(const AllToAllRing& phase) {
    if (ranks_ < 2) return;
    const int64_t bytes = phase.bytes / (int64_t{ranks_} * (ranks_ - 1));
    for (int rank = 0; rank < ranks_; ++rank) {
      for (int k = 1; k < ranks_; ++k) {
        exchange(rank, (rank + k) % ranks_, bytes, (rank + ranks_ - k) % ranks_);
      }
    }
  }

  void operator()(const Pipeline& phase) {
    const int width = ranks_ / phase.stages;
    for (int rank = 0; rank < ranks_; ++rank) pipeline(phase, rank, width);
    for (int stage = 0; stage < phase.stages; ++stage) {
      ring(stage * width, phase.tensor, width / phase.tensor, phase.tensor, phase.shard_bytes);
    }
  }

  RankSteps take() { return std::move(steps_); }

 private:
  /// Computing that follows computing is one step.
  void compute(int rank, int64_t us) {
    std::vector<Step>& steps = steps_[static_cast<size_t>(rank)];
    if (us == 0) return;
    if (!steps.empty() && steps.back().compute_us > 0) {
      steps.back().compute_us += us;
    } else {
      steps.push_back({.compute_us = us});
    }
  }

  void exchange(int rank, int to, int64_t bytes, int from) {
    steps_[static_cast<size_t>(rank)].push_back(
        {.send_to = to, .send_bytes = bytes, .receive_from = from});
  }
  /// `rings` rings side by side, of `length` ranks that stand `stride` apart.
  void ring(int first, int stride, int length, int rings, int64_t bytes) {
    if (length < 2) return;
    const int64_t hop = ring_bytes(bytes, length);
    for (int position = 0; position < rings; ++position) {
      const auto rank_at = [&](int i) { return first + position + stride * (i % length); };
      for (int i = 0; i < length; ++i) {
        exchange(rank_at(i), rank_at(i + 1), hop, rank_at(i + length - 1));
      }
    }
  }

  /// The order of a stage's forwards (true) and backwards. Under 1F1B a stage runs ahead by the
  /// stages after it, then does one forward and one backward in turn.
  std::vector<bool> order(const Pipeline& phase, int stage) const {
    const int all = phase.microbatches;
    const int ahead =
        schedule_ == PipelineSchedule::kGpipe ? all : std::min(all, phase.stages - 1 - stage);
    std::vector<bool> out(static_cast<size_t>(ahead), true);
    for (int m = ahead; m < all; ++m) {
      out.push_back(true);
      out.push_back(false);
    }
    out.insert(out.end(), static_cast<size_t>(ahead), false);
    return out;
  }

  /// What a stage has computed goes out while what it computes next comes in: one step, so that
  /// neighbours that wait for each other's activations both go on.
  void pipeline(const Pipeline& phase, int rank, int width) {
    const int stage = rank / width;
    const int before = stage == 0 ? -1 : rank - width;
    const int after = stage == phase.stages - 1 ? -1 : rank + width;
    int to = -1;
    for (bool forward : order(phase, stage)) {
      pass(rank, to, phase.activation_bytes, forward ? before : after);
      compute(rank, forward ? phase.forward_us : phase.backward_us);
      to = forward ? after : before;
    }
    pass(rank, to, phase.activation_bytes, -1);
  }

  void pass(int rank, int to, int64_t bytes, int from) {
    if (to >= 0 || from >= 0) exchange(rank, to, to >= 0 ? bytes : 0, from);
  }

  RankSteps steps_;
  int ranks_;
  PipelineSchedule schedule_;
};

}  // namespace

RankSteps rank_steps(const Model& model, int gpus, PipelineSchedule schedule) {
  assert(misfit(model, gpus).empty());
  StepWriter writer(gpus, schedule);
  for (const Phase& phase : model.phases) std::visit(writer, phase);
  return writer.take();
}

}  // namespace monkeytree
