// What a scenario may say of its workload; see scenarios/sweep/scenario.cpp for the rest.
#pragma once

#include <algorithm>
#include <string_view>

#include "input/holds.hpp"
#include "models/sharding.hpp"
#include "models/workload.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "scenarios/sweep/strategies.hpp"
#include "topologies/machine.hpp"
#include "topologies/other_names.hpp"

namespace foreduce {

inline const std::vector<std::string>& instance_names() {
  static const std::vector<std::string> names = machine_names();
  return names;
}
/// A machine that ships, or a file of one.
inline OneOf instance_choice() {
  return {"instance", instance_names(), true, OneOf::Or::nothing, other_names()};
}
inline const std::vector<std::string>& workload_names() {
  static const std::vector<std::string> names = Workloads().names();
  return names;
}
inline const OneOf kPrecision = [] {
  OneOf precisions = one_of<Precision>("precision");
  precisions.others = {{"bfloat16", "did you mean 'bf16'?"},
                       {"float16", "did you mean 'fp16'?"},
                       {"half", "did you mean 'fp16'?"},
                       {"float32", "did you mean 'fp32'? or 'tf32', see foreduce docs scenario"},
                       {"float8", "did you mean 'fp8'?"}};
  return precisions;
}();
inline const OneOf kGradient{
    "precision", {"fp16", "bf16", "fp32"}, false, OneOf::Or::nothing, kPrecision.others};

template <class Fields>
void describe(Fields& f, UserRate& m) {
  f.required("instance", m.instance, "A machine of foreduce list instances, or ./file.yaml.",
             instance_choice());
  f.optional("precision", m.precision, "Only at this precision. Default: at any.", kPrecision);
  f.optional("batch", m.batch, "Only at this batch per GPU. Default: at any.",
             Limits::between(1, 1e6));
  f.optional("samples_per_s", m.samples_per_s, "Samples that one GPU alone does in a second.",
             Limits::between(1e-9, 1e12).in("samples/s"));
  f.optional("tokens_per_s", m.tokens_per_s, "The same in tokens.",
             Limits::between(1e-9, 1e15).in("tokens/s"));
  f.optional("mfu", m.mfu,
             "The same as a fraction of the GPU's peak: FLOPs of the model over FLOPs of the peak.",
             Limits::between(0.001, 1));
  f.verify([](FieldReader& r) {
    if (r.has("samples_per_s") + r.has("tokens_per_s") + r.has("mfu") != 1)
      r.problem("samples_per_s", "give one of samples_per_s, tokens_per_s and mfu");
  });
}

/// Of a word that may be none that is known, which is told elsewhere.
inline bool gathers_parameters(const std::string& word) {
  return holds(sharding_words(), word) && sharding_named(word) == Sharding::zero3;
}

/// Which GPUs compute a part of the model each.
template <class Fields>
void describe_model_groups(Fields& f, WorkloadSpec& w) {
  f.optional("tensor_parallel", w.tensor_parallel,
             "GPUs of a node that share each matrix (Megatron-LM). Default: 1.",
             Limits::between(1, 1024));
  f.optional("sequence_parallel", w.sequence_parallel,
             "Whether tensor-parallel GPUs divide what is between matrices along the sequence too: "
             "as many bytes travel, and activations take less memory (Megatron-LM's "
             "--sequence-parallel, torchtitan). Default: no.");
  f.optional("context_parallel", w.context_parallel,
             "GPUs that share each sequence, as neighbours behind those of tensor_parallel. Each "
             "keeps a part of the activations and all parameters, and gathers the keys and values "
             "of the whole sequence before a block's attention (Llama 3, Megatron-LM, torchtitan). "
             "A sequence is cut into twice as many parts, so that causal attention is spread "
             "evenly. Default: 1.",
             Limits::between(1, 1024));
  f.optional("context_communication", w.context_communication,
             "How GPUs that share sequences come to all keys and values: all_gather before "
             "attention (Llama 3, torchtitan), or a ring beside attention (Megatron-LM's "
             "cp_comm_type p2p). Default: all_gather.",
             one_of<ContextCommunication>("way to share sequences"));
  f.optional("pipeline", w.pipeline, "Stages into which the layers are divided (1F1B). Default: 1.",
             Limits::between(1, 1024));
  f.optional("virtual_pipeline", w.virtual_pipeline,
             "Parts of each pipeline stage, which take turns (interleaved 1F1B, Megatron-LM's "
             "virtual pipeline): GPUs wait for a part of each other stage only, activations travel "
             "as many times as often, and the first stage holds more of them. Parts may differ by "
             "one block. Default: 1.",
             Limits::between(1, 1024));
  f.optional(
      "expert_parallel", w.expert_parallel,
      "Data-parallel GPUs, as neighbours, that share a mixture's experts. Tokens travel to "
      "them and back in two all-to-alls a block, forward and backward, and each GPU keeps "
      "its part of the experts (DeepSpeed-MoE, Megatron-LM, torchtitan). More than the "
      "data-parallel GPUs divide, a multiple of tensor_parallel, span tensor-parallel ones too "
      "(Megatron-LM's parallel folding). Default: 1, each GPU has all.",
      Limits::between(1, 65536));
}

/// Keys of groups that there are none of.
inline void check_model_groups(FieldReader& r, const WorkloadSpec& w) {
  const auto several = [](int n) { return n > 1; };
  const auto& tensors = w.tensor_parallel.values;
  if (r.has("sequence_parallel") && std::none_of(tensors.begin(), tensors.end(), several))
    r.problem("sequence_parallel", "this is of GPUs that share matrices, and tensor_parallel is 1",
              "tensor_parallel: 8");
  const auto& contexts = w.context_parallel.values;
  if (r.has("context_communication") && std::none_of(contexts.begin(), contexts.end(), several))
    r.problem("context_communication",
              "this is of GPUs that share sequences, and context_parallel is 1",
              "context_parallel: 8");
  const auto& stages = w.pipeline.values;
  const auto& parts = w.virtual_pipeline.values;
  if (std::any_of(parts.begin(), parts.end(), several) &&
      std::none_of(stages.begin(), stages.end(), several))
    r.problem("virtual_pipeline", "this cuts a pipeline's stages, and pipeline is 1",
              "pipeline: 4");
}

/// What of a model that GPUs share is gathered together, and how early.
template <class Fields>
void describe_units(Fields& f, WorkloadSpec& w) {
  f.optional("units", w.units,
             "What is gathered and scattered together: a transformer block, each of the tensors, "
             "or tensors until they have a size. Default: block; tensors for zero3 by framework "
             "deepspeed.",
             OneOf{"unit", {"block", "tensors"}, false, OneOf::Or::size});
  f.optional("prefetch", w.prefetch,
             "Units that are gathered before they are needed; with 0 neither they nor what is "
             "scattered are hidden behind compute. Default: 1, as FSDP2 does; 0 for zero3 by "
             "framework deepspeed.",
             Limits::between(0, 1000));
}

/// How the model's state is spread over GPUs.
template <class Fields>
void describe_sharding(Fields& f, WorkloadSpec& w) {
  f.optional("sharding", w.sharding,
             "What GPUs share of a model's state: none (ddp), the optimizer's states (zero1), "
             "gradients too (zero2), parameters too (zero3, fsdp, full). Default: none.",
             OneOf{"sharding",
                   sharding_words(),
                   false,
                   OneOf::Or::nothing,
                   {{"0", "ZeRO's stage 0 is sharding: none"},
                    {"1", "ZeRO's stage 1 is sharding: zero1"},
                    {"2", "ZeRO's stage 2 is sharding: zero2"},
                    {"3", "ZeRO's stage 3 is sharding: zero3"},
                    {"full_shard", "FSDP's FULL_SHARD is sharding: zero3"},
                    {"shard_grad_op", "FSDP's SHARD_GRAD_OP is sharding: zero2"},
                    {"no_shard", "FSDP's NO_SHARD is sharding: none"},
                    {"hybrid_shard", "FSDP's HYBRID_SHARD is sharding: zero3 with hybrid: node"},
                    {"hsdp", "HSDP is sharding: fsdp with hybrid: node"},
                    {"hpz", "hpZ is sharding: zero3 with hybrid: node"},
                    {"mics", "MiCS is sharding: zero3 with hybrid: the size of a group"}}});
  f.optional("hybrid", w.hybrid,
             "GPUs that share one state, with an all-reduce of gradients between such groups: a "
             "number, node for those of a node (HSDP, MiCS, hpZ), or world for all. Default: "
             "world.",
             OneOf{"group", {"node", "world"}, false, OneOf::Or::whole_number});
  describe_units(f, w);
  f.optional("reshard_after_forward", w.reshard_after_forward,
             "Whether zero3 gives a unit's parameters back after forward and gathers them again "
             "for backward. Default: yes, and no with pipeline, as torchtitan has it.");
  f.optional(
      "communicators", w.communicators,
      "Whether a sharding group's all-gathers and reduce-scatters use one communicator, which "
      "runs one after the other (shared: PyTorch's FSDP2, DeepSpeed), or one each, and "
      "overlap (separate: set_separate_reduce_scatter_group). Default: shared.",
      one_of<Communicators>("communicators"));
  f.optional("fp8_all_gather", w.fp8_all_gather,
             "Whether zero3 gathers blocks in FP8, a byte a parameter, where precision is fp8 "
             "(torchao's enable_fsdp_float8_all_gather). Default: no, in bf16.");
  f.optional(
      "no_sync", w.no_sync,
      "Whether only the last micro-batch's backward communicates gradients, which keeps "
      "them whole. Default: yes for none and zero1, and for zero3 with pipeline, as PyTorch's "
      "stages do; else no. Without it DDP all-reduces after every micro-batch.");
  OneOf offload = one_of<Offload>("place outside of the GPU");
  for (const char* word : {"cpu", "nvme", "optimizer", "parameters", "activations", "yes", "true"})
    offload.others.emplace_back(
        word,
        "offload to the host is not modelled: nothing here was measured of optimizers on "
        "its cores, nor of PCIe while states or activations are copied\n  accepted: none");
  f.optional("offload", w.offload,
             "Where the optimizer's states and activations are: on the GPU. Offload to the host "
             "is not modelled.",
             offload);
  describe_model_groups(f, w);
  f.verify([&w](FieldReader& r) {
    const auto& all = w.sharding.values;
    const bool shards = std::any_of(all.begin(), all.end(),
                                    [](const std::string& s) { return s != "none" && s != "ddp"; });
    // world is what every strategy does, those that share nothing included.
    const bool in_groups = w.hybrid.values != std::vector<std::string>{"world"};
    for (const char* key : {"hybrid", "units", "prefetch", "reshard_after_forward", "communicators",
                            "fp8_all_gather"})
      if (r.has(key) && !shards && (key != std::string_view("hybrid") || in_groups))
        r.problem(key, "this says how state is shared, and sharding is none", "sharding: zero3");
    check_model_groups(r, w);
    if (r.has("recompute_blocks") && recomputes_of(w) == std::vector{Recompute::none})
      r.problem("recompute_blocks", "nothing is computed again", "recompute: full");
    if (w.fp8_all_gather && !holds(w.precision.values, Precision::fp8))
      r.problem("fp8_all_gather", "no precision here is fp8", "precision: fp8");
    else if (w.fp8_all_gather && shards && std::none_of(all.begin(), all.end(), gathers_parameters))
      r.problem("fp8_all_gather", "no sharding here gathers parameters for each block",
                "sharding: zero3");
  });
}

/// Keys of Megatron-LM, torchtitan, DeepSpeed and Hugging Face's Trainer.
inline void hint_other_keys(FieldReader& r) {
  r.hint({"tp", "tp_degree", "tensor_parallel_degree", "tensor_parallel_size",
          "tensor_model_parallel_size"},
         "did you mean 'tensor_parallel'?");
  r.hint({"cp", "cp_degree", "context_parallel_degree", "context_parallel_size"},
         "did you mean 'context_parallel'?");
  r.hint({"pp", "pp_degree", "pipeline_parallel", "pipeline_parallel_degree",
          "pipeline_parallel_size", "pipeline_model_parallel_size"},
         "did you mean 'pipeline'?");
  r.hint({"vp", "vpp", "virtual_pipeline_parallel", "virtual_pipeline_model_parallel_size"},
         "did you mean 'virtual_pipeline'?");
  r.hint({"ep", "ep_degree", "expert_parallel_degree", "expert_parallel_size",
          "expert_model_parallel_size"},
         "did you mean 'expert_parallel'?");
  r.hint({"sp", "sequence_parallel_size"}, "did you mean 'sequence_parallel'?");
  r.hint({"gradient_accumulation", "gradient_accumulation_steps", "grad_accum", "micro_batches"},
         "did you mean 'accumulation'?");
  r.hint({"gbs", "global_batch_size", "train_batch_size"}, "did you mean 'global_batch'?");
  r.hint({"mbs", "batch", "micro_batch", "micro_batch_size", "per_device_train_batch_size",
          "train_micro_batch_size_per_gpu"},
         "did you mean 'batch_per_gpu'?");
  r.hint({"dp", "data_parallel", "data_parallel_size"},
         "data parallelism takes all GPUs that the other ways leave: cluster.nodes says how many");
  r.hint({"program", "library", "trainer", "engine"},
         "did you mean 'framework'? e.g. framework: megatron");
  r.hint({"seq_len", "seq_length", "sequence", "sequence_length"},
         "did you mean 'sample'? e.g. sample: 4096 tokens");
  r.hint({"reduce_dtype", "grad_dtype", "gradient_dtype"},
         "did you mean 'gradient'? e.g. gradient: bf16");
  r.hint({"dtype", "amp", "mixed_precision", "torch_dtype"},
         "did you mean 'precision'? e.g. precision: bf16");
  r.hint({"activation_checkpointing", "gradient_checkpointing", "ac", "checkpointing"},
         "did you mean 'recompute'? e.g. recompute: full");
  r.hint({"recompute_num_layers", "activations_checkpoint_num_layers", "recompute_layers"},
         "did you mean 'recompute_blocks'? e.g. recompute_blocks: 10");
  r.hint({"zero", "zero_stage", "stage", "strategy"},
         "did you mean 'sharding'? e.g. sharding: zero3");
  r.hint({"cpu_offload", "offload_optimizer"}, "did you mean 'offload'?");
  r.hint({"attention", "flash_attention", "use_flash_attention", "attn_implementation"},
         "attention is in one kernel, as models that ship are trained; a model's own file says "
         "otherwise (estimate: fused_attention: no)");
  r.hint({"lr", "learning_rate", "epochs", "steps"},
         "a step's time does not depend on it; a plan's goal says how much is trained on");
  r.hint({"optimizer", "optim"},
         "did you mean 'state'? Adam keeps 16 B a parameter with weight and gradient, SGD with "
         "momentum 12 B: state: 12 B");
  r.hint({"lora", "peft", "adapters"},
         "did you mean 'trainable'? e.g. trainable: 0.4 %, the part that is not frozen");
}

/// How the program that trains goes about it.
template <class Fields>
void describe_program(Fields& f, WorkloadSpec& w) {
  OneOf programs = one_of<Framework>("framework");
  const std::string megatron = "it runs on Megatron-LM: framework: megatron",
                    pytorch = "it is predicted as PyTorch: framework: pytorch",
                    hugging_face = "Hugging Face's models: framework: transformers";
  programs.others = {
      {"nemo", megatron},           {"megatron-lm", megatron}, {"megatron-bridge", megatron},
      {"torchtitan", pytorch},      {"fsdp", pytorch},         {"lightning", pytorch},
      {"accelerate", hugging_face}, {"trl", hugging_face},     {"huggingface", hugging_face},
      {"hf", hugging_face}};
  f.optional("framework", w.framework,
             "The program that trains a language model: pytorch, which is tuned (torchtitan, "
             "llm-foundry, FSDP with fused or compiled kernels); deepspeed, whose kernels are the "
             "same and whose ZeRO-3 (sharding: zero3) gathers each tensor when it is needed, so "
             "that small micro-batches wait for it; transformers, which is Hugging "
             "Face's models without torch.compile, whose norms, rotary embeddings and losses are "
             "many kernels that take time and keep more memory; or megatron (NVIDIA's "
             "Megatron-LM, NeMo and Megatron-Bridge, with Transformer Engine), whose products and "
             "fused kernels reach more of the GPU's peak and which keeps less in FP8. Default: "
             "pytorch.",
             programs);
  f.optional(
      "cuda_graphs", w.cuda_graphs,
      "Whether steps are replayed as CUDA graphs. A small micro-batch then does not wait for "
      "its kernels' launches. A batch that was measured keeps its time. Default: "
      "no.");
  f.optional(
      "fused_loss", w.fused_loss,
      "Whether the loss is computed in one kernel, which puts the gradient of the logits in their "
      "place (flash-attention's and Liger's cross entropy, or torch.compile where it compiles the "
      "loss, as torchtitan does since 2025). Else PyTorch keeps copies in fp32: 10 bytes more (12 "
      "without 16 bits) for each token and entry of the "
      "vocabulary. Default: no.");
}

/// What a step takes beyond computing and communicating.
template <class Fields>
void describe_waits(Fields& f, WorkloadSpec& w) {
  f.optional("step_overhead", w.step_overhead,
             "What every optimizer step takes beyond computing and communicating: input, logging, "
             "the framework's own code. Default: 0.",
             Limits::between(0, 3600));
  f.optional(
      "input_rate", w.input_rate,
      "Samples per second that come into a node, for all of its GPUs together: what disks, "
      "decoding and augmentation deliver. Loaders work ahead, so a step waits where it would "
      "take less time than its samples. Default: more than is needed.",
      Limits::between(1e-3, 1e9));
}

template <class Fields>
void describe(Fields& f, WorkloadSpec& w) {
  f.required("model", w.model, "What is trained: a workload that ships, or ./file.yaml.",
             OneOf{"workload", workload_names(), true});
  f.optional("precision", w.precision,
             "Precision of the arithmetic. fp32 does without tensor cores; tf32 is what PyTorch "
             "takes for fp32 after torch.set_float32_matmul_precision('high'). fp8 is that of the "
             "products of layers (Transformer Engine, torchao); all else is as with bf16.",
             kPrecision);
  f.optional(
      "gradient", w.gradient,
      "Type of the gradients on the wire. Default: fp32, which PyTorch's DDP sends also under "
      "autocast; of a strategy that shards as precision, which FSDP and DeepSpeed send, but for "
      "framework: megatron fp32 instead of bf16, as --bf16 has it without --grad-reduce-in-bf16.",
      kGradient);
  f.required("batch_per_gpu", w.batch_per_gpu,
             "Samples per GPU and micro-batch; of all GPUs that share a model's matrices, "
             "sequences or layers (tensor_parallel, context_parallel, pipeline) together.",
             Limits::between(1, 1e6));
  f.optional("accumulation", w.accumulation, "Micro-batches per optimizer step. Default: 1.",
             Limits::between(1, 1e6));
  f.optional(
      "global_batch", w.global_batch,
      "Samples per optimizer step of all GPUs. Accumulation then follows from their number. A "
      "plan takes the nearest number that a cluster can do, within a tenth.",
      Limits::between(1, 1e9));
  f.optional("sample", w.sample,
             "Shape of a sample, as the workload lists them; or, of a language model, another "
             "number of tokens: \"2048 tokens\", more than the first has only where positions are "
             "rotary. Attention's scores then count by the square of "
             "the length; for a model that attends to a window, foreduce workload from-config "
             "--sequence counts them right. Default: the first.");
  f.optional(
      "samples_per_s", w.samples_per_s,
      "What one GPU alone was measured to do at this batch. Default: the nearest published rate.",
      Limits::between(1e-9, 1e12).in("samples/s"));
  f.optional("measured", w.measured,
             "The same by instance type, where several are compared. Default: published rates.");
  f.optional(
      "recompute", w.recompute,
      "What backward computes again instead of keeping it. full (or yes): each block from its "
      "input, which takes a third more arithmetic; selective: every second matrix product and what "
      "stands between products, which takes a sixth more. Default: no (or none).",
      OneOf{"recomputation", {"no", "none", "selective", "full", "yes", "true", "false"}});
  f.optional(
      "recompute_blocks", w.recompute_blocks,
      "Of how many blocks activations are computed again, of each pipeline stage; the others "
      "keep theirs (Megatron's --recompute-num-layers). Default: all.",
      Limits::between(1, 100000));
  f.optional("state", w.state,
             "What a GPU keeps per parameter: weights, gradient and optimizer state. Default: 16 "
             "B, which is Adam's.");
  describe_waits(f, w);
  describe_program(f, w);
  f.optional(
      "trainable", w.trainable,
      "Part of the parameters that is trained where the rest is frozen, as with LoRA: 0.4 %, which "
      "PEFT's print_trainable_parameters says. They are taken to be spread over all layers. Frozen "
      "parameters have no gradients and no optimizer's states, and backward takes half as long. "
      "They "
      "are kept in 16 bits; quantised ones (QLoRA) are not modelled. A "
      "rate of your own is of this training, and an mfu counts its arithmetic. Default: 1, all.",
      Limits::between(1e-6, 1));
  f.optional("spread", w.spread,
             "Standard deviation of the GPUs' compute times, as a fraction; a step waits for the "
             "slowest. Default: 0.017.",
             Limits::between(0, 0.5));
  describe_sharding(f, w);
  f.verify([](FieldReader& r) {
    hint_other_keys(r);
    if (r.has("global_batch") && r.has("accumulation"))
      r.problem("accumulation",
                "global_batch says how many micro-batches there are; give one of the two");
    if (r.has("samples_per_s") && r.has("measured"))
      r.problem("measured", "samples_per_s says the same; give one of the two");
  });
}

}  // namespace foreduce
