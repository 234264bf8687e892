// NCCL between the ranks of one process, on the stand-in for CUDA: joins and sums as NCCL does,
// without blocking and late. A rank that gives up lets the others go, as ncclCommAbort does.
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "algorithms/core/buffer.hpp"
#include "tests/fake_cuda/stream.hpp"

namespace {

using namespace foreduce;

std::mutex mutex;
std::condition_variable something;

struct Call {
  const std::byte* in;
  std::byte* out;
};
/// The ranks that have the same identity.
struct Group {
  int ranks = 0, joined = 0;
  bool aborted = false;
  std::map<std::uint64_t, std::map<int, Call>> calls;  // by how many came before
  std::uint64_t done = 0;
};
std::map<std::string, Group> groups;

foreduce::Type type_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt32: return Type::i32;
    case ncclHalf: return Type::f16;
    case ncclDouble: return Type::f64;
    case ncclBfloat16: return Type::bf16;
    case ncclFloat: break;
  }
  return Type::f32;
}

}  // namespace

struct StandInComm {
  std::string identity;
  int rank;
  std::uint64_t calls = 0;
};

extern "C" {

const char* ncclGetErrorString(ncclResult_t status) {
  return status == ncclSuccess ? "no error" : "an error of the stand-in";
}
ncclResult_t ncclGetVersion(int* version) { return *version = 22803, ncclSuccess; }
ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  static int numbers = 0;
  *id = {};
  const std::lock_guard lock(mutex);
  const int number = ++numbers;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (rank < 0 || rank >= ranks || config->blocking != 0) return ncclInvalidArgument;
  const std::lock_guard lock(mutex);
  *comm = new StandInComm{{id.internal, sizeof id.internal}, rank};
  Group& group = groups[(*comm)->identity];
  group.ranks = ranks;
  ++group.joined;
  return ncclInProgress;
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* status) {
  const std::lock_guard lock(mutex);
  const Group& group = groups.at(comm->identity);
  *status = group.aborted                ? ncclRemoteError
            : group.joined < group.ranks ? ncclInProgress
                                         : ncclSuccess;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const std::lock_guard lock(mutex);
  Group& group = groups.at(comm->identity);
  group.aborted = true;
  something.notify_all();
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclAllReduce(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  const std::uint64_t call = comm->calls++;
  test::on_stream(stream, [=, identity = comm->identity, rank = comm->rank] {
    std::unique_lock lock(mutex);
    Group& group = groups.at(identity);
    auto& all = group.calls[call];
    all[rank] = {static_cast<const std::byte*>(in), static_cast<std::byte*>(out)};
    if (static_cast<int>(all.size()) == group.ranks) {
      const std::size_t bytes = count * size_of(type_of(type));
      std::vector<std::byte> sum(all.at(0).in, all.at(0).in + bytes);
      for (auto one = std::next(all.begin()); one != all.end(); ++one)
        reduce(Op::sum, type_of(type), sum.data(), one->second.in, count);
      for (const auto& [r, one] : all) std::copy(sum.begin(), sum.end(), one.out);
      group.calls.erase(call);
      group.done = call + 1;
      something.notify_all();
    }
    something.wait(lock, [&] { return group.done > call || group.aborted; });
  });
  return ncclSuccess;
}
}
