// Machine files of one's own beside instance types, and keys that say nothing of a model.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
using nlohmann::json;

// The first machine of a sweep decided the latencies of all, and a named profile had its own.
TEST(OwnMachine, HasItsLatenciesInWhateverOrderAndByWhateverProfile) {
  const TemporaryFolder folder;
  const std::string slow = folder
                               .write("slow.yaml",
                                      "instance: slow\nlike: p5.48xlarge\nnic: { latency: 200 us "
                                      "}\n")
                               .string(),
                    p5 = "p5.48xlarge";
  for (const std::string& instances : {slow + "," + p5, p5 + "," + slow})
    for (const char* profile : {"", " --profile nccl-h100"}) {
      const json report = json_of("compare --instance " + instances +
                                  " --nodes 2 --sizes 8B --algorithm nccl" + profile);
      std::map<bool, double> by_slow;
      for (const json& p : report.at("points")) {
        EXPECT_LE(p.at("share_of_bound"), 1) << instances;
        by_slow[p.at("instance").get<std::string>().ends_with("slow.yaml")] = p.at("time_us");
      }
      ASSERT_EQ(by_slow.size(), 2u);
      EXPECT_GT(by_slow[true], by_slow[false] + 2 * 170) << instances << profile;
      EXPECT_LT(by_slow[false], 100) << instances << profile;
    }
}

TEST(OwnMachine, OverTcpHasNoSourceOfEfasLatency) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("tcp.yaml", "instance: tcp\nlike: p4d.24xlarge\nnic: { fabric: tcp }\n");
  const Result efa = foreduce_says("topology p4d.24xlarge"),
               tcp = foreduce_says("topology " + file.string());
  EXPECT_SAYS(efa.out, "nic.latency = 15.5 us");
  EXPECT_EQ(tcp.out.find("nic.latency ="), std::string::npos) << tcp.out;
}

TEST(KeysWithoutEffect, AreThoseOfALossThatTheModelDoesNotHave) {
  const TemporaryFolder folder;
  for (const auto& [model, without] : {std::pair("bert-large", true), {"gpt2-124m", false}}) {
    const auto file = folder.write(
        "s.yaml", std::string("workload: { model: ") + model +
                      ", precision: fp16, batch_per_gpu: 8, fused_loss: yes }\ncluster: { "
                      "instance: p4d.24xlarge, nodes: 1 }\n");
    const Result r = foreduce_says("predict " + file.string());
    ASSERT_EQ(r.status, 0) << r.out;
    EXPECT_EQ(r.out.find("Keys without effect here: workload.fused_loss.") != std::string::npos,
              without)
        << model;
  }
}

TEST(Plan, SaysWhichInstancesHaveNoPrice) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
workload: { model: bert-large, precision: fp16, batch_per_gpu: 32 }
cluster: { instance: [p5.48xlarge, p5e.48xlarge], nodes: [1, 2] }
goal: { samples: 100 million, deadline: 2 d }
)");
  const Result r = foreduce_says("plan " + file.string());
  EXPECT_SAYS(
      r.out, "p5e.48xlarge has no price and is compared by time alone (cluster.prices gives one).");
}

}  // namespace
}  // namespace foreduce
