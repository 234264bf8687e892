// How the time of a micro-batch grows with its samples: a constant beside them, and launches below
// which none is shorter (models/training.yaml: batches, launches).
#pragma once

#include <string>

#include "input/units.hpp"
#include "models/compute.hpp"
#include "models/workload.hpp"

namespace foreduce {

/// What a micro-batch costs beyond its arithmetic on a GPU that does so many FLOP a second: what
/// the host must launch one by one, and kernels too small to fill the GPU.
Seconds micro_batch_overhead(const Workload& workload, FlopPerSecond rate);

/// Lengthens the time of a small micro-batch to what the host takes to launch its kernels, at most
/// to `most`. The interval still holds a program that launches fewer, and one that takes
/// launches_slower times as long (models/training.yaml).
void wait_for_launches(ComputeTime& time, const Workload& workload, Seconds most);
/// The same of a program that trains adapters alone, which launches more kernels.
void wait_for_adapters(ComputeTime& time, const Workload& workload);

/// Attention that is not one kernel reads and writes its scores several times, forward and
/// backward: adds that to a time that does not contain it.
void add_scores(ComputeTime& time, const MicroBatch& micro_batch);

/// Of a language model's time on a GPU that reaches `share` of its peak, what reading and writing
/// between products takes at least, as in programs that fuse it best (training.yaml, megatron).
double least_memory_part(const MicroBatch& micro_batch, const Gpu& on, double share);

/// Of a micro-batch's measured time, what does not grow with its samples: at most half.
Seconds constant_of(const Workload& workload, const std::string& sample, Seconds measured,
                    int batch);

/// Scales a measured time of a micro-batch to another batch. A constant part stays (kernel
/// launches, see training.yaml), and the rest is proportional to the samples.
Seconds at_batch(const Workload& workload, const std::string& sample, Seconds measured,
                 int measured_batch, int batch);

}  // namespace foreduce
