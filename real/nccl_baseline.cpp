// The baseline nccl: the collectives of NVIDIA's NCCL. One communicator for each rank, on that
// rank's GPU.
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
  void run(Collective collective, const Buffer& in, const Buffer& out) override {
    const char* call = "ncclAllReduce";
    const ncclDataType_t type = nccl_type(in.type);
    switch (collective) {
      case Collective::all_reduce:
        finish(ncclAllReduce(in.data(), out.data(), in.count, type, ncclSum, comm_, stream_), call);
        break;
      case Collective::reduce_scatter: {
        call = "ncclReduceScatter";
        const Buffer mine = block(out, place_.rank);
        finish(ncclReduceScatter(in.data(), mine.data(), mine.count, type, ncclSum, comm_, stream_),
               call);
        break;
      }
      case Collective::all_gather: {
        call = "ncclAllGather";
        const Buffer mine = block(in, place_.rank);
        finish(ncclAllGather(mine.data(), out.data(), mine.count, type, comm_, stream_), call);
        break;
      }
      case Collective::broadcast:
        call = "ncclBroadcast";
        finish(ncclBroadcast(in.data(), out.data(), in.count, type, 0, comm_, stream_), call);
        break;
      case Collective::all_to_all:
        call = "ncclSend and ncclRecv";
        all_to_all(in, out, call);
        break;
    }
    cudaError_t status = cudaErrorNotReady;
    poll([&] { return (status = cudaStreamQuery(stream_)) != cudaErrorNotReady; }, call);
    check(status, call);
  }
  bool works_in_place(Collective collective) const override {
    return collective != Collective::all_to_all;
  }

 private:
  /// As nccl-tests' alltoall_perf: a send and a receive for every rank, itself among them.
  void all_to_all(const Buffer& in, const Buffer& out, const char* call) {
    check(ncclGroupStart(), "ncclGroupStart");
    for (int peer = 0; peer < place_.ranks; ++peer) {
      const Buffer to = block(in, peer), from = block(out, peer);
      queued(ncclSend(to.data(), to.count, nccl_type(to.type), peer, comm_, stream_), "ncclSend");
      queued(ncclRecv(from.data(), from.count, nccl_type(from.type), peer, comm_, stream_),
             "ncclRecv");
    }
    finish(ncclGroupEnd(), call);
  }
  /// Inside a group a communicator that does not block may say that it is not done yet.
  static void queued(ncclResult_t status, const char* call) {
    if (status != ncclInProgress) check(status, call);
  }
  Buffer block(const Buffer& data, int of_rank) const {
    if (data.count % static_cast<std::size_t>(place_.ranks) != 0)
      throw TransportError("NCCL's blocks must be equal");
    return data.chunk(place_.ranks, of_rank);
  }
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
