// All-reduces of other libraries, measured in the same loop as ours. Each is a module that is
// loaded when it is needed, so that foreduce itself runs without MPI and NCCL.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "algorithms/core/collective.hpp"

namespace foreduce {

/// Which of the workers a rank is, and where its data is.
struct BaselinePlace {
  int rank = 0, ranks = 1;
  int device = -1;        ///< the GPU's number in this process; -1: host memory
  double timeout_s = 30;  ///< without progress, where the library allows a check
};

/// One rank of a baseline; only the rank's own thread uses it.
class BaselineRank {
 public:
  virtual ~BaselineRank() = default;
  /// Runs one collective to its end. Both are whole buffers as in Collective, with the rank's own
  /// block in its place; they may be the same where works_in_place(). Broadcasts come from rank 0,
  /// and blocks must be equal. Sums where something is reduced. Throws TransportError.
  virtual void run(Collective collective, const Buffer& in, const Buffer& out) = 0;
  /// If not, the result in place is undefined and only its time means something, as in nccl-tests'
  /// alltoall_perf.
  virtual bool works_in_place(Collective) const { return true; }
};

class Baseline {
 public:
  virtual ~Baseline() = default;
  virtual std::string version() const = 0;
  /// What the first rank creates and all others need to join, at most kInvitation bytes.
  virtual std::string invitation() const { return {}; }
  static constexpr std::size_t kInvitation = 256;
  /// Collective: every worker calls it.
  virtual std::unique_ptr<BaselineRank> join(const BaselinePlace& place,
                                             const std::string& invitation) = 0;
};

/// Names of all baselines, whether they are built or not.
inline constexpr std::string_view kBaselines[] = {"mpi", "nccl"};

/// The baseline of that name. Throws TransportError if its module was not built or does not load,
/// or if the baseline needs a launcher (mpirun) that did not start this process.
std::unique_ptr<Baseline> load_baseline(const std::string& name);
/// Whether the module was built.
bool has_baseline(const std::string& name);

/// What a module exports as "foreduce_baseline".
using MakeBaseline = Baseline* (*)();

}  // namespace foreduce
