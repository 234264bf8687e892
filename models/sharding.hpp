// Which GPUs share the model's state, and how: ZeRO's stages, hybrid groups, tensor, context,
// pipeline and expert parallelism.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "input/words.hpp"
#include "models/units.hpp"

namespace foreduce {

/// What is divided among the GPUs of a group (Rajbhandari et al., ZeRO, SC20, section 5).
enum class Sharding : std::uint8_t {
  none,   ///< nothing: DDP
  zero1,  ///< the optimizer's states
  zero2,  ///< and gradients
  zero3   ///< and parameters: FSDP
};

/// "none", "zero1", "zero2" or "zero3".
const char* name_of(Sharding sharding);
/// What a scenario says: the names above, and ddp, fsdp and full. Throws InputError.
Sharding sharding_named(const std::string& name);
/// All words that sharding_named takes.
const std::vector<std::string>& sharding_words();

/// Whether a unit's parameters are given back between forward and backward
/// (reshard_after_forward).
enum class Reshard : std::uint8_t { after_forward, after_backward };

/// What zero3 gathers of a block: its parameters as they are kept, or the FP8 that its products
/// take (torchao's enable_fsdp_float8_all_gather). What belongs to no block is gathered as it is
/// kept.
enum class Gathered : std::uint8_t { as_kept, fp8 };

/// Whether a sharding group's all-gathers and reduce-scatters use one communicator, which runs one
/// after the other in the order in which they are posted (PyTorch's FSDP2, DeepSpeed), or one each
/// (FSDP2's set_separate_reduce_scatter_group of 2026, Megatron-LM's --create-all-gather-group).
/// Source: pytorch/pytorch#186335.
enum class Communicators : std::uint8_t { shared, separate };
template <>
struct EnumWords<Communicators> {
  static constexpr EnumWord<Communicators> all[] = {{Communicators::shared, "shared"},
                                                    {Communicators::separate, "separate"}};
};

/// Whether tensor-parallel GPUs divide the activations between their matrices along the sequence
/// too, by a reduce-scatter and an all-gather in place of each all-reduce (Korthikanti et al.,
/// MLSys 2023, section 4.2).
enum class Sequence : std::uint8_t { whole, divided };

/// How GPUs that share sequences come to all keys and values: by an all-gather before attention
/// (Llama 3, arXiv 2407.21783, section 3.3.2; torchtitan's default), or part by part around a ring
/// while attention computes with the parts before (Megatron-LM's default, cp_comm_type p2p; Ring
/// Attention, arXiv 2310.01889).
enum class ContextCommunication : std::uint8_t { all_gather, ring };
template <>
struct EnumWords<ContextCommunication> {
  static constexpr EnumWord<ContextCommunication> all[] = {
      {ContextCommunication::all_gather, "all_gather"}, {ContextCommunication::ring, "ring"}};
};

/// Which micro-batches of a step communicate their gradients.
enum class Synchronised : std::uint8_t { every_micro_batch, last_micro_batch };

/// How a model's state is spread over the GPUs of a cluster.
struct ShardingPlan {
  Sharding sharding = Sharding::none;
  int shard_ranks = 1;  ///< GPUs that share a state, among all that have the same part of the model
  int replicas = 1;     ///< groups of such GPUs, between which gradients are all-reduced
  int tensor = 1;       ///< GPUs that share each matrix
  int context = 1;      ///< GPUs that share each sequence, as neighbours behind those of a matrix
  Sequence sequence = Sequence::whole;
  ContextCommunication context_communication = ContextCommunication::all_gather;
  int stages = 1;  ///< of the pipeline
  int parts = 1;   ///< into which each stage is cut, so that its GPUs take turns (interleaved 1F1B)
  int expert = 1;  ///< data-parallel GPUs that share a block's experts, as neighbours
  int expert_span = 1;  ///< of these, how many are one tensor-parallel group: all, where `expert`
                        ///< is too many for the data-parallel GPUs alone and experts' matrices are
                        ///< not divided (Megatron-LM's expert_tensor_parallel_size 1)
  UnitRule units;
  int prefetch = 1;  ///< units that are gathered before they are needed
  Reshard reshard = Reshard::after_forward;
  Gathered gathered = Gathered::as_kept;
  Communicators communicators = Communicators::shared;
  Synchronised synchronised = Synchronised::last_micro_batch;

  /// Copies of the model that see different samples.
  int data_parallel() const { return shard_ranks * replicas / context; }
  /// GPUs among which each micro-batch is computed.
  int model_gpus() const { return tensor * context * stages; }
  /// Without anything to share, sharding is DDP.
  bool is_ddp() const { return sharding == Sharding::none && model_gpus() == 1 && expert == 1; }
  /// GPUs among which the state of an expert is divided: the sharding group's, which its experts
  /// are divided among first.
  int expert_shards() const { return std::max(1, shard_ranks * expert_span / expert); }
  /// GPUs that have a part each of all of a block's experts.
  int expert_parts() const { return tensor / expert_span * expert; }

  bool operator==(const ShardingPlan&) const = default;
};

/// How `gpus` are divided. `hybrid`: the size of a sharding group, 0 for all. A group of one shares
/// nothing, and is Sharding::none. GPUs that share experts are of one sharding group, if there are
/// any; of more than there are data-parallel, tensor-parallel ones are among them (Megatron-LM's
/// parallel folding, arXiv 2504.14960). GPUs that share sequences have the same parameters, so
/// sharding groups span them (Megatron-LM's data-parallel group with context parallelism,
/// torchtitan's mesh dp_shard_cp). Throws InputError where the numbers do not divide.
ShardingPlan divide(int gpus, Sharding sharding, int hybrid, int tensor, int stages, int expert = 1,
                    int context = 1);

}  // namespace foreduce
