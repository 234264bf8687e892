// Open MPI's (or any MPI's) MPI_Allreduce as a baseline.
#include <fmt/format.h>
#include <mpi.h>

#include "algorithms/core/transport.hpp"
#include "real/baseline.hpp"

namespace foreduce {
namespace {

/// MPI has one rank a process.
class MpiRank final : public BaselineRank {
 public:
  void all_reduce(const void* in, void* out, std::size_t count, Type type) override {
    const MPI_Datatype of = type == Type::f64 ? MPI_DOUBLE : type == Type::i32 ? MPI_INT : MPI_FLOAT;
    if (type == Type::f16 || type == Type::bf16) throw TransportError("MPI has no half precision");
    if (count > 0x7fffffff) throw TransportError("MPI_Allreduce counts to 2^31 - 1 elements");
    MPI_Allreduce(in == out ? MPI_IN_PLACE : in, out, static_cast<int>(count), of, MPI_SUM, MPI_COMM_WORLD);
  }
};

class Mpi final : public Baseline {
 public:
  Mpi() {
    int provided = 0;
    if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS || provided < MPI_THREAD_SERIALIZED)
      throw TransportError("MPI does not start");
  }
  ~Mpi() override { MPI_Finalize(); }

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
      throw TransportError(fmt::format("MPI says rank {} of {} where foreduce says {} of {}: MPI has one rank a process, so leave --per-process away", rank, ranks, place.rank, place.ranks));
    return std::make_unique<MpiRank>();
  }
};

}  // namespace
}  // namespace foreduce

extern "C" foreduce::Baseline* foreduce_baseline() { return new foreduce::Mpi; }
