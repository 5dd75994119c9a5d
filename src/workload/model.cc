#include "workload/model.h"

#include <fmt/format.h>

#include <algorithm>
#include <variant>

namespace monkeytree {
namespace {

/// Steps of one iteration over all ranks, at most: half a GiB of them.
constexpr int64_t kMaxSteps = int64_t{1} << 24;

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

/// Ranks that share a stage and a tensor position.
int replicas(const Pipeline& phase, int gpus) { return gpus / (phase.stages * phase.tensor); }

std::string needs_multiple(int64_t of) { return fmt::format("needs a multiple of {} GPUs", of); }

std::string phase_misfit(const Phase& phase, int gpus) {
  return std::visit(Overloaded{[](const Compute&) { return std::string(); },
                               [](const AllReduce&) { return std::string(); },
                               [](const AllToAllRing&) { return std::string(); },
                               [&](const StridedRing& ring) {
                                 return gpus % ring.stride == 0 ? "" : needs_multiple(ring.stride);
                               },
                               [&](const Pipeline& pipeline) {
                                 const int64_t block = int64_t{pipeline.stages} * pipeline.tensor;
                                 return gpus % block == 0 ? "" : needs_multiple(block);
                               }},
                    phase);
}

/// Steps of one rank, at most.
int64_t step_count(const Phase& phase, int gpus) {
  return std::visit(Overloaded{[](const Compute&) { return int64_t{1}; },
                               [](const AllReduce&) { return int64_t{1}; },
                               [](const StridedRing&) { return int64_t{1}; },
                               [&](const AllToAllRing&) { return int64_t{gpus} - 1; },
                               [](const Pipeline& p) { return 6 * int64_t{p.microbatches} + 1; }},
                    phase);
}

/// Gradient rings side by side; 0 where no rank has another to exchange with.
int phase_rings(const Phase& phase, int gpus) {
  return std::visit(
      Overloaded{[](const Compute&) { return 0; },
                 [&](const AllReduce&) { return gpus > 1 ? 1 : 0; },
                 [&](const AllToAllRing&) { return gpus > 1 ? 1 : 0; },
                 [&](const StridedRing& ring) { return gpus > ring.stride ? ring.stride : 0; },
                 [&](const Pipeline& p) { return replicas(p, gpus) > 1 ? p.tensor : 0; }},
      phase);
}

/// Bytes of bf16 weights of one rank whose gradients the phase exchanges.
int64_t weight_bytes(const Phase& phase, int gpus, bool sharded) {
  return std::visit(
      Overloaded{[](const Compute&) { return int64_t{0}; },
                 [](const AllToAllRing&) { return int64_t{0}; },
                 [&](const AllReduce& ring) { return sharded ? ring.bytes / gpus : ring.bytes; },
                 [](const StridedRing& ring) { return ring.bytes; },
                 [](const Pipeline& p) { return p.shard_bytes; }},
      phase);
}

int64_t pipeline_sent(const Pipeline& p, int gpus, int rank) {
  const int stage = rank / (gpus / p.stages);
  const int neighbours = (stage > 0 ? 1 : 0) + (stage < p.stages - 1 ? 1 : 0);
  return neighbours * p.microbatches * p.activation_bytes +
         ring_bytes(p.shard_bytes, replicas(p, gpus));
}

int64_t sent_bytes(const Phase& phase, int gpus, int rank) {
  return std::visit(
      Overloaded{
          [](const Compute&) { return int64_t{0}; },
          [&](const AllReduce& ring) { return ring_bytes(ring.bytes, gpus); },
          [&](const StridedRing& ring) { return ring_bytes(ring.bytes, gpus / ring.stride); },
          [&](const AllToAllRing& all) {
            return gpus < 2 ? 0 : (gpus - 1) * (all.bytes / (int64_t{gpus} * (gpus - 1)));
          },
          [&](const Pipeline& p) { return pipeline_sent(p, gpus, rank); }},
      phase);
}

/// The pipeline, where it is all that the model sends; else null.
const Pipeline* only_pipeline(const Model& model) {
  const Pipeline* found = nullptr;
  for (const Phase& phase : model.phases) {
    if (std::holds_alternative<Compute>(phase)) continue;
    const auto* pipeline = std::get_if<Pipeline>(&phase);
    if (pipeline == nullptr || found != nullptr) return nullptr;
    found = pipeline;
  }
  return found;
}

}  // namespace

int64_t ring_bytes(int64_t bytes, int ranks) {
  // ⌊2(r−1)/r · B⌋ without a product that could overflow.
  return ranks < 2 ? 0 : 2 * bytes - (2 * bytes + ranks - 1) / ranks;
}

std::string misfit(const Model& model, int gpus) {
  if (gpus < 1) return "needs at least 1 GPU";
  int64_t steps = 0;
  for (const Phase& phase : model.phases) {
    std::string reason = phase_misfit(phase, gpus);
    if (!reason.empty()) return reason;
    steps += step_count(phase, gpus);
  }
  if (steps > kMaxSteps / gpus) {
    return fmt::format("takes {} steps an iteration on each of {} GPUs, more than {} in all", steps,
                       gpus, kMaxSteps);
  }
  return "";
}

std::vector<RankGroup> rank_groups(const Model& model, int gpus, int gpus_per_node) {
  int rings = 0;
  for (const Phase& phase : model.phases) rings = std::max(rings, phase_rings(phase, gpus));
  const Pipeline* pipeline = only_pipeline(model);
  const int stages = pipeline == nullptr ? 1 : pipeline->stages;
  const int width = gpus / stages;
  if (width % gpus_per_node != 0) return {{0, gpus, rings}};
  std::vector<RankGroup> groups;
  for (int stage = 0; stage < stages; ++stage) groups.push_back({stage * width, width, rings});
  return groups;
}

int64_t state_bytes(const Model& model, int gpus, int rank, StateRule rule) {
  int64_t sum = 0;
  for (const Phase& phase : model.phases) {
    sum += rule == StateRule::kPaper ? sent_bytes(phase, gpus, rank)
                                     : weight_bytes(phase, gpus, model.sharded);
  }
  // Weights take 2 of the 14 bytes a parameter.
  return rule == StateRule::kPaper ? sum : 7 * sum;
}

int64_t compute_us(const Model& model, int) {
  int64_t sum = 0;
  for (const Phase& phase : model.phases) {
    if (const auto* compute = std::get_if<Compute>(&phase)) sum += compute->us;
    if (const auto* p = std::get_if<Pipeline>(&phase)) {
      sum += p->microbatches * (p->forward_us + p->backward_us);
    }
  }
  return sum;
}

}  // namespace monkeytree
