// Somebody else's all-reduce in the same measurement loop. Each lives in a module of its own, loaded when it is asked for, so that
// foreduce itself needs neither MPI nor NCCL to run.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

/// Which of the workers a rank is, and where its data lies.
struct BaselinePlace {
  int rank = 0, ranks = 1;
  int device = -1;        ///< the GPU's number in this process; -1: the process's memory
  double timeout_s = 30;  ///< without progress, where the library lets one look
};

/// One rank's part; for the rank's own thread.
class BaselineRank {
 public:
  virtual ~BaselineRank() = default;
  /// Sums `count` elements of all ranks; `in` and `out` may be the same. Blocks. Throws TransportError.
  virtual void all_reduce(const void* in, void* out, std::size_t count, Type type) = 0;
};

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual std::string version() const = 0;
  /// What the first rank makes up and tells all others, at most kInvitation bytes.
  virtual std::string invitation() const { return {}; }
  static constexpr std::size_t kInvitation = 256;
  /// Collective.
  virtual std::unique_ptr<BaselineRank> join(const BaselinePlace& place, const std::string& invitation) = 0;
};

/// Names of all there can be.
inline constexpr std::string_view kBaselines[] = {"mpi", "nccl"};

/// The baseline of that name. Throws TransportError if its module was not built or does not load, or if this process was not
/// started in its way (mpirun).
std::unique_ptr<Baseline> load_baseline(const std::string& name);
/// Whether the module was built.
bool has_baseline(const std::string& name);

/// What a module exports as "foreduce_baseline".
using MakeBaseline = Baseline* (*)();

}  // namespace foreduce
