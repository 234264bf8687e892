#include "real/thread_backend.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>

namespace foreduce {

void run_ranks(HostRanks& ranks, const Layout& layout,
               const std::function<void(HostRank&, Transport&)>& rank_function) {
  std::mutex failing;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> threads;
    for (const auto& rank : ranks.by_rank) {
      if (!rank) continue;
      const auto work = [&, rank = rank.get()] {
        try {
          Transport transport(*rank, layout, rank->rank());
          rank_function(*rank, transport);
        } catch (const std::exception& e) {
          const std::string why = std::string("another rank failed: ") + e.what();
          ranks.stop(why);
          const std::lock_guard lock(failing);
          if (!failure || ranks.reason() == why)
            failure = std::current_exception();  // the first failure caused the others
        }
      };
      try {
        threads.emplace_back(work);
      } catch (const std::system_error& e) {  // those that have started must not wait for it
        ranks.stop(std::string("a rank's thread cannot be started: ") + e.what());
        const std::lock_guard lock(failing);
        failure = std::make_exception_ptr(TransportError(ranks.reason()));
        break;
      }
    }
  }
  if (failure) std::rethrow_exception(failure);
}

bool oversubscribes_cores(int ranks) {
  return static_cast<unsigned>(ranks) > std::thread::hardware_concurrency();
}

namespace {

void open_ranks(HostRanks& ranks, const Layout& layout, const ThreadOptions& options) {
  ranks.timeout_s = options.timeout_s;
  ranks.oversubscribed = oversubscribes_cores(layout.size());
  for (int r = 0; r < layout.size(); ++r) {
    ranks.by_rank.push_back(std::make_unique<HostRank>(
        ranks, r, nullptr,
        options.device && !layout.members[static_cast<std::size_t>(r)].server ? options.device(r)
                                                                              : nullptr));
    if (options.record) ranks.by_rank.back()->record_timeline();
  }
}

ThreadRun run_timed(HostRanks& ranks, const Layout& layout,
                    const std::function<void(Transport&)>& rank_function) {
  const int n = layout.size();
  // No barrier, for a rank that fails before it never arrives.
  std::atomic<int> arrived{0};
  std::vector<double> begun(static_cast<std::size_t>(n)), ended(static_cast<std::size_t>(n));
  run_ranks(ranks, layout, [&](HostRank& rank, Transport& transport) {
    const auto r = static_cast<std::size_t>(rank.rank());
    ++arrived;
    while (arrived < n && !ranks.stopped()) std::this_thread::yield();
    begun[r] = transport.now();
    rank_function(transport);
    transport.wait_all();
    ended[r] = transport.now();
  });
  ThreadRun run;
  run.seconds =
      *std::max_element(ended.begin(), ended.end()) - *std::min_element(begun.begin(), begun.end());
  for (const auto& rank : ranks.by_rank) {
    run.traffic.push_back(rank->traffic());
    run.timeline.insert(run.timeline.end(), rank->timeline().begin(), rank->timeline().end());
  }
  return run;
}

}  // namespace

ThreadRun run_on_threads(const std::function<void(Transport&)>& rank_function, const Layout& layout,
                         const ThreadOptions& options) {
  HostRanks ranks;
  open_ranks(ranks, layout, options);
  return run_timed(ranks, layout, rank_function);
}

ThreadRun run_on_threads(const Algorithm& algorithm, const Layout& layout,
                         std::span<const Buffer> data, Op op, const Plan& plan,
                         const ThreadOptions& options) {
  HostRanks ranks;
  open_ranks(ranks, layout, options);
  std::vector<Buffer> placed(data.begin(), data.end());
  std::vector<std::shared_ptr<std::byte>> memory;
  for (const auto& rank : ranks.by_rank) {
    Buffer& mine = placed[static_cast<std::size_t>(rank->rank())];
    if (!rank->device() || mine.phantom()) continue;
    memory.push_back(rank->device()->allocate(mine.bytes()));
    rank->device()->copy(memory.back().get(), mine.data(), mine.bytes());
    rank->device()->wait_for_copies();
    mine = {memory.back().get(), 0, mine.count, mine.type};
  }
  const ThreadRun run = run_timed(ranks, layout, [&](Transport& t) {
    algorithm.run(t, placed[static_cast<std::size_t>(t.rank())], op, plan, {});
  });
  for (const auto& rank : ranks.by_rank) {
    const auto r = static_cast<std::size_t>(rank->rank());
    if (!rank->device() || data[r].phantom()) continue;
    rank->device()->copy(data[r].data(), placed[r].data(), data[r].bytes());
    rank->device()->wait_for_copies();
  }
  return run;
}

}  // namespace foreduce
