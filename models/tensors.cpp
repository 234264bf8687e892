#include "models/tensors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

#include "input/files.hpp"
#include "input/text_stream.hpp"
#include "models/tensor_list.hpp"
#include "models/units.hpp"

namespace foreduce {

namespace {

InputError tensor_error(const std::string& file, int line, std::string message) {
  return InputError(Problem{file, line, 1, "", std::move(message),
                            "a line is: name,elements,forward MACs[,µs of backward]", ""});
}

std::vector<Tensor> read_tensors(const std::string& file, std::istream& in, int first_line) {
  const auto fail = [&](int line, std::string message) {
    return tensor_error(file, line, std::move(message));
  };
  constexpr double kMostElements = 1e15;
  constexpr std::size_t kMostTensors = 1'000'000;
  std::vector<Tensor> tensors;
  std::map<std::string, int> lines;  // of each name
  double total = 0;
  std::string line;
  for (int number = first_line; std::getline(in, line); ++number) {
    if (line.ends_with('\r')) line.pop_back();
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
        elements > kMostElements)
      throw fail(number, "a tensor has at least one element, and no negative MACs or µs");
    if ((total += elements) > kMostElements || tensors.size() >= kMostTensors)
      throw fail(number, fmt::format("more than {} tensors, or {:g} elements in all", kMostTensors,
                                     kMostElements));
    t.elements = static_cast<std::size_t>(elements);
    if (const auto [at, fresh] = lines.emplace(t.name, number); !fresh)
      throw fail(number, fmt::format("'{}' was on line {} already", t.name, at->second));
    tensors.push_back(std::move(t));
  }
  if (tensors.empty()) throw fail(0, "there are no tensors");
  return tensors;
}

}  // namespace

std::vector<Tensor> load_tensors(const std::filesystem::path& path) {
  return parse_tensors(path.string(), read_text(path), 1);
}

std::vector<Tensor> parse_tensors(const std::string& file, const std::string& text,
                                  int first_line) {
  TextStream in(text);
  return read_tensors(file, in, first_line);
}

namespace {

/// Of all heads' queries together.
std::size_t attention_width(const TransformerShape& shape) {
  const auto heads = static_cast<std::size_t>(shape.heads);
  return shape.head_size > 0 ? heads * static_cast<std::size_t>(shape.head_size)
                             : static_cast<std::size_t>(shape.hidden);
}

/// Writes down a decoder's tensors one after another.
class Decoder {
 public:
  Decoder(const TransformerShape& shape, const std::optional<Experts>& experts)
      : shape_(shape),
        experts_(experts),
        hidden_(static_cast<std::size_t>(shape.hidden)),
        inner_(static_cast<std::size_t>(shape.feed_forward > 0 ? shape.feed_forward
                                                               : 4 * shape.hidden)),
        queries_(attention_width(shape)),
        keys_(shape.heads > 0 && shape.kv_heads > 0
                  ? queries_ / static_cast<std::size_t>(shape.heads) *
                        static_cast<std::size_t>(shape.kv_heads)
                  : queries_) {}

  std::vector<Tensor> tensors() {
    const auto vocabulary = static_cast<std::size_t>(shape_.vocabulary);
    const bool llama = shape_.gated;
    // An embedding has no MACs, but an output layer that shares its weights has them.
    all_.add(llama ? "model.embed_tokens.weight" : "wte.weight", vocabulary * hidden_,
             shape_.tied ? shape_.sequence : 0);
    if (shape_.positions == "learned")
      all_.add("wpe.weight", static_cast<std::size_t>(shape_.sequence) * hidden_);
    for (int layer = 0; layer < shape_.layers; ++layer)
      llama ? llama_block(fmt::format("model.layers.{}.", layer))
            : gpt_block(fmt::format("h.{}.", layer));
    norm(llama ? "model.norm" : "ln_f");
    if (!shape_.tied) all_.add("lm_head.weight", vocabulary * hidden_, shape_.sequence);
    return all_.take();
  }

 private:
  void matrix(const std::string& name, std::size_t in, std::size_t out) {
    all_.linear(name, in, out, shape_.sequence,
                shape_.bias ? TensorList::Bias::with : TensorList::Bias::without);
  }
  void norm(const std::string& name) {
    all_.norm(name, hidden_,
              shape_.norm == "layer" ? TensorList::Norm::layer : TensorList::Norm::rms);
  }
  void gpt_block(const std::string& of) {
    norm(of + "ln_1");
    matrix(of + "attn.c_attn", hidden_, queries_ + 2 * keys_);
    matrix(of + "attn.c_proj", queries_, hidden_);
    norm(of + "ln_2");
    if (experts_) return experts(of + "mlp.", "up_proj", inner_);
    matrix(of + "mlp.c_fc", hidden_, inner_);
    matrix(of + "mlp.c_proj", inner_, hidden_);
  }
  void llama_block(const std::string& of) {
    matrix(of + "self_attn.q_proj", hidden_, queries_);
    matrix(of + "self_attn.k_proj", hidden_, keys_);
    matrix(of + "self_attn.v_proj", hidden_, keys_);
    matrix(of + "self_attn.o_proj", queries_, hidden_);
    if (experts_) {
      experts(of + "mlp.", "gate_up_proj", 2 * inner_);
    } else {
      matrix(of + "mlp.gate_proj", hidden_, inner_);
      matrix(of + "mlp.up_proj", hidden_, inner_);
      matrix(of + "mlp.down_proj", inner_, hidden_);
    }
    norm(of + "input_layernorm");
    norm(of + "post_attention_layernorm");
  }

  /// A router, and all experts of a block as one tensor a kind, each of which sees its part of the
  /// tokens.
  void experts(const std::string& of, const char* first, std::size_t width) {
    const auto count = static_cast<std::size_t>(experts_->count);
    const double each =
        static_cast<double>(shape_.sequence) * experts_->per_token / experts_->count;
    all_.add(of + "gate.weight", count * hidden_, shape_.sequence);
    all_.add(of + "experts." + first, count * hidden_ * width, each);
    all_.add(of + "experts.down_proj", count * inner_ * hidden_, each);
  }

  const TransformerShape& shape_;
  const std::optional<Experts>& experts_;
  std::size_t hidden_, inner_, queries_, keys_;
  TensorList all_;
};

}  // namespace

std::vector<Tensor> transformer_tensors(const TransformerShape& shape,
                                        const std::optional<Experts>& experts) {
  return Decoder(shape, experts).tensors();
}

std::size_t usual_width(const std::vector<Tensor>& tensors) {
  std::map<std::size_t, int> seen;
  // Of attention heads, latent spaces, routers and experts there may be more than of the rest.
  const auto is_usual = [](const Tensor& t) {
    for (const char* other : {".q_norm.", ".k_norm.", ".q_layernorm.", ".k_layernorm.",
                              "_a_layernorm.", ".gate.bias", ".experts."})
      if (t.name.find(other) != std::string::npos) return false;
    return true;
  };
  for (const Tensor& t : tensors)
    if (t.macs == 0 && is_usual(t)) ++seen[t.elements];
  const auto most = std::max_element(
      seen.begin(), seen.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != seen.end()) return most->first;
  std::map<std::size_t, int> matrices;
  for (const Tensor& t : tensors) ++matrices[t.elements];
  const auto common =
      std::max_element(matrices.begin(), matrices.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (common == matrices.end()) return 1;
  const std::size_t square = common->second > 1 ? common->first : matrices.rbegin()->first;
  return static_cast<std::size_t>(std::sqrt(static_cast<double>(square)));
}

bool is_tied_output(const Tensor& tensor) {
  if (tensor.macs <= 0) return false;
  for (const std::string_view name :
       {"wte.weight", "embed_in.weight", "embed_tokens.weight", "word_embeddings.weight",
        "tok_embeddings.weight", "shared.weight"})
    if (tensor.name == name || tensor.name.ends_with("." + std::string(name))) return true;
  return false;
}

bool has_separate_norms(const Workload& workload) {
  if (workload.blocks > 0) return true;
  const auto& all = workload.tensors;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string_view name = all[i].name;
    if (all[i].macs > 0 || !name.ends_with("norm.weight")) continue;
    const std::string bias =
        std::string(name.substr(0, name.size() - std::string_view("weight").size())) + "bias";
    return i + 1 == all.size() || all[i + 1].name != bias;
  }
  return false;
}

namespace {

constexpr std::string_view kExperts = "experts.";

}  // namespace

int experts_in(const Tensor& tensor, const Workload& workload) {
  const std::size_t at = tensor.name.find(kExperts);
  const bool begins_a_part = at == 0 || (at != std::string::npos && tensor.name[at - 1] == '.');
  if (!workload.experts || !begins_a_part) return 0;
  const std::size_t behind = at + kExperts.size();
  // "experts.3.w1", or "experts.deepspeed_experts.3.w1" of DeepSpeed: one each.
  const std::string rest = "x." + tensor.name.substr(behind);
  const bool numbered = !block_of(rest).empty();
  return numbered ? 1 : workload.experts->count;
}

bool is_of_experts(const Tensor& tensor, const Workload& workload) {
  return experts_in(tensor, workload) > 0;
}

double transformer_gflop(const TransformerShape& shape, const std::vector<Tensor>& tensors) {
  // Scores and their use: each token with each, twice.
  double macs = 2.0 * shape.layers * shape.sequence * static_cast<double>(shape.sequence) *
                static_cast<double>(attention_width(shape));
  for (const Tensor& t : tensors) macs += t.macs;
  return kFlopPerMac * macs / 1e9;
}

std::vector<Tensor> equal_blocks(int blocks, double parameters) {
  std::vector<Tensor> tensors;
  parameters = std::round(parameters);  // 8.03 billion is a little less in binary
  const double each = std::floor(parameters / blocks);
  for (int b = 0; b < blocks; ++b)
    tensors.push_back({fmt::format("block.{}", b),
                       static_cast<std::size_t>(b == 0 ? parameters - each * (blocks - 1) : each),
                       0, 0});
  return tensors;
}

}  // namespace foreduce
