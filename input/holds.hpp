#pragma once

#include <algorithm>
#include <iterator>

namespace foreduce {

/// Whether one of a container's elements equals `wanted`.
template <class Container, class Value>
bool holds(const Container& elements, const Value& wanted) {
  return std::find(std::begin(elements), std::end(elements), wanted) != std::end(elements);
}

}  // namespace foreduce
