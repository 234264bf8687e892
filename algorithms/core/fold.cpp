#include "algorithms/core/buffer.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace foreduce {
namespace {

template <class T>
void fold_as(Op op, std::byte* into_bytes, const std::byte* from_bytes, std::size_t count) {
  auto* __restrict into = reinterpret_cast<T*>(into_bytes);
  const auto* __restrict from = reinterpret_cast<const T*>(from_bytes);
  switch (op) {
    case Op::sum:
      if constexpr (std::is_integral_v<T>) {  // wraps, as MPI's and NCCL's do
        using Unsigned = std::make_unsigned_t<T>;
        for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<T>(static_cast<Unsigned>(into[i]) + static_cast<Unsigned>(from[i]));
      } else {
        for (std::size_t i = 0; i < count; ++i) into[i] = static_cast<T>(into[i] + from[i]);
      }
      return;
    case Op::min:
      for (std::size_t i = 0; i < count; ++i) into[i] = std::min(into[i], from[i]);
      return;
    case Op::max:
      for (std::size_t i = 0; i < count; ++i) into[i] = std::max(into[i], from[i]);
      return;
  }
}

/// bf16 is the upper half of a float. Plain integers instead of Eigen's type, because compilers vectorise these; the same bits.
void add_bf16(std::byte* into_bytes, const std::byte* from_bytes, std::size_t count) {
  auto* __restrict into = reinterpret_cast<std::uint16_t*>(into_bytes);
  const auto* __restrict from = reinterpret_cast<const std::uint16_t*>(from_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = std::bit_cast<float>(std::uint32_t{into[i]} << 16) + std::bit_cast<float>(std::uint32_t{from[i]} << 16);
    const auto bits = std::bit_cast<std::uint32_t>(sum);
    const std::uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;  // to nearest, ties to even
    const std::uint32_t not_a_number = (bits >> 16 & 0x8000u) | 0x7fc0u;
    into[i] = static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? not_a_number : rounded);
  }
}

#if defined(__x86_64__)
/// Eight halves at a time; compiled for AVX2 whatever the rest is compiled for, and called only where it is there.
__attribute__((target("avx2,f16c"))) std::size_t add_f16_wide(std::byte* into, const std::byte* from, std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto* to = reinterpret_cast<__m128i*>(into + 2 * i);
    const __m256 sum = _mm256_add_ps(_mm256_cvtph_ps(_mm_loadu_si128(to)), _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
    _mm_storeu_si128(to, _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
std::size_t add_f16(std::byte* into, const std::byte* from, std::size_t count) {
  static const bool wide = __builtin_cpu_supports("avx2") != 0;
  return wide ? add_f16_wide(into, from, count) : 0;
}
#else
std::size_t add_f16(std::byte*, const std::byte*, std::size_t) { return 0; }
#endif

}  // namespace

void fold(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count) {
  switch (type) {
    case Type::f32: return fold_as<float>(op, into, from, count);
    case Type::f64: return fold_as<double>(op, into, from, count);
    case Type::i32: return fold_as<std::int32_t>(op, into, from, count);
    case Type::f16: {
      const std::size_t done = op == Op::sum ? add_f16(into, from, count) : 0;
      return fold_as<Eigen::half>(op, into + 2 * done, from + 2 * done, count - done);
    }
    case Type::bf16: return op == Op::sum ? add_bf16(into, from, count) : fold_as<Eigen::bfloat16>(op, into, from, count);
  }
}

}  // namespace foreduce
