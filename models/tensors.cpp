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

std::vector<Tensor> transformer_tensors(const TransformerShape& shape) {
  const auto h = static_cast<std::size_t>(shape.hidden),
             vocabulary = static_cast<std::size_t>(shape.vocabulary),
             sequence = static_cast<std::size_t>(shape.sequence),
             inner = static_cast<std::size_t>(shape.feed_forward > 0 ? shape.feed_forward
                                                                     : 4 * shape.hidden);
  std::vector<Tensor> tensors;
  const auto matrix = [&](const std::string& name, std::size_t elements) {
    tensors.push_back(
        {name, elements, static_cast<double>(elements) * static_cast<double>(sequence), 0});
  };
  const auto vector = [&](const std::string& name, std::size_t elements) {
    tensors.push_back({name, elements, 0, 0});
  };
  matrix("wte.weight", vocabulary * h);  // an embedding has no MACs, the output layer has them
  vector("wpe.weight", sequence * h);
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::string of = fmt::format("h.{}.", layer);
    vector(of + "ln_1.weight", h);
    vector(of + "ln_1.bias", h);
    matrix(of + "attn.c_attn.weight", 3 * h * h);
    vector(of + "attn.c_attn.bias", 3 * h);
    matrix(of + "attn.c_proj.weight", h * h);
    vector(of + "attn.c_proj.bias", h);
    vector(of + "ln_2.weight", h);
    vector(of + "ln_2.bias", h);
    matrix(of + "mlp.c_fc.weight", h * inner);
    vector(of + "mlp.c_fc.bias", inner);
    matrix(of + "mlp.c_proj.weight", inner * h);
    vector(of + "mlp.c_proj.bias", h);
  }
  vector("ln_f.weight", h);
  vector("ln_f.bias", h);
  return tensors;
}

double transformer_gflop(const TransformerShape& shape, const std::vector<Tensor>& tensors) {
  // Scores and their use: each token with each, twice.
  double macs = 2.0 * shape.layers * shape.sequence * static_cast<double>(shape.sequence) * shape.hidden;
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
