// The baseline ncclAllReduce of NVIDIA's NCCL: one communicator for each rank, on that rank's GPU.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "algorithms/core/transport.hpp"
#include "real/baseline.hpp"

namespace foreduce {
namespace {

void check(ncclResult_t status, const char* call) {
  if (status != ncclSuccess)
    throw TransportError(fmt::format("{}: {}", call, ncclGetErrorString(status)));
}
void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess)
    throw TransportError(fmt::format("{}: {}", call, cudaGetErrorString(status)));
}

ncclDataType_t nccl_type(Type type) {
  switch (type) {
    case Type::f64: return ncclDouble;
    case Type::f16: return ncclHalf;
    case Type::bf16: return ncclBfloat16;
    case Type::i32: return ncclInt32;
    case Type::f32: break;
  }
  return ncclFloat;
}

/// Nothing here blocks inside NCCL, so that a rank whose peer died ends after the timeout.
class NcclRank final : public BaselineRank {
 public:
  NcclRank(const BaselinePlace& place, const ncclUniqueId& id) : place_(place) {
    check(cudaSetDevice(place_.device), "cudaSetDevice");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    try {
      finish(ncclCommInitRankConfig(&comm_, place_.ranks, id, place_.rank, &config),
             "ncclCommInitRankConfig");
    } catch (...) {
      give_up();
      throw;
    }
  }
  ~NcclRank() override { give_up(); }
  void all_reduce(const void* in, void* out, std::size_t count, Type type) override {
    finish(ncclAllReduce(in, out, count, nccl_type(type), ncclSum, comm_, stream_),
           "ncclAllReduce");
    cudaError_t status = cudaErrorNotReady;
    poll([&] { return (status = cudaStreamQuery(stream_)) != cudaErrorNotReady; }, "ncclAllReduce");
    check(status, "ncclAllReduce");
  }

 private:
  void give_up() {
    cudaSetDevice(place_.device);
    if (comm_) ncclCommAbort(comm_);  // a rank that fails must not wait for the others
    cudaStreamDestroy(stream_);
  }
  template <class Done>
  void poll(Done done, const char* call) const {
    const auto start = std::chrono::steady_clock::now();
    while (!done()) {
      std::this_thread::yield();
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
          place_.timeout_s)
        throw TransportError(fmt::format("rank {} made no progress for {} s in {}", place_.rank,
                                         place_.timeout_s, call));
    }
  }
  void finish(ncclResult_t status, const char* call) const {
    if (status == ncclInProgress)
      poll(
          [&] {
            check(ncclCommGetAsyncError(comm_, &status), call);
            return status != ncclInProgress;
          },
          call);
    if (status != ncclSuccess)
      throw TransportError(
          fmt::format("rank {}: {}: {}", place_.rank, call, ncclGetErrorString(status)));
  }

  BaselinePlace place_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

class Nccl final : public Baseline {
 public:
  std::string version() const override {
    int number = 0;
    check(ncclGetVersion(&number), "ncclGetVersion");
    return fmt::format("NCCL {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }
  std::string invitation() const override {
    ncclUniqueId id;
    check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    return {id.internal, sizeof id.internal};
  }
  std::unique_ptr<BaselineRank> join(const BaselinePlace& place,
                                     const std::string& invitation) override {
    ncclUniqueId id;
    if (invitation.size() != sizeof id.internal)
      throw TransportError("NCCL's unique id has the wrong length");
    std::memcpy(id.internal, invitation.data(), sizeof id.internal);
    return std::make_unique<NcclRank>(place, id);
  }
};

}  // namespace
}  // namespace foreduce

extern "C" foreduce::Baseline* foreduce_baseline() { return new foreduce::Nccl; }
