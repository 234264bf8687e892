// Sharded steps with what NCCL is forced to, and among nodes that are not alike.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
using nlohmann::json;

std::string pat_scenario(const char* sharding) {
  return std::string(
             "workload: { model: gpt2-124m, precision: bf16, batch_per_gpu: 8, sharding: ") +
         sharding +
         " }\ncluster: { instance: p5.4xlarge, nodes: 8 }\nallreduce: { algorithm: nccl, nccl: { "
         "algo: PAT } }\n";
}

// The cluster's all-reduce, which such a step has not, refused what its other collectives have.
TEST(ForcedNccl, MayHaveAnAlgorithmOfOtherCollectivesThanAllReduces) {
  const TemporaryFolder folder;
  const auto sharded = folder.write("sharded.yaml", pat_scenario("zero3"));
  const json point = json_of("predict " + sharded.string()).at("points").at(0);
  EXPECT_FALSE(point.contains("error")) << point.dump();
  EXPECT_SAYS(point.at("chosen").get<std::string>(), "pat");
  const auto ddp = folder.write("ddp.yaml", pat_scenario("none"));
  const Result refused = foreduce_says("predict " + ddp.string());
  EXPECT_EQ(refused.status, 2);
  EXPECT_SAYS(refused.out,
              "ddp.yaml:3:39: error: allreduce.nccl.algo: NCCL has no all-reduce by pat");
}

// Pairs of stages do not divide three nodes, of which one has a slow card.
TEST(UnequalNodes, TakeThreePipelineStages) {
  const TemporaryFolder folder;
  const auto scenario = [&](const char* slow) {
    return folder
        .write(std::string("share-") + slow + ".yaml", std::string(R"(
workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1, sharding: zero3, pipeline: 3, accumulation: 6 }
cluster:
  mixed:
    - { instance: p4d.24xlarge, nodes: 2 }
    - { instance: p4d.24xlarge, nodes: 1, slow_links: [{ device: nic0, share: )") +
                                                           slow + " }] }\n")
        .string();
  };
  const auto step = [&](const char* slow) {
    const json point = json_of("predict " + scenario(slow)).at("points").at(0);
    EXPECT_FALSE(point.contains("error")) << point.dump();
    return point.value("step_time_s", 0.0);
  };
  const double half = step("0.5"), tenth = step("0.1");
  EXPECT_GT(half, 0);
  EXPECT_GE(tenth, half);
}

}  // namespace
}  // namespace foreduce
