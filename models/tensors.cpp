#include "models/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>

namespace foreduce {

std::vector<Tensor> load_tensors(const std::filesystem::path& path) {
  const auto fail = [&](int line, std::string message) {
    return InputError(Problem{path.string(), line, 1, "", std::move(message),
                              "a line is: name,elements,forward MACs[,µs of backward]", ""});
  };
  std::ifstream in(path);
  if (!in) throw fail(0, "cannot be read");
  std::vector<Tensor> tensors;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.empty() || line[0] == '#') continue;
    const auto first = line.find(','), second = line.find(',', first + 1),
               third = std::min(line.find(',', second + 1), line.size());
    Tensor t;
    double elements = 0;
    std::string why;
    if (first == std::string::npos || second == std::string::npos)
      throw fail(number, "three or four fields are expected");
    t.name = line.substr(0, first);
    if (!parse_number(line.substr(first + 1, second - first - 1), elements, why) ||
        !parse_number(line.substr(second + 1, third - second - 1), t.macs, why) ||
        (third < line.size() && !parse_number(line.substr(third + 1), t.backward, why)))
      throw fail(number, why);
    if (elements < 1 || elements != std::floor(elements) || t.macs < 0 || t.backward < 0 ||
        elements > 1e15)
      throw fail(number, "a tensor has at least one element, and no negative MACs or µs");
    t.elements = static_cast<std::size_t>(elements);
    tensors.push_back(std::move(t));
  }
  if (tensors.empty()) throw fail(0, "there are no tensors");
  return tensors;
}

namespace {

/// Writes down a decoder's tensors one after another.
class Decoder {
 public:
  explicit Decoder(const TransformerShape& shape)
      : shape_(shape),
        hidden_(static_cast<std::size_t>(shape.hidden)),
        inner_(static_cast<std::size_t>(shape.feed_forward > 0 ? shape.feed_forward
                                                               : 4 * shape.hidden)),
        keys_(shape.heads > 0 && shape.kv_heads > 0
                  ? hidden_ / static_cast<std::size_t>(shape.heads) *
                        static_cast<std::size_t>(shape.kv_heads)
                  : hidden_) {}

  std::vector<Tensor> tensors() {
    const auto vocabulary = static_cast<std::size_t>(shape_.vocabulary);
    const bool llama = shape_.gated;
    // An embedding has no MACs, but an output layer that shares its weights has them.
    add(llama ? "model.embed_tokens.weight" : "wte.weight", vocabulary * hidden_,
        shape_.tied ? Used::by_every_token : Used::looked_up);
    if (shape_.positions == "learned")
      add("wpe.weight", static_cast<std::size_t>(shape_.sequence) * hidden_, Used::looked_up);
    for (int layer = 0; layer < shape_.layers; ++layer)
      llama ? llama_block(fmt::format("model.layers.{}.", layer))
            : gpt_block(fmt::format("h.{}.", layer));
    norm(llama ? "model.norm" : "ln_f");
    if (!shape_.tied) add("lm_head.weight", vocabulary * hidden_, Used::by_every_token);
    return std::move(all_);
  }

 private:
  enum class Used : std::uint8_t { by_every_token, looked_up };

  void add(const std::string& name, std::size_t elements, Used used) {
    const double each = used == Used::by_every_token ? shape_.sequence : 0;
    all_.push_back({name, elements, static_cast<double>(elements) * each, 0});
  }
  void matrix(const std::string& name, std::size_t in, std::size_t out) {
    add(name + ".weight", in * out, Used::by_every_token);
    if (shape_.bias) add(name + ".bias", out, Used::looked_up);
  }
  void norm(const std::string& name) {
    add(name + ".weight", hidden_, Used::looked_up);
    if (shape_.norm == "layer") add(name + ".bias", hidden_, Used::looked_up);
  }
  void gpt_block(const std::string& of) {
    norm(of + "ln_1");
    matrix(of + "attn.c_attn", hidden_, hidden_ + 2 * keys_);
    matrix(of + "attn.c_proj", hidden_, hidden_);
    norm(of + "ln_2");
    matrix(of + "mlp.c_fc", hidden_, inner_);
    matrix(of + "mlp.c_proj", inner_, hidden_);
  }
  void llama_block(const std::string& of) {
    matrix(of + "self_attn.q_proj", hidden_, hidden_);
    matrix(of + "self_attn.k_proj", hidden_, keys_);
    matrix(of + "self_attn.v_proj", hidden_, keys_);
    matrix(of + "self_attn.o_proj", hidden_, hidden_);
    matrix(of + "mlp.gate_proj", hidden_, inner_);
    matrix(of + "mlp.up_proj", hidden_, inner_);
    matrix(of + "mlp.down_proj", inner_, hidden_);
    norm(of + "input_layernorm");
    norm(of + "post_attention_layernorm");
  }

  const TransformerShape& shape_;
  std::size_t hidden_, inner_, keys_;
  std::vector<Tensor> all_;
};

}  // namespace

std::vector<Tensor> transformer_tensors(const TransformerShape& shape) {
  return Decoder(shape).tensors();
}

double transformer_gflop(const TransformerShape& shape, const std::vector<Tensor>& tensors) {
  // Scores and their use: each token with each, twice.
  double macs =
      2.0 * shape.layers * shape.sequence * static_cast<double>(shape.sequence) * shape.hidden;
  for (const Tensor& t : tensors) macs += t.macs;
  return kFlopPerMac * macs / 1e9;
}

std::vector<Tensor> equal_blocks(int blocks, double parameters) {
  std::vector<Tensor> tensors;
  const double each = std::floor(parameters / blocks);
  for (int b = 0; b < blocks; ++b)
    tensors.push_back({fmt::format("block.{}", b),
                       static_cast<std::size_t>(b == 0 ? parameters - each * (blocks - 1) : each),
                       0, 0});
  return tensors;
}

}  // namespace foreduce
