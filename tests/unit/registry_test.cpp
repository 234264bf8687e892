// The registry of algorithms: a file added to algorithms/ appears everywhere with no other edit.
#include "algorithms/core/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

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

}  // namespace
}  // namespace foreduce
