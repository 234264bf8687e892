// Adding numbers on the host: every type and operation against arithmetic done here.
#include <gtest/gtest.h>

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "algorithms/core/buffer.hpp"

namespace foreduce {
namespace {

template <class T>
void reduce_into(Op op, Type type, std::vector<T>& into, const std::vector<T>& from) {
  foreduce::reduce(op, type, reinterpret_cast<std::byte*>(into.data()),
                   reinterpret_cast<const std::byte*>(from.data()), into.size());
}

float expected(Op op, float x, float y) {
  if (op == Op::sum) return x + y;
  return op == Op::min ? std::min(x, y) : std::max(x, y);
}

template <class T>
void expect_every_operation(Type type) {
  const std::vector<float> a{1, -2, 3.5f, 100}, b{4, 5, -0.5f, 28};
  for (const Op op : {Op::sum, Op::min, Op::max}) {
    std::vector<T> into, from;
    for (const float x : a) into.push_back(static_cast<T>(x));
    for (const float x : b) from.push_back(static_cast<T>(x));
    const std::vector<T> before = into;
    reduce_into(op, type, into, from);
    for (std::size_t i = 0; i < a.size(); ++i)
      EXPECT_EQ(static_cast<float>(into[i]),
                expected(op, static_cast<float>(before[i]), static_cast<float>(from[i])));
  }
}

TEST(Reduce, KnowsEveryTypeAndOperation) {
  expect_every_operation<float>(Type::f32);
  expect_every_operation<double>(Type::f64);
  expect_every_operation<std::int32_t>(Type::i32);
  expect_every_operation<Eigen::half>(Type::f16);
  expect_every_operation<Eigen::bfloat16>(Type::bf16);
}

/// The vectorized sums of halves against Eigen's one by one, for all pairs of a few hundred bit
/// patterns each.
template <class Half>
void expect_eigens_bits(Type type) {
  std::vector<std::uint16_t> a, b;
  for (std::uint32_t x = 0; x < 65536; x += 211)
    for (std::uint32_t y = 3; y < 65536; y += 197) {
      a.push_back(static_cast<std::uint16_t>(x));
      b.push_back(static_cast<std::uint16_t>(y));
    }
  a.resize(a.size() - 3), b.resize(a.size());  // no multiple of a vector register's length
  const std::vector<std::uint16_t> before = a;
  reduce_into(Op::sum, type, a, b);
  const auto half_of = [](std::uint16_t bits) { return Eigen::numext::bit_cast<Half>(bits); };
  const auto is_nan = [](Half x) { return (Eigen::numext::isnan)(static_cast<float>(x)); };
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Half sum = half_of(before[i]) + half_of(b[i]);
    ASSERT_EQ(is_nan(half_of(a[i])), is_nan(sum)) << before[i] << " + " << b[i];
    if (is_nan(sum)) continue;
    ASSERT_EQ(a[i], Eigen::numext::bit_cast<std::uint16_t>(sum)) << before[i] << " + " << b[i];
  }
}

TEST(Reduce, AddsHalvesToEigensBits) {
  expect_eigens_bits<Eigen::half>(Type::f16);
  expect_eigens_bits<Eigen::bfloat16>(Type::bf16);
}

}  // namespace
}  // namespace foreduce
