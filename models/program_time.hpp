// How long a GPU computes on a micro-batch in a program whose kernels are known: a sum of matrix
// products, attention and memory traffic.
#pragma once

#include "models/compute.hpp"

namespace foreduce {

/// A language model in the workload's framework, megatron or transformers. Products of layers and
/// attention each reach a share of the GPU's peak, and what stands between them reads and writes
/// memory (models/training.yaml).
///
/// megatron: Megatron-LM with Transformer Engine, whose kernels are fused. The shares are fitted to
/// a part of NVIDIA's publications; 37 of 39 published rates that no fit knows are within 1.25
/// times, a factor that was chosen in sight of them (docs/accuracy-notes.md). The layer over the
/// vocabulary stays in 16 bits where blocks are in FP8.
///
/// transformers: Hugging Face's models in PyTorch, not compiled. Products and attention are as in
/// Megatron; memory traffic is fitted to blocks of Llama-2 7B on one H100
/// (models/reference/steps.csv).
///
/// On GPUs of which nothing is measured, and for mixtures of experts, the interval is wider. Throws
/// InputError for a model that is no language model, for fp32, tf32 and, in Hugging Face's program,
/// fp8, and for a GPU whose peak is not known.
ComputeTime program_time(const MicroBatch& micro_batch);

/// Of such a micro-batch's time, what tensor parallelism does not divide where each GPU has whole
/// sequences: norms, dropout and residuals. By what is known of the workload's framework.
double undivided_by_tensors(const MicroBatch& micro_batch);

/// Of a model's arithmetic what Megatron-LM counts in the TFLOPS that it prints: of attention's
/// scores the causal half, since 2025 (num_floating_point_operations). All else counts whole.
double counted_by_megatron(const Workload& workload, const std::string& sample);

}  // namespace foreduce
