// CUDA devices for ranks: data in device memory, reduces by a kernel that reads the peer's memory
// over NVLink or PCIe. In a build without CUDA these functions throw or say "this build has no
// CUDA".
#pragma once

#include <memory>
#include <string>

#include "real/rank_device.hpp"
#include "real/transports.hpp"

namespace foreduce {

using CudaHere = CudaVersions;
/// CUDA on this machine. Throws TransportError, "no CUDA device: …", if it has none.
CudaVersions cuda_here();

/// Which device the nth rank of a machine uses. Ranks take turns, so several of them may share a
/// device.
constexpr int device_of(int nth, int devices) { return nth % devices; }

/// A rank's use of its device. Throws TransportError as cuda_here() does.
std::unique_ptr<RankDevice> open_cuda(int rank, int nth);

/// "no CUDA device: …", from cudaGetDeviceCount's status and the versions of driver and runtime
/// (13000 is 13.0; driver 0: none is installed).
std::string why_no_cuda_device(int status, int driver, int runtime);
/// "rank 1 on device 0 (NVIDIA H200): cudaEventQuery: an illegal memory access was encountered
/// (cudaErrorIllegalAddress)"
std::string cuda_failure(int rank, int device, const std::string& name, const char* call,
                         int status);

}  // namespace foreduce
