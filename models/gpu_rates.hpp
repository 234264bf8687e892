// What a GPU reaches with a workload: as measured on it, on one that differs in its memory alone,
// on others, or as the workload's estimate says.
#pragma once

#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "models/compute.hpp"

namespace foreduce {

/// By whose published rates a precision is judged: bf16 computes as fp16 does.
Precision measured_as(Precision precision);

/// Says that a rate is above the GPU's peak (InputError, with that hint), or in `time` that it is
/// doubtful, where it is. `arithmetic`: how often all of it is done, 1 without recomputation.
void check_rate(ComputeTime& time, const MicroBatch& micro_batch, double samples_per_s,
                const char* hint, double arithmetic = 1);

/// The factor that 90 % are within where two independent ones are.
inline double together(double factor, double other) {
  return std::exp(std::hypot(std::log(factor), std::log(other)));
}

/// The share of its peak that a GPU is expected to reach, and why that one.
struct PeakShare {
  double value = 0;
  std::string because;
  Spread within;
  double recomputing = 1;  // see ComputeTime
  /// Whether it is of what is proportional to the samples, beside a constant: see at_batch().
  bool proportional = false;
};

/// Fills in `time`, whose `least` is known, from what was measured on such a GPU; false if nothing
/// was. `framework` as in compute_time().
bool from_measured(ComputeTime& time, const MicroBatch& micro_batch, std::string_view framework);

/// The same from what was measured on a GPU of the same arithmetic. A part of the time goes with the
/// memory's bandwidth (training.yaml, same_chip).
bool from_same_arithmetic(ComputeTime& time, const MicroBatch& micro_batch,
                          std::string_view framework);

/// The share by every GPU that was measured, with the asked sample where any was: the median, so
/// that one program that was not tuned does not decide. Nothing if none was measured.
std::optional<PeakShare> share_from_other_gpus(const MicroBatch& micro_batch);

/// The share as the workload's `estimate` says, or as it follows for the asked GPU.
PeakShare assumed_share(const MicroBatch& micro_batch);

}  // namespace foreduce
