// What real ranks put into their buffers: a result that is missing or from the wrong place must be
// counted as wrong, or no check of a run means anything.
#include "real/test_pattern.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

namespace foreduce {
namespace {

constexpr int kWorkers = 6;
constexpr std::size_t kCount = 1003;
constexpr Type kTypes[] = {Type::f32, Type::f64, Type::f16, Type::bf16, Type::i32};

/// One buffer a worker, as fill() leaves it.
struct Filled {
  std::vector<std::vector<std::byte>> bytes;
  Type type;

  Filled(Collective collective, Type of) : type(of) {
    for (int rank = 0; rank < kWorkers; ++rank) {
      bytes.emplace_back(kCount * size_of(type));
      fill(view(rank), collective, rank);
    }
  }
  Buffer view(int rank) { return {bytes[static_cast<std::size_t>(rank)].data(), 0, kCount, type}; }
  std::byte* at(int rank, std::size_t element) {
    return view(rank).data() + element * size_of(type);
  }
};

/// All ranks' results, element by element.
Filled done(Collective collective, Type type) {
  Filled before(collective, type), after(collective, type);
  for (int rank = 0; rank < kWorkers; ++rank) {
    const Buffer result = result_of(collective, before.view(rank), kWorkers, rank);
    for (std::size_t i = result.offset; i < result.offset + result.count; ++i) {
      const Origin from = origin_of(collective, kCount, kWorkers, rank, i);
      std::memcpy(after.at(rank, i), before.at(from.rank < 0 ? 0 : from.rank, from.element),
                  size_of(type));
      for (int other = 1; from.rank < 0 && other < kWorkers; ++other)
        reduce(Op::sum, type, after.at(rank, i), before.at(other, i), 1);
    }
  }
  return after;
}

class TestPattern : public testing::TestWithParam<Collective> {};

TEST_P(TestPattern, CountsWhatIsNotTheResult) {
  for (const Type type : kTypes) {
    SCOPED_TRACE(static_cast<int>(type));
    Filled after = done(GetParam(), type), before(GetParam(), type);
    for (int rank = 0; rank < kWorkers; ++rank) {
      EXPECT_EQ(count_wrong(after.view(rank), GetParam(), kWorkers, rank), 0u);
      const Buffer result = result_of(GetParam(), after.view(rank), kWorkers, rank);
      std::byte* last = result.data() + (result.count - 1) * size_of(type);
      last[size_of(type) - 1] ^= std::byte{0x40};
      EXPECT_EQ(count_wrong(after.view(rank), GetParam(), kWorkers, rank), 1u);
      // What nothing has arrived in is wrong, but for blocks that stay where they are.
      if (GetParam() == Collective::broadcast && rank == 0) continue;
      EXPECT_GE(count_wrong(before.view(rank), GetParam(), kWorkers, rank), result.count / 2);
    }
  }
}

/// Another rank's block in the place of the right one. A sum is from no rank.
TEST(TestPatternOfMoves, TellsEveryRanksBlocksApart) {
  for (const Collective collective :
       {Collective::all_gather, Collective::broadcast, Collective::all_to_all}) {
    Filled before(collective, Type::bf16);
    for (int one = 0; one < kWorkers; ++one)
      for (int other = 0; other < one; ++other)
        for (std::size_t i = 0; i < kCount; ++i)
          ASSERT_NE(std::memcmp(before.at(one, i), before.at(other, i), 2), 0)
              << "element " << i << " of ranks " << one << " and " << other;
  }
}

INSTANTIATE_TEST_SUITE_P(Of, TestPattern, testing::ValuesIn(kCollectives),
                         [](const auto& of) { return std::string(name_of(of.param)); });

}  // namespace
}  // namespace foreduce
