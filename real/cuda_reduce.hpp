// The reduction kernel: into[i] = op(into[i], from[i]), where `from` may be memory of a peer's
// device.
#pragma once

#include <cuda_runtime_api.h>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// Starts to reduce `count` elements on the stream's device, which has `multiprocessors`. The
/// result has the same bits as reduce() on the host, except for the payload of NaNs. The ranges
/// must not overlap. If both have the same offset from a multiple of 16, the kernel takes 16 bytes
/// at a time.
cudaError_t reduce_on_device(Op op, Type type, std::byte* into, const std::byte* from,
                             std::size_t count, int multiprocessors, cudaStream_t stream);

}  // namespace foreduce
