// Somebody else's all-reduce in the same measurement loop. Each lives in a module of its own, loaded when it is asked for, so that
// foreduce itself needs neither MPI nor NCCL to run.
#pragma once

#include <memory>
#include <string>

#include "algorithms/core/buffer.hpp"

namespace foreduce {

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual std::string version() const = 0;
  /// Sums `count` elements of all processes; `in` and `out` may be the same. Blocks.
  virtual void all_reduce(const void* in, void* out, std::size_t count, Type type) = 0;
};

/// The baseline of that name ("mpi"). Throws TransportError if its module was not built or does not load, or if this process was not
/// started in its way (mpirun).
std::unique_ptr<Baseline> load_baseline(const std::string& name);
/// Whether the module was built.
bool has_baseline(const std::string& name);

/// What a module exports as "foreduce_baseline".
using MakeBaseline = Baseline* (*)();

}  // namespace foreduce
