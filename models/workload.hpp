// What is trained: its tensors in registration order, its arithmetic, and how fast one GPU does it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "input/files.hpp"
#include "algorithms/core/layout.hpp"
#include "input/words.hpp"
#include "models/precision.hpp"
#include "models/profile.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

/// The program that trains: how much of a GPU's peak it reaches, and what it keeps.
enum class Framework : std::uint8_t {
  pytorch,      ///< tuned programs of PyTorch: FSDP2, torchtitan, llm-foundry
  deepspeed,    ///< the same kernels; its ZeRO-3 gathers tensor by tensor when they are needed
  megatron,     ///< NVIDIA's Megatron-LM, NeMo and Megatron-Bridge, with Transformer Engine
  transformers  ///< Hugging Face's models in PyTorch, not compiled
};
template <>
struct EnumWords<Framework> {
  static constexpr EnumWord<Framework> all[] = {{Framework::pytorch, "pytorch"},
                                                {Framework::deepspeed, "deepspeed"},
                                                {Framework::megatron, "megatron"},
                                                {Framework::transformers, "transformers"}};
};

/// Whether its kernels are those of which PyTorch's rates and shares are.
inline bool has_pytorch_kernels(Framework f) {
  return f == Framework::pytorch || f == Framework::deepspeed;
}

/// A parameter tensor.
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
  std::string gpu;                        ///< family: "V100", "A100", …
  Precision precision = Precision::fp16;  ///< fp16 (or bf16), fp32
  std::string sample;
  int batch = 0;
  double samples_per_s = 0;
  int accumulation = 1;  ///< micro-batches per optimizer step in that measurement
  std::string framework = "pytorch";
  std::string source;
};

/// 90 % of measured times are expected from `faster` times shorter to `slower` times longer.
struct Spread {
  double faster = 1, slower = 1;
};

/// Of a time, the part that goes with memory's bandwidth, and the least and most that it may be.
struct MemoryPart {
  double memory = 0, least = 0, most = 0;
};

/// What an Estimate has of another family of GPUs.
struct EstimateOn {
  std::string gpu;  ///< family
  double fp16 = 0;
  std::optional<double> recomputed;
};

/// Share of the peak to assume where nothing was measured on any GPU. What is there without a
/// file's own is of transformers, as the shipped workloads have it.
struct Estimate {
  double fp16 = 0.43;  ///< of `gpu`; other GPUs follow from their data sheets
  double fp32 = 0.55;  ///< of any GPU
  /// As fp16, of all arithmetic where the forward pass is recomputed: batches are larger then, and
  /// more of the time is products. Null: as fp16.
  std::optional<double> recomputed;
  std::string gpu = "A100";        ///< family
  std::vector<EstimateOn> others;  ///< the same of other families
  /// Of published rates, on the families that are named here. Null: the shares are assumed.
  std::optional<Spread> within;
  /// Whether the shares are of programs whose attention is one kernel: where a workload has
  /// attention_scores, reading and writing these takes time besides.
  bool fused_attention = false;
  std::string source = "transformers measured on A100: 27-68 %; the middle (derived)";
};

/// A decoder. As it stands it is GPT-2's; GPT-NeoX and Llama differ in the rest.
struct TransformerShape {
  int layers = 0, hidden = 0, vocabulary = 0, sequence = 0;
  int feed_forward = 0;  ///< 0: 4 x hidden
  int heads = 0;         ///< of attention; 0: not said, which matters for kv_heads alone
  int kv_heads = 0;      ///< that keys and values have (grouped-query attention); 0: as heads
  int head_size = 0;     ///< width of a head; 0: hidden / heads
  bool gated = false;    ///< whether the feed-forward layer has a gate (SwiGLU), a third matrix
  bool bias = true;      ///< whether matrices have one
  std::string norm = "layer";         ///< layer (a weight and a bias) or rms (a weight)
  std::string positions = "learned";  ///< learned (an embedding) or rotary (no parameters)
  bool tied = true;  ///< whether the output layer shares the token embedding's weights
};

/// Experts of a block, among which a router chooses for each token.
struct Experts {
  int count = 0;      ///< in a block that has them; those that every token takes do not count
  int per_token = 0;  ///< that a token takes
};

/// What a decoder reaches that is `width` wide where one that is `known` wide reaches `estimate`:
/// of its time more or less is products (training.yaml, half_width). The share of fp32, which takes
/// products so long that all else hardly counts, stays.
Estimate at_width(Estimate estimate, double known, double width);

/// A model to train, as a workload file describes it.
struct Workload {
  std::string name, title, note;
  // Where `tensors` come from; one of these three:
  std::string tensors_in;                       ///< a CSV file, or its lines
  std::optional<TransformerShape> transformer;  ///< a decoder's shape
  std::string positions;                        ///< of `tensors`: "rotary", or not known
  int blocks = 0;                               ///< so many equal tensors of `parameters`
  std::optional<Count> parameters;              ///< published
  std::optional<Experts> experts;               ///< of a mixture of experts
  std::vector<Variant> variants;
  double attention_scores = 0;  ///< of a sample of the first variant, that backward keeps
  Estimate estimate;
  std::vector<Measured> measured;
  std::vector<Tensor> tensors;
  bool cuda_graphs = false;  ///< a step is replayed as CUDA graphs, so launching costs no time
  bool fused_loss = false;  ///< the loss is computed in one kernel, which puts the logits' gradient
                            ///< in their place
  Framework framework = Framework::pytorch;  ///< what trains it
  double trainable = 1;  ///< part of all layers' parameters that a step changes; the rest is
                         ///< frozen, and has neither gradients nor optimizer's states

  std::size_t elements() const;
  /// The one that is asked for, by default the first; null if there is none of that name.
  const Variant* variant(const std::string& sample) const;
  /// "did you mean …" for a sample that it does not have.
  std::string suggest_sample(const std::string& sample) const;
  /// Whether a sample may have any number of tokens: a table of learned positions has no rows for
  /// more than it was made for.
  bool any_length() const { return (transformer ? transformer->positions : positions) == "rotary"; }
};

/// What a decoder of that width is assumed to reach of which nobody said more: as Llama-2 7B, and
/// from 8,192 on as Llama-2 70B, so that a shape and the workload of that shape answer alike.
Estimate decoder_estimate(double width);

/// Tokens of a sample that is called "1024 tokens"; 0 for others.
double tokens_of(const std::string& sample);
/// Gives a workload a sample of fewer tokens than its first's, if `sample` is one, or of more where
/// positions are rotary: products of layers go with the tokens, and attention's scores with their
/// square. Others are left alone, as are workloads whose tensors do not say their arithmetic.
void add_length(Workload& workload, const std::string& sample);
/// How many times the positions of the first variant a sample has.
double positions_of(const Workload& workload, const std::string& sample);

/// The part of a sample's arithmetic that is products of layers; the rest is attention's scores.
double linear_share(const Workload& workload, const std::string& sample);
/// What a step computes of what it would if it trained all parameters. Forward is a third. Of
/// backward's products of layers, half are gradients through the layers, and half are those of the
/// weights, which frozen ones lack (Hu et al., LoRA, ICLR 2022, section 4.2: 25 % faster on GPT-3
/// 175B).
double arithmetic_share(const Workload& workload, const std::string& sample);
/// The same of a step's time, which is not products alone (models/training.yaml, half_width).
double time_share(const Workload& workload, const std::string& sample);
/// Backward's part of a step's time.
double backward_share(const Workload& workload, const std::string& sample);
/// Of so many elements those that a step changes, where it changes that part of all; at least 1.
std::size_t trained_elements(std::size_t elements, double trainable);

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

/// What Megatron-LM with Transformer Engine reaches, of a GPU's data sheet.
struct MegatronConstants {
  double products = 0;      ///< of the peak of 16 bits, by products of layers
  double products_fp8 = 0;  ///< of FP8's, by those of blocks
  double scores = 0;        ///< of the peak of 16 bits, by attention, whose causal half is computed
  Bytes moved;              ///< read and written of each element that a layer puts out
  double fp8_kept = 0;      ///< of what is kept of an element in FP8, relative to 16 bits
  double score_bytes = 0;   ///< as TrainingConstants::score_bytes, by one kernel of scale, mask and
                            ///< softmax
  double kept_score = 0;    ///< bytes kept of each of attention's scores, in 16 bits
  Spread within;            ///< 90 % of published rates are within it
  std::vector<std::string> gpus;  ///< families of which there are some
};

/// What Hugging Face's models read, write and keep between products, where each operation is a
/// kernel of its own. Products and attention are as Megatron's.
struct TransformersConstants {
  Bytes moved;          ///< read and written of each element that a block's layer puts out
  Bytes norms;          ///< besides, of each that a block hands on, where norms are several kernels
  Bytes logits;         ///< of each that the layer over the vocabulary puts out
  Bytes kept_norms;     ///< that such norms keep of each that a block hands on, under autocast
  Bytes kept_norms_16;  ///< the same where the model itself is in 16 bits
  Spread within;        ///< 90 % of measured times are within it
  std::vector<std::string> gpus;  ///< families of which there are some
};

/// Constants of the training step, from models/training.yaml.
struct TrainingConstants {
  Bytes first_bucket, bucket, fusion_buffer;
  Seconds fusion_cycle;
  double backward_share = 0, compute_share = 0, compute_share_servers = 0, optimizer_bytes = 0,
         memory_share = 0, state_bytes = 0, spread = 0, same_within = 1, estimate_within = 1,
         half_width = 0, fp8_share = 0, fp8_half_width = 0, fp8_within = 1, fp32_traffic_within = 1,
         fp32_traffic = 1,  ///< of 16 bits' time that goes with memory, where numbers have 32
      score_bytes = 0;      ///< read and written of each of attention's scores, where they are kept
  Spread measured;          ///< of a rate that somebody measured with the same framework
  Spread elsewhere;         ///< with another framework
  Spread transferred;       ///< on another GPU
  MemoryPart same_chip;     ///< on a GPU that differs in its memory alone
  double best_share = 1;    ///< of its peak that a GPU reaches with nothing but arithmetic
  double fixed_share =
      0;  ///< of a micro-batch's time that neither the peak nor memory bandwidth shortens
  Seconds micro_batch_overhead;    ///< of a training step's micro-batch beyond its arithmetic
  double tensor_width = 1;         ///< see tensor_undivided
  double tensor_undivided = 0;     ///< of a GPU's time, by tensor parallelism without sequences'
  double micro_batch_tensors = 1;  ///< of a network that has it; fewer tensors have less of it
  Seconds launches_of_tensor;      ///< of the kernels of one parameter tensor, forward and backward
  double launches_slower = 1;      ///< as many times as long they may take
  double adapters_below = 0;       ///< a trainable part of at most so much is of adapters
  double adapter_launches = 1;     ///< as many times as many where adapters alone are trained
  Spread adapter_launches_within;  ///< 90 % of what theirs take lies in it
  Seconds tensor_launches;         ///< besides, of a block's tensor-parallel exchanges, in PyTorch
  double most_launched_tensors = 1;  ///< beyond which launches take no longer
  Flop half_saturated;               ///< arithmetic of a micro-batch that keeps a GPU half busy
  MegatronConstants megatron;
  TransformersConstants transformers;
  double memory_within = 1;  ///< a factor that measured peaks of memory are within of ours
  Bytes memory_outside;      ///< of a GPU, beside what PyTorch allocates: CUDA's and NCCL's own
};
/// Of models/training.yaml, read once. Throws InputError for a malformed file.
const TrainingConstants& training_constants();

}  // namespace foreduce
