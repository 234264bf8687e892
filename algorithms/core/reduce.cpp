#include "algorithms/core/buffer.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace foreduce {
namespace {

template <class T>
void reduce_typed(Op op, std::byte* into_bytes, const std::byte* from_bytes, std::size_t count) {
  auto* __restrict into = reinterpret_cast<T*>(into_bytes);
  const auto* __restrict from = reinterpret_cast<const T*>(from_bytes);
  switch (op) {
    case Op::sum:
      if constexpr (std::is_integral_v<T>) {  // wraps, as MPI's and NCCL's do
        using Unsigned = std::make_unsigned_t<T>;
        for (std::size_t i = 0; i < count; ++i)
          into[i] = static_cast<T>(static_cast<Unsigned>(into[i]) + static_cast<Unsigned>(from[i]));
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

/// bf16 is the upper half of a float, rounded to nearest, ties to even. A sum that is no number has
/// its bits in the upper half, like the number that it came from, so rounding leaves it one.
void add_bf16(std::byte* into_bytes, const std::byte* from_bytes, std::size_t count) {
  auto* __restrict into = reinterpret_cast<std::uint16_t*>(into_bytes);
  const auto* __restrict from = reinterpret_cast<const std::uint16_t*>(from_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const float sum = std::bit_cast<float>(std::uint32_t{into[i]} << 16) +
                      std::bit_cast<float>(std::uint32_t{from[i]} << 16);
    const auto bits = std::bit_cast<std::uint32_t>(sum);
    into[i] = static_cast<std::uint16_t>((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
  }
}

#if defined(__x86_64__)
/// Eight halves at a time; compiled for AVX2 whatever the rest is compiled for, and called only
/// where it is there.
__attribute__((target("avx2,f16c"))) std::size_t add_f16_wide(std::byte* into,
                                                              const std::byte* from,
                                                              std::size_t count) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    auto* to = reinterpret_cast<__m128i*>(into + 2 * i);
    const __m256 sum = _mm256_add_ps(
        _mm256_cvtph_ps(_mm_loadu_si128(to)),
        _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 2 * i))));
    _mm_storeu_si128(to, _mm256_cvtps_ph(sum, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }
  return i;
}
/// Eight bf16 as floats.
__attribute__((target("avx2"), always_inline)) inline __m256 widened_bf16(const std::byte* from) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))), 16));
}
/// Eight sums as bf16 in the lower halves of 32 bits.
__attribute__((target("avx2"), always_inline)) inline __m256i sums_bf16(const std::byte* a,
                                                                        const std::byte* b) {
  const __m256 sum = _mm256_add_ps(widened_bf16(a), widened_bf16(b));
  const __m256i bits = _mm256_castps_si256(sum),
                even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  return _mm256_srli_epi32(
      _mm256_add_epi32(bits, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
}
__attribute__((target("avx2"))) std::size_t add_bf16_wide(std::byte* into, const std::byte* from,
                                                          std::size_t count) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16) {
    const __m256i packed = _mm256_packus_epi32(sums_bf16(into + 2 * i, from + 2 * i),
                                               sums_bf16(into + 2 * i + 16, from + 2 * i + 16));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(into + 2 * i),
                        _mm256_permute4x64_epi64(packed, 0xD8));  // packing goes lane by lane
  }
  return i;
}
/// A hypervisor may hide F16C and not AVX2. clang 14's __builtin_cpu_supports() does not know it.
bool has_f16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
/// How many of the elements were added, a register's worth at a time.
std::size_t add_halves(Type type, std::byte* into, const std::byte* from, std::size_t count) {
  static const bool avx2 = __builtin_cpu_supports("avx2") != 0, f16c = has_f16c();
  if (!avx2 || (type == Type::f16 && !f16c)) return 0;
  return type == Type::f16 ? add_f16_wide(into, from, count) : add_bf16_wide(into, from, count);
}
#else
std::size_t add_halves(Type, std::byte*, const std::byte*, std::size_t) { return 0; }
#endif

}  // namespace

void reduce(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count) {
  switch (type) {
    case Type::f32: return reduce_typed<float>(op, into, from, count);
    case Type::f64: return reduce_typed<double>(op, into, from, count);
    case Type::i32: return reduce_typed<std::int32_t>(op, into, from, count);
    case Type::f16:
    case Type::bf16: break;
  }
  const std::size_t done = op == Op::sum ? add_halves(type, into, from, count) : 0;
  into += 2 * done;
  from += 2 * done;
  count -= done;
  if (type == Type::f16) return reduce_typed<Eigen::half>(op, into, from, count);
  return op == Op::sum ? add_bf16(into, from, count)
                       : reduce_typed<Eigen::bfloat16>(op, into, from, count);
}

}  // namespace foreduce
