// The reduction kernel for all types and operations. It is also C++, which tests compile without
// CUDA.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "real/cuda_reduce.hpp"

namespace foreduce {
namespace {

constexpr unsigned
    kThreads = 256,
    kLoads =
        4;  // 2 × 64 bytes in flight for each thread, which HBM and NVLink need for their full rate
constexpr unsigned kBlocksPerMultiprocessor = 8;

__device__ float wide(__half x) { return __half2float(x); }
__device__ float wide(__nv_bfloat16 x) { return __bfloat162float(x); }
template <class T>
__device__ T wide(T x) {
  return x;
}

template <class T>
__device__ T add(T a, T b) {
  return a + b;
}
__device__ int add(int a, int b) {
  return static_cast<int>(static_cast<unsigned>(a) + static_cast<unsigned>(b));
}
__device__ __half add(__half a, __half b) { return __float2half_rn(wide(a) + wide(b)); }
__device__ __nv_bfloat16 add(__nv_bfloat16 a, __nv_bfloat16 b) {
  return __float2bfloat16_rn(wide(a) + wide(b));
}

template <Op op, class T>
__device__ T reduce_one(T a, T b) {
  if constexpr (op == Op::sum) return add(a, b);
  if constexpr (op == Op::min)
    return wide(b) < wide(a) ? b : a;  // std::min and std::max, for signed zeros and NaNs too
  if constexpr (op == Op::max) return wide(a) < wide(b) ? b : a;
}

/// `head` elements, then `packs` of 16 aligned bytes, then the tail.
template <Op op, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(T* into, const T* from, std::size_t head, std::size_t packs, std::size_t count) {
  constexpr std::size_t each = sizeof(uint4) / sizeof(T);
  auto* a = reinterpret_cast<uint4*>(into + head);
  const auto* b = reinterpret_cast<const uint4*>(from + head);
  for (std::size_t tile = blockIdx.x * std::size_t{kThreads * kLoads}; tile < packs;
       tile += gridDim.x * std::size_t{kThreads * kLoads}) {
    uint4 x[kLoads], y[kLoads];
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const std::size_t at = tile + i * kThreads + threadIdx.x;
      if (at < packs) {
        x[i] = a[at];
        y[i] = b[at];
      }
    }
#pragma unroll
    for (unsigned i = 0; i < kLoads; ++i) {
      const std::size_t at = tile + i * kThreads + threadIdx.x;
      if (at >= packs) continue;
      auto* mine = reinterpret_cast<T*>(&x[i]);
      const auto* theirs = reinterpret_cast<const T*>(&y[i]);
#pragma unroll
      for (std::size_t e = 0; e < each; ++e) mine[e] = reduce_one<op>(mine[e], theirs[e]);
      a[at] = x[i];
    }
  }
  const std::size_t rest = count - packs * each;
  for (std::size_t i = blockIdx.x * std::size_t{kThreads} + threadIdx.x; i < rest;
       i += gridDim.x * std::size_t{kThreads}) {
    const std::size_t at = i < head ? i : i + packs * each;
    into[at] = reduce_one<op>(into[at], from[at]);
  }
}

template <Op op, class T>
cudaError_t start(std::byte* into, const std::byte* from, std::size_t count, int multiprocessors,
                  cudaStream_t stream) {
  const auto off = [](const std::byte* p) {
    return reinterpret_cast<std::uintptr_t>(p) % sizeof(uint4);
  };
  std::size_t head = count,
              packs = 0;  // with different alignment offsets, elements are taken one by one
  if (off(into) == off(from)) {
    head = off(into) == 0 ? 0 : (sizeof(uint4) - off(into)) / sizeof(T);
    head = head < count ? head : count;
    packs = (count - head) * sizeof(T) / sizeof(uint4);
  }
  const std::size_t work =
      packs > 0 ? (packs + kLoads - 1) / kLoads : count;  // threads with something to do
  const std::size_t most = static_cast<std::size_t>(multiprocessors) * kBlocksPerMultiprocessor,
                    blocks = (work + kThreads - 1) / kThreads;
  dim3 grid, block;
  grid.x = static_cast<unsigned>(blocks < most ? blocks : most);
  block.x = kThreads;
  void* arguments[] = {&into, &from, &head, &packs, &count};
  // Without <<<…>>> this file is C++, so that it can be tested without nvcc and a GPU.
  return cudaLaunchKernel(reinterpret_cast<const void*>(&reduce_kernel<op, T>), grid, block,
                          arguments, 0, stream);
}

template <class T, class... Arguments>
cudaError_t start_as(Op op, Arguments... arguments) {
  switch (op) {
    case Op::sum: return start<Op::sum, T>(arguments...);
    case Op::min: return start<Op::min, T>(arguments...);
    case Op::max: return start<Op::max, T>(arguments...);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t reduce_on_device(Op op, Type type, std::byte* into, const std::byte* from,
                             std::size_t count, int multiprocessors, cudaStream_t stream) {
  if (count == 0) return cudaSuccess;
  switch (type) {
    case Type::f32: return start_as<float>(op, into, from, count, multiprocessors, stream);
    case Type::f64: return start_as<double>(op, into, from, count, multiprocessors, stream);
    case Type::i32: return start_as<int>(op, into, from, count, multiprocessors, stream);
    case Type::f16: return start_as<__half>(op, into, from, count, multiprocessors, stream);
    case Type::bf16: return start_as<__nv_bfloat16>(op, into, from, count, multiprocessors, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace foreduce
