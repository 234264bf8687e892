// The reduction kernel beside a copy on the same device in the same run: both move memory and
// nothing else, so the ratio of their rates (bytes read and written a second) is the figure.
// build/release/tests/bench/foreduce_cuda_bench
#include <benchmark/benchmark.h>

#include "real/cuda_device.hpp"

namespace foreduce {
namespace {

/// Reduces, or copies, `state.range(0)` bytes within the device's memory, a batch at a time so that
/// the host is out of the way.
void move(benchmark::State& state, Type type, std::optional<Op> op) try {
  const auto device = open_cuda(0, 0);
  const auto bytes = static_cast<std::size_t>(state.range(0));
  const auto a = device->allocate(bytes), b = device->allocate(bytes);
  device->clear(a.get(), bytes);
  device->clear(b.get(), bytes);
  device->wait_for_copies();
  const Buffer into{a.get(), 0, bytes / size_of(type), type};
  constexpr int batch = 20;
  for (auto _ : state) {
    for (int i = 0; i < batch; ++i) device->put(into, op, device->source(b.get()));
    for (int i = 0; i < batch;) i += device->finished();
  }
  state.SetBytesProcessed(state.iterations() * batch * state.range(0) * (op ? 3 : 2));
} catch (const std::exception& e) {
  state.SkipWithError(e.what());
}
BENCHMARK_CAPTURE(move, copy, Type::f32, std::nullopt)
    ->Arg(1 << 20)
    ->Arg(1 << 26)
    ->Arg(1 << 30)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, reduce_f32, Type::f32, Op::sum)
    ->Arg(1 << 20)
    ->Arg(1 << 26)
    ->Arg(1 << 30)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, reduce_f16, Type::f16, Op::sum)
    ->Arg(1 << 20)
    ->Arg(1 << 26)
    ->Arg(1 << 30)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(move, reduce_bf16, Type::bf16, Op::sum)
    ->Arg(1 << 20)
    ->Arg(1 << 26)
    ->Arg(1 << 30)
    ->UseRealTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace foreduce

BENCHMARK_MAIN();
