// The memory of a simulation: pieces do not overlap, are aligned, and come back.
#include "sim/arena.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace foreduce {
namespace {

std::uintptr_t place(const void* piece) { return reinterpret_cast<std::uintptr_t>(piece); }

TEST(Arena, PiecesOfAllSizesAreApartAndAligned) {
  Arena arena;
  std::mt19937 random(7);
  std::map<std::uintptr_t, std::size_t> taken;
  for (int i = 0; i < 20000; ++i) {  // some 40 MB: beyond several regions, the huge ones included
    const std::size_t bytes = 1 + random() % 5000;
    const bool lines = bytes % 64 == 0;
    void* piece = arena.allocate(bytes, lines ? 64 : 16);
    ASSERT_EQ(place(piece) % (lines ? 64 : 16), 0u) << bytes;
    std::memset(piece, 0xff, bytes);
    const auto [at, fresh] = taken.emplace(place(piece), bytes);
    ASSERT_TRUE(fresh);
    if (const auto next = std::next(at); next != taken.end()) {
      ASSERT_LE(at->first + bytes, next->first);
    }
    if (at != taken.begin()) {
      ASSERT_LE(std::prev(at)->first + std::prev(at)->second, at->first);
    }
  }
  for (const auto& [at, bytes] : taken)
    arena.deallocate(reinterpret_cast<void*>(at), bytes, bytes % 64 == 0 ? 64 : 16);
}

// Pieces of 32 bytes begin at multiples of 16.
TEST(Arena, AlignsMoreThanTheSizeWhereAsked) {
  Arena arena;
  std::vector<void*> pieces;
  for (int i = 0; i < 100; ++i) pieces.push_back(arena.allocate(32, 32));
  arena.deallocate(arena.allocate(32, 16), 32, 16);
  pieces.push_back(arena.allocate(32, 32));
  for (void* piece : pieces) {
    EXPECT_EQ(place(piece) % 32, 0u);
    arena.deallocate(piece, 32, 32);
  }
}

TEST(Arena, HandsOutAgainWhatWasGivenBack) {
  Arena arena;
  std::vector<void*> first;
  for (int i = 0; i < 100; ++i) first.push_back(arena.allocate(4096, 64));
  for (void* piece : first) arena.deallocate(piece, 4096, 64);
  for (std::size_t i = first.size(); i-- > 0;) EXPECT_EQ(arena.allocate(4096, 64), first[i]);
}

}  // namespace
}  // namespace foreduce
