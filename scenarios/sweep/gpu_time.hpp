// How long the GPUs of a point compute, and what they have: from the asker's rates, else ours.
#pragma once

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// What a point's GPUs compute.
struct GpuTime {
  /// Of a micro-batch on the slowest, for which all others wait before gradients are summed and
  /// before the next step; what is computed again is included, in `least` too.
  ComputeTime slowest;
  double samples_per_s = 0;  ///< of one GPU alone, the mean of all
  double slowest_rate = 1;   ///< of the slowest kind of GPU, over that mean
  Seconds at_peak;  ///< the model's own arithmetic of a micro-batch at the GPUs' mean peak;
                    ///< 0: unknown
};

/// By the rates that the asker measured on each instance type, else by ours, `speed` times as fast.
/// Throws InputError for a rate that cannot be turned into samples, or that is above the GPU's
/// peak, and where nothing is known of a GPU.
GpuTime gpu_time(const Scenario& scenario, const Prediction& point, const Workload& workload,
                 const Cluster& cluster, double speed);

/// A step of a point on that cluster whose slowest GPU takes `slowest` times as long as the usual
/// one.
StepInput step_input(const Scenario& scenario, const Prediction& point, const ComputeTime& compute,
                     const Workload& workload, double slowest, const Cluster& cluster);

/// Of the GPUs; 0 where one's is unknown.
Bytes smallest_memory(const Cluster& cluster);

}  // namespace foreduce
