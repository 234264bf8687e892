#include "real/test_pattern.hpp"

#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace foreduce {
namespace {

/// Sums repeat every so many elements.
constexpr std::size_t kPeriod = 251;
/// What a rank adds to a sum, -2 to 2; scrambled, so that no group of ranks adds up to nothing.
int summand(int rank, std::size_t i) {
  std::uint32_t h = static_cast<std::uint32_t>(rank) * 0x9e3779b9U +
                    static_cast<std::uint32_t>(i % kPeriod) * 0x85ebca6bU;
  h = (h ^ h >> 15) * 0x2c1b3c6dU;
  h = (h ^ h >> 12) * 0x297a2d39U;
  return static_cast<int>((h ^ h >> 15) % 5) - 2;
}

/// What a rank sends where nothing is reduced; exact in bf16.
int moved(int rank, std::size_t i) {
  return static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 13) % 251) - 125;
}

template <class T>
void put(std::byte* to, int value) {
  const T as = static_cast<T>(value);
  std::memcpy(to, &as, sizeof as);
}

/// Bits of an integer |value| ≤ 2048 as f16, or ≤ 256 as bf16.
std::uint16_t half_bits(int value, Type type) {
  if (type == Type::bf16) {
    const auto f = static_cast<float>(value);
    std::uint32_t bits = 0;
    std::memcpy(&bits, &f, sizeof bits);
    return static_cast<std::uint16_t>(bits >> 16);
  }
  if (value == 0) return 0;
  const int magnitude = std::abs(value);
  const int exponent = std::ilogb(magnitude);
  return static_cast<std::uint16_t>((value < 0 ? 0x8000 : 0) | (exponent + 15) << 10 |
                                    ((magnitude << 10 >> exponent) & 0x3ff));
}

void put(std::byte* to, int value, Type type) {
  switch (type) {
    case Type::f32: return put<float>(to, value);
    case Type::f64: return put<double>(to, value);
    case Type::i32: return put<std::int32_t>(to, value);
    case Type::f16:
    case Type::bf16: {
      const std::uint16_t bits = half_bits(value, type);
      std::memcpy(to, &bits, sizeof bits);
    }
  }
}

double element(const std::byte* data, std::size_t i, Type type) {
  const auto as = [&]<class T>(T value) {
    std::memcpy(&value, data + i * sizeof value, sizeof value);
    return value;
  };
  switch (type) {
    case Type::f32: return static_cast<double>(as(float{}));
    case Type::f64: return as(double{});
    case Type::i32: return as(std::int32_t{});
    case Type::bf16: {
      const std::uint32_t bits = static_cast<std::uint32_t>(as(std::uint16_t{})) << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      return static_cast<double>(value);
    }
    case Type::f16: break;
  }
  const auto bits = as(std::uint16_t{});
  const int exponent = bits >> 10 & 0x1f;
  const double value = exponent == 0    ? std::ldexp(bits & 0x3ff, -24)
                       : exponent == 31 ? INFINITY
                                        : std::ldexp(1024 + (bits & 0x3ff), exponent - 25);
  return bits & 0x8000 ? -value : value;
}

}  // namespace

void fill(const Buffer& data, Collective collective, int rank) {
  const bool summed = reduces(collective);
  for (std::size_t i = 0; i < data.count; ++i)
    put(data.data() + i * size_of(data.type), summed ? summand(rank, i) : moved(rank, i),
        data.type);
}

std::size_t count_wrong(const Buffer& data, Collective collective, int workers, int rank) {
  std::array<int, kPeriod> sums{};
  for (std::size_t i = 0; i < kPeriod; ++i)
    for (int r = 0; r < workers; ++r) sums[i] += summand(r, i);
  const Buffer result = result_of(collective, data, workers, rank);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < result.count; ++i) {
    const std::size_t place = result.offset - data.offset + i;
    const Origin from = origin_of(collective, data.count, workers, rank, place);
    const int right = from.rank < 0 ? sums[from.element % kPeriod] : moved(from.rank, from.element);
    wrong += element(result.data(), i, data.type) != right;
  }
  return wrong;
}

}  // namespace foreduce
