// The baseline MPI_Allreduce, of Open MPI or any other MPI.
#include <fmt/format.h>
#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>

#include "algorithms/core/transport.hpp"
#include "real/baseline.hpp"

namespace foreduce {
namespace {

/// MPI has one rank in each process. MPI_Allreduce has no timeout and cannot be interrupted. So
/// another thread ends the process if a call makes no progress.
class MpiRank final : public BaselineRank {
 public:
  explicit MpiRank(double timeout_s)
      : watch_([this, timeout_s](const std::stop_token& stop) {
          std::unique_lock lock(mutex_);
          for (std::uint64_t seen = 0; !stop.stop_requested(); seen = calls_) {
            changed_.wait_for(lock, stop, std::chrono::duration<double>(timeout_s),
                              [] { return false; });
            if (stop.stop_requested() || !inside_ || seen != calls_) continue;
            fmt::print(stderr, "foreduce: MPI_Allreduce made no progress for {} s\n", timeout_s);
            std::_Exit(1);
          }
        }) {}

  void all_reduce(const void* in, void* out, std::size_t count, Type type) override {
    const MPI_Datatype of = type == Type::f64   ? MPI_DOUBLE
                            : type == Type::i32 ? MPI_INT
                                                : MPI_FLOAT;
    if (type == Type::f16 || type == Type::bf16) throw TransportError("MPI has no half precision");
    if (count > 0x7fffffff) throw TransportError("MPI_Allreduce takes at most 2^31 - 1 elements");
    enter(true);
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, static_cast<int>(count), of, MPI_SUM,
                  MPI_COMM_WORLD);
    enter(false);
  }

 private:
  void enter(bool inside) {
    const std::lock_guard lock(mutex_);
    inside_ = inside;
    ++calls_;
  }

  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::uint64_t calls_ = 0;
  bool inside_ = false;
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
    return std::make_unique<MpiRank>(place.timeout_s);
  }
};

}  // namespace
}  // namespace foreduce

extern "C" foreduce::Baseline* foreduce_baseline() { return new foreduce::Mpi; }
