// libFuzzer: any bytes are a scenario, or the goal of one, that is accepted or an InputError. Build
// with the preset dev, run build/dev/tests/fuzz_scenario -max_total_time=60 CORPUS scenarios
#include "scenarios/sweep/scenario.hpp"
#include "tests/fuzz/harness.hpp"

namespace {

constexpr const char* kPlan =
    R"(name: x
workload: { model: resnet50, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: [1, 2] }
allreduce: { algorithm: ring }
goal: )";

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string text(fuzz::text_of(data, size));
  fuzz::accepted_or_refused([&] { parse_scenario("fuzz.yaml", text); });
  fuzz::accepted_or_refused([&] { parse_scenario("goal.yaml", kPlan + text); });
  return 0;
}
