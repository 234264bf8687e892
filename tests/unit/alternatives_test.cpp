// An alternative is simulated only where it may be faster than what it is an alternative to.
#include "sim/alternatives.hpp"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace foreduce {
namespace {

/// Question 0 of a family is what every other one is an alternative to; those are of 10 times their
/// number of elements.
struct SomeAlternatives {
  Alternatives alternatives;
  std::map<std::size_t, Seconds> times;

  explicit SomeAlternatives(std::size_t last, Seconds least = Seconds{1}) {
    for (std::size_t n = 1; n <= last; ++n) alternatives.add(n, {0, least}, "family", 10 * n);
  }
  bool needless(std::size_t number) const {
    return alternatives.needless(number, [this](std::size_t n) {
      const auto at = times.find(n);
      return at == times.end() ? Seconds{} : at->second;
    });
  }
};

TEST(Alternatives, IsNeedlessWhereTheOtherIsFasterThanItCanBe) {
  SomeAlternatives asked(1, Seconds{3});
  EXPECT_FALSE(asked.needless(1)) << "the other one has no answer yet";
  asked.times[0] = Seconds{2.9};
  EXPECT_TRUE(asked.needless(1));
  asked.times[0] = Seconds{3.1};
  EXPECT_FALSE(asked.needless(1));
}

TEST(Alternatives, IsNeedlessBetweenTwoThatLostClearly) {
  SomeAlternatives asked(3);  // of 10, 20 and 30 elements
  asked.alternatives.add(4, {0, Seconds{1}}, "family", 15);
  asked.alternatives.remove(3);
  asked.times = {{0, Seconds{2}}, {1, Seconds{2.2}}};
  EXPECT_FALSE(asked.needless(4)) << "nothing larger is known";
  asked.times[2] = Seconds{2.2};
  EXPECT_TRUE(asked.needless(4));
  asked.times[2] = Seconds{2.05};  // lost, but hardly
  EXPECT_FALSE(asked.needless(4));
}

TEST(Alternatives, WaitsForWhatItDependsOn) {
  const SomeAlternatives asked(3);
  std::set<std::size_t> known{0, 1};
  const auto is_known = [&](std::size_t n) { return known.contains(n); };
  EXPECT_TRUE(asked.alternatives.decidable(3, is_known));  // an end of the family
  EXPECT_FALSE(asked.alternatives.decidable(2, is_known));
  known.insert(3);
  EXPECT_TRUE(asked.alternatives.decidable(2, is_known));
  known.erase(0);
  EXPECT_FALSE(asked.alternatives.decidable(2, is_known));
}

TEST(Alternatives, FarNeighboursSayNothing) {
  SomeAlternatives asked(5);
  asked.times = {{0, Seconds{2}}, {1, Seconds{9}}, {3, Seconds{9}}};
  EXPECT_FALSE(asked.needless(2)) << "10 and 30 elements are more than a factor of 2 apart";
  asked.times = {{0, Seconds{2}}, {3, Seconds{9}}, {5, Seconds{9}}};
  EXPECT_TRUE(asked.needless(4)) << "30 and 50 are not";
}

TEST(Alternatives, EndsOfAFamilyComeFirstThenTheMiddle) {
  const SomeAlternatives asked(5);
  EXPECT_EQ(asked.alternatives.turn(0), 0) << "it is no alternative";
  EXPECT_EQ(asked.alternatives.turn(1), 1);
  EXPECT_EQ(asked.alternatives.turn(5), 1);
  EXPECT_EQ(asked.alternatives.turn(3), 2);
  EXPECT_EQ(asked.alternatives.turn(2), 3);
  EXPECT_EQ(asked.alternatives.turn(4), 3);
}

TEST(Alternatives, IsNoneOnceItIsWantedForItself) {
  SomeAlternatives asked(3);
  asked.times = {{0, Seconds{0.5}}};
  EXPECT_TRUE(asked.needless(2));
  EXPECT_EQ(asked.alternatives.stands_for(2), 0u);
  asked.alternatives.remove(2);
  EXPECT_FALSE(asked.needless(2));
  EXPECT_EQ(asked.alternatives.stands_for(2), 2u);
}

}  // namespace
}  // namespace foreduce
