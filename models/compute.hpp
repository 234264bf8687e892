// How long one GPU computes on a micro-batch: as somebody measured it, else from other GPUs that
// were measured, else from the data sheet.
#pragma once

#include <optional>
#include <string>

#include "models/workload.hpp"

namespace foreduce {

/// A micro-batch's time as it would be if launching kernels took no time.
struct TimeWithoutLaunches {
  Seconds forward_backward;
  Spread within;
  std::string source;
};

/// How long one GPU computes on one micro-batch, and how we know.
struct ComputeTime {
  Seconds forward_backward;  ///< without the optimizer
  Seconds optimizer;         ///< one optimizer step
  bool measured = false;
  double recomputing = 1;  ///< of an estimate: share of the peak with activation recomputation,
                           ///< relative to that without
  Spread within;           ///< 90 % of measured times lie in it (models/training.yaml)
  Seconds scores;          ///< of forward_backward: memory traffic of attention's scores, which
                           ///< neither FP8 nor frozen weights shorten; 0: a rate contains it
  Seconds launches;        ///< what the host takes to launch the kernels of forward and backward,
                           ///< which forward_backward is not below; 0: unknown
  std::optional<TimeWithoutLaunches> without_launches;  ///< null: as it is
  double undivided = 0;  ///< part of forward_backward that tensor parallelism alone leaves whole
  Seconds least;         ///< forward_backward at the GPU's peak; 0: the peak is unknown
  std::string doubtful;  ///< why hardly any GPU is so fast; empty: it is not
  std::string source;  ///< "measured at batch 8 on V100: …" or "estimate: 43 % of 312 TFLOPS: …"
};

/// Speed of a GPU's backward pass, over its full speed, while an all-reduce runs on so many
/// channels: each is one thread block, which keeps one multiprocessor (NCCL user guide,
/// NCCL_MAX_NCHANNELS). Where the channels (0) or the GPU's multiprocessors are unknown, the
/// measured average.
double compute_share(const Gpu& gpu, double channels);
/// The smallest compute share of all GPUs of a cluster, while a library with that profile runs an
/// all-reduce. `forced_channels`: 0 for those of the profile.
double compute_share(const Cluster& cluster, const Layout& layout, const Profile& profile,
                     SummedBy by, int forced_channels = 0);

/// A measured time of a micro-batch less `part` of an optimizer step, but at least half of it.
Seconds without_optimizer(const Workload& workload, const Gpu& gpu, Seconds per_batch, double part);

/// What one GPU computes at once: so many samples of a workload.
struct MicroBatch {
  const Workload& workload;
  const Gpu& gpu;
  Precision precision = Precision::fp16;
  std::string sample = {};
  int batch = 1;
};

/// From published measurements of the same GPU family, precision and sample: between two batches
/// the time is interpolated, beyond them each micro-batch has a constant cost besides
/// (training.yaml). Where none was measured, from what other GPUs were measured to reach, by the
/// peaks and memory bandwidths of both, else from the workload's `estimate`. bf16 counts as fp16.
/// `framework` is the asker's, empty if that is not known: how uncertain a measured rate is for it.
/// Throws InputError for an estimate of a GPU that the catalogue does not have, if the
/// GPU's peak is unknown and nothing was measured, for bf16 on a GPU that has none, and for a rate
/// above the peak.
ComputeTime compute_time(const MicroBatch& micro_batch, std::string_view framework = "pytorch");

/// Arithmetic of forward and backward of `batch` samples that train all parameters; 0 where the
/// workload has no such sample.
Flop work_of(const Workload& workload, const std::string& sample, int batch);

/// A lower bound: forward and backward at the GPU's peak; 0 where that is unknown.
Seconds compute_at_peak(const MicroBatch& micro_batch);

/// What the asker has measured of one GPU alone.
struct AskersRate {
  double samples_per_s = 0;
  double optimizer_part = 1;  ///< of an optimizer's step that a micro-batch's time includes
  double arithmetic = 1;      ///< computed, relative to what is computed without recomputation
};
/// The time of a micro-batch by that rate. Throws InputError for bf16 on a GPU that has none, and
/// for a rate above the GPU's peak.
ComputeTime compute_time(const MicroBatch& micro_batch, const AskersRate& rate);

}  // namespace foreduce
