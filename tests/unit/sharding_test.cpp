// How GPUs are divided into groups.
#include "models/sharding.hpp"

#include <gtest/gtest.h>

#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Divide, FindsGroups) {
  const ShardingPlan hybrid = divide(64, Sharding::zero3, 8, 2, 2);
  EXPECT_EQ(hybrid.data_parallel(), 16);
  EXPECT_EQ(hybrid.shard_ranks, 8);
  EXPECT_EQ(hybrid.replicas, 2);
  EXPECT_EQ(divide(64, Sharding::zero3, 0, 1, 1).shard_ranks, 64);
  EXPECT_SAYS(error_of([] { divide(64, Sharding::zero3, 24, 1, 1); }),
              "64 data-parallel GPUs cannot be divided into sharding groups of 24");
  EXPECT_SAYS(error_of([] { divide(12, Sharding::none, 0, 8, 1); }),
              "12 GPUs cannot be divided into groups of 8");
}

// Nothing is shared in a group of one.
TEST(Divide, AGroupOfOneIsDdp) {
  EXPECT_TRUE(divide(64, Sharding::zero3, 1, 1, 1).is_ddp());
  EXPECT_FALSE(divide(64, Sharding::zero3, 64, 1, 1).is_ddp());
  EXPECT_EQ(divide(64, Sharding::zero3, 64, 1, 1).replicas, 1);
}

TEST(ShardingNamed, KnowsTheFrameworksWords) {
  EXPECT_EQ(sharding_named("ddp"), Sharding::none);
  EXPECT_EQ(sharding_named("fsdp"), Sharding::zero3);
  EXPECT_EQ(sharding_named("full"), Sharding::zero3);
  EXPECT_SAYS(error_of([] { sharding_named("fspd"); }), "did you mean 'fsdp'?");
}

}  // namespace
}  // namespace foreduce
