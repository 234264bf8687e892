// Which transports and baselines this build and this machine have, and why others are missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace foreduce {

struct SessionOptions;

/// One way to move bytes between ranks, or a baseline to compare with.
struct TransportStatus {
  std::string name;
  bool available = false;
  std::string details;  ///< what it is here, or why it is missing
};

/// The status of threads, ofi, cuda, mpi and nccl. Loads libfabric and asks the CUDA driver.
std::vector<TransportStatus> transports();

/// Whether this build has CUDA. Does not ask the driver.
bool built_with_cuda();

/// Why CUDA cannot be used here ("this build has no CUDA", "no CUDA device: ..."); empty if it can.
/// Asks the driver, after which the process must not fork others that use CUDA.
std::string cuda_unavailable();

/// How device memory reaches the network.
enum class Staging : std::uint8_t {
  direct,       ///< GPUDirect, if the provider has FI_HMEM; otherwise as through_host
  through_host  ///< by copies in pinned host memory
};

/// Makes a session's workers keep their data on CUDA devices. Without CUDA the session cannot be
/// created then.
void use_cuda(SessionOptions& options, Staging staging);

/// CUDA on this machine, for a report.
struct CudaVersions {
  std::string runtime, driver;       ///< "13.0"; the driver's is the newest CUDA that it can run
  std::vector<std::string> devices;  ///< names, by number
};

/// Nothing if CUDA cannot be used here.
std::optional<CudaVersions> cuda_versions();

}  // namespace foreduce
