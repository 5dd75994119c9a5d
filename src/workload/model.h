#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "workload/steps.h"

/// The models that jobs train, as measured: what one iteration computes and sends.
namespace monkeytree {

/// Every rank computes.
struct Compute {
  int64_t us = 0;
};

/// A ring over all N ranks in order: one flow i → i+1 of ⌊2(N−1)/N · bytes⌋ each.
struct AllReduce {
  int64_t bytes = 0;
};

/// `stride` rings, i → i + stride mod N, of r = N ÷ stride ranks each: one flow of
/// ⌊2(r−1)/r · bytes⌋ for each rank. The data parallelism of a job with tensor parallelism.
struct StridedRing {
  int64_t bytes = 0;
  int stride = 1;
};

/// N − 1 rounds; in round k, rank i sends ⌊bytes ÷ (N(N−1))⌋ to i + k and receives from i − k.
struct AllToAllRing {
  int64_t bytes = 0;
};

/// `stages` × D replicas × `tensor` positions, rank = stage·T·D + replica·T + position.
/// Microbatches go forward through the stages and back; then, per stage and position, a ring over
/// the replicas of ⌊2(D−1)/D · shard_bytes⌋.
struct Pipeline {
  int stages = 1;
  int tensor = 1;
  int microbatches = 1;
  int64_t forward_us = 0, backward_us = 0;  ///< of one microbatch in one stage
  int64_t activation_bytes = 0;             ///< both ways between neighbouring stages
  int64_t shard_bytes = 0;
};

using Phase = std::variant<Compute, AllReduce, StridedRing, AllToAllRing, Pipeline>;

struct Model {
  std::string name;
  std::vector<int> gpus;      ///< job sizes that occur
  int weight = 0;             ///< share in the default mix; 0: only where named
  bool sharded = false;       ///< weights and optimizer are spread over all ranks (FSDP)
  std::vector<Phase> phases;  ///< of one iteration, repeats written out
};

/// Order of a pipeline's microbatches.
enum class PipelineSchedule : uint8_t { kGpipe, kOneForwardOneBackward };

/// What a move carries of each rank.
enum class StateRule : uint8_t {
  kShard,  ///< weights and optimizer: 14 bytes a parameter
  kPaper,  ///< the rank's sends of one iteration
};

/// Bytes that one rank of a ring of `ranks` sends to all-reduce `bytes`: ⌊2(r−1)/r · bytes⌋.
int64_t ring_bytes(int64_t bytes, int ranks);

/// Empty where a job of so many GPUs can run the model; else why it cannot ("needs a multiple of
/// 16 GPUs"). Everything below expects this to be empty.
std::string misfit(const Model& model, int gpus);

/// A stage of a pipeline sends what it has computed while it receives what it computes next, and
/// goes on when both are over. Computing that follows computing is one step, and a ring of one rank
/// none. O(steps).
RankSteps rank_steps(const Model& model, int gpus, PipelineSchedule schedule);

/// One group per stage where a pipeline is all that the model sends and each stage takes whole
/// nodes, else one for the job. The weight is the number of parallel rings: the stride of a strided
/// ring, T of a stage, 1 of an all-reduce or an all-to-all, 0 where rings have one rank (a stage
/// with D = 1); the largest where a model has several phases.
std::vector<RankGroup> rank_groups(const Model& model, int gpus, int gpus_per_node);

/// Bytes of state that a move carries for one rank. kShard counts the weights by the gradients that
/// are exchanged: B ÷ N of a sharded model's all-reduce, else B, and the shard of a pipeline.
int64_t state_bytes(const Model& model, int gpus, int rank, StateRule rule);

/// Time that one rank computes in an iteration, summed over its steps; the largest over ranks.
int64_t compute_us(const Model& model, int gpus);

}  // namespace monkeytree
