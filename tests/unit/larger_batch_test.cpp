// More samples in a micro-batch take longer, and a sample hardly takes longer for it: by a seventh
// where another measured batch is the nearest one.
#include <gtest/gtest.h>

#include "models/compute.hpp"
#include "models/workload.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

struct OnGpu {
  const char* instance;
  Precision precision;
};

class LargerBatch : public testing::TestWithParam<OnGpu> {};

TEST_P(LargerBatch, TakesLongerAndNoSampleDoes) {
  const Gpu gpu = *ec2(GetParam().instance)->gpu;
  for (const char* model : {"resnet50", "bert-base", "vit-b16", "gpt2-355m", "maskrcnn"}) {
    const Workload workload = Workloads().load(model);
    const std::string sample = workload.variants.front().sample;
    const auto of = [&](int batch) {
      return compute_time({workload, gpu, GetParam().precision, sample, batch});
    };
    ComputeTime less = of(1);
    for (int batch = 2; batch <= 256; batch *= 2) {
      const ComputeTime more = of(batch);
      EXPECT_GE(more.forward_backward, less.forward_backward) << model << " " << batch;
      EXPECT_LE(more.forward_backward.value, 2.3 * less.forward_backward.value)
          << model << " " << batch;
      if (!less.measured && !more.measured) {
        EXPECT_GE(more.forward_backward.value * more.within.slower,
                  0.999 * less.forward_backward.value * less.within.slower)
            << model << " " << batch;
      }
      less = more;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(
    Gpus, LargerBatch,
    testing::Values(OnGpu{"p5.48xlarge", Precision::bf16}, OnGpu{"p5.48xlarge", Precision::fp32},
                    OnGpu{"p4d.24xlarge", Precision::tf32}, OnGpu{"p4d.24xlarge", Precision::bf16},
                    OnGpu{"g6e.48xlarge", Precision::fp32}, OnGpu{"g5.48xlarge", Precision::bf16}),
    [](const auto& gpu) {
      std::string name = std::string(gpu.param.instance) + "_" + to_text(gpu.param.precision);
      for (char& c : name)
        if (c == '.') c = '_';
      return name;
    });

}  // namespace
}  // namespace foreduce
