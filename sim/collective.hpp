// One collective on a model of a cluster: the algorithm's own code, run by SimGrid actors.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "algorithms/core/ledger.hpp"
#include "algorithms/core/registry.hpp"
#include "models/nccl_schedule.hpp"
#include "sim/message_log.hpp"
#include "topologies/cluster.hpp"

namespace foreduce {

class SymmetryReduction;

/// A SimGrid option that foreduce sets. All of them are printed with every result.
struct EngineSetting {
  const char* name;
  const char* value;
  const char* why;
};
/// "SimGrid 3.32": which simulator this program was built with.
const char* simulator_name();
/// All options that foreduce sets, so that links have exactly the rates of their data sheets.
std::span<const EngineSetting> engine_settings();

/// Which solver computes the rates of flows that share links.
enum class Solver : std::uint8_t {
  own,     ///< FairSharing, see sim/fair_sharing.hpp
  simgrid  ///< SimGrid's max-min solver, which gets every flow
};

/// Value of SimOptions::most_open with which ranks post their whole schedules at once.
inline constexpr std::size_t kAllOpen = std::numeric_limits<std::size_t>::max();

/// What is beside each rank's stack.
enum class StackGuard : std::uint8_t {
  none,
  page  ///< that nobody may touch, so that a deep recursion ends the process
};

struct SimOptions {
  Sending sending;
  /// A receiver reduces while data arrive, segment by segment; only the last segment's reduction
  /// cannot hide. 512 KiB is NCCL's step of a 4 MiB buffer in 8 slots (init.cc). At or above a
  /// message's size: reduce only after it has arrived.
  Bytes reduce_segment{512 * 1024};
  bool record_timeline = false;
  /// What CollectiveResult::record has.
  Recorded record = Recorded::nothing;
  /// Leave links out of the solver that can never be a bottleneck. Exact; off only to test that it
  /// is.
  bool skip_implied_links = true;
  /// Both give the same times. SimGrid's is used by tests that compare the two.
  Solver solver = Solver::own;
  /// Use symmetry where there is any (sim/symmetry.hpp): some ranks represent all.
  bool use_symmetry = true;
  /// Simulations of at least so many messages limit their memory: all ranks together have at most
  /// `most_open` open verbs. A rank with its share of them stops posting until half are done. The
  /// result stays exact: if a pause delays a message, the simulation is repeated without pauses.
  double pauses_from = 4e6;
  std::size_t most_open = 2'000'000;
  /// Among which ranks the collective, and the one beside it, runs: simulate_here() sets them.
  std::array<RankGroups, 2> groups = {};
  /// simulate_here() spares our own algorithms a page, for they do not recurse: among few ranks it
  /// costs a tenth of a short simulation. Many ranks have one in any case.
  StackGuard stack_guard = StackGuard::page;
};

/// Load of all links of one class (the same link of every node), by the busiest of them.
struct LinkLoad {
  std::string link;  ///< class, e.g. "nic0>network"
  LinkKind kind = LinkKind::network;
  BytesPerSecond bandwidth;
  double bytes = 0;        ///< over the busiest link, with per-message overhead
  double utilisation = 0;  ///< bytes over what the link could have carried in the time
};

/// Results have the utilisation of every link for clusters of at most so many nodes.
inline constexpr int kMostDetailedNodes = 4;

struct CollectiveResult {
  Seconds time;                ///< until the last rank is done
  Seconds first, second;       ///< of two at once: until the last rank is done with either
  std::uint64_t messages = 0;  ///< simulated
  bool symmetric = false;      ///< by symmetry reduction, rather than in full
  std::string bottleneck;  ///< the busiest link class, or "latency" if none is busy half the time
  std::vector<LinkLoad> loads;  ///< busiest first
  /// Of each link of the cluster, by its number, where there are at most kMostDetailedNodes nodes.
  std::vector<double> utilisations;
  std::vector<Traffic> traffic;  ///< per simulated rank
  std::vector<Span> timeline;    ///< if asked for
  CollectiveRecord record;       ///< if asked for
  double wall_seconds = 0;
  std::uint64_t peak_rss_bytes = 0;
};

/// Puts the busiest link class first, and names the bottleneck.
void rank_loads(CollectiveResult& result);

/// Another collective at the same time, sent as the first is.
struct Beside {
  const Algorithm* algorithm = nullptr;
  Plan plan;
  std::size_t count = 0;
  RankGroups groups;
};

/// `plan` with at most as many channels as `layout` has. Groups that do not fill nodes differ:
/// those inside one node have one channel, and others have more.
Plan plan_on(const Layout& layout, Plan plan);

/// One collective to simulate.
struct CollectiveCall {
  const Cluster& cluster;
  const Algorithm& algorithm;
  Plan plan;              ///< 0 segments or channels: the algorithm's defaults
  std::size_t count = 0;  ///< elements of a rank
  Type type = Type::f32;
  Op op = Op::sum;
  RankGroups groups = {};  ///< every group runs it among its own ranks
  std::optional<Beside> beside = {};
  /// The number of elements that is meant where `count` was rounded; need not be a whole number.
  /// 0: `count`.
  double elements = 0;
};
/// The ranks among which a call runs, seen from the first group.
Layout layout_of(const CollectiveCall& call);
/// The symmetry that a simulation of `call` uses. `layout` is that of all ranks, and must outlive
/// the result.
SymmetryReduction symmetry_of(const CollectiveCall& call, const Plan& plan, const Layout& layout);

/// Simulates in this process, as often as is asked for, in a child (see child_process.hpp):
/// SimGrid's engine is one a process and stays. With Solver::simgrid once a process only.
/// simulate() makes a child itself. `data` is empty (phantoms) or holds every rank's buffer, which
/// is then really reduced. Throws TransportError on deadlock.
CollectiveResult simulate_here(const CollectiveCall& asked, const SimOptions& options,
                               std::span<const Buffer> data = {});

/// The same in a child process; phantoms only.
CollectiveResult simulate(const CollectiveCall& asked, const SimOptions& options = {});

}  // namespace foreduce
