// The buckets in which a scenario's gradients travel.
#pragma once

#include "models/step.hpp"
#include "scenarios/sweep/scenario.hpp"

namespace foreduce {

/// As `spec` fills them with the gradients of what is trained, none larger than `cap` (DDP's
/// overshoot); `element`: bytes of a gradient. `backward`: how long it takes undisturbed on the
/// slowest GPU. Without overlap none is ready before backward has ended.
std::vector<Bucket> buckets_of(const AllReduceSpec& spec, const Workload& workload,
                               std::size_t element, Bytes cap, Seconds backward);

}  // namespace foreduce
