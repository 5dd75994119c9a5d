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
    for (int rank = 0; rank < ranks_; ++rank) {
      const PipelineRank at{phase, rank, rank / width, width};
      if (schedule_ == PipelineSchedule::kGpipe) {
        gpipe(at);
      } else {
        one_forward_one_backward(at);
      }
    }
    for (int stage = 0; stage < phase.stages; ++stage) {
      ring(stage * width, phase.tensor, width / phase.tensor, phase.tensor, phase.shard_bytes);
    }
  }

  RankSteps take() { return std::move(steps_); }

 private:
  /// One rank of a pipeline, with what it does for a microbatch.
  struct PipelineRank {
    const Pipeline& phase;
    int rank, stage, width;

    bool first() const { return stage == 0; }
    bool last() const { return stage == phase.stages - 1; }
    int before() const { return rank - width; }
    int after() const { return rank + width; }
  };

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
  void send(int rank, int to, int64_t bytes) { exchange(rank, to, bytes, -1); }
  void receive(int rank, int from) { exchange(rank, -1, 0, from); }

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

  void forward(const PipelineRank& at) { compute(at.rank, at.phase.forward_us); }
  void backward(const PipelineRank& at) { compute(at.rank, at.phase.backward_us); }

  void gpipe(const PipelineRank& at) {
    const int64_t bytes = at.phase.activation_bytes;
    for (int m = 0; m < at.phase.microbatches; ++m) {
      if (!at.first()) receive(at.rank, at.before());
      forward(at);
      if (!at.last()) send(at.rank, at.after(), bytes);
    }
    for (int m = 0; m < at.phase.microbatches; ++m) {
      if (!at.last()) receive(at.rank, at.after());
      backward(at);
      if (!at.first()) send(at.rank, at.before(), bytes);
    }
  }

  /// A stage runs ahead by the stages after it, then does one forward and one backward in turn.
  /// There the neighbours would both send and wait for each other, so the send to a neighbour and
  /// the receipt from it are one step.
  void one_forward_one_backward(const PipelineRank& at) {
    const int64_t bytes = at.phase.activation_bytes;
    const int ahead = std::min(at.phase.microbatches, at.phase.stages - 1 - at.stage);
    for (int m = 0; m < ahead; ++m) {
      if (!at.first()) receive(at.rank, at.before());
      forward(at);
      send(at.rank, at.after(), bytes);
    }
    const int paired = at.phase.microbatches - ahead;
    if (paired > 0 && !at.first()) receive(at.rank, at.before());
    for (int m = 0; m < paired; ++m) {
      forward(at);
      if (!at.last()) exchange(at.rank, at.after(), bytes, at.after());
      backward(at);
      if (!at.first()) exchange(at.rank, at.before(), bytes, m + 1 < paired ? at.before() : -1);
    }
    for (int m = 0; m < ahead; ++m) {
      receive(at.rank, at.after());
      backward(at);
      if (!at.first()) send(at.rank, at.before(), bytes);
    }
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
