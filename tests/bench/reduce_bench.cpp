// Reducing on the host: beside a STREAM-like add of the same number of bytes, in the same run.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "algorithms/core/buffer.hpp"

namespace foreduce {
namespace {

/// a[i] = b[i] + c[i] on doubles (McCalpin's STREAM add); seconds for `bytes` of a.
double stream_add(std::vector<double>& a, const std::vector<double>& b,
                  const std::vector<double>& c) {
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = b[i] + c[i];
  benchmark::DoNotOptimize(a.data());
  benchmark::ClobberMemory();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void reduce_sum(benchmark::State& state) {
  const auto type = static_cast<Type>(state.range(0));
  const auto bytes = static_cast<std::size_t>(state.range(1));
  std::vector<double> a(bytes / 8), b(bytes / 8), c(bytes / 8);
  std::vector<std::byte> into(bytes), from(bytes);
  std::memset(into.data(), 0, bytes);
  std::memset(from.data(), 0, bytes);
  double ours = 0, stream = 0;
  for (auto _ : state) {
    const auto start = std::chrono::steady_clock::now();
    reduce(Op::sum, type, into.data(), from.data(), bytes / size_of(type));
    benchmark::ClobberMemory();
    const double time =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    state.SetIterationTime(time);
    ours += time;
    stream += stream_add(a, b, c);
  }
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * state.range(1));
  state.counters["over_stream"] = stream / ours;  // 1: as fast as the add
}
BENCHMARK(reduce_sum)
    ->ArgNames({"type", "bytes"})
    ->ArgsProduct({{static_cast<int>(Type::f32), static_cast<int>(Type::f64),
                    static_cast<int>(Type::f16), static_cast<int>(Type::bf16),
                    static_cast<int>(Type::i32)},
                   {1 << 18, 1 << 26}})
    ->UseManualTime()
    ->MinTime(0.2);

}  // namespace
}  // namespace foreduce
