// Writes down a model's tensors one after another, as its modules register them.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "models/workload.hpp"

namespace foreduce {

class TensorList {
 public:
  /// How a linear layer is made.
  enum class Bias : std::uint8_t { with, without };
  enum class Norm : std::uint8_t { layer, rms };  ///< a weight and a bias, or a weight alone

  /// A parameter that does no multiply-adds of note: a bias, a norm, an embedding that is looked
  /// up.
  void add(std::string name, std::size_t elements) {
    all_.push_back({std::move(name), elements, 0, 0});
  }
  /// A matrix each element of which multiplies once at every one of so many positions of a sample.
  void add(std::string name, std::size_t elements, double positions) {
    all_.push_back({std::move(name), elements, static_cast<double>(elements) * positions, 0});
  }
  void linear(const std::string& name, std::size_t in, std::size_t out, double positions,
              Bias bias) {
    add(name + ".weight", in * out, positions);
    if (bias == Bias::with) add(name + ".bias", out);
  }
  void norm(const std::string& name, std::size_t width, Norm kind) {
    add(name + ".weight", width);
    if (kind == Norm::layer) add(name + ".bias", width);
  }
  std::vector<Tensor> take() { return std::move(all_); }

 private:
  std::vector<Tensor> all_;
};

}  // namespace foreduce
