// Traces of training steps: what jq says of the same files, and damaged ones.
#include <gtest/gtest.h>

#include <regex>

#include "input/gunzip.hpp"
#include "scenarios/report/written_files.hpp"
#include "scenarios/validation/kineto_trace.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

std::filesystem::path sample(const std::string& name) {
  return source_folder() / "tests" / "traces" / (name + ".json.gz");
}

std::string unpacked(const std::filesystem::path& file) {
  GunzipBuffer buffer(file);
  return std::string(std::istreambuf_iterator<char>(&buffer), {});
}

/// A trace of these events.
TrainingTrace trace_of(const std::string& events) {
  const TemporaryFolder folder;
  return load_trace(folder.write("t.json", "{\"traceEvents\": [" + events + "]}"));
}
std::string kernel(const std::string& name, double begin, double duration,
                   const std::string& more = "") {
  return fmt::format(
      R"({{"ph":"X","cat":"kernel","name":"{}","ts":{},"dur":{},"args":{{"stream":7{}}}}})", name,
      begin, duration, more);
}

// What jq says of the original (tests/traces/README.md): steps of two broadcasts and five buckets.
TEST(Kineto, CountsCollectivesAsJqDoes) {
  const TrainingTrace t = load_trace(sample("ddp-resnet50-2ranks"));
  EXPECT_EQ(t.gpu, "NVIDIA A100-PG509-200");
  EXPECT_EQ(t.rank, 0);
  EXPECT_EQ(t.world, 2);
  EXPECT_EQ(t.kernels, 2700u);
  EXPECT_EQ(t.steps.size(), 3u);
  ASSERT_EQ(t.collectives.size(), 21u);
  const std::vector<double> elements = {53120, 53, 2049000, 7875584, 6563840, 6637568, 2431040};
  for (std::size_t i = 0; i < 21; ++i) {
    const KinetoCollective& c = t.collectives[i];
    const std::size_t place = i % 7;
    EXPECT_EQ(c.name, place < 2 ? "broadcast" : "allreduce") << i;
    EXPECT_EQ(c.elements, elements[place]) << i;
    EXPECT_EQ(c.bytes.value().value, elements[place] * (place == 1 ? 8 : 4)) << i;
    EXPECT_EQ(c.group, 2);
    EXPECT_EQ(c.step, static_cast<int>(i / 7)) << i;
    EXPECT_EQ(c.of_gradients, place >= 2) << i;
  }
}

// jq -f overlap.jq of the originals.
TEST(Kineto, MeasuresOverlapAsHolisticTraceAnalysis) {
  const TrainingTrace ddp = load_trace(sample("ddp-resnet50-2ranks"));
  EXPECT_NEAR(ddp.both / ddp.communicating, 0.1560915935842709, 1e-9);
  EXPECT_NEAR(ddp.communicating.value, 46876.4921875e-6, 1e-9);
  const TrainingTrace other = load_trace(sample("recommender-128ranks"));
  EXPECT_NEAR(other.both / other.communicating, 0.1494602459874962, 1e-12);
  EXPECT_EQ(other.collectives.size(), 10u);
  EXPECT_FALSE(other.collectives[0].bytes) << "an older profiler does not tell bytes";
}

TEST(Kineto, MergesKernelsThatRunAtOnce) {
  // Communication 0-10 and 5-20, computation 8-12, 9-30 and 40-50: both at 8-20.
  const TrainingTrace t = trace_of(kernel("ncclDevKernel_AllReduce", 0, 10) + "," +
                                   kernel("ncclDevKernel_AllReduce", 5, 15) + "," +
                                   kernel("gemm", 9, 21) + "," + kernel("gemm", 8, 4) + "," +
                                   kernel("gemm", 40, 10) + "," + kernel("Memcpy DtoD", 0, 100));
  EXPECT_NEAR(t.communicating.value, 20e-6, 1e-15);
  EXPECT_NEAR(t.computing.value, 32e-6, 1e-15);
  EXPECT_NEAR(t.both.value, 12e-6, 1e-15);
}

TEST(Kineto, TellsForwardFromBackwardByTheThreadThatLaunches) {
  const auto launched = [](int id, int thread, double at, double begin, double duration,
                           const std::string& name = "gemm", const std::string& more = "") {
    return fmt::format(R"({{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","tid":{},)"
                       R"("ts":{},"dur":1,"args":{{"correlation":{}}}}},)",
                       thread, at, id) +
           kernel(name, begin, duration, fmt::format(",\"correlation\":{}{}", id, more));
  };
  const std::string bucket =
      R"(,"Collective name":"allreduce","In msg nelems":1000,"dtype":"BFloat16","Group size":8)";
  const TrainingTrace t = trace_of(
      R"({"ph":"X","cat":"user_annotation","name":"Optimizer.step#Adam.step","tid":1,"ts":80,"dur":20},)"
      R"({"ph":"X","cat":"cpu_op","name":"autograd::engine::evaluate_function: X","tid":"2","ts":30,"dur":9},)" +
      launched(1, 1, 0, 10, 20) + "," + launched(2, 2, 31, 40, 10) + "," +
      launched(3, 2, 32, 60, 10) + "," + launched(4, 1, 85, 100, 5) + "," +
      launched(5, 2, 33, 55, 20, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", bucket));
  EXPECT_NEAR(t.forward.value, 30e-6, 1e-12);
  EXPECT_NEAR(t.backward.value, 30e-6, 1e-12);
  EXPECT_NEAR(t.optimizer.value, 5e-6, 1e-12);
  ASSERT_EQ(t.ready.size(), 1u);
  EXPECT_NEAR(t.ready[0].value, 15e-6, 1e-12);
  EXPECT_EQ(t.gradients().at(0).bytes->value, 2000);
}

// ResNet-50 has 25,557,032 parameters (torchvision): all of them are in the traced buckets.
TEST(Kineto, GivesAWorkloadOfItsBuckets) {
  const TrainingTrace t = load_trace(sample("ddp-resnet50-2ranks"));
  const Workload w = workload_from_trace(t, {.name = "traced", .batch = 32});
  EXPECT_EQ(w.elements(), 25557032u);
  ASSERT_EQ(w.tensors.size(), 5u);
  EXPECT_EQ(w.tensors.back().elements, 2049000u) << "the last tensors' gradients come first";
  double all = 0;
  for (const Tensor& tensor : w.tensors) all += tensor.backward;
  EXPECT_NEAR(all, t.ready.back().value * 1e6, 0.01);
  const TemporaryFolder folder;
  const Workload read = Workloads::load_file(folder.write("own.yaml", workload_file(w, {})));
  EXPECT_EQ(read.elements(), w.elements());
  EXPECT_NEAR(read.tensors[0].backward, w.tensors[0].backward, 1);
  EXPECT_EQ(read.measured.at(0).gpu, "A100");
  EXPECT_SAYS(
      error_of([&] { workload_from_trace(load_trace(sample("recommender-128ranks")), {}); }),
      "no collective that backward launched");
}

TEST(Kineto, ReadsTimesThatAreTexts) {
  const std::string event = R"({"ph":"X","cat":"kernel","name":"gemm","ts":"TS","dur":"5.5"})";
  const auto at = [&](const std::string& time) {
    return std::regex_replace(event, std::regex("TS"), time);
  };
  const TrainingTrace t = trace_of(at("10") + "," + at("12"));
  EXPECT_NEAR(t.computing.value, 7.5e-6, 1e-15);
  EXPECT_SAYS(error_of([&] { trace_of(at("noon")); }),
              "t.json: error: not a PyTorch trace: an event's ts: 'noon' is not a number");
}

TEST(Kineto, SaysWhatIsWrong) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& text) {
    return error_of([&] { load_trace(folder.write("t.json", text)); });
  };
  EXPECT_SAYS(error("{\"traceEvents\": [\n  {,"), "t.json:2:4: error: not a PyTorch trace");
  EXPECT_SAYS(error("{}"), "there are no traceEvents in it");
  EXPECT_SAYS(error("{\"traceEvents\": []}"), "there are no GPU kernels in it");
  EXPECT_SAYS(error(""), "t.json:1:1: error: not a PyTorch trace");
  EXPECT_SAYS(error(std::string(100000, '[')), "JSON more than 64 levels deep");
  EXPECT_SAYS(error_of([&] { load_trace(folder.path() / "nosuch.json"); }),
              "there is no such file");
  EXPECT_SAYS(error_of([&] { load_trace(folder.path()); }), "this is a folder");
}

TEST(Kineto, TextWithoutAQuoteIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.write("t.json", "{\"a\": \"" + std::string(std::size_t{66} << 20, 'a'));
  EXPECT_SAYS(error_of([&] { load_trace(file); }), "have no quote");
}

// Every few beginnings of a packed file, and bytes that are other ones: an error, and no crash.
TEST(Kineto, SurvivesDamagedFiles) {
  const std::string packed = read_text(sample("ddp-resnet50-2ranks"));
  const TemporaryFolder folder;
  for (std::size_t end = 0; end < packed.size(); end += packed.size() / 20 + 1)
    EXPECT_NE(error_of([&] { load_trace(folder.write("t.gz", packed.substr(0, end))); }),
              "(accepted)")
        << end;
  for (std::size_t at = 20; at < packed.size(); at += packed.size() / 10) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    EXPECT_NE(error_of([&] { load_trace(folder.write("t.gz", damaged)); }), "(accepted)") << at;
  }
  const std::string text = unpacked(sample("recommender-128ranks")).substr(0, 2500) + "]}";
  for (std::size_t at = 0; at < text.size(); at += 15)
    for (const char letter : {'9', '"', '{', ']'}) {
      std::string damaged = text;
      damaged[at] = letter;
      (void)error_of([&] { load_trace(folder.write("t.json", damaged)); });
    }
}

// Two files one after another are one to gunzip.
TEST(Gunzip, ReadsPlainAndPackedFiles) {
  const TemporaryFolder folder;
  const std::string packed = read_text(sample("recommender-128ranks"));
  const std::string text = unpacked(sample("recommender-128ranks"));
  EXPECT_TRUE(text.starts_with("{\"schemaVersion\""));
  EXPECT_EQ(unpacked(folder.write("twice.gz", packed + packed)), text + text);
  EXPECT_EQ(unpacked(folder.write("plain", text)), text);
  EXPECT_EQ(unpacked(folder.write("empty", "")), "");
}

}  // namespace
}  // namespace foreduce
