// Which transports there are. This is the only file that depends on whether the build has CUDA.
#include "real/transports.hpp"

#include <fmt/format.h>

#include "algorithms/core/transport.hpp"
#include "real/baseline.hpp"
#include "real/cuda_device.hpp"
#include "real/session.hpp"

namespace foreduce {

#ifdef FOREDUCE_WITH_CUDA

bool built_with_cuda() { return true; }

#else  // in place of cuda_device.cpp

namespace {
constexpr const char* kNoCuda = "this build has no CUDA";
}

bool built_with_cuda() { return false; }
CudaVersions cuda_here() { throw TransportError(kNoCuda); }
std::unique_ptr<RankDevice> open_cuda(int, int) { throw TransportError(kNoCuda); }
std::string why_no_cuda_device(int, int, int) { return kNoCuda; }
std::string cuda_failure(int, int, const std::string&, const char*, int) { return kNoCuda; }

#endif

std::string cuda_unavailable() {
  try {
    cuda_here();
    return {};
  } catch (const TransportError& e) {
    return e.what();
  }
}

std::optional<CudaVersions> cuda_versions() {
  try {
    return cuda_here();
  } catch (const TransportError&) {
    return std::nullopt;
  }
}

void use_cuda(SessionOptions& options, Staging staging) {
  options.device = open_cuda;
  options.network.devices = staging == Staging::direct ? DeviceKind::cuda : DeviceKind::none;
}

namespace {

TransportStatus ofi_status() {
  try {
    return {"ofi", true,
            fmt::format("{}; providers: {}", ofi_version({}), fmt::join(ofi_providers(), ", "))};
  } catch (const TransportError& e) {
    return {"ofi", false, e.what()};
  }
}

TransportStatus cuda_status() {
  if (!built_with_cuda())
    return {"cuda", false,
            "no CUDA compiler was found when foreduce was configured (nvidia-cuda-toolkit, or "
            "NVIDIA's CUDA toolkit)"};
  try {
    const CudaVersions cuda = cuda_here();
    return {"cuda", true,
            fmt::format("ranks as threads, data on devices; CUDA {}, driver for {}; devices: {}",
                        cuda.runtime, cuda.driver, fmt::join(cuda.devices, ", "))};
  } catch (const TransportError& e) {
    return {"cuda", false, e.what()};
  }
}

TransportStatus baseline_status(const std::string& name, const std::string& what,
                                const std::string& package) {
  if (has_baseline(name)) return {name, true, what};
  return {name, false,
          fmt::format("{}; not found when foreduce was configured ({})", what, package)};
}

/// NCCL runs on CUDA's devices only.
TransportStatus nccl_status() {
  TransportStatus nccl =
      baseline_status("nccl", "baseline: NCCL's collectives, with --transport cuda", "libnccl-dev");
  if (const std::string why = cuda_unavailable(); nccl.available && !why.empty())
    nccl = {"nccl", false, nccl.details + "; " + why};
  return nccl;
}

}  // namespace

std::vector<TransportStatus> transports() {
  return {{"threads", true,
           "ranks as threads of one process; a receive reduces straight from the sender's memory"},
          ofi_status(),
          cuda_status(),
          baseline_status("mpi", "baseline: MPI's collectives, under mpirun", "libopenmpi-dev"),
          nccl_status()};
}

}  // namespace foreduce
