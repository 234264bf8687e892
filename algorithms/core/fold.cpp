#include "algorithms/core/buffer.hpp"

#include <Eigen/Core>
#include <algorithm>

namespace foreduce {
namespace {

template <class T>
void fold_as(Op op, std::byte* into_bytes, const std::byte* from_bytes, std::size_t count) {
  auto* __restrict into = reinterpret_cast<T*>(into_bytes);
  const auto* __restrict from = reinterpret_cast<const T*>(from_bytes);
  switch (op) {
    case Op::sum:
      for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] + from[i]);
      return;
    case Op::min:
      for (std::size_t i = 0; i < count; ++i) into[i] = std::min(into[i], from[i]);
      return;
    case Op::max:
      for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
      return;
  }
}

}  // namespace

void fold(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count) {
  switch (type) {
    case Type::f32: return fold_as<float>(op, into, from, count);
    case Type::f64: return fold_as<double>(op, into, from, count);
    case Type::i32: return fold_as<std::int32_t>(op, into, from, count);
    case Type::f16: return fold_as<Eigen::half>(op, into, from, count);
    case Type::bf16: return fold_as<Eigen::bfloat16>(op, into, from, count);
  }
}

}  // namespace foreduce
