// What a PyTorch profiler's trace (Kineto) tells of a training step on one GPU: how long it
// computes, what it communicates, and how much of that is hidden.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "input/units.hpp"
#include "models/workload.hpp"

namespace foreduce {

/// One collective of NCCL, as a kernel on the GPU.
struct KinetoCollective {
  std::string name;     ///< "allreduce", as PyTorch calls it; of an older trace the kernel's name
  std::string type;     ///< of the elements: "Float"; empty: not told
  double elements = 0;  ///< that go in
  std::optional<Bytes> bytes;  ///< that go in; not told by traces before PyTorch 2.3
  Seconds start;               ///< since the trace's first kernel
  Seconds duration;
  int group = 0;              ///< ranks; 0: not told
  int step = 0;               ///< of the trace's steps; -1: launched outside of them
  bool of_gradients = false;  ///< launched by the autograd engine
};

struct TrainingTrace {
  std::string file, gpu;     ///< "NVIDIA A100-SXM4-40GB"
  int rank = -1, world = 0;  ///< -1, 0: not told
  std::size_t kernels = 0;
  std::vector<Seconds> steps;  ///< of the profiler; empty: it was not told where they are
  /// Of the last whole step, from the first kernel of each phase to its last: computation alone,
  /// pauses between its kernels included.
  Seconds forward, backward, optimizer;
  /// Unions of the kernels' times in the whole trace, as Holistic Trace Analysis takes them
  /// (get_comm_comp_overlap): kernels whose name begins with nccl, and all others.
  Seconds communicating, computing, both;
  std::vector<KinetoCollective> collectives;  ///< by start
  std::vector<Seconds> ready;  ///< of the last step's gradient collectives, since backward began
  int last_step = 0;           ///< that the times above are of

  /// Of the last step, those that the autograd engine launched.
  std::vector<KinetoCollective> gradients() const;
};

/// Streams a trace, which may be packed with gzip: no more of it is kept than a few numbers a
/// kernel. Throws InputError with line and column for what is no JSON, and for a trace without
/// kernels.
TrainingTrace load_trace(const std::filesystem::path& file);

/// What may be chosen where a trace leaves it open.
struct TraceChoices {
  std::string name;  ///< of the workload; empty: the file's
  int batch = 1;     ///< samples of a micro-batch
};
/// As much of a workload as the trace tells: a tensor a bucket with the time until it was ready,
/// and the measured rate. Throws InputError for a trace without collectives of gradients.
Workload workload_from_trace(const TrainingTrace& trace, const TraceChoices& choices);

}  // namespace foreduce
