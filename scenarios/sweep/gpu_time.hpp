// How long the GPUs of a point compute, and what they have: from the asker's rates, else ours.
#pragma once

#include <cstdint>
#include <string_view>

#include "scenarios/sweep/predict.hpp"

namespace foreduce {

/// Who measured or estimated a rate.
enum class RateFrom : std::uint8_t { us, asker };

struct GpuTime {
  ComputeTime time;
  RateFrom from = RateFrom::us;
};

/// How long a micro-batch takes on a point's slowest GPU, which sets the pace of a mixed cluster:
/// by the rates that the asker measured on each instance type, else by ours. Throws InputError for
/// a rate that cannot be turned into samples, and where nothing is known of a GPU.
GpuTime slowest_compute(const Scenario& scenario, const Prediction& point, const Workload& workload,
                        const Cluster& cluster, std::string_view framework);

/// Of the GPUs; 0 where one's is unknown.
Bytes smallest_memory(const Cluster& cluster);

}  // namespace foreduce
