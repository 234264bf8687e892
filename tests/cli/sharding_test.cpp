// Strategies side by side, from outside.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/files.hpp"
#include "tests/support/predicted.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::string scenario(const std::string& keys) {
  return "name: x\nworkload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 2, " + keys +
         R"( }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: nccl }
)";
}
nlohmann::json points_with(const std::string& keys) {
  const TemporaryFolder folder;
  return json_of("predict " + folder.write("s.yaml", scenario(keys)).string()).at("points");
}
/// All that is predicted; the question and what it cost to answer left out.
nlohmann::json answer(nlohmann::json point) {
  for (const char* asked : {"point", "mode", "wall_seconds", "peak_rss_bytes"}) point.erase(asked);
  return point;
}

TEST(Sharding, AGroupOfOneIsDdpAndAGroupOfAllIsZero3) {
  // Which counts once: of zero1, zero2 and zero3 in groups of one there would be three more.
  const nlohmann::json points = points_with("sharding: [ddp, zero1, zero2, zero3], hybrid: [1]");
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(answer(points[0]), answer(points_with("sharding: zero3, hybrid: 1")[0]));
  EXPECT_EQ(answer(points[0]), answer(points_with("sharding: ddp")[0]));
  const nlohmann::json all = points_with("sharding: zero3, hybrid: 16")[0];
  EXPECT_EQ(answer(all), answer(points_with("sharding: fsdp")[0]));
  EXPECT_NE(points[0]["step_time_s"], all["step_time_s"]);
}

TEST(Sharding, GroupsThatAreTheSameThereAreShownOnce) {
  const nlohmann::json report = [] {
    const TemporaryFolder folder;
    return json_of("predict " +
                   folder
                       .write("s.yaml", R"(
name: x
workload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 2, sharding: zero3, hybrid: [node, 8, world] }
cluster: { instance: [p4d.24xlarge, p5.4xlarge], nodes: 2 }
allreduce: { algorithm: nccl }
)")
                       .string() +
                   " 2>/dev/null");
  }();
  // On p4d, 8 are a node's; on p5.4xlarge, a node has one GPU, which shares nothing, and 8 cannot
  // be.
  const nlohmann::json& points = report.at("points");
  ASSERT_EQ(points.size(), 5u);
  EXPECT_EQ(report["repeated_points"], 1);
  EXPECT_EQ(report["points_in_sweep"], 5);
  EXPECT_EQ(points[0]["hybrid"], 8);
  EXPECT_TRUE(points[1]["hybrid"].is_null()) << "world";
  EXPECT_EQ(points[2]["sharding"], "none");
  EXPECT_EQ(points[2]["gradient_type"], "fp32") << "as DDP has it";
  EXPECT_TRUE(points[3].contains("error"));
  for (std::size_t n = 0; n < points.size(); ++n) EXPECT_EQ(points[n]["point"], n);
}

// Its name ("ring Simple") was once taken for an algorithm's.
TEST(Sharding, AnOwnAlgorithmsProtocolHoldsForAllItsCollectives) {
  const TemporaryFolder folder;
  const auto step = [&](const std::string& protocol) {
    return json_of("predict " + folder
                                    .write("s.yaml",
                                           R"(name: x
workload: { model: gpt2-355m, precision: bf16, batch_per_gpu: 2, sharding: zero3 }
cluster: { instance: p5.48xlarge, nodes: 2 }
allreduce: { algorithm: ring, protocol: )" + protocol +
                                               " }\n")
                                    .string())
        .at("points")[0]["step_time_s"]
        .get<double>();
  };
  EXPECT_GT(step("Simple"), 0);
  EXPECT_NE(step("Simple"), step("LL128"));
}

TEST(Sharding, CollectivesCarryWhatTheStrategySays) {
  const nlohmann::json points =
      points_with("sharding: [ddp, zero1, zero2, zero3], gradient: bf16, no_sync: yes");
  // zero2 keeps no whole gradients: its row says so, and the others are answered.
  EXPECT_TRUE(points[2].contains("error"));
  const auto sent = [&](std::size_t at) {
    double bytes = 0, exposed = 0;
    for (const nlohmann::json& c : points[at].at("collectives")) {
      bytes += c.at("sent_bytes_per_gpu").get<double>();
      exposed += c.at("exposed_s").get<double>();
    }
    EXPECT_NEAR(exposed, points[at]["exposed_communication_s"].get<double>(), 1e-9);
    return bytes;
  };
  EXPECT_DOUBLE_EQ(sent(1), sent(0));
  EXPECT_GT(sent(3), 1.2 * sent(0));
  EXPECT_LT(sent(3), 1.5 * sent(0));
  EXPECT_GT(points[0]["peak_memory_bytes"], points[1]["peak_memory_bytes"]);
  EXPECT_GT(points[1]["peak_memory_bytes"], points[3]["peak_memory_bytes"]);
}

TEST(Sharding, ModelParallelPointsAreAnswered) {
  for (const nlohmann::json& p :
       points_with("sharding: zero1, tensor_parallel: [1, 4], pipeline: [1, 4], accumulation: 8")) {
    EXPECT_FALSE(p.contains("error")) << p;
    EXPECT_EQ(p["pipeline_bubble_s"].get<double>() > 0, p["pipeline"] == 4);
    EXPECT_LE(p["scaling_efficiency"].get<double>(), 1);
  }
}

TEST(Sharding, SetReplacesAStrategy) {
  const TemporaryFolder folder;
  const std::string file = folder.write("s.yaml", scenario("sharding: ddp")).string();
  const Result r =
      foreduce_says("predict " + file + " --set workload.sharding=fsdp --set workload.hybrid=node");
  EXPECT_SAYS(r.out, "zero3/8");
  EXPECT_EQ(foreduce_says("predict " + file + " --set workload.sharding=zero4").status, 2);
}

TEST(Sharding, TellsAtItsKeyWhatNoPointCanDo) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& keys) {
    const Result r = foreduce_says("predict " + folder.write("s.yaml", scenario(keys)).string());
    EXPECT_EQ(r.status, 2) << r.out;
    return r.out;
  };
  EXPECT_SAYS(error("tensor_parallel: 3"),
              "s.yaml:2:66: error: workload.tensor_parallel: 8 GPUs of a node cannot be divided "
              "into tensor-parallel groups of 3");
  EXPECT_SAYS(error("sharding: zero3, hybrid: 5"), "s.yaml:2:83: error: workload.hybrid: 16");
  EXPECT_SAYS(error("sharding: zero2, no_sync: yes"), "error: workload.no_sync: zero2 keeps");
  const Result fp8 =
      foreduce_says("predict " + folder.write("s.yaml", scenario("recompute: no")).string() +
                    " --set workload.precision=fp8");
  EXPECT_SAYS(fp8.out, "error: workload.precision: A100-SXM4-40GB has no FP8 tensor cores");
}

TEST(Sharding, PlanTakesWhatFits) {
  const TemporaryFolder folder;
  const std::string file = folder
                               .write("s.yaml", R"(
name: x
workload: { model: llama2-7b, precision: bf16, batch_per_gpu: 1, recompute: full, sharding: [ddp, fsdp] }
cluster: { instance: p4d.24xlarge, nodes: [2, 4] }
allreduce: { algorithm: nccl }
goal: { tokens: 1 billion, deadline: 30 d }
)")
                               .string();
  const Result r = foreduce_says("plan " + file);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "2, 4 x p4d.24xlarge, ddp: llama2-7b does not fit");
  EXPECT_SAYS(r.out, "sharding: zero3 shares them among GPUs");
  EXPECT_SAYS(r.out, "Cheapest:    2 x p4d.24xlarge, nccl, strategy zero3");
}

TEST(Sharding, EfficiencyAgainstOneNodeIsOfThatNodesOwnPoint) {
  for (const std::string keys : {"sharding: zero3", "sharding: zero2, hybrid: node",
                                 "sharding: fsdp, hybrid: 4, tensor_parallel: 2"}) {
    const TemporaryFolder folder;
    std::string text = scenario(keys);
    text.replace(text.find("nodes: 2"), 8, "nodes: [1, 2]");
    const nlohmann::json points =
        json_of("predict " + folder.write("s.yaml", text).string()).at("points");
    const auto samples = [&](std::size_t at) {
      return points[at].at("throughput_samples_per_s").get<double>();
    };
    EXPECT_EQ(points[0].at("scaling_efficiency_vs_one_node"), 1) << keys;
    EXPECT_NEAR(points[1].at("scaling_efficiency_vs_one_node").get<double>(),
                samples(1) / samples(0) / 2, 1e-9)
        << keys;
  }
}

TEST(Sharding, SaysWhyOneNodeIsNoComparison) {
  const auto reason = [](const std::string& keys) {
    const nlohmann::json point = points_with(keys).at(0);
    EXPECT_TRUE(point.at("scaling_efficiency_vs_one_node").is_null()) << keys;
    return point.value("scaling_efficiency_vs_one_node_unknown_because", "");
  };
  EXPECT_SAYS(reason("sharding: zero3, tensor_parallel: 8, pipeline: 2"), "cannot be divided");
  const TemporaryFolder folder;
  const char* large = R"(
name: x
workload:
  { model: llama2-70b, precision: bf16, batch_per_gpu: 1, recompute: full, sharding: fsdp }
cluster: { instance: p5.48xlarge, nodes: 8 }
allreduce: { algorithm: nccl }
)";
  const nlohmann::json point =
      json_of("predict " + folder.write("s.yaml", large).string()).at("points").at(0);
  EXPECT_SAYS(point.value("scaling_efficiency_vs_one_node_unknown_because", ""),
              "one node is too small");
}

// What a strategy sends does not depend on what it is compared with.
TEST(Sharding, StrategiesKeepTheirDefaultsInAList) {
  const nlohmann::json both = points_with("sharding: [ddp, fsdp]"),
                       alone = points_with("sharding: ddp");
  EXPECT_EQ(answer(both[0]), answer(alone[0]));
  EXPECT_EQ(both[0]["gradient_type"], "fp32");
  EXPECT_EQ(both[1]["gradient_type"], "bf16");
}

// On one communicator a reduce-scatter waits for the all-gather before it.
TEST(Sharding, OneCommunicatorTakesAtLeastAsLongAsTwo) {
  const auto seconds = [](const std::string& keys) {
    return points_with("sharding: fsdp, " + keys)[0]["step_time_s"].get<double>();
  };
  EXPECT_EQ(seconds("communicators: shared"), seconds("prefetch: 1"));  // the default
  EXPECT_GT(seconds("communicators: shared"), seconds("communicators: separate"));
}

// Streams slow each other alike, wherever the groups lie: two nodes used to scale to 155 %.
TEST(Sharding, DoesNotScaleBeyondAllNodes) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
workload:
  model: gpt2-1.5b
  precision: bf16
  batch_per_gpu: 2
  sharding: zero3
  hybrid: [node, 16]
  tensor_parallel: [1, 4]
cluster:   { instance: [g6e.48xlarge, p5.48xlarge], nodes: [2, 4] }
allreduce: { algorithm: nccl }
)");
  std::size_t compared = 0;
  const nlohmann::json points = json_of("predict " + file.string()).at("points");
  for (const nlohmann::json& p : points)
    if (!p.contains("error") && !p["scaling_efficiency_vs_one_node"].is_null()) {
      ++compared;
      EXPECT_LT(p["scaling_efficiency_vs_one_node"].get<double>(), 1.01) << p["instance"];
    }
  EXPECT_GE(compared, 8u);
}

// Stages may begin inside a node.
/// Of 8 nodes of p5 in stages of a node each, by parts of a stage.
nlohmann::json pipelined(const std::string& keys) {
  const TemporaryFolder folder;
  return json_of("predict " +
                 folder
                     .write("s.yaml",
                            "name: x\nworkload: { model: llama2-13b, precision: bf16, "
                            "batch_per_gpu: 1, tensor_parallel: 8, pipeline: 4, " +
                                keys +
                                R"( }
cluster: { instance: p5.48xlarge, nodes: 8 }
allreduce: { algorithm: nccl }
)")
                     .string() +
                 " 2>/dev/null")
      .at("points");
}

// Narayanan et al., SC21, section 2.2.2: v parts make the bubble a v-th, and stages send v times.
TEST(Sharding, PartsOfStagesShortenThePipelinesBubble) {
  const nlohmann::json points = pipelined("accumulation: 8, virtual_pipeline: [1, 2, 5]");
  ASSERT_EQ(points.size(), 3u);
  const auto sends = [](const nlohmann::json& p) {
    for (const nlohmann::json& c : p.at("collectives"))
      if (c.at("kind") == "pipeline_send") return c.at("count").get<double>();
    ADD_FAILURE() << "nothing is sent to the next stage";
    return 0.0;
  };
  const double bubble = points[0]["pipeline_bubble_s"], memory = points[0]["activation_bytes"];
  for (const int n : {1, 2}) {
    const double parts = points[static_cast<std::size_t>(n)]["virtual_pipeline"];
    // A part's time has the sends of all parts in it, so it is a little more than a v-th.
    EXPECT_GT(points[static_cast<std::size_t>(n)]["pipeline_bubble_s"], bubble / parts);
    EXPECT_LT(points[static_cast<std::size_t>(n)]["pipeline_bubble_s"], 1.3 * bubble / parts);
    EXPECT_EQ(sends(points[static_cast<std::size_t>(n)]), parts * sends(points[0]));
    // Korthikanti et al., MLSys 2023, section 4.2.3: 1 + (p - 1) / (p v) times the activations.
    EXPECT_NEAR(points[static_cast<std::size_t>(n)]["activation_bytes"].get<double>() / memory,
                1 + 3 / (4 * parts), 0.02);
  }
  // Beside one that can be answered, for a scenario none of whose points can is refused.
  EXPECT_SAYS(pipelined("accumulation: 6, virtual_pipeline: [1, 2]")[1]["error"].get<std::string>(),
              "in multiples of 4, and a step has 6");
  EXPECT_SAYS(
      pipelined("accumulation: 8, virtual_pipeline: [1, 11]")[1]["error"].get<std::string>(),
      "a stage of 10 blocks cannot be cut into 11 parts");
}

TEST(Sharding, PipelinesOnOddNumbersOfNodesAreAnswered) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
workload: { model: gpt2-774m, precision: bf16, batch_per_gpu: 1, accumulation: 8, pipeline: [2, 4] }
cluster:   { instance: p5.48xlarge, nodes: [3, 5] }
allreduce: { algorithm: [nccl, ring] }
)");
  const nlohmann::json points = json_of("predict " + file.string()).at("points");
  EXPECT_EQ(points.size(), 8u);
  for (const nlohmann::json& p : points) EXPECT_FALSE(p.contains("error")) << p.value("error", "");
}

// SMDDP's servers sum over all ranks; NCCL sums in groups, without them.
std::string mixture(const std::string& keys) {
  return "name: x\nworkload: { model: mixtral-8x7b, precision: bf16, batch_per_gpu: 1, " + keys +
         R"( }
cluster: { instance: p5.48xlarge, nodes: 2 }
allreduce: { algorithm: nccl }
)";
}
/// Seconds and bytes of all collectives of a kind in a point.
std::pair<double, double> of_kind(const nlohmann::json& point, const std::string& kind) {
  for (const nlohmann::json& c : point.at("collectives"))
    if (c.at("kind") == kind) return {c.at("time_s"), c.at("bytes")};
  return {0, 0};
}

TEST(ExpertParallel, ExchangesTokensAndGathersWhatOthersDoNotHave) {
  const TemporaryFolder folder;
  const std::string keys = "sharding: fsdp, expert_parallel: [1, 4, 8, 16]";
  const nlohmann::json report =
      json_of("predict " + folder.write("s.yaml", mixture(keys)).string());
  const nlohmann::json& points = report.at("points");
  ASSERT_EQ(points.size(), 4u);
  EXPECT_EQ(of_kind(points[0], "expert_all_to_all").second, 0);
  // 32 blocks, two exchanges each way, of 4,096 tokens x 2 experts x 4,096 elements of 2 bytes.
  const double bytes = 32.0 * 4 * 4096 * 2 * 4096 * 2;
  for (const std::size_t at : {1u, 2u})
    EXPECT_EQ(of_kind(points[at], "expert_all_to_all").second, bytes);
  // A quarter and an eighth of all experts' bytes are gathered, and less memory is needed.
  const double quarter = of_kind(points[1], "expert_all_gather").second;
  EXPECT_NEAR(of_kind(points[2], "expert_all_gather").second / quarter, 0.5, 1e-6);
  EXPECT_LT(points[2]["memory_by"]["gathered"], points[1]["memory_by"]["gathered"]);
  EXPECT_EQ(points[1]["expert_parallel"], 4);
  EXPECT_SAYS(points[3].at("error").get<std::string>(),
              "the 8 experts of mixtral-8x7b cannot be divided among 16 GPUs");
}

TEST(ExpertParallel, IsRefusedWhereNothingCanBeDivided) {
  const auto error = [](const std::string& text) {
    const TemporaryFolder folder;
    const Result r = foreduce_says("predict " + folder.write("s.yaml", text).string());
    EXPECT_EQ(r.status, 2);
    return r.out;
  };
  EXPECT_SAYS(error(scenario("sharding: fsdp, expert_parallel: 8")),
              "gpt2-355m is no mixture of experts that GPUs could share");
  EXPECT_SAYS(error(mixture("sharding: fsdp, hybrid: 4, expert_parallel: 8")),
              "a sharding group of 4 GPUs cannot be divided into groups of 8 that share experts");
  EXPECT_SAYS(error(mixture("expert_parallel: 3")),
              "the data-parallel group of 16 GPUs cannot be divided into groups of 3");
}

// Megatron-LM's parallel folding: of two tensor-parallel GPUs either has experts of its own, whose
// matrices are whole. 8 experts on 2 x 4 GPUs are one each, where tensor parallelism alone would
// leave four groups.
TEST(ExpertParallel, SpansTensorParallelGroupsWhereDataParallelOnesAreTooSmall) {
  const auto points = points_of(mixture(
      "sharding: zero1, tensor_parallel: 4, sequence_parallel: yes, expert_parallel: [4, 8]"));
  const auto &within = points[0], &across = points[1];
  ASSERT_FALSE(across.contains("error")) << across["error"];
  // Of 45.1 billion parameters in experts a 16th, and an eighth; of 1.6 billion others a fourth.
  EXPECT_NEAR(across["memory_by"]["parameters"].get<double>() /
                  within["memory_by"]["parameters"].get<double>(),
              (45.1 / 8 + 0.4) / (45.1 / 16 + 0.4), 0.01);
  // Nothing is summed among tensor-parallel GPUs behind experts: of a block attention's sum is
  // left, where each token counts once, and two for each of its experts are gone.
  const std::string halves = "tensor_reduce_scatter_all_gather";
  EXPECT_NEAR(of_kind(within, halves).second / of_kind(across, halves).second, 3, 1e-6);
  EXPECT_GT(of_kind(across, "expert_all_to_all").second, 0);
  EXPECT_EQ(of_kind(across, "expert_all_to_all").second,
            of_kind(within, "expert_all_to_all").second);
  const TemporaryFolder folder;
  const Result whole = foreduce_says(
      "predict " + folder
                       .write("s.yaml", mixture("sharding: zero1, tensor_parallel: 4, "
                                                "expert_parallel: 8"))
                       .string());
  EXPECT_EQ(whole.status, 2);
  EXPECT_SAYS(whole.out, "sequence_parallel: yes");
}

// Of a divided sequence each tensor-parallel GPU sends its own tokens to experts, and all gather
// what came: the two collectives of a block carry once a token, and once for each of its two
// experts.
TEST(ExpertParallel, TokensOfADividedSequenceAreSentOnce) {
  const TemporaryFolder folder;
  const auto point = [&](const std::string& keys) {
    return json_of("predict " +
                   folder.write("s.yaml", mixture("tensor_parallel: 2, " + keys)).string())
        .at("points")
        .at(0);
  };
  const nlohmann::json whole = point("expert_parallel: 4"),
                       divided = point("expert_parallel: 4, sequence_parallel: yes"),
                       alone = point("sequence_parallel: yes");
  const std::string halves = "tensor_reduce_scatter_all_gather";
  const double once = of_kind(alone, halves).second;
  EXPECT_EQ(once, 32.0 * 4 * 4096 * 4096 * 2) << "two a block each way";
  EXPECT_EQ(of_kind(whole, "tensor_all_reduce").second, once);
  EXPECT_EQ(of_kind(divided, halves).second, 1.5 * once);
  EXPECT_EQ(of_kind(divided, "tensor_all_reduce").second, 0) << "an all-reduce in two halves";
  EXPECT_EQ(of_kind(divided, "expert_all_to_all").second,
            of_kind(whole, "expert_all_to_all").second / 2);
}

// What travels for activations belongs to blocks, however their tensors are put together.
TEST(Sharding, UnitsDoNotChangeWhatActivationsTravelFor) {
  const auto by = [](const std::string& units) {
    const TemporaryFolder folder;
    const nlohmann::json report = json_of(
        "predict " +
        folder
            .write("s.yaml", mixture("sharding: fsdp, tensor_parallel: 2, expert_parallel: 4, "
                                     "recompute: full, units: " +
                                     units))
            .string());
    nlohmann::json kinds;
    for (const nlohmann::json& c : report.at("points")[0].at("collectives"))
      if (c.at("kind") == "tensor_all_reduce" || c.at("kind") == "expert_all_to_all")
        kinds.push_back({c.at("kind"), c.at("count"), c.at("bytes")});
    return kinds;
  };
  EXPECT_EQ(by("tensors"), by("block"));
  EXPECT_EQ(by("2 GiB"), by("block"));
}

TEST(Sharding, SmddpLeavesGroupsToNccl) {
  for (const char* keys : {"tensor_parallel: 2", "sharding: fsdp, hybrid: node"}) {
    const TemporaryFolder folder;
    const auto scenario = [&](const char* algorithm) {
      return folder
          .write(
              std::string(algorithm) + ".yaml",
              fmt::format(R"(workload: {{ model: llama2-7b, precision: bf16, batch_per_gpu: 1, {} }}
cluster: {{ instance: p4de.24xlarge, nodes: [1, 2] }}
allreduce: {{ algorithm: {} }}
)",
                          keys, algorithm))
          .string();
    };
    const auto smddp = json_of("predict --no-cache " + scenario("smddp"))["points"],
               nccl = json_of("predict --no-cache " + scenario("nccl"))["points"];
    ASSERT_EQ(smddp.size(), 2u);
    for (std::size_t i = 0; i < smddp.size(); ++i) {
      EXPECT_FALSE(smddp[i].contains("error")) << smddp[i];
      // Groups of shards and of their replicas are all that sends, and NCCL's.
      if (std::string(keys).starts_with("sharding")) {
        EXPECT_NEAR(smddp[i]["step_time_s"].get<double>(), nccl[i]["step_time_s"].get<double>(),
                    0.1 * nccl[i]["step_time_s"].get<double>());
      }
    }
  }
}

// Norms, dropout and residuals are every GPU's own, unless sequences are divided too.
// Of Llama-2 7B, which is 4,096 wide: a quarter of what Megatron took of models of 1,024.
TEST(Sharding, TensorParallelismAloneDividesNotAllComputing) {
  for (const auto& [framework, undivided] :
       {std::pair("pytorch", 0.055), std::pair("megatron", 0.055 / 4)}) {
    const auto compute = [&, framework = framework](const char* keys) {
      const TemporaryFolder folder;
      const std::string scenario = folder
                                       .write("s.yaml", fmt::format(R"(
workload:
  {{ model: llama2-7b, precision: bf16, batch_per_gpu: 1, framework: {}, cuda_graphs: yes{} }}
cluster: {{ instance: p4de.24xlarge, nodes: 1 }}
)",
                                                                    framework, keys))
                                       .string();
      return json_of("predict " + scenario)["points"][0]["compute_time_s"].get<double>();
    };
    const double whole = compute(""), alone = compute(", tensor_parallel: 8"),
                 both = compute(", tensor_parallel: 8, sequence_parallel: yes");
    EXPECT_NEAR(both, whole / 8, 1e-6 * whole);
    // Of the time without the optimizer's, which is divided.
    EXPECT_GT((alone - both) / whole, 0.8 * undivided * 7 / 8) << framework;
    EXPECT_LT((alone - both) / whole, undivided * 7 / 8) << framework;
  }
}

}  // namespace
}  // namespace foreduce
