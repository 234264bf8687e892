// What is trained: its tensors in registration order, its arithmetic, and how fast one GPU does it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "input/files.hpp"
#include "algorithms/core/layout.hpp"
#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

struct Tensor {
  std::string name;
  std::size_t elements = 0;
  double macs = 0;      ///< forward multiply-adds per sample
  double backward = 0;  ///< measured µs of backward until its gradient is there, from the one
                        ///< before; all 0: not measured
};

/// A sample's shape and its cost.
struct Variant {
  std::string sample;      ///< "512 tokens", "224x224 image"
  double train_gflop = 0;  ///< forward and backward of one sample
};

/// Published throughput of one GPU without communication.
struct Measured {
  std::string gpu;        ///< family: "V100", "A100", …
  std::string precision;  ///< fp16 (or bf16), fp32
  std::string sample;
  int batch = 0;
  double samples_per_s = 0;
  int accumulation = 1;  ///< micro-batches per optimizer step in that measurement
  std::string source;
};

/// Share of the peak to assume where nothing was measured. What is there without a file's own is of
/// transformers, as the shipped workloads have it.
struct Estimate {
  double fp16 = 0.43, fp32 = 0.55;
  std::string source = "transformers measured: V100 43-60 %, A100 44-68 %; the lower end (derived)";
};

/// A GPT-2-like decoder.
struct TransformerShape {
  int layers = 0, hidden = 0, vocabulary = 0, sequence = 0;
  int feed_forward = 0;  ///< 0: 4 x hidden
};

struct Workload {
  std::string name, title, note;
  std::string tensors_file;                     ///< the tensors are of one of these three
  std::optional<TransformerShape> transformer;  //
  int blocks = 0;                               //
  std::optional<Count> parameters;              ///< published
  std::vector<Variant> variants;
  Estimate estimate;
  std::vector<Measured> measured;
  std::vector<Tensor> tensors;

  std::size_t elements() const;
  /// The one that is asked for, by default the first; null if there is none of that name.
  const Variant* variant(const std::string& sample) const;
  /// "did you mean …" for a sample that it does not have.
  std::string suggest_sample(const std::string& sample) const;
};

/// Tokens of a sample that is called "1024 tokens"; 0 for others.
double tokens_of(const std::string& sample);

/// The workloads that ship; same conventions as Catalogue.
class Workloads {
 public:
  explicit Workloads(std::filesystem::path folder = data_folder() / "models" / "workloads");
  const std::vector<std::string>& names() const { return names_; }
  Workload load(const std::string& name) const;
  /// A user's own workload file.
  static Workload load_file(const std::filesystem::path& file);

 private:
  std::filesystem::path folder_;
  std::vector<std::string> names_;
};

/// How long one GPU computes on one micro-batch, and how we know.
struct ComputeTime {
  Seconds forward_backward;  ///< without the optimizer
  Seconds optimizer;         ///< one optimizer step
  bool measured = false;
  double within = 1;   ///< a factor: 90 % are expected to be off by less (models/training.yaml)
  Seconds least;       ///< of forward_backward at the GPU's peak; 0 where that is unknown
  std::string source;  ///< "measured at batch 8 on V100: …" or "estimate: 43 % of 312 TFLOPS: …"
};

/// Constants of the training step, from models/training.yaml.
struct TrainingConstants {
  Bytes first_bucket, bucket, fusion_buffer;
  Seconds fusion_cycle;
  double backward_share = 0, compute_share = 0, compute_share_servers = 0, optimizer_bytes = 0,
         state_bytes = 0, spread = 0, same_within = 1, measured_within = 1, estimate_within = 1;
};
const TrainingConstants& training_constants();

/// Speed of a GPU's backward pass, over its full speed, while an all-reduce runs on so many
/// channels: each is one thread block, which keeps one multiprocessor (NCCL user guide,
/// NCCL_MAX_NCHANNELS). Where the channels (0) or the GPU's multiprocessors are unknown, the
/// measured average.
double compute_share(const Gpu& gpu, double channels);
/// The same on the GPU of a cluster that has least left, beside the all-reduce of a library with
/// that profile.
double compute_share(const Cluster& cluster, const Layout& layout, const Profile& profile,
                     SummedBy by, int forced_channels = 0);

/// What each GPU keeps of a model that is not sharded: weights, gradients and the optimizer's
/// states. Activations come on top and depend on more than a workload says. Without `per_parameter`
/// as much as Adam needs.
Bytes training_state(const Workload& workload, std::optional<Bytes> per_parameter = std::nullopt);

/// What is left of a GPU's measured time of a micro-batch without the optimizer's step, of which it
/// had one in so many.
Seconds without_optimizer(const Workload& workload, const Gpu& gpu, Seconds per_batch,
                          int accumulation);

/// The nearest published measurement (same GPU family, precision and sample; nearest batch), else
/// FLOPs × efficiency. bf16 counts as fp16. Throws InputError if the GPU's peak is unknown and
/// nothing was measured, and for bf16 on a GPU that has none.
ComputeTime compute_time(const Workload& workload, const Gpu& gpu, const std::string& precision,
                         const std::string& sample, int batch);

/// The same from what the asker has measured: samples a second of one GPU alone, the optimizer's
/// step included, at that batch. Throws InputError for bf16 on a GPU that has none, and for a rate
/// above the GPU's peak.
ComputeTime compute_time(const Workload& workload, const Gpu& gpu, const std::string& precision,
                         const std::string& sample, int batch, double samples_per_s);

}  // namespace foreduce
