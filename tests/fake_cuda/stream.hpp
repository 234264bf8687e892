// For other stand-ins: work in a stream's order.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace foreduce::test {

void on_stream(cudaStream_t stream, std::function<void()> work);

}  // namespace foreduce::test
