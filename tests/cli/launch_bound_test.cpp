// Small micro-batches, whose computing takes as long as the host launches kernels.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string command(const TemporaryFolder& folder, const std::string& keys) {
  return "predict " +
         folder
             .write("s.yaml", "name: s\nworkload: { model: gpt2-355m, precision: bf16, " + keys +
                                  " }\ncluster: { instance: p5.48xlarge, nodes: 1 }\n")
             .string();
}

// The interval then reaches a program that takes 2.7 times as long to launch its kernels.
TEST(LaunchBound, IsSaidWhereLaunchesRule) {
  const TemporaryFolder folder;
  const std::string words = "Bounded by kernel launches";
  for (const std::string keys : {"batch_per_gpu: 1", "batch_per_gpu: 1, sharding: fsdp",
                                 "batch_per_gpu: 1, sharding: zero1, tensor_parallel: 2"}) {
    EXPECT_SAYS(foreduce_says(command(folder, keys)).out, words) << keys;
    const auto point = json_of(command(folder, keys))["points"][0];
    EXPECT_TRUE(point.value("bounded_by_launches", false)) << keys;
    EXPECT_GT(point.at("step_time_high_s").get<double>(),
              2 * point.at("compute_time_s").get<double>())
        << keys;
  }
  for (const std::string keys : {"batch_per_gpu: 16", "batch_per_gpu: 1, cuda_graphs: yes"}) {
    EXPECT_EQ(foreduce_says(command(folder, keys)).out.find(words), std::string::npos) << keys;
    EXPECT_FALSE(json_of(command(folder, keys))["points"][0]["bounded_by_launches"].get<bool>());
  }
}

}  // namespace
}  // namespace foreduce
