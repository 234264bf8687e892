// The baseline mpi: the collectives of Open MPI or any other MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "algorithms/core/transport.hpp"
#include "real/baseline.hpp"

namespace foreduce {
namespace {

MPI_Datatype summed_type(Type type) {
  if (type == Type::f16 || type == Type::bf16) throw TransportError("MPI has no half precision");
  return type == Type::f64 ? MPI_DOUBLE : type == Type::i32 ? MPI_INT : MPI_FLOAT;
}
/// Where nothing is reduced, only the size counts.
MPI_Datatype moved_type(Type type) {
  return size_of(type) == 2 ? MPI_UINT16_T : size_of(type) == 8 ? MPI_UINT64_T : MPI_UINT32_T;
}

/// MPI's counts are ints.
int count_of(const Buffer& part) {
  if (part.count > 0x7fffffff)
    throw TransportError("MPI's collectives take at most 2^31 - 1 elements");
  return static_cast<int>(part.count);
}

void check_mpi(int status, const char* call) {
  if (status != MPI_SUCCESS) throw TransportError(fmt::format("{} failed", call));
}

/// MPI has one rank in each process. Its collectives have no timeout and cannot be interrupted. So
/// another thread ends the process if a call makes no progress.
class MpiRank final : public BaselineRank {
 public:
  MpiRank(int rank, int ranks, double timeout_s)
      : rank_(rank), ranks_(ranks), watch_([this, timeout_s](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          for (std::uint64_t seen = 0; !stop.stop_requested(); seen = calls_) {
            changed_.wait_for(lock, stop, std::chrono::duration<double>(timeout_s),
                              [] { return false; });
            if (stop.stop_requested() || !doing_ || seen != calls_) continue;
            fmt::print(stderr, "foreduce: {} made no progress for {} s\n", doing_, timeout_s);
            std::_Exit(1);
          }
        }) {}

  void run(Collective collective, const Buffer& in, const Buffer& out) override {
    switch (collective) {
      case Collective::all_reduce: return all_reduce(in, out);
      case Collective::reduce_scatter: return reduce_scatter(in, out);
      case Collective::all_gather: return all_gather(in, out);
      case Collective::broadcast: return broadcast(in, out);
      case Collective::all_to_all: return all_to_all(in, out);
    }
  }

 private:
  void all_reduce(const Buffer& in, const Buffer& out) {
    const int count = count_of(in);
    const MPI_Datatype type = summed_type(in.type);
    call("MPI_Allreduce", [&] {
      return MPI_Allreduce(sent(in, out), out.data(), count, type, MPI_SUM, MPI_COMM_WORLD);
    });
  }
  /// In place MPI leaves the result in the first block, so that it must be moved to the rank's own.
  void reduce_scatter(const Buffer& in, const Buffer& out) {
    const Buffer mine = block(out);
    const int count = count_of(mine);
    const MPI_Datatype type = summed_type(in.type);
    std::byte* result = in.data() == out.data() ? out.data() : mine.data();
    call("MPI_Reduce_scatter_block", [&] {
      return MPI_Reduce_scatter_block(sent(in, out), result, count, type, MPI_SUM, MPI_COMM_WORLD);
    });
    if (result != mine.data() && mine.count > 0) std::memcpy(mine.data(), result, mine.bytes());
  }
  void all_gather(const Buffer& in, const Buffer& out) {
    const Buffer mine = block(in);
    const int count = count_of(mine);
    const MPI_Datatype type = moved_type(in.type);
    const void* from = in.data() == out.data() ? MPI_IN_PLACE : mine.data();
    call("MPI_Allgather",
         [&] { return MPI_Allgather(from, count, type, out.data(), count, type, MPI_COMM_WORLD); });
  }
  /// MPI has it in place only; out of place its root copies first, as with our algorithms.
  void broadcast(const Buffer& in, const Buffer& out) {
    const int count = count_of(in);
    const MPI_Datatype type = moved_type(in.type);
    if (rank_ == 0 && in.data() != out.data() && in.count > 0)
      std::memcpy(out.data(), in.data(), in.bytes());
    call("MPI_Bcast", [&] { return MPI_Bcast(out.data(), count, type, 0, MPI_COMM_WORLD); });
  }
  void all_to_all(const Buffer& in, const Buffer& out) {
    const int count = count_of(block(in));
    const MPI_Datatype type = moved_type(in.type);
    call("MPI_Alltoall", [&] {
      return MPI_Alltoall(sent(in, out), count, type, out.data(), count, type, MPI_COMM_WORLD);
    });
  }

  static const void* sent(const Buffer& in, const Buffer& out) {
    return in.data() == out.data() ? MPI_IN_PLACE : in.data();
  }
  Buffer block(const Buffer& data) const {
    if (data.count % static_cast<std::size_t>(ranks_) != 0)
      throw TransportError("MPI's blocks must be equal");
    return data.chunk(ranks_, rank_);
  }

  template <class Call>
  void call(const char* name, Call mpi) {
    enter(name);
    const int status = mpi();
    enter(nullptr);
    check_mpi(status, name);
  }
  /// The call that runs from now on, or null.
  void enter(const char* name) {
    const std::lock_guard lock(mutex_);
    doing_ = name;
    ++calls_;
  }

  int rank_, ranks_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t calls_ = 0;
  const char* doing_ = nullptr;
  std::jthread watch_;  // last: it uses the other members
};

class Mpi final : public Baseline {
 public:
  Mpi() {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS ||
        provided < MPI_THREAD_SERIALIZED)
      throw TransportError("MPI does not start");
  }
  /// A rank that failed does not wait for the others here, since mpirun ends them.
  ~Mpi() override {
    if (std::uncaught_exceptions() == 0) MPI_Finalize();
  }

  std::string version() const override {
    char text[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(text, &length);
    const std::string all(text, static_cast<std::size_t>(length));
    return all.substr(0, all.find(','));
  }

  std::unique_ptr<BaselineRank> join(const BaselinePlace& place, const std::string&) override {
    int rank = 0, ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (rank != place.rank || ranks != place.ranks)
      throw TransportError(
          fmt::format("MPI says rank {} of {} where foreduce says {} of {}: MPI has one rank per "
                      "process, so do not use --per-process",
                      rank, ranks, place.rank, place.ranks));
    return std::make_unique<MpiRank>(rank, ranks, place.timeout_s);
  }
};

}  // namespace
}  // namespace foreduce

extern "C" foreduce::Baseline* foreduce_baseline() { return new foreduce::Mpi; }
