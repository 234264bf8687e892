// A GPU's memory as a limit: what is refused, and what may or may not fit.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Predicts GPT-2 on such a machine with so much memory a GPU.
std::string with_memory(const TemporaryFolder& folder, double bytes) {
  folder.write("mine.yaml",
               fmt::format("like: p4d.24xlarge\ngpu: {{ memory: {:.0f} B }}\n", bytes));
  return "predict " + folder
                          .write("s.yaml",
                                 R"(name: s
workload: { model: gpt2-355m, batch_per_gpu: 4 }
cluster: { instance: ./mine.yaml, nodes: 1 }
)")
                          .string();
}

// Published peaks are within 5 % of the estimate, so a shortage of less is no refusal.
TEST(MemoryLimit, IsUncertainWithinTheEstimatesError) {
  const TemporaryFolder folder;
  const double needed =  // and some 1 GiB for CUDA and NCCL
      json_of(with_memory(folder, 40e9))["points"][0].at("peak_memory_bytes").get<double>() +
      (1 << 30);
  const Result little = foreduce_says(with_memory(folder, needed / 1.03));
  EXPECT_EQ(little.status, 0) << little.out;
  EXPECT_SAYS(little.out, "just fits, or just does not");
  const auto point = json_of(with_memory(folder, needed / 1.03))["points"][0];
  EXPECT_TRUE(point.at("memory_uncertain").get<bool>());
  EXPECT_TRUE(point.at("memory_shortage").is_null());
  const Result more = foreduce_says(with_memory(folder, needed / 1.07));
  EXPECT_EQ(more.status, 1);
  EXPECT_SAYS(more.out, "does not fit");
  const Result enough = foreduce_says(with_memory(folder, needed * 1.01));
  EXPECT_EQ(enough.status, 0);
  EXPECT_EQ(enough.out.find("just does not"), std::string::npos);
}

}  // namespace
}  // namespace foreduce
