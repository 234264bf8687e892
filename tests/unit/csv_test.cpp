// CSV as the reference data use it.
#include "input/csv.hpp"

#include <gtest/gtest.h>

#include "input/problem.hpp"

namespace foreduce {
namespace {

Csv two_rows() {
  return Csv::parse("t.csv", "# a comment, with a comma\na,b\n1,\"x, \"\"y\"\"\nz\"\r\n2,\n");
}

TEST(Csv, ReadsQuotesAndLeavesOutComments) {
  const Csv table = two_rows();
  ASSERT_EQ(table.rows.size(), 2u);
  EXPECT_EQ(table.rows[0].cells[1], "x, \"y\"\nz");
  EXPECT_EQ(table.rows[1].line, 5);
  EXPECT_EQ(table.number(table.rows[1], 0), 2);
}

TEST(Csv, RefusesWhatIsNoTable) {
  EXPECT_THROW(Csv::parse("t.csv", "a,b\n1\n"), InputError);
  EXPECT_THROW(Csv::parse("t.csv", "a,b\n1,\"x\n"), InputError);
  EXPECT_THROW(two_rows().column("c"), InputError);
  EXPECT_THROW(two_rows().number(two_rows().rows[1], 1), InputError);
}

}  // namespace
}  // namespace foreduce
