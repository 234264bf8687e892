// How long a GPU computes on a micro-batch in NVIDIA's own programs.
#pragma once

#include "models/compute.hpp"

namespace foreduce {

/// A language model in Megatron-LM with Transformer Engine: products of layers and attention each
/// reach a share of the GPU's peak, and what stands between them, in fused kernels, reads and
/// writes memory. The shares are fitted to a part of NVIDIA's publications (models/training.yaml,
/// megatron); 37 of 39 published rates that no fit knows are within 1.25 times, a factor that was
/// chosen in sight of them (docs/accuracy-notes.md). On GPUs of which none is published, and for
/// mixtures of experts, the interval is wider. The layer over the vocabulary stays in 16 bits where
/// blocks are in FP8. Throws InputError for a model that is no language model, for fp32 and tf32,
/// and for a GPU whose peak is not known.
ComputeTime megatron_time(const MicroBatch& micro_batch);

/// Of a model's arithmetic what Megatron-LM counts in the TFLOPS that it prints: of attention's
/// scores the causal half, since 2025 (num_floating_point_operations). All else counts whole.
double counted_by_megatron(const Workload& workload, const std::string& sample);

}  // namespace foreduce
