// Workload files: a shape, a list of tensors or a number of parameters, and what is wrong with
// them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "models/tensors.hpp"
#include "models/workload.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

Workload workload(const std::string& text) {
  const TemporaryFolder folder;
  return Workloads::load_file(folder.write("own.yaml", text));
}

// The shipped tensors were written down from the published model, not by this function.
TEST(TransformerShape, GivesTheTensorsOfGpt2) {
  const Workload made = workload(R"(
workload: made
transformer: { layers: 12, hidden: 768, vocabulary: 50257, sequence: 1024 }
)");
  const Workload shipped = Workloads().load("gpt2-124m");
  ASSERT_EQ(made.tensors.size(), shipped.tensors.size());
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(made.tensors[i].name, shipped.tensors[i].name);
    EXPECT_EQ(made.tensors[i].elements, shipped.tensors[i].elements) << made.tensors[i].name;
    EXPECT_EQ(made.tensors[i].macs, shipped.tensors[i].macs) << made.tensors[i].name;
  }
  EXPECT_EQ(made.variants.at(0).sample, "1024 tokens");
  EXPECT_NEAR(made.variants[0].train_gflop, shipped.variants[0].train_gflop,
              0.005 * shipped.variants[0].train_gflop);
}

// So were these.
TEST(TransformerShape, GivesTheTensorsOfLlama2) {
  const Workload made = workload(R"(
workload: made
transformer: { layers: 32, hidden: 4096, heads: 32, feed_forward: 11008, vocabulary: 32000,
               sequence: 4096, gated: yes, bias: no, norm: rms, positions: rotary, tied: no }
)");
  const Workload shipped = Workloads().load("llama2-7b");
  ASSERT_EQ(made.tensors.size(), shipped.tensors.size());
  for (std::size_t i = 0; i < made.tensors.size(); ++i) {
    EXPECT_EQ(made.tensors[i].name, shipped.tensors[i].name);
    EXPECT_EQ(made.tensors[i].elements, shipped.tensors[i].elements) << made.tensors[i].name;
    EXPECT_EQ(made.tensors[i].macs, shipped.tensors[i].macs) << made.tensors[i].name;
  }
  EXPECT_NEAR(made.variants.at(0).train_gflop, shipped.variants[0].train_gflop,
              0.001 * shipped.variants[0].train_gflop);
}

TEST(TransformerShape, GivesPublishedTotals) {
  const Workloads all;
  EXPECT_EQ(all.load("llama2-13b").elements(), 13015864320u);
  EXPECT_EQ(all.load("llama2-70b").elements(), 68976648192u);
  EXPECT_EQ(all.load("llama3-8b").elements(), 8030261248u);
  EXPECT_EQ(all.load("llama3-70b").elements(), 70553706496u);
  EXPECT_EQ(all.load("gpt-neox-20b").elements(), 20554567680u);
  EXPECT_EQ(all.load("t5-11b").elements(), 11307321344u);
}

// 6 FLOP a parameter and token, embeddings left out, and 12 x layers x hidden a token for scores.
TEST(TransformerShape, CountsArithmetic) {
  const Workload llama = Workloads().load("llama3-8b");
  const double matrices = 8030261248.0 - 128256.0 * 4096 - 65 * 4096;
  EXPECT_DOUBLE_EQ(llama.variants.at(0).train_gflop,
                   8192 * (6 * matrices + 12.0 * 32 * 4096 * 8192) / 1e9);
}

TEST(TransformerShape, RefusesHeadsThatDoNotDivide) {
  const auto with = [](const std::string& heads) {
    return error_of([&] {
      workload(
          "workload: x\ntransformer: { layers: 2, hidden: 64, vocabulary: 100, sequence: 32, " +
          heads + " }\n");
    });
  };
  EXPECT_SAYS(with("heads: 7"), "hidden is no multiple of heads");
  EXPECT_SAYS(with("heads: 8, kv_heads: 3"), "heads is no multiple of kv_heads");
  EXPECT_SAYS(with("kv_heads: 2"), "kv_heads share the keys of heads, which are missing here");
  EXPECT_SAYS(with("norm: rsm"), "did you mean 'rms'?");
}

TEST(Workload, ParametersInWholeMillionsMayBeRounded) {
  const std::string shape =
      "workload: x\ntransformer: { layers: 12, hidden: 768, vocabulary: 50257, sequence: 1024 }\n";
  EXPECT_EQ(workload(shape + "parameters: 124 million\n").elements(), 124439808u);
  EXPECT_SAYS(error_of([&] { workload(shape + "parameters: 130 million\n"); }),
              "the tensors add up to 124439808");
  EXPECT_SAYS(error_of([&] { workload(shape + "parameters: 124439807\n"); }),
              "the tensors add up to 124439808");
}

TEST(Workload, BlocksDivideTheParameters) {
  const Workload w = workload(R"(
workload: x
blocks: 3
parameters: 7.24 billion
variants: [{ sample: 4096 tokens, train_gflop: 188000 }]
)");
  EXPECT_EQ(w.tensors.size(), 3u);
  EXPECT_EQ(w.elements(), 7240000000u);
  // In binary 8.03 times a billion is a little less than a whole number.
  for (const auto& [text, count] : {std::pair("8.03B", 8030000000u), {"2.01B", 2010000000u}})
    EXPECT_EQ(workload(fmt::format("workload: x\nblocks: 32\nparameters: {}\nvariants: [{{ "
                                   "sample: 4096 tokens, train_gflop: 300000 }}]\n",
                                   text))
                  .elements(),
              count);
}

TEST(Workload, RefusesBlocksWithoutParameters) {
  for (const char* parameters : {"2", "1e300"})
    EXPECT_SAYS(error_of([&] {
                  workload(std::string("workload: x\nblocks: 3\nparameters: ") + parameters +
                           "\nvariants: [{ sample: image, train_gflop: 1 }]\n");
                }),
                "parameters: ");
}

TEST(Workload, RefusesTeraflopsForGigaflops) {
  const std::string blocks = R"(workload: x
blocks: 3
parameters: 7.24 billion
)";
  EXPECT_SAYS(error_of([&] {
                workload(blocks + "variants: [{ sample: 4096 tokens, train_gflop: 188 }]\n");
              }),
              "train_gflop is 188, but the tensors' multiply-accumulates alone take");
}

// Mixtral 8x7B: of 46.7 billion parameters a token passes 12.9.
TEST(Workload, MayUseFewOfItsParametersForAToken) {
  const Workload w = workload(
      R"(workload: x
blocks: 32
parameters: 46.7 billion
variants: [{ sample: 4096 tokens, train_gflop: 330000 }]
)");
  EXPECT_EQ(w.variants.at(0).train_gflop, 330000);
}

TEST(Workload, NeedsEachSampleOnce) {
  EXPECT_SAYS(error_of([] {
                workload(R"(
workload: twice
parameters: 10 million
blocks: 2
variants: [{ sample: 1024 tokens, train_gflop: 62 }, { sample: 1024 tokens, train_gflop: 90 }]
)");
              }),
              "the sample '1024 tokens' is there twice");
}

TEST(Workload, NeedsItsTensorsOnce) {
  EXPECT_SAYS(error_of([] { workload("workload: x\nparameters: 5 million\n"); }),
              "the tensors are missing: add blocks: 32");
  EXPECT_SAYS(error_of([] {
                workload(R"(workload: x
blocks: 3
variants: [{ sample: x, train_gflop: 1 }]
)");
              }),
              "blocks divide parameters, which are missing here");
}

// A shape without an estimate is assumed to reach what Llama-2 7B does: the same file is no slower
// than the workload that ships. Narrower ones reach less.
TEST(Workload, EstimateOfAShapeIsThatOfADecoderOfItsWidth) {
  const Estimate shipped = Workloads().load("llama2-7b").estimate;
  const auto of_width = [](int hidden) {
    return workload("workload: x\ntransformer: { layers: 2, hidden: " + std::to_string(hidden) +
                    ", vocabulary: 100, sequence: 32 }\n")
        .estimate;
  };
  const Estimate same = of_width(4096), narrow = of_width(768), wide = of_width(8192);
  EXPECT_EQ(same.fp16, shipped.fp16);
  EXPECT_EQ(same.recomputed, shipped.recomputed);
  EXPECT_EQ(same.source, shipped.source);
  EXPECT_NEAR(narrow.fp16, 0.72 * shipped.fp16, 0.01);
  EXPECT_NEAR(narrow.others.at(0).fp16, 0.72 * shipped.others.at(0).fp16, 0.01);
  EXPECT_SAYS(narrow.source, "for a width of 768 instead of 4096");
  EXPECT_GT(wide.fp16, shipped.fp16);
}

TEST(Workload, EstimateTakesBf16) {
  const std::string shape =
      "workload: x\ntransformer: { layers: 2, hidden: 64, vocabulary: 100, sequence: 32 }\n";
  EXPECT_EQ(workload(shape + "estimate: { bf16: 0.5, source: ours }\n").estimate.fp16, 0.5);
}

// A shape of that length gives the same.
TEST(Workload, TakesSamplesOfOtherLengths) {
  for (const char* name : {"llama3-8b", "mixtral-8x7b", "llama2-7b"}) {
    Workload w = Workloads().load(name);
    const double tokens = tokens_of(w.variants.front().sample);
    const std::string half = fmt::format("{:.0f} tokens", tokens / 2);
    add_length(w, half);
    ASSERT_NE(w.variant(half), nullptr) << name;
    EXPECT_EQ(positions_of(w, half), 0.5);
    if (!w.transformer) continue;
    TransformerShape shape = *w.transformer;
    shape.sequence /= 2;
    EXPECT_NEAR(w.variant(half)->train_gflop,
                transformer_gflop(shape, transformer_tensors(shape, w.experts)), 1)
        << name;
    const std::string longer = fmt::format("{:.0f} tokens", 4 * tokens);
    add_length(w, longer);
    shape.sequence *= 8;
    ASSERT_NE(w.variant(longer), nullptr) << name;
    EXPECT_NEAR(w.variant(longer)->train_gflop /
                    transformer_gflop(shape, transformer_tensors(shape, w.experts)),
                1, 1e-4)
        << name;
  }
  // Published for both lengths.
  Workload bert = Workloads().load("bert-large");
  bert.variants.resize(1);
  add_length(bert, "128 tokens");
  EXPECT_NEAR(bert.variants.at(1).train_gflop, 237.6, 0.01 * 237.6);
}

// BERT-base has 128 and 512 tokens; 384 were refused, because its first variant has fewer.
TEST(Workload, TakesLengthsBetweenItsVariants) {
  Workload bert = Workloads().load("bert-base");
  add_length(bert, "384 tokens");
  const Variant *there = bert.variant("384 tokens"), *longest = bert.variant("512 tokens");
  ASSERT_TRUE(there);
  EXPECT_LT(there->train_gflop, 0.75 * longest->train_gflop);
  EXPECT_GT(there->train_gflop, 0.7 * longest->train_gflop);
  add_length(bert, "1024 tokens");
  EXPECT_FALSE(bert.variant("1024 tokens"));  // learned positions
  for (const char* rotary : {"llama2-7b", "llama2-13b", "llama3-8b", "llama2-70b"}) {
    Workload llama = Workloads().load(rotary);
    add_length(llama, "32768 tokens");
    EXPECT_TRUE(llama.variant("32768 tokens")) << rotary;
  }
}

// It had infinite time.
TEST(Workload, RefusesRatesOfSamplesThatItLacks) {
  const std::string error = error_of<InputError>([] {
    workload(R"(
workload: own
blocks: 12
parameters: 100 million
variants: [{ sample: 4096 features, train_gflop: 860 }]
measured: [{ gpu: A100, precision: fp16, sample: 409 features, batch: 8, samples_per_s: 20, source: own }]
)");
  });
  EXPECT_SAYS(error, "the rate of '409 features' is of a sample that variants lack");
  EXPECT_SAYS(error, "4096 features");
}

TEST(Workload, TakesRatesOfLengthsThatItCanCount) {
  const Workload own = workload(R"(
workload: own
transformer: { layers: 12, hidden: 768, vocabulary: 50257, sequence: 4096 }
measured: [{ gpu: A100, precision: fp16, sample: 2048 tokens, batch: 8, samples_per_s: 20, source: own }]
)");
  EXPECT_TRUE(own.variant("2048 tokens"));
}

// Half of no tokens is nothing.
TEST(Workload, TakesNoLengthsOfImages) {
  Workload image = Workloads().load("resnet50");
  image.positions = "rotary";
  add_length(image, "128 tokens");
  EXPECT_FALSE(image.variant("128 tokens"));
}

TEST(Workload, ReadsTensorsWithLinesOfWindows) {
  const Workload own = workload(
      "workload: own\ntensors: \"a,1000,1000\\r\\nb,2000,2000\\r\\n\"\n"
      "variants: [{ sample: one, train_gflop: 0.00002 }]\n");
  EXPECT_EQ(own.elements(), 3000u);
}

TEST(Workload, TakesNoSamplesThatItCannotCount) {
  for (const auto& [name, sample] : {std::pair("gpt2-1.5b", "2048 tokens"),
                                     {"llama3-8b", "0 tokens"},
                                     {"llama3-8b", "1000000000 tokens"},
                                     {"llama3-8b", "4096.5 tokens"},
                                     {"llama3-8b", "4096"},
                                     {"resnet50", "128 tokens"},
                                     {"t5-base", "128 tokens"}}) {
    Workload w = Workloads().load(name);
    const std::size_t before = w.variants.size();
    add_length(w, sample);
    EXPECT_EQ(w.variants.size(), before) << name << " " << sample;
  }
}

}  // namespace
}  // namespace foreduce
