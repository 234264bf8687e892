// CUDA devices for ranks: data in device memory, reduces by a kernel that reads the peer's memory over NVLink or PCIe.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "real/rank_device.hpp"

namespace foreduce {

/// CUDA on this machine.
struct CudaHere {
  std::string runtime, driver;       ///< versions: "13.0"; the driver's is the newest CUDA it can run
  std::vector<std::string> devices;  ///< names, by number
};
/// Throws TransportError, "no CUDA device: …", where there is none.
CudaHere cuda_here();

/// Which device a machine's rank of that number works on: they go round, so that several ranks may share one.
constexpr int device_of(int nth, int devices) { return nth % devices; }

/// That rank's share of its device. Throws TransportError as cuda_here() does.
std::unique_ptr<RankDevice> open_cuda(int rank, int nth);

/// "no CUDA device: …": what cudaGetDeviceCount's status means with a driver and a runtime of these versions (13000 is 13.0, driver
/// 0: none installed).
std::string why_no_cuda_device(int status, int driver, int runtime);
/// "rank 1 on device 0 (NVIDIA H200): cudaEventQuery: an illegal memory access was encountered (cudaErrorIllegalAddress)"
std::string cuda_failure(int rank, int device, const std::string& name, const char* call, int status);

}  // namespace foreduce
