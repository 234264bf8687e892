// What training keeps in a GPU's memory, by what it is for.
#pragma once

#include <cstdint>

#include "models/sharding.hpp"
#include "models/units.hpp"
#include "models/workload.hpp"

namespace foreduce {

/// What backward computes again instead of keeping it.
enum class Recompute : std::uint8_t {
  none,       ///< nothing
  selective,  ///< what stands between matrix products, and every second product (torchtitan's
              ///< selective activation checkpointing by operation)
  full        ///< each block from its input
};
template <>
struct EnumWords<Recompute> {
  static constexpr EnumWord<Recompute> all[] = {
      {Recompute::none, "none"}, {Recompute::selective, "selective"}, {Recompute::full, "full"}};
};

/// What part of forward is computed a second time: all of it, or every second matrix product.
double recomputed_share(Recompute how);

/// How a program that is not compiled computes in 16 bits.
enum class MixedPrecision : std::uint8_t {
  autocast,  ///< weights and what blocks hand on stay in fp32 (torch.autocast, as with DDP)
  model      ///< the model itself is in 16 bits, as FSDP and DeepSpeed have it
};

/// What forward must keep of a micro-batch for backward, at least. Each matrix product and
/// convolution keeps its output and what follows it: 4 bytes an element in 16 bits, 8 in 32. For a
/// transformer these are 36 bytes a token, layer and hidden unit; Korthikanti et al. (Reducing
/// Activation Recomputation, MLSys 2023, section 4.1) count 34. Recomputed selectively, each block
/// keeps half of its products' outputs without what follows, its input and attention's output;
/// fully, its input alone; the block that is being computed again is there whole, and so is what
/// belongs to no block. In FP8 Transformer Engine keeps layers' inputs in one byte, without
/// recomputation (models/training.yaml, fp8_kept). In Hugging Face's program norms of several
/// kernels keep more (transformers there), by `mixed`. Scores of attention come on top where the
/// workload keeps them. 0 where the tensors do not tell, as for `blocks`.
Bytes activations(const Workload& workload, const std::string& sample, Precision precision,
                  int batch, Recompute how, MixedPrecision mixed = MixedPrecision::model);

/// Elements that layers put out for a micro-batch; 0 where the tensors do not tell.
struct LayerOutputs {
  double all = 0;
  double root = 0;       ///< of layers that belong to no block: of a language model the logits
  double of_blocks = 0;  ///< of each block's last layer: what blocks hand on
};
LayerOutputs layer_outputs(const Workload& workload, const std::string& sample, int batch);

/// Whether its last layer chooses among a vocabulary for each token: what `fused_loss` is about.
bool has_loss_over_vocabulary(const Workload& workload);
/// Whether its last layer chooses among a vocabulary, as a language model's does.
bool is_language_model(const Workload& workload);

/// What the loss of a language model needs beside its kept output: the logarithms of its
/// probabilities and their gradients, 4 bytes each whatever the precision (torch.nn.functional's
/// cross_entropy computes in fp32). 0 where the last layer is no output over a vocabulary.
Bytes loss_working_space(const Workload& workload, const std::string& sample, int batch);

/// Hidden units of the workload's layers; of one that is described by its parameters and blocks
/// alone, those of a transformer of that size.
double model_width(const Workload& workload);

/// Elements that a block hands to the next, of a micro-batch; 0 where no tensor names a block.
double block_output(const Workload& workload, const std::string& sample, int batch);

/// Elements of a block's keys and values together, of a micro-batch: in the mean of all blocks,
/// what its matrices for them put out, as Hugging Face's models, nanoGPT and torchvision name
/// these. Where none is named so, keys and values are each as wide as what a block hands to the
/// next. `tensor`: of one of so many GPUs that share each matrix. A head of keys is not divided: of
/// fewer heads than GPUs each is on several (Megatron-LM). Where nothing says how many there are,
/// and keys are narrower than the model, heads are taken for 128 wide.
double keys_and_values(const Workload& workload, const std::string& sample, int batch,
                       int tensor = 1);

/// Whether layers work on images of several sizes, as convolutions do that shrink them: a
/// transformer's blocks are all of as many positions.
bool shrinks_images(const Workload& workload);

/// One GPU's memory at its fullest, which is at the end of the last forward pass.
struct MemoryBy {
  Bytes parameters;   ///< that stay: all, or the GPU's shard
  Bytes gradients;    ///< that stay; of a GPU alone, by how much they exceed what forward keeps
  Bytes optimizer;    ///< its states, with the fp32 weights of mixed precision where those are its
  Bytes gathered;     ///< units whose parameters are there whole, and the gradients of one
  Bytes activations;  ///< at least; 0: unknown
  Bytes buckets;      ///< of DDP's, what comes on top of the peak that all else has
  Bytes working;      ///< of the loss

  Bytes state() const { return parameters + gradients + optimizer; }
  Bytes peak() const { return state() + gathered + buckets + activations + working; }
};

/// What a GPU trains, and how.
struct MemoryQuestion {
  const Workload* workload = nullptr;
  std::string sample;
  Precision precision = Precision::fp16, gradient = Precision::fp16;  ///< gradients': on the wire
  int batch = 1, accumulation = 1;
  Recompute recompute = Recompute::none;
  double recomputed_blocks = 1;        ///< which part of the blocks is; the others keep all
  std::optional<Bytes> per_parameter;  ///< that is kept, its gradient and optimizer's states
                                       ///< included; null: as much as Adam needs
  ShardingPlan sharding;
  /// Whether gradients are copied into buckets of their own before they travel: PyTorch's DDP
  /// among several GPUs, unless gradient_as_bucket_view makes gradients views of the buckets.
  bool bucket_copies = false;
  /// Whether no other GPU has a copy or a part of what it has: its gradients are then freed before
  /// forward (zero_grad's set_to_none), and stand in no buffer of DDP's, ZeRO's or FSDP's.
  bool alone = false;

  bool operator==(const MemoryQuestion&) const = default;
};

/// Of how many micro-batches a pipeline's stage, counted from 0, holds the activations: as many as
/// there are stages from it on (1F1B, Narayanan et al., SC21, section 2.2). Of stages in parts, the
/// parts that begin before the first one's backward, as Megatron-LM schedules them
/// (core/pipeline_parallel/schedules.py, num_warmup_microbatches), and one more.
double micro_batches_kept(const ShardingPlan& plan, int stage);

/// The memory of a GPU. Mixed precision keeps 2 + 2 bytes of a parameter and its gradient and 12 of
/// the optimizer (ZeRO, SC20, section 3.1), and Megatron 4 of a gradient that it sums in fp32;
/// zero1 shards the 12, zero2 the gradient too, zero3 all 16, which FSDP has as 4 + 4 + 8, with
/// weights and gradients in fp32 (torch FSDP2, MixedPrecisionPolicy) and gathered units in 16 bits.
/// Gathered are the root, the unit that is computed, and those that are prefetched; all, where
/// nothing is resharded after forward. A tensor-parallel GPU has its part of everything but the
/// inputs of blocks and 10 of the 34 bytes of the others' activations, which it has whole unless
/// the sequence is divided (Korthikanti et al., MLSys 2023, table 2); of a pipeline's stages see
/// micro_batches_kept(). A GPU that shares sequences has its part of all activations, and one
/// block's keys and values whole.
MemoryBy memory_of(const MemoryQuestion& question);

}  // namespace foreduce
