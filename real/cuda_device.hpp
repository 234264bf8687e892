// CUDA devices for ranks: data in device memory, reduces by a kernel that reads the peer's memory
// over NVLink or PCIe. In a build without CUDA these functions throw or say "this build has no
// CUDA".
#pragma once

#include <memory>
#include <string>

#include "real/rank_device.hpp"
#include "real/transports.hpp"

namespace foreduce {

/// CUDA on this machine. Throws TransportError, "no CUDA device: …", if it has none.
CudaVersions cuda_here();

/// The device that a machine's rank number `local_rank` uses. Devices are assigned in turn, so
/// several ranks may share one.
constexpr int device_of(int local_rank, int devices) { return local_rank % devices; }

/// A rank's use of its device. Throws TransportError as cuda_here() does.
std::unique_ptr<RankDevice> open_cuda(int rank, int local_rank);

/// "no CUDA device: …", from cudaGetDeviceCount's status and the versions of driver and runtime
/// (13000 is 13.0; driver 0: none is installed).
std::string why_no_cuda_device(int status, int driver, int runtime);
/// "rank 1 on device 0 (NVIDIA H200): cudaEventQuery: an illegal memory access was encountered
/// (cudaErrorIllegalAddress)"
std::string cuda_failure(int rank, int device, const std::string& name, const char* call,
                         int status);

}  // namespace foreduce
