// In what a GPU multiplies, and in what it keeps the results.
#pragma once

#include <cstdint>

#include "algorithms/core/buffer.hpp"
#include "input/words.hpp"

namespace foreduce {

/// The type of the numbers that products are computed of; of gradients, the type on the wire.
enum class Precision : std::uint8_t { fp8, fp16, bf16, tf32, fp32 };
template <>
struct EnumWords<Precision> {
  static constexpr EnumWord<Precision> all[] = {{Precision::fp8, "fp8"},
                                                {Precision::fp16, "fp16"},
                                                {Precision::bf16, "bf16"},
                                                {Precision::tf32, "tf32"},
                                                {Precision::fp32, "fp32"}};
};

/// What weights, activations and gradients are kept in where products are computed in `precision`:
/// tf32 is fp32 in memory, and fp8 is of products alone, beside bf16.
Precision kept_type(Precision precision);
/// The elements of a buffer that is kept so.
Type element_type(Precision precision);

}  // namespace foreduce
