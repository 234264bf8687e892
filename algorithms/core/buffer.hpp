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

/// How data is cut into segments, which travel one after the other for pipelining.
struct Segments {
  static constexpr int kFull = 256;  ///< so many parts make a segment, where the last have fewer

  int count = 1;     ///< ≥ 1
  int shorter = 1;   ///< of the last ones, which are of another length than all others
  int last = kFull;  ///< parts of each of these; 1 … kFull

  /// The equal parts of which every segment has a whole number.
  std::size_t parts() const { return parts_before(count); }
  /// Those that lie before the k-th segment.
  std::size_t parts_before(int k) const {
    if (last == kFull) return static_cast<std::size_t>(k);
    const int longer = count > shorter ? count - shorter : 0, full = k < longer ? k : longer;
    return static_cast<std::size_t>(full) * kFull +
           static_cast<std::size_t>(k - full) * static_cast<std::size_t>(last);
  }
};

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
    return parts(static_cast<std::size_t>(n), static_cast<std::size_t>(((i % n) + n) % n), 1);
  }
  /// The k-th of n equal segments: cut like chunks, but what travels at once for pipelining.
  Buffer segment(int n, int k) const { return chunk(n, k); }
  /// The k-th segment.
  Buffer segment(const Segments& cut, int k) const {
    const std::size_t first = cut.parts_before(k);
    return parts(cut.parts(), first, cut.parts_before(k + 1) - first);
  }
  std::size_t bytes() const { return count * size_of(type); }
  bool phantom() const { return base == nullptr; }
  /// First byte of the view; null for a phantom.
  std::byte* data() const { return base ? base + offset * size_of(type) : nullptr; }

 private:
  /// `some` of n nearly equal parts, from the first-th on.
  Buffer parts(std::size_t n, std::size_t first, std::size_t some) const {
    const std::size_t small = count / n, larger = count % n;
    const auto before = [&](std::size_t i) { return i * small + (i < larger ? i : larger); };
    const std::size_t begin = before(first);
    return {base, offset + begin, before(first + some) - begin, type};
  }
};

/// into[i] = op(into[i], from[i]) for `count` elements. The one place where numbers are added on
/// the host: every backend that reduces on a CPU calls this, hence the same bits everywhere. f16
/// and bf16 are added in f32 and rounded to nearest even after each reduce. The ranges must not
/// overlap.
void reduce(Op op, Type type, std::byte* into, const std::byte* from, std::size_t count);

}  // namespace foreduce
