// Quantities as people write them: a number and a unit.
#include <gtest/gtest.h>

#include "input/units.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

double quantity(const std::string& text, const Unit* table) {
  double value = -1;
  std::string why;
  EXPECT_TRUE(parse_quantity(text, table, "thing", value, why)) << why;
  return value;
}

TEST(ParseQuantity, KnowsUnitsOfSizeRateAndTime) {
  EXPECT_DOUBLE_EQ(quantity("25 MiB", UnitsOf<Bytes>::table), 25 * 1048576.0);
  EXPECT_DOUBLE_EQ(quantity("25MB", UnitsOf<Bytes>::table), 25e6);
  EXPECT_DOUBLE_EQ(quantity("100 Gbps", UnitsOf<BytesPerSecond>::table), 12.5e9);
  EXPECT_DOUBLE_EQ(quantity("400 Gb/s", UnitsOf<BytesPerSecond>::table), 50e9);  // bits
  EXPECT_DOUBLE_EQ(quantity("400 GB/s", UnitsOf<BytesPerSecond>::table), 400e9);
  double value = 0;
  std::string why;  // bits or bytes is not guessed
  EXPECT_FALSE(parse_quantity("400 gb/s", UnitsOf<BytesPerSecond>::table, "thing", value, why));
  EXPECT_SAYS(why, "did you mean GB/s or Gb/s?");
  EXPECT_DOUBLE_EQ(quantity("12.5 GB/s", UnitsOf<BytesPerSecond>::table), 12.5e9);
  EXPECT_DOUBLE_EQ(quantity("30 us", UnitsOf<Seconds>::table), 30e-6);
  EXPECT_DOUBLE_EQ(quantity("1e3 ns", UnitsOf<Seconds>::table), 1e-6);
}

TEST(ParseQuantity, ReadsWhatToTextWrites) {
  for (const double v : {1.0, 1024.0, 25 * 1048576.0, 3.0 * 1073741824})
    EXPECT_NEAR(quantity(to_text(Bytes{v}), UnitsOf<Bytes>::table) / v, 1, 1e-3);
}

// A fuzzer found that nothing in front of "samples" was an exception of the library's own.
TEST(Input, RefusesAUnitWithoutANumber) {
  std::string why;
  double value = 0;
  for (const char* text : {" samples", "   tokens", " ", ""}) {
    EXPECT_FALSE(parse_quantity(text, UnitsOf<Count>::table, "count", value, why)) << text;
    EXPECT_SAYS(why, "there is no number");
  }
}

TEST(ParseSizeRange, TakesSpacesAroundItsDots) {
  std::string why;
  std::vector<Bytes> sizes;
  EXPECT_TRUE(parse_size_range("1 MiB .. 4 MiB", sizes, why)) << why;
  EXPECT_EQ(sizes, (std::vector<Bytes>{Bytes(1 << 20), Bytes(1 << 21), Bytes(1 << 22)}));
  // A fuzzer's find: the end of the number is the end of the text but for a space.
  EXPECT_FALSE(parse_size_range("8 ..64 MiB", sizes, why));
  EXPECT_SAYS(why, "'8' has no unit");
}

TEST(Input, AsksWhichUnitWasMeant) {
  std::string why;
  double value = 0;
  EXPECT_FALSE(parse_quantity("1M", UnitsOf<Bytes>::table, "size", value, why));
  EXPECT_SAYS(why, "did you mean MB or MiB?");
}

TEST(Input, TakesThousandsWithCommasOfMoneyAndCounts) {
  const auto value_of = [](const std::string& text, const Unit* table) {
    std::string why;
    double value = -1;
    return parse_quantity(text, table, "thing", value, why) ? value : -1;
  };
  EXPECT_EQ(value_of("$2,500", UnitsOf<Dollars>::table), 2500);
  EXPECT_EQ(value_of("1,250,000.50 USD", UnitsOf<Dollars>::table), 1250000.5);
  EXPECT_EQ(value_of("$1,024.50/h", UnitsOf<DollarsPerHour>::table), 1024.5);
  EXPECT_EQ(value_of("3,000 million", UnitsOf<Count>::table), 3e9);
  for (const char* text : {"$2,50", "$,500", "$2500,000", "$2,5000", "$2,,500", "$2,500,"})
    EXPECT_EQ(value_of(text, UnitsOf<Dollars>::table), -1) << text;
  // Elsewhere a comma may be a decimal point: 1,500 GB are 1.5 to some.
  EXPECT_EQ(value_of("1,500 GB", UnitsOf<Bytes>::table), -1);
}

}  // namespace
}  // namespace foreduce
