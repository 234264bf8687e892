// What people type first who know PyTorch and NCCL, and what the program answers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "input/files.hpp"
#include "models/workload.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string predict_of(const TemporaryFolder& folder, const std::string& workload) {
  return "predict " + folder
                          .write("s.yaml", "workload: { " + workload +
                                               " }\ncluster: { instance: p5.48xlarge, nodes: 2 }\n")
                          .string();
}

TEST(FirstGuesses, OtherProgramsKeysNameOurs) {
  const TemporaryFolder folder;
  for (const auto& [key, ours] :
       {std::pair("dtype: bf16", "did you mean 'precision'"),
        {"micro_batch: 2", "did you mean 'batch_per_gpu'"},
        {"batch: 2", "did you mean 'batch_per_gpu', or workload.measured[].batch?"},
        {"activation_checkpointing: yes", "did you mean 'recompute'"},
        {"optimizer: adamw", "did you mean 'state'"},
        {"lora: yes", "did you mean 'trainable'"},
        {"mbs: 2", "did you mean 'batch_per_gpu'"},
        {"zero_stage: 3", "did you mean 'sharding'? e.g. sharding: zero3"},
        {"flash_attention: yes", "attention is in one kernel"},
        {"batch_per_gpu: 1, 4", "inside { } a comma ends a value: write a list as [1, 2]"},
        {"batch_per_gpu: 1-8", "a range is 1..8"},
        {"batch_per_gpu: 1, sample: 2048x", "has no sample '2048x'"},
        {"batch_per_gpu: 1, sample: 2048", "did you mean '2048 tokens'?"},
        {"batch_per_gpu: 1, measured: [{ instance: p5.48xlarge, mfu: 45 }]",
         "did you mean '45 %'?"},
        {"batch_per_gpu: 1, trainable: 450 %", "  at most 1\n"},
        {"sequence: 4096", "^\n  did you mean 'sample'? e.g. sample: 4096 tokens\n"}}) {
    const Result r = foreduce_says(predict_of(folder, std::string("model: llama2-13b, ") + key));
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, ours);
    EXPECT_SAYS_NOT(r.out, "?;");
  }
}

TEST(FirstGuesses, ClustersOfOtherProgramsNameOurs) {
  const TemporaryFolder folder;
  for (const auto& [cluster, ours] :
       {std::pair("instance_type: p5.48xlarge, nodes: 2", "did you mean 'instance'?"),
        {"instance: p5.48xlarge, num_nodes: 2", "did you mean 'nodes'?"},
        {"instance: p5.48xlarge, gpus: 16", "two nodes of 8 GPUs are 16"},
        {"instance: p5.48xlarge, nodes: 2, prices: { p5.48xlarge: 30 USD/h }",
         "an entry an instance: prices: [{ instance:"},
        {"instance: p5.48xlarge, nodes: 2, prices: [{ instance: p5.48xlarge, price: 2 USD/GPU/h }]",
         "a price is of a whole instance, which has several GPUs"}}) {
    const auto file =
        folder.write("s.yaml", fmt::format("workload: {{ model: bert-large, batch_per_gpu: 8 }}\n"
                                           "cluster: {{ {} }}\n",
                                           cluster));
    const Result r = foreduce_says("predict " + file.string());
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(words(r.out), ours);
  }
}

// The hint named a sample that was refused.
TEST(FirstGuesses, SequencesMayHaveAnotherLengthThanTheModels) {
  const TemporaryFolder folder;
  const std::string model = "model: llama3-8b, precision: bf16, batch_per_gpu: 1, sharding: fsdp, ";
  EXPECT_SAYS(foreduce_says(predict_of(folder, model + "sequence: 4096")).out,
              "e.g. sample: 4096 tokens");
  const auto point = json_of(predict_of(folder, model + "sample: 4096 tokens")).at("points").at(0);
  EXPECT_EQ(point.at("sample"), "4096 tokens");
  EXPECT_EQ(json_of(predict_of(folder, model + "recompute: full, sample: 32768 tokens"))
                .at("points")
                .at(0)
                .at("sample"),
            "32768 tokens");  // whose positions are rotary
  const Result longer =
      foreduce_says(predict_of(folder, "model: gpt2-1.5b, batch_per_gpu: 1, sample: 32768 tokens"));
  EXPECT_EQ(longer.status, 2);
  EXPECT_SAYS(words(longer.out), "from-config config.json --sequence 32768 -o long.yaml");
}

// "There is no such file", without a line.
TEST(FirstGuesses, ModelsOfHuggingFaceNameOurs) {
  const TemporaryFolder folder;
  const Result r =
      foreduce_says(predict_of(folder, "model: meta-llama/Llama-2-7b, batch_per_gpu: 1"));
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "s.yaml:1:13: error: workload.model: there is no file meta-llama/Llama-2-7b");
  EXPECT_SAYS(r.out, "did you mean 'llama2-7b'?");
  EXPECT_SAYS(words(r.out),
              "from-config config.json -o Llama-2-7b.yaml, and model: ./Llama-2-7b.yaml");
}

TEST(FirstGuesses, OtherProgramsWordsNameOurs) {
  const TemporaryFolder folder;
  for (const auto& [key, ours] :
       {std::pair("precision: bfloat16", "did you mean 'bf16'?"),
        {"precision: float16", "did you mean 'fp16'?"},
        {"sharding: full_shard", "FSDP's FULL_SHARD is sharding: zero3"},
        {"sharding: 3", "ZeRO's stage 3 is sharding: zero3"},
        {"sharding: shard_grad_op", "FSDP's SHARD_GRAD_OP is sharding: zero2"}}) {
    const Result r = foreduce_says(
        predict_of(folder, std::string("model: llama2-7b, batch_per_gpu: 1, ") + key));
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, ours);
  }
  EXPECT_SAYS(
      foreduce_says("predict " + folder
                                     .write("b.yaml",
                                            R"(workload: { model: resnet50, batch_per_gpu: 1 }
cluster: { instance: p5.48xlarge, nodes: 2 }
allreduce: { bucket_cap_mb: 25 }
)")
                                     .string())
          .out,
      "did you mean 'bucket'?");
}

TEST(FirstGuesses, FilesOfOtherKindsAreNamed) {
  for (const auto& [file, what] :
       {std::pair("models/profiles/nccl-a100.yaml", "this is a profile, not a scenario"),
        {"topologies/ec2/p4d.24xlarge.yaml", "this is a machine file, not a scenario"},
        {"models/workloads/resnet50.yaml", "this is a workload file, not a scenario"}}) {
    const Result r = foreduce_says("predict " + (source_folder() / file).string());
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, what);
    EXPECT_EQ(r.out.find("error:"), r.out.rfind("error:")) << r.out;  // one
  }
}

TEST(FirstGuesses, NoConvolutionsAreDividedAsATransformer) {
  const TemporaryFolder folder;
  for (const std::string key : {"tensor_parallel: 2", "pipeline: 2, accumulation: 4"})
    EXPECT_SAYS(foreduce_says(predict_of(folder, "model: resnet50, batch_per_gpu: 64, " + key)).out,
                "resnet50 is no transformer");
  EXPECT_SAYS_NOT(
      foreduce_says(predict_of(folder, "model: vit-b16, batch_per_gpu: 64, tensor_parallel: 2"))
          .out,
      "is no transformer");
}

TEST(FirstGuesses, InstanceThatALogIsNotOfIsCorrected) {
  const Result r =
      foreduce_says("check " + (source_folder() / "tests/logs/nebius_h100_ib_2n.txt").string() +
                    " --instance p4d.24xlarge");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "as 2 x hgx-h100-ib these times are normal");
}

// The share of the peak is that of the time beside it.
TEST(Compute, SaysTheShareThatLaunchesLeave) {
  const TemporaryFolder folder;
  const std::string asked =
      predict_of(folder, "model: gpt2-355m, precision: fp16, batch_per_gpu: 2");
  const auto point = json_of(asked)["points"][0];
  const double of_step = point.at("model_flops_utilisation"), step = point.at("step_time_s"),
               optimizer = 28.0 * static_cast<double>(Workloads().load("gpt2-355m").elements()) /
                           (0.78 * 3.35e12),
               compute = point.at("compute_time_s").get<double>() - optimizer;
  char words[16];
  std::snprintf(words, sizeof words, "%.2g", 100 * of_step * step / compute);
  EXPECT_SAYS(foreduce_says(asked).out, "(" + std::string(words) + " % with launches");
}

TEST(Best, TriesWhatIsNamedBesideIt) {
  const std::string command = "compare --instance g5.48xlarge --nodes 2 --sizes 1GiB --algorithm ";
  const auto points = json_of(command + "forest,best")["points"];
  EXPECT_EQ(points.at(1).at("chosen"), "forest");
  EXPECT_EQ(points.at(0).at("time_us"), points.at(1).at("time_us"));
  EXPECT_NE(json_of(command + "best")["points"].at(0).at("chosen"), "forest");
}

// NCCL is preferred within 1 %, and the answer says so.
TEST(Cheapest, NamesWhatIsCheaperByLessThanOnePercent) {
  const TemporaryFolder folder;
  const std::string file =
      folder
          .write("s.yaml",
                 R"(workload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: [1, 2] }
allreduce: { algorithm: [nccl, best] }
)")
          .string();
  const std::string text = foreduce_says("predict " + file).out;
  double least = HUGE_VAL;
  const auto report = json_of("predict " + file);
  for (const auto& p : report.at("points"))
    least = std::min(least, p.at("usd_per_million_samples").get<double>());
  char words[32];
  std::snprintf(words, sizeof words, "$%.2f", least);
  const auto line = text.substr(text.find("Cheapest"), 200);
  EXPECT_SAYS(line, words);
}

// The same estimate stands on both sides where the GPU is the same.
TEST(Cheapest, DependsOnEstimatesOfTwoKindsOfGpu) {
  const TemporaryFolder folder;
  const auto says = [&](const std::string& instances) {
    const auto file = folder.write("s.yaml", fmt::format(R"(
workload: {{ model: gpt2-1.5b, precision: bf16, batch_per_gpu: 8, sharding: zero3 }}
cluster: {{ instance: [{}], nodes: 2 }}
)",
                                                         instances));
    return foreduce_says("predict " + file.string()).out;
  };
  EXPECT_SAYS(says("p4d.24xlarge, p6-b200.48xlarge"),
              "Compute is an estimate on p4d.24xlarge, p6-b200.48xlarge: which of them");
  EXPECT_SAYS_NOT(says("p4d.24xlarge, p4de.24xlarge"), "Compute is an estimate on");
}

// A channel's threads copy and add: what takes most of the path helps most.
TEST(Explain, FindsHelpInWhatTakesMostOfThePath) {
  const auto report =
      json_of("explain --instance p4d.24xlarge --nodes 2 --algorithm nccl --size 1GiB");
  const auto& parts = report.at("parts");
  EXPECT_EQ(parts.at(0).at("part"), "reduction");
  EXPECT_EQ(report.at("changes").at(0).at("change"), "reduction");
}

}  // namespace
}  // namespace foreduce
