// Ranks as threads of this process, zero copy: a receive reduces straight from the sender's memory.
// The oracle for every other backend, and a transport for real runs on one machine.
#pragma once

#include <functional>
#include <vector>

#include "algorithms/core/registry.hpp"
#include "real/host_rank.hpp"

namespace foreduce {

/// The result of a run on real threads.
struct ThreadRun {
  double seconds = 0;            ///< from the common start to the last rank's end, steady clock
  std::vector<Traffic> traffic;  ///< per rank
  std::vector<Span> timeline;    ///< if ThreadOptions::record
};

struct ThreadOptions {
  double timeout_s =
      30;  ///< a rank that makes no progress for so long reports who waits for whom, and all end
  bool record = false;
  /// Where workers keep their data; null: in host memory, as servers always do.
  std::function<std::unique_ptr<RankDevice>(int rank)> device = nullptr;
};

/// Runs `rank_function` on one thread for each of `ranks` that lives in this process, and waits for
/// all. The first exception of a rank ends all of them and is thrown again here.
void run_ranks(HostRanks& ranks, const Layout& layout,
               const std::function<void(HostRank&, Transport&)>& rank_function);

/// Whether this machine has fewer cores than `ranks`, so that rank threads must share them.
bool oversubscribes_cores(int ranks);

/// Runs `algorithm` once on layout.size() threads. data[r] is rank r's buffer (workspace for a
/// server), reduced in place, or on the rank's device and copied back. Throws TransportError if the
/// run is stuck, and whatever a rank threw.
ThreadRun run_on_threads(const Algorithm& algorithm, const Layout& layout,
                         std::span<const Buffer> data, Op op, const Plan& plan,
                         const ThreadOptions& options = {});

/// The same for any function of a transport.
ThreadRun run_on_threads(const std::function<void(Transport&)>& rank_function, const Layout& layout,
                         const ThreadOptions& options = {});

}  // namespace foreduce
