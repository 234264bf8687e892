// The tensors of a workload: from a file, or made from the shape of a model.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "models/workload.hpp"

namespace foreduce {

/// FLOP of training per forward multiply-accumulate: 2 forward, and twice as many backward.
inline constexpr double kFlopPerMac = 6;

/// Reads lines of name,elements,forward MACs[,µs of backward]. Throws InputError with the line.
std::vector<Tensor> load_tensors(const std::filesystem::path& path);
/// The same from a text inside a file, whose first line is that line of it.
std::vector<Tensor> parse_tensors(const std::string& file, const std::string& text, int first_line);

/// The tensors of a decoder in PyTorch's order of registration, with the forward MACs of a
/// sequence. A gated one has the names and the order of Llama in Hugging Face's modeling_llama.py,
/// any other those of nanoGPT's model.py. The output layer has the MACs of its weights wherever
/// they are.
/// `experts`: each block has so many in place of its feed-forward layer, and a router.
std::vector<Tensor> transformer_tensors(const TransformerShape& shape,
                                        const std::optional<Experts>& experts = std::nullopt);
/// GFLOP of training on one sequence: the tensors' MACs, and those of the attention scores.
double transformer_gflop(const TransformerShape& shape, const std::vector<Tensor>& tensors);

/// The width of most vectors (biases, norms): of a transformer its hidden width. Without any
/// (OLMo's norms have no parameters), as if most matrices were square, or the largest if all
/// differ.
std::size_t usual_width(const std::vector<Tensor>& tensors);

/// Whether this is a token embedding whose weights are the output layer's too: by its name in
/// nanoGPT and Hugging Face's models, and because looking up rows alone takes no MACs.
bool is_tied_output(const Tensor& tensor);

/// Whether its norms are of the kind that Hugging Face's models compute by several kernels
/// (RMSNorm, T5's): they have a weight and no bias. PyTorch's LayerNorm is one kernel. Of a
/// workload that is described by its blocks alone, which today's decoders are: yes.
bool has_separate_norms(const Workload& workload);

/// Whether it is of experts among which a router chooses: the workload has some, and the tensor's
/// name says so, as in Hugging Face's models ("model.layers.0.mlp.experts.down_proj").
bool is_of_experts(const Tensor& tensor, const Workload& workload);
/// Of how many experts: all where they are one tensor, else 1, for their names have numbers
/// ("…experts.3.w1.weight"); 0: of none.
int experts_in(const Tensor& tensor, const Workload& workload);

/// As many tensors of equal size, for a model of which no more is known than its parameters.
std::vector<Tensor> equal_blocks(int blocks, double parameters);

}  // namespace foreduce
