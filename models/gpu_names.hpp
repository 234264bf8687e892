// GPUs by the names that workloads give them: "A100" is any of the catalogue's A100.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/workload.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// The GPU of such a family ("A100") in the catalogue; of several, such as those of 40 and 80 GB,
/// the one with the fastest memory, which published rates are of. Null if there is none.
const Gpu* known_gpu(const std::string& family);

/// The catalogue's nearest name, for a GPU that it lacks.
std::string suggest_gpu(const std::string& family);

/// Throws InputError where a rate of `workload` is of a GPU that neither the catalogue nor a machine
/// of `clusters` has, because no prediction could use it. Null clusters are passed over.
void require_known_gpus(const Workload& workload,
                        const std::vector<std::shared_ptr<const Cluster>>& clusters);

}  // namespace foreduce
