// The registry of algorithms: a file added to algorithms/ appears everywhere with no other edit.
#include "algorithms/core/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {

TEST(Registry, HoldsAnAlgorithmForEachFile) {
  const auto folder = std::filesystem::path(FOREDUCE_SOURCE_FOLDER) / "algorithms";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".cpp") continue;
    std::string name = entry.path().stem().string();
    std::replace(name.begin(), name.end(), '_', '-');
    EXPECT_FALSE(collectives_of(name).empty()) << name;
  }
}

TEST(Registry, HasOneUsualAlgorithmForEachCollective) {
  for (const Collective c : kCollectives) {
    const auto& all = algorithms(c);
    EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const Algorithm* a) { return a->usual; }), 1)
        << name_of(c);
    EXPECT_TRUE(usual_algorithm(c).usual);
  }
  EXPECT_NE(find_algorithm(kUsualInner), nullptr);
}

TEST(Registry, DescribesEveryAlgorithm) {
  for (const Algorithm* a : all_algorithms()) {
    EXPECT_FALSE(a->idea.empty() || a->cost.empty() || a->wins.empty() || a->source.empty())
        << a->name;
    EXPECT_TRUE(a->run && a->sends && a->steps) << a->name;
  }
}

// The rails of segment k are group 1 + k, and there are up to 4,000 segments.
TEST(Tags, ManySegmentsAreOfTheFirstCollective) {
  constexpr int kMostSegments = 4000;
  const std::uint64_t last = pack({.step = 3}, kMostSegments + 1),
                      second = pack({.step = 3}, kMostSegments + 1 + kSecondCollective);
  EXPECT_LT(group_of(last), kSecondCollective);
  EXPECT_GE(group_of(second), kSecondCollective);
  EXPECT_NE(last, second);
}

}  // namespace
}  // namespace foreduce
