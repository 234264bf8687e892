// What real ranks put into their buffers to measure a collective, and what must come out of it.
#pragma once

#include "algorithms/core/collective.hpp"

namespace foreduce {

/// Fills all of worker `rank`'s buffer, which is in host memory. Where elements are reduced, these
/// are small integers, whose sums over a thousand ranks are exact in every type. Where they only
/// move, those of neighbouring ranks and elements differ.
void fill(const Buffer& data, Collective collective, int rank);

/// How many elements of worker `rank`'s result are not what `workers` such buffers must give.
std::size_t count_wrong(const Buffer& data, Collective collective, int workers, int rank);

}  // namespace foreduce
