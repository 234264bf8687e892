// `foreduce workload` and `foreduce topology import`: files that they write, and what other
// commands make of them.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string config(const std::string& name) {
  return (source_folder() / "tests" / "configs" / (name + ".json")).string();
}

// A shipped workload and the one from the same model's config.json are one model.
TEST(WorkloadCommand, WritesAFileThatPredictsAsTheWorkloadThatShips) {
  const TemporaryFolder folder;
  const std::string own = (folder.path() / "own.yaml").string();
  const Result written =
      foreduce_says("workload from-config " + config("llama3-8b") + " -o " + own);
  ASSERT_EQ(written.status, 0) << written.out;
  EXPECT_SAYS(written.out, "8030261248 parameters in 291 tensors and 33 units");
  const auto step_of = [&](const std::string& model) {
    const auto scenario =
        folder.write("s.yaml", "workload: { model: " + model +
                                   R"(, batch_per_gpu: 1, precision: bf16, sharding: fsdp }
cluster: { instance: p5.48xlarge, nodes: 2 }
allreduce: { algorithm: ring }
name: x
)");
    return json_of("predict " + scenario.string())["points"][0].value("step_time_s", -1.0);
  };
  EXPECT_GT(step_of("./own.yaml"), 0);
  EXPECT_DOUBLE_EQ(step_of("./own.yaml"), step_of("llama3-8b"));
}

TEST(WorkloadCommand, WritesASizeAsAShape) {
  const Result r =
      foreduce_says("workload from-config --parameters 13B --layers 40 --hidden 5120 --name mine");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "workload: \"mine\"");
  EXPECT_SAYS(r.out, "# Assumed: all else as in Llama");
}

TEST(WorkloadCommand, RefusesWhatItDoesNotKnow) {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& arguments) {
    const Result r = foreduce_says("workload " + arguments);
    EXPECT_EQ(r.status, 2) << arguments;
    return r.out;
  };
  EXPECT_SAYS(
      refused("from-config " + folder.write("c.json", "{\"model_type\": \"mamba\"}").string()),
      "c.json: error: model_type: 'mamba' is an architecture that foreduce does not know");
  EXPECT_SAYS(refused("from-config " + folder.write("d.json", "{\"model_type\":").string()),
              "d.json:1:15: error:");
  EXPECT_SAYS(refused("from-config nosuch.json"), "there is no such file");
  EXPECT_SAYS(refused("from-confg x.json"), "did you mean 'from-config'?");
  EXPECT_SAYS(refused("from-config --parameters 13B"), "--parameters needs --layers and --hidden");
  EXPECT_SAYS(refused("from-config --parameters 13Q --layers 2 --hidden 64"), "--parameters:");
  EXPECT_SAYS(refused("from-config " + config("gpt2") + " --seqence 3"),
              "did you mean '--sequence'?");
  EXPECT_SAYS(refused("from-config " + config("gpt2") + " --sequence 010"), "starts with a zero");
}

// Tensors in the workload file itself: an error names the line of that file.
TEST(WorkloadCommand, NamesTheLineOfATensorInTheFile) {
  const TemporaryFolder folder;
  folder.write("own.yaml",
               R"(workload: own
variants: [{ sample: x, train_gflop: 1 }]
tensors: |
  a,10,10
  b,-1,10
)");
  const auto scenario = folder.write("s.yaml",
                                     R"(name: x
workload: { model: ./own.yaml, batch_per_gpu: 1 }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: ring }
)");
  const Result r = foreduce_says("predict " + scenario.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "own.yaml:5:1: error: a tensor has at least one element");
}

// An independent program counts the same kernels and the same overlap.
TEST(TraceCommand, AgreesWithJq) {
  if (shell("command -v jq").status != 0) GTEST_SKIP() << "jq is not installed";
  const std::string traces = (source_folder() / "tests" / "traces").string();
  for (const char* name : {"ddp-resnet50-2ranks", "recommender-128ranks"}) {
    const std::string trace = traces + "/" + name + ".json.gz";
    const auto report = json_of("workload from-trace " + trace);
    const Result overlap = shell("zcat " + trace + " | jq -f " + traces + "/overlap.jq");
    EXPECT_NEAR(report.at("overlap").get<double>(), std::stod(overlap.out), 1e-9) << name;
    const auto kernels = nlohmann::json::parse(
        shell("zcat " + trace +
              " | jq -c '[.traceEvents[] | select(.cat == \"kernel\" and (.name | "
              "startswith(\"nccl\")))] | sort_by(.ts) | map([.dur, .args.\"In msg nelems\", "
              ".args.\"Collective name\"])'")
            .out);
    ASSERT_EQ(report.at("collectives").size(), kernels.size()) << name;
    for (std::size_t i = 0; i < kernels.size(); ++i) {
      const auto& c = report.at("collectives")[i];
      EXPECT_NEAR(c.at("duration_s").get<double>(), kernels[i][0].get<double>() * 1e-6, 1e-12);
      EXPECT_EQ(c.at("elements"), kernels[i][1]) << name << " " << i;
      if (!kernels[i][2].is_null()) {
        EXPECT_EQ(c.at("collective"), kernels[i][2]);
      }
    }
  }
}

TEST(TraceCommand, WritesAWorkloadThatPredicts) {
  const TemporaryFolder folder;
  const std::string trace =
      (source_folder() / "tests" / "traces" / "ddp-resnet50-2ranks.json.gz").string();
  const std::string own = (folder.path() / "own.yaml").string();
  const Result r = foreduce_says("workload from-trace " + trace + " --batch 32 --workload " + own);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "NVIDIA A100-PG509-200, rank 0 of 2");
  EXPECT_SAYS(r.out, "overlap with computation, 15.61 %.");
  const auto scenario = folder.write("s.yaml",
                                     R"(name: x
workload: { model: ./own.yaml, precision: fp32, batch_per_gpu: 32 }
cluster: { instance: p4d.24xlarge, nodes: 1 }
allreduce: { algorithm: ring }
)");
  const auto point = json_of("predict " + scenario.string()).at("points")[0];
  // The traced step without communication: forward, backward and optimizer.
  EXPECT_NEAR(point.at("compute_time_s").get<double>(), 0.1969, 0.001);
  EXPECT_SAYS(foreduce_says("workload from-trace " + trace + " --format csv").out,
              "allreduce,Float,2431040,9724160,2,true\n");
  // Stored reports are shown again.
  const std::string stored = (folder.path() / "t.json").string();
  EXPECT_EQ(foreduce_says("workload from-trace " + trace + " -o " + stored).status, 0);
  EXPECT_SAYS(foreduce_says("show " + stored).out, "rank 0 of 2");
  const Result bad = foreduce_says("workload from-trace " + own);
  EXPECT_EQ(bad.status, 2);
  EXPECT_SAYS(bad.out, "own.yaml:1:1: error: not a PyTorch trace");
}

TEST(TopologyCommand, ImportsADumpThatOtherCommandsTake) {
  const TemporaryFolder folder;
  const std::string own = (folder.path() / "mine.yaml").string();
  const std::string dump =
      (source_folder() / "tests" / "topologies" / "p4d-24xl-topo.xml").string();
  const Result r = foreduce_says("topology import " + dump + " -o " + own);
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "8 x A100-SXM4-40GB, 4 x 12.5 GB/s, 4 PCIe switches or ports, 2 sockets");
  EXPECT_SAYS(r.out, "differences from p4d.24xlarge:\n  host.cpu:");
  // The same machine: the same prediction.
  const auto time = [](const std::string& instance) {
    return json_of("compare --instance " + instance + " --nodes 2 --algorithm nccl --sizes 64MiB")
        .at("points")[0]
        .value("time_us", -1.0);
  };
  EXPECT_GT(time(own), 0);
  EXPECT_DOUBLE_EQ(time(own), time("p4d.24xlarge"));
  EXPECT_SAYS(foreduce_says("topology " + own).out, "nic.latency = 15.5 us (assumed)");
  const Result again = foreduce_says("topology " + own + " --nccl -o " + own + ".xml");
  EXPECT_EQ(again.status, 0) << again.out;
  EXPECT_SAYS(foreduce_says("topology import " + own + ".xml").out, "No difference from p4d");
  const Result none = foreduce_says("topology import nosuch.xml");
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "there is no such file");
}

}  // namespace
}  // namespace foreduce
