// Sharded training: what collectives of many GPUs and whole steps cost to predict, from the
// scenario to the answer.
#include <benchmark/benchmark.h>

#include "input/files.hpp"
#include "scenarios/sweep/compare.hpp"
#include "scenarios/sweep/predict.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

/// 1 GiB on 2,048 GPUs of 256 p5, as NCCL would do it.
void collective_1gib(benchmark::State& state, Collective collective) {
  Scenario s;
  s.name = name_of(collective);
  s.cluster.instance.values = {"p5.48xlarge"};
  s.cluster.nodes.values = {256};
  s.allreduce.algorithm.values = {"nccl"};
  s.messages.emplace();
  s.messages->collective = collective;
  s.messages->sizes.values = {Bytes{1 << 30}};
  for (auto _ : state) {
    const auto answer = compare(s, {});
    if (!answer.points.at(0).error.empty()) state.SkipWithError(answer.points.at(0).error.c_str());
  }
}
BENCHMARK_CAPTURE(collective_1gib, all_gather, Collective::all_gather)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(collective_1gib, reduce_scatter, Collective::reduce_scatter)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// `predict` of a scenario of this folder but for starting the program.
void predict_step(benchmark::State& state, const char* file) {
  for (auto _ : state) {
    const auto answer = predict(load_scenario(data_folder() / "tests" / "bench" / file), {});
    if (!answer.points.at(0).error.empty()) state.SkipWithError(answer.points.at(0).error.c_str());
  }
}
BENCHMARK_CAPTURE(predict_step, fsdp_2048_gpus, "fsdp-2048-gpus.yaml")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(predict_step, fsdp_16384_gpus, "fsdp-16384-gpus.yaml")
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(predict_step, hsdp_2048_gpus, "hsdp-256-nodes.yaml")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1)
    ->UseRealTime();

}  // namespace
}  // namespace foreduce
