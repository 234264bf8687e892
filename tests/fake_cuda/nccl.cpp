// NCCL between the ranks of one process, on the stand-in for CUDA: joins and moves data as NCCL
// does, without blocking and late. A rank that gives up lets the others go, as ncclCommAbort does.
#include <nccl.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <functional>
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

/// What a rank gives to a call; `in` and `out` by peer for sends and receives.
struct Call {
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
};
using Calls = std::map<int, Call>;  // by rank
/// The ranks that have the same identity.
struct Group {
  int ranks = 0, joined = 0;
  bool aborted = false;
  std::map<std::uint64_t, Calls> calls;  // by how many came before
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

namespace {

/// The last of the ranks to arrive does the work of all.
ncclResult_t start(ncclComm_t comm, cudaStream_t stream, Call mine,
                   std::function<void(Calls&)> work) {
  const std::uint64_t call = comm->calls++;
  test::on_stream(stream, [=, identity = comm->identity, rank = comm->rank] {
    std::unique_lock lock(mutex);
    Group& group = groups.at(identity);
    auto& all = group.calls[call];
    all[rank] = mine;
    if (static_cast<int>(all.size()) == group.ranks) {
      work(all);
      group.calls.erase(call);
      group.done = call + 1;
      something.notify_all();
    }
    something.wait(lock, [&] { return group.done > call || group.aborted; });
  });
  return ncclSuccess;
}

Call call_of(const void* in, void* out) {
  return {{static_cast<const std::byte*>(in)}, {static_cast<std::byte*>(out)}};
}

std::vector<std::byte> sum_of(const Calls& all, std::size_t count, Type type) {
  const std::byte* first = all.at(0).in[0];
  std::vector<std::byte> sum(first, first + count * size_of(type));
  for (auto one = std::next(all.begin()); one != all.end(); ++one)
    reduce(Op::sum, type, sum.data(), one->second.in[0], count);
  return sum;
}

/// The sends and receives of this thread's group, one of each for every peer.
struct Pairs {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  Call call;
  std::size_t bytes = 0;
};
thread_local Pairs pairs;

}  // namespace

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
  return start(comm, stream, call_of(in, out), [=](Calls& all) {
    const auto sum = sum_of(all, count, type_of(type));
    for (const auto& [r, one] : all) std::copy(sum.begin(), sum.end(), one.out[0]);
  });
}
ncclResult_t ncclReduceScatter(const void* in, void* out, std::size_t each, ncclDataType_t type,
                               ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return start(comm, stream, call_of(in, out), [=](Calls& all) {
    const auto sum = sum_of(all, each * all.size(), type_of(type));
    const std::size_t bytes = each * size_of(type_of(type));
    for (const auto& [r, one] : all)
      std::copy_n(sum.data() + static_cast<std::size_t>(r) * bytes, bytes, one.out[0]);
  });
}
ncclResult_t ncclAllGather(const void* in, void* out, std::size_t each, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return start(comm, stream, call_of(in, out), [=](Calls& all) {
    const std::size_t bytes = each * size_of(type_of(type));
    for (const auto& [from, sender] : all)
      for (const auto& [to, receiver] : all) {
        std::byte* place = receiver.out[0] + static_cast<std::size_t>(from) * bytes;
        if (bytes > 0) std::memmove(place, sender.in[0], bytes);  // in place they are the same
      }
  });
}
ncclResult_t ncclBroadcast(const void* in, void* out, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return start(comm, stream, call_of(in, out), [=](Calls& all) {
    const std::size_t bytes = count * size_of(type_of(type));
    for (const auto& [r, one] : all)
      if (bytes > 0) std::memmove(one.out[0], all.at(root).in[0], bytes);
  });
}
ncclResult_t ncclGroupStart() { return pairs = {}, ncclSuccess; }
ncclResult_t ncclSend(const void* in, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  if (peer != static_cast<int>(pairs.call.in.size())) return ncclInvalidArgument;
  pairs.comm = comm;
  pairs.stream = stream;
  pairs.bytes = count * size_of(type_of(type));
  pairs.call.in.push_back(static_cast<const std::byte*>(in));
  return ncclSuccess;
}
ncclResult_t ncclRecv(void* out, std::size_t, ncclDataType_t, int peer, ncclComm_t, cudaStream_t) {
  if (peer != static_cast<int>(pairs.call.out.size())) return ncclInvalidArgument;
  pairs.call.out.push_back(static_cast<std::byte*>(out));
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  return start(pairs.comm, pairs.stream, pairs.call, [bytes = pairs.bytes](Calls& all) {
    for (const auto& [from, sender] : all)
      for (const auto& [to, receiver] : all)
        if (bytes > 0)
          std::memmove(receiver.out[static_cast<std::size_t>(from)],
                       sender.in[static_cast<std::size_t>(to)], bytes);
  });
}
}
