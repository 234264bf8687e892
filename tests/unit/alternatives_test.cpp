// An alternative is simulated only where it may be faster than what it is an alternative to.
#include "sim/alternatives.hpp"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace foreduce {
namespace {

constexpr Seconds kNeedless{-1};

/// Question 0 is what the others are alternatives to: of one family, numbered by their elements.
struct SomeAlternatives {
  Alternatives alternatives;
  std::map<std::size_t, Seconds> times;  // of what is known

  explicit SomeAlternatives(const std::vector<std::size_t>& counts, Seconds least = Seconds{1}) {
    for (const std::size_t n : counts) alternatives.add(n, {0, least}, "family", n);
    alternatives.arrange();
  }
  Readiness operator[](std::size_t number) const {
    return alternatives.readiness(number, [this](std::size_t n) {
      const auto at = times.find(n);
      if (at == times.end()) return Alternatives::Answer{};
      const bool needless = at->second == kNeedless;
      return Alternatives::Answer{true, needless, needless ? Seconds{} : at->second};
    });
  }
};

TEST(Alternatives, AreNeedlessWhereTheOtherIsFasterThanTheyCanBe) {
  SomeAlternatives some({10}, Seconds{3});
  EXPECT_EQ(some[10], Readiness::not_yet);
  some.times[0] = Seconds{2.9};
  EXPECT_EQ(some[10], Readiness::needless);
  some.times[0] = Seconds{3.1};
  EXPECT_EQ(some[10], Readiness::ready);
  some.times[0] = Seconds{};  // it failed
  EXPECT_EQ(some[10], Readiness::ready);
}

TEST(Alternatives, AreNeedlessBetweenTwoThatLostClearly) {
  SomeAlternatives some({10, 15, 20});
  some.times[0] = Seconds{2};
  EXPECT_EQ(some[10], Readiness::ready);
  EXPECT_EQ(some[20], Readiness::ready);
  EXPECT_EQ(some[15], Readiness::not_yet);
  some.times[10] = Seconds{2.2};
  EXPECT_EQ(some[15], Readiness::not_yet);
  some.times[20] = Seconds{2.2};
  EXPECT_EQ(some[15], Readiness::needless);
  some.times[20] = kNeedless;
  EXPECT_EQ(some[15], Readiness::needless);
  some.times[20] = Seconds{2.05};  // lost, but hardly
  EXPECT_EQ(some[15], Readiness::ready);
  some.times[20] = Seconds{1.5};  // won
  EXPECT_EQ(some[15], Readiness::ready);
}

TEST(Alternatives, FarNeighboursSayNothing) {
  SomeAlternatives some({10, 15, 30});
  some.times = {{0, Seconds{2}}, {10, Seconds{9}}, {30, Seconds{9}}};
  EXPECT_EQ(some[15], Readiness::ready);
}

TEST(Alternatives, AFamilyIsHalvedUntilNeighboursAreNear) {
  SomeAlternatives some({10, 11, 20, 30, 40});
  some.times = {{0, Seconds{2}}, {10, Seconds{9}}, {40, Seconds{9}}};
  EXPECT_EQ(some[20], Readiness::ready) << "10 and 40 are far apart";
  EXPECT_EQ(some[11], Readiness::not_yet);
  some.times[20] = Seconds{9};
  EXPECT_EQ(some[11], Readiness::needless);
  EXPECT_EQ(some[30], Readiness::needless);
}

TEST(Alternatives, AreNoneOnceWantedForThemselves) {
  SomeAlternatives some({10, 15, 20});
  some.times = {{0, Seconds{0.5}}, {20, Seconds{9}}};
  EXPECT_EQ(some[10], Readiness::needless);
  EXPECT_EQ(some.alternatives.stands_for(10), 0u);
  some.alternatives.remove(10);
  EXPECT_EQ(some[10], Readiness::ready);
  EXPECT_EQ(some.alternatives.stands_for(10), 10u);
  some.times = {{0, Seconds{2}}, {10, Seconds{9}}, {20, Seconds{9}}};
  EXPECT_EQ(some[15], Readiness::ready) << "what it depended on is no alternative";
}

}  // namespace
}  // namespace foreduce
