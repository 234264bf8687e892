// Views of typed elements. Nothing here owns memory, and an algorithm never touches an element:
// it only says which elements travel and which are reduced.
#pragma once

#include <cstddef>
#include <cstdint>

namespace foreduce {

/// Element types a buffer can hold.
enum class Type : std::uint8_t { f32, f64, f16, bf16, i32 };
/// What "reduce" means. All are commutative; floating-point addition is not associative, so the
/// order of reductions is part of every transport's contract.
enum class Op : std::uint8_t { sum, min, max };

/// Bytes of one element.
constexpr std::size_t size_of(Type type) {
  switch (type) {
    case Type::f64: return 8;
    case Type::f16:
    case Type::bf16: return 2;
    case Type::f32:
    case Type::i32: break;
  }
  return 4;
}

/// A view of `count` elements that start `offset` elements into a rank's data. `base` may be null:
/// a phantom, sized but not stored, so that thousands of simulated ranks need no memory.
struct Buffer {
  std::byte* base = nullptr;
  std::size_t offset = 0;
  std::size_t count = 0;
  Type type = Type::f32;

  /// The i-th of n nearly equal chunks: the first count % n of them have one element more. `i`
  /// wraps around (-1 is the last), chunks may be empty. A chunk is what a rank or channel owns.
  Buffer chunk(int n, int i) const {
    const auto chunks = static_cast<std::size_t>(n);
    const auto index = static_cast<std::size_t>(((i % n) + n) % n);
    const std::size_t small = count / chunks, larger = count % chunks;
    const std::size_t before = index * small + (index < larger ? index : larger);
    return {base, offset + before, small + (index < larger ? 1 : 0), type};
  }
  /// The k-th of n segments: cut like chunks, but what travels at once for pipelining.
  Buffer segment(int n, int k) const { return chunk(n, k); }
  std::size_t bytes() const { return count * size_of(type); }
  bool phantom() const { return base == nullptr; }
  /// First byte of the view; null for a phantom.
  std::byte* data() const { return base ? base + offset * size_of(type) : nullptr; }
};

/// into[i] = op(into[i], from[i]) for `count` elements. The one place where numbers are added on
/// the host: every backend that reduces on a CPU calls this, hence the same bits everywhere. f16
/// and bf16 are added in f32 and rounded to nearest even after each reduce. The ranges must not
/// overlap.
void reduce(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count);

}  // namespace foreduce
