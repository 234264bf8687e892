// Views of a test's data as algorithms take them.
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/buffer.hpp"

namespace foreduce::test {

/// `count` elements in memory, from `first` on.
inline Buffer view(float* first, std::size_t count) {
  return {reinterpret_cast<std::byte*>(first), 0, count, Type::f32};
}
inline Buffer view(std::int32_t* first, std::size_t count) {
  return {reinterpret_cast<std::byte*>(first), 0, count, Type::i32};
}
inline Buffer view(std::vector<float>& data) { return view(data.data(), data.size()); }

/// `count` floats that are not stored anywhere.
inline Buffer phantom(std::size_t count) { return {nullptr, 0, count, Type::f32}; }

}  // namespace foreduce::test
