// What a data sheet says of a GPU's arithmetic, and what an optimizer's step takes by it.
#pragma once

#include <string>

#include "models/workload.hpp"

namespace foreduce {

/// The peak of products in such a precision; 0 where the data sheet is not known. TF32 runs on
/// tensor cores at half the rate of fp16, and FP8 at twice, dense (NVIDIA's data sheets of A100,
/// A10G, L4, L40S, H100 and B200).
FlopPerSecond peak_of(const Gpu& gpu, Precision precision);

/// Throws InputError where the GPU has no arithmetic of that precision.
void check_arithmetic(const Gpu& gpu, Precision precision);

/// One step of Adam on all parameters that are trained, in one kernel that reads and writes memory
/// (models/training.yaml, optimizer_bytes); 0 where the memory's bandwidth is not known.
Seconds optimizer_of(const Workload& workload, const Gpu& gpu);

/// A source with a remark on the time: before the publication, which stands behind ": ".
std::string with_remark(const std::string& source, const std::string& remark);

}  // namespace foreduce
