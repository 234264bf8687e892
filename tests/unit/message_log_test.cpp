// Rates of links, from messages whose rates change while they are on their way.
#include <gtest/gtest.h>

#include "sim/message_log.hpp"

namespace foreduce {
namespace {

double integral(const std::vector<LinkRate>& rates) {
  double sum = 0;
  for (std::size_t i = 0; i + 1 < rates.size(); ++i)
    sum += rates[i].rate * (rates[i + 1].at - rates[i].at);
  return sum;
}

/// A message of `wire` bytes from `from` to `until` whose rate halves in the middle of that time.
void add(MessageLog& log, std::vector<std::size_t> links, double wire, double from, double until) {
  const auto n = log.open({.wire = wire, .posted = from}, std::move(links));
  const double middle = (from + until) / 2, first = wire / (until - from) * 4 / 3;
  log.leaves(n, from);
  log.rate(n, from, first);
  log.rate(n, middle, first / 2);
  log.left(n, until);
  log.landed(n, until + 1);
}

TEST(MessageLog, RatesOfALinkAddUpToItsBytes) {
  MessageLog log;
  add(log, {0, 1}, 100, 0, 4);
  add(log, {1}, 60, 1, 3);
  EXPECT_NEAR(integral(log.rates_on(0, 1)), 100, 1e-12);
  EXPECT_NEAR(integral(log.rates_on(1, 1)), 160, 1e-12);
  EXPECT_NEAR(integral(log.rates_on(1, 3)), 480, 1e-12);
  EXPECT_TRUE(log.rates_on(2, 1).empty());
  EXPECT_EQ(log.rates_on(1, 1).back().rate, 0);
}

TEST(MessageLog, LinkThatIsCrossedTwiceCarriesTwiceTheBytes) {
  MessageLog log;
  add(log, {0, 0}, 100, 0, 4);
  EXPECT_NEAR(integral(log.rates_on(0, 1)), 200, 1e-12);
}

TEST(MessageLog, RatesAreScaledToTheBytesThatRoundingLost) {
  MessageLog log;
  const auto n = log.open({.wire = 10}, {0});
  log.leaves(n, 0);
  log.rate(n, 0, 5 * (1 + 1e-6));
  log.left(n, 2);
  EXPECT_NEAR(integral(log.rates_on(0, 1)), 10, 1e-12);
}

TEST(MessageLog, BytesThatNothingHeldUpAreSpreadOverTheirWay) {
  MessageLog log;
  const auto n = log.open({.wire = 8}, {0});
  log.leaves(n, 2);
  log.left(n, 2);
  log.landed(n, 4);
  const auto rates = log.rates_on(0, 1);
  ASSERT_EQ(rates.size(), 2u);
  EXPECT_EQ(rates[0].rate, 4);
  EXPECT_EQ(rates[1].at, 4);
}

}  // namespace
}  // namespace foreduce
