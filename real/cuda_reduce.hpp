// The one kernel: into[i] = op(into[i], from[i]), where `from` may be a peer's memory.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// Starts to reduce `count` elements on the stream's device, of so many multiprocessors. The same bits as reduce() on the host, but for
/// the payload of NaNs. The ranges must not overlap; 16 bytes at a time where both lie alike to a multiple of 16.
cudaError_t reduce_on_device(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count, int multiprocessors,
                           cudaStream_t stream);

}  // namespace foreduce
