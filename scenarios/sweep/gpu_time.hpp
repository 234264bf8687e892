// How long the GPUs of a point compute, and what they have: from the asker's rates, else ours.
#pragma once

#include <optional>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// The slowest GPU sets the pace of a mixed cluster.
ComputeTime slowest_compute(const Workload& workload, const Cluster& cluster,
                            const std::string& precision, const std::string& sample, int batch,
                            std::string_view framework);

/// Of the GPUs; 0 where one's is unknown.
Bytes smallest_memory(const Cluster& cluster);

/// What the asker measured one GPU to do in such a case, in samples a second. Throws InputError
/// for a rate that cannot be turned into samples.
std::optional<double> own_rate(const WorkloadSpec& asked, const Prediction& point,
                               const Workload& workload, const Gpu& gpu);

}  // namespace foreduce
