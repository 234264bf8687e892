// The registry of algorithms: a file added to algorithms/ appears everywhere with no other edit.
#include "algorithms/core/registry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <vector>

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

/// Of a transport's view nothing is sent here.
class NoBackend final : public Backend {
  Event do_send(int, std::uint64_t, Buffer, Event) override { return {}; }
  Event do_recv(int, std::uint64_t, Buffer) override { return {}; }
  Event do_recv_reduce(int, std::uint64_t, Buffer, Op) override { return {}; }
  Event do_join(std::span<const Event>) override { return {}; }
  void do_wait(Event) override {}
  void do_wait_all() override {}
  double do_now() const override { return 0; }
};

// Group 4096 was taken for a second collective, with connections of its own.
TEST(Tags, GroupsBeyondACollectiveAreRefused) {
  NoBackend backend;
  const Layout layout = Layout::uniform(1, 2);
  const std::vector<int> both{0, 1};
  const Transport first = Transport(backend, layout, 0).subset(both, 1),
                  second = Transport(backend, layout, 0).subset(both, kSecondCollective);
  EXPECT_NO_THROW(first.in_group(kSecondCollective - 2));
  EXPECT_THROW(first.in_group(kSecondCollective - 1), std::invalid_argument);
  EXPECT_NO_THROW(second.in_group(kSecondCollective - 1));
  EXPECT_THROW(second.in_group(kSecondCollective), std::invalid_argument);
}

}  // namespace
}  // namespace foreduce
