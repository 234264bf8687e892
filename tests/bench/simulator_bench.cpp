// What the simulator sustains, beside a bare SimGrid ring of the same messages in the same run: the
// ratio is the figure, for the machine is noisy. build/release/tests/bench/foreduce_bench
#include <benchmark/benchmark.h>

#include <simgrid/s4u.hpp>

#include "real/thread_backend.hpp"
#include "scenarios/sweep/predict.hpp"
#include "sim/child_process.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

/// The textbook: an actor a rank, mailboxes, put_async and get, on a star of up and down links.
/// Returns seconds of wall time.
double bare_ring(int n, double bytes) {
  const ChildResult child = run_in_child([=]() -> nlohmann::json {
    namespace s4u = simgrid::s4u;
    static char name[] = "bare", quiet[] = "--log=root.app:file:/dev/null";
    char* arguments[] = {name, quiet, nullptr};
    int count = 2;
    s4u::Engine engine(&count, arguments);
    for (const auto& s : engine_settings())
      s4u::Engine::set_config(std::string(s.name) + ":" + s.value);
    auto* zone = s4u::create_star_zone("star");
    std::vector<s4u::Host*> hosts;
    for (int i = 0; i < n; ++i) {
      hosts.push_back(zone->create_host("h" + std::to_string(i), 1e9)->seal());
      const auto* up =
          zone->create_link("u" + std::to_string(i), 12.5e9)->set_latency(2.5e-6)->seal();
      const auto* down =
          zone->create_link("d" + std::to_string(i), 12.5e9)->set_latency(2.5e-6)->seal();
      zone->add_route(hosts.back()->get_netpoint(), nullptr, nullptr, nullptr,
                      {s4u::LinkInRoute(up)}, false);
      zone->add_route(nullptr, hosts.back()->get_netpoint(), nullptr, nullptr,
                      {s4u::LinkInRoute(down)}, false);
    }
    zone->seal();
    for (int r = 0; r < n; ++r)
      s4u::Actor::create("r" + std::to_string(r), hosts[static_cast<std::size_t>(r)], [=] {
        static int token = 0;
        auto* out = s4u::Mailbox::by_name(std::to_string((r + 1) % n));
        auto* in = s4u::Mailbox::by_name(std::to_string(r));
        for (int s = 0; s < 2 * (n - 1); ++s) {
          auto sent = out->put_async(&token, static_cast<std::uint64_t>(bytes / n));
          in->get<int>();
          sent->wait();
        }
      });
    const auto begin = std::chrono::steady_clock::now();
    engine.run();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  });
  if (!child.ok) throw TransportError(child.error);
  return child.value.get<double>();
}

/// Messages a second through our transport without symmetry, and over the bare program's.
void plain_ring(benchmark::State& state) {
  const int n = static_cast<int>(state.range(0));
  const Cluster cluster = cluster_of(flat_machine(), n);
  SimOptions options;
  options.use_symmetry = false;
  double ours = 0, bare = 0, messages = 0;
  for (auto _ : state) {
    const CollectiveResult r =
        simulate({cluster, *find_algorithm("ring"), {}, 1u << 28, Type::f32}, options);
    ours += r.wall_seconds;
    messages += static_cast<double>(r.messages);
    bare += bare_ring(n, 1u << 30);
    state.SetIterationTime(r.wall_seconds);
  }
  state.counters["messages_per_s"] = messages / ours;
  state.counters["bare_messages_per_s"] = messages / bare;
  state.counters["over_bare"] = bare / ours;
}
BENCHMARK(plain_ring)
    ->Arg(64)
    ->Arg(256)
    ->Arg(512)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3);

/// A ring of 1 GiB whose every rank is simulated, as one of which no symmetry is declared.
void full_ring(benchmark::State& state) {
  const Cluster cluster = cluster_of(flat_machine(), static_cast<int>(state.range(0)));
  SimOptions options;
  options.use_symmetry = false;
  for (auto _ : state) {
    const CollectiveResult r =
        simulate({cluster, *find_algorithm("ring"), {}, 1u << 28, Type::f32}, options);
    state.SetIterationTime(r.wall_seconds);
    state.counters["messages_per_s"] = static_cast<double>(r.messages) / r.wall_seconds;
    state.counters["peak_MB"] = static_cast<double>(r.peak_rss_bytes) / 1e6;
  }
}
BENCHMARK(full_ring)
    ->Arg(512)
    ->Arg(2048)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

/// A hierarchical all-reduce of 1 GiB on 256 nodes of 8 GPUs (300 GB/s each, and 12.5 GB/s a GPU
/// across): every rank simulated, or those that symmetry leaves.
void hierarchical_2048(benchmark::State& state) {
  Machine machine = *wide_machine(8, 8);
  machine.nvlink->bandwidth = BytesPerSecond{300e9};
  const Cluster cluster = cluster_of(std::make_shared<const Machine>(machine), 256);
  SimOptions options;
  options.use_symmetry = state.range(0) != 0;
  for (auto _ : state) {
    const CollectiveResult r =
        simulate({cluster, *find_algorithm("hierarchical"), {}, 1u << 28, Type::f32}, options);
    state.SetIterationTime(r.wall_seconds);
    state.counters["messages"] = static_cast<double>(r.messages);
    state.counters["peak_MB"] = static_cast<double>(r.peak_rss_bytes) / 1e6;
  }
}
BENCHMARK(hierarchical_2048)
    ->ArgName("symmetry")
    ->Arg(0)
    ->Arg(1)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

/// What a message in flight takes: of the direct algorithm all n (n - 1) are posted at once. The
/// memory of a quarter of them is subtracted, and with it what a rank and the program take.
void message_in_flight(benchmark::State& state) {
  SimOptions options;
  options.use_symmetry = false;
  const auto simulated = [&](int n) {
    return simulate(
        {cluster_of(flat_machine(), n), *find_algorithm("direct"), {}, 1u << 22, Type::f32},
        options);
  };
  const int n = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const CollectiveResult half = simulated(n / 2), whole = simulated(n);
    state.SetIterationTime(whole.wall_seconds);
    // Half of an all-reduce's messages, the reduce-scatter's, are posted before the first ends.
    const double more = static_cast<double>(whole.messages - half.messages) / 2;
    state.counters["bytes_per_message"] =
        static_cast<double>(whole.peak_rss_bytes - half.peak_rss_bytes) / more;
    state.counters["peak_MB"] = static_cast<double>(whole.peak_rss_bytes) / 1e6;
  }
}
BENCHMARK(message_in_flight)
    ->Arg(512)
    ->Arg(1024)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);

/// One collective of 1 GiB on p4d nodes, by symmetry where the algorithm allows.
void one_collective(benchmark::State& state, const char* name) {
  const Algorithm& algorithm = *find_algorithm(name);
  const Cluster cluster =
      cluster_of(ec2("p4d.24xlarge"), static_cast<int>(state.range(0)), servers_for(algorithm));
  for (auto _ : state) {
    const CollectiveResult r = simulate(
        {cluster, algorithm, {.segments = 0, .channels = 0, .inner = "ring"}, 1u << 28, Type::f32},
        {});
    state.counters["simulated_messages"] = static_cast<double>(r.messages);
    state.counters["by_symmetry"] = r.symmetric;
    state.counters["peak_MB"] = static_cast<double>(r.peak_rss_bytes) / 1e6;
  }
}
BENCHMARK_CAPTURE(one_collective, ring, "ring")
    ->Arg(64)
    ->Arg(128)
    ->Arg(256)
    ->Arg(512)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(one_collective, hierarchical, "hierarchical")
    ->Arg(256)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(one_collective, reduction_server, "reduction-server")
    ->Arg(256)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();
BENCHMARK_CAPTURE(one_collective, double_tree, "double-tree")
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

/// `predict scenarios/bert-large-p3dn.yaml` but for starting the program.
void predict_bert_large(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        predict(load_scenario(data_folder() / "scenarios" / "bert-large-p3dn.yaml"), {}));
  }
}
BENCHMARK(predict_bert_large)->Unit(benchmark::kMillisecond)->UseRealTime();

/// The same functions on real threads.
void threads(benchmark::State& state, const char* name) {
  const Algorithm& algorithm = *find_algorithm(name);
  const Layout layout = Layout::uniform(2);
  const auto count = static_cast<std::size_t>(state.range(0)) / 4;
  std::vector<std::vector<float>> data(2, std::vector<float>(count, 1));
  std::vector<Buffer> views;
  for (auto& d : data)
    views.push_back({reinterpret_cast<std::byte*>(d.data()), 0, count, Type::f32});
  double seconds = 0;
  for (auto _ : state) {
    const ThreadRun run =
        run_on_threads(algorithm, layout, views, Op::max,
                       with_defaults(algorithm, {.segments = 0, .channels = 0, .inner = "ring"},
                                     layout, count * 4));
    state.SetIterationTime(run.seconds);
    seconds += run.seconds;
  }
  state.counters["algbw_GBps"] =
      static_cast<double>(state.iterations()) * static_cast<double>(state.range(0)) / seconds / 1e9;
}
BENCHMARK_CAPTURE(threads, ring, "ring")
    ->Arg(1 << 16)
    ->Arg(1 << 22)
    ->Arg(1 << 26)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(threads, direct, "direct")
    ->Arg(1 << 16)
    ->Arg(1 << 22)
    ->Arg(1 << 26)
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace foreduce

BENCHMARK_MAIN();
