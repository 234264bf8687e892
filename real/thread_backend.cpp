#include "real/thread_backend.hpp"

#include <algorithm>
#include <barrier>
#include <exception>
#include <thread>

namespace foreduce {

void run_ranks(HostRanks& world, const Layout& layout, const std::function<void(HostRank&, Transport&)>& rank_function) {
  std::mutex failing;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (const auto& rank : world.ranks) {
      if (!rank) continue;
      threads.emplace_back([&, rank = rank.get()] {
        try {
          Transport transport(*rank, layout, rank->rank());
          rank_function(*rank, transport);
        } catch (const std::exception& e) {
          const std::string why = std::string("another rank failed: ") + e.what();
          world.break_up(why);
          const std::lock_guard lock(failing);
          if (!failure || world.reason() == why) failure = std::current_exception();  // the first tells why; the others only follow
        }
      });
    }
  }
  if (failure) std::rethrow_exception(failure);
}

bool crowded(int ranks) { return static_cast<unsigned>(ranks) > std::thread::hardware_concurrency(); }

namespace {

void open_world(HostRanks& world, const Layout& layout, const ThreadOptions& options) {
  world.timeout_s = options.timeout_s;
  world.crowded = crowded(layout.size());
  for (int r = 0; r < layout.size(); ++r) {
    world.ranks.push_back(std::make_unique<HostRank>(
        world, r, nullptr, options.device && !layout.members[static_cast<std::size_t>(r)].server ? options.device(r) : nullptr));
    if (options.record) world.ranks.back()->record_timeline();
  }
}

ThreadRun run_timed(HostRanks& world, const Layout& layout, const std::function<void(Transport&)>& rank_function) {
  const int n = layout.size();
  std::barrier start(n);
  std::vector<double> begun(static_cast<std::size_t>(n)), ended(static_cast<std::size_t>(n));
  run_ranks(world, layout, [&](HostRank& rank, Transport& transport) {
    const auto r = static_cast<std::size_t>(rank.rank());
    start.arrive_and_wait();
    begun[r] = transport.now();
    rank_function(transport);
    transport.wait_all();
    ended[r] = transport.now();
  });
  ThreadRun run;
  run.seconds = *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
  for (const auto& rank : world.ranks) {
    run.traffic.push_back(rank->traffic());
    run.timeline.insert(run.timeline.end(), rank->timeline().begin(), rank->timeline().end());
  }
  return run;
}

}  // namespace

ThreadRun run_on_threads(const std::function<void(Transport&)>& rank_function, const Layout& layout, const ThreadOptions& options) {
  HostRanks world;
  open_world(world, layout, options);
  return run_timed(world, layout, rank_function);
}

ThreadRun run_on_threads(const Algorithm& algorithm, const Layout& layout, std::span<const Buffer> data, Op op, const Plan& plan,
                         const ThreadOptions& options) {
  HostRanks world;
  open_world(world, layout, options);
  std::vector<Buffer> there(data.begin(), data.end());
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const auto& rank : world.ranks) {
    Buffer& mine = there[static_cast<std::size_t>(rank->rank())];
    if (!rank->device() || mine.phantom()) continue;
    memory.push_back(rank->device()->allocate(mine.bytes()));
    rank->device()->copy(memory.back().get(), mine.data(), mine.bytes());
    rank->device()->settle();
    mine = {memory.back().get(), 0, mine.count, mine.type};
  }
  const ThreadRun run =
      run_timed(world, layout, [&](Transport& t) { algorithm.run(t, there[static_cast<std::size_t>(t.rank())], op, plan, {}); });
  for (const auto& rank : world.ranks) {
    const auto r = static_cast<std::size_t>(rank->rank());
    if (!rank->device() || data[r].phantom()) continue;
    rank->device()->copy(data[r].data(), there[r].data(), data[r].bytes());
    rank->device()->settle();
  }
  return run;
}

}  // namespace foreduce
