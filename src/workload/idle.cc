#include "workload/idle.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <variant>
#include <vector>

namespace monkeytree {
namespace {

int64_t flow_us(int64_t bytes, double bytes_per_us) {
  return static_cast<int64_t>(std::ceil(static_cast<double>(bytes) / bytes_per_us));
}

/// Ranks meet their partners in any order: when a flow starts depends only on when its two ends
/// reached it.
class Rendezvous {
 public:
  Rendezvous(const RankSteps& steps, double bytes_per_us, int gpus_per_node, bool nvlink)
      : steps_(steps),
        bytes_per_us_(bytes_per_us),
        gpus_per_node_(gpus_per_node),
        nvlink_(nvlink),
        at_(steps.size()) {}

  int64_t run() {
    for (int rank = 0; rank < static_cast<int>(steps_.size()); ++rank) ready_.push_back(rank);
    while (!ready_.empty()) {
      const int rank = ready_.back();
      ready_.pop_back();
      walk(rank);
    }
    int64_t end = 0;
    for (size_t rank = 0; rank < steps_.size(); ++rank) {
      if (at_[rank].step < steps_[rank].size()) return -1;
      end = std::max(end, at_[rank].since);
    }
    return end;
  }

 private:
  struct Position {
    size_t step = 0;
    int64_t since = 0;                      ///< when the rank reached the step
    std::optional<int64_t> sent, received;  ///< ends of the step's flows, as far as they are known
  };

  Position& at(int rank) { return at_[static_cast<size_t>(rank)]; }
  const Step* current(int rank) {
    const std::vector<Step>& steps = steps_[static_cast<size_t>(rank)];
    return at(rank).step < steps.size() ? &steps[at(rank).step] : nullptr;
  }

  int64_t duration(int from, int to, int64_t bytes) const {
    if (nvlink_ && from / gpus_per_node_ == to / gpus_per_node_) return 0;
    return flow_us(bytes, bytes_per_us_);
  }

  /// Fixes the end of the flow between two ranks where both have reached it, and wakes both.
  void meet(int from, int to) {
    const Step* sender = current(from);
    const Step* receiver = current(to);
    if (sender == nullptr || receiver == nullptr) return;
    if (sender->compute_us > 0 || receiver->compute_us > 0) return;
    if (sender->send_to != to || receiver->receive_from != from) return;
    if (at(from).sent || at(to).received) return;
    const int64_t start = std::max(at(from).since, at(to).since);
    const int64_t end = start + duration(from, to, sender->send_bytes);
    at(from).sent = end;
    at(to).received = end;
    ready_.push_back(from);
    ready_.push_back(to);
  }

  /// Ends the current step of a rank if all of it is known.
  bool finish(int rank) {
    const Step* step = current(rank);
    Position& here = at(rank);
    int64_t end = here.since;
    if (step->compute_us > 0) {
      end += step->compute_us;
    } else {
      if (step->send_to >= 0) {
        if (!here.sent) return false;
        end = std::max(end, *here.sent);
      }
      if (step->receive_from >= 0) {
        if (!here.received) return false;
        end = std::max(end, *here.received);
      }
    }
    here = {here.step + 1, end, std::nullopt, std::nullopt};
    return true;
  }

  void walk(int rank) {
    while (const Step* step = current(rank)) {
      if (step->compute_us == 0) {
        if (step->send_to >= 0) meet(rank, step->send_to);
        if (step->receive_from >= 0) meet(step->receive_from, rank);
      }
      if (!finish(rank)) return;
    }
  }

  const RankSteps& steps_;
  double bytes_per_us_;
  int gpus_per_node_;
  bool nvlink_;
  std::vector<Position> at_;
  std::vector<int> ready_;
};

/// Of one rank, but for activations.
int64_t transfer_us(const Phase& phase, int gpus, double bytes_per_us) {
  if (const auto* ring = std::get_if<AllReduce>(&phase)) {
    return flow_us(ring_bytes(ring->bytes, gpus), bytes_per_us);
  }
  if (const auto* rings = std::get_if<StridedRing>(&phase)) {
    return flow_us(ring_bytes(rings->bytes, gpus / rings->stride), bytes_per_us);
  }
  if (const auto* all = std::get_if<AllToAllRing>(&phase)) {
    const int64_t pairs = int64_t{gpus} * (gpus - 1);
    return pairs == 0 ? 0 : (gpus - 1) * flow_us(all->bytes / pairs, bytes_per_us);
  }
  if (const auto* pipeline = std::get_if<Pipeline>(&phase)) {
    const int replicas = gpus / (pipeline->stages * pipeline->tensor);
    return flow_us(ring_bytes(pipeline->shard_bytes, replicas), bytes_per_us);
  }
  return 0;
}

}  // namespace

int64_t idle_iteration_us(const RankSteps& steps, double bytes_per_us, int gpus_per_node,
                          bool nvlink) {
  return Rendezvous(steps, bytes_per_us, gpus_per_node, nvlink).run();
}

int64_t no_bubble_iteration_us(const Model& model, int gpus, double bytes_per_us) {
  int64_t sum = compute_us(model, gpus);
  for (const Phase& phase : model.phases) sum += transfer_us(phase, gpus, bytes_per_us);
  return sum;
}

}  // namespace monkeytree
