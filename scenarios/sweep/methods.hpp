// How a collective is run: by one of our algorithms, as NCCL would, or by the fastest of all.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "models/nccl_names.hpp"
#include "models/uncertainty.hpp"
#include "scenarios/sweep/scenario.hpp"
#include "sim/batch.hpp"

namespace foreduce {

enum class MethodKind : std::uint8_t {
  ours,   ///< one of algorithms/
  nccl,   ///< what NCCL would choose for each size
  smddp,  ///< SageMaker's library; what it leaves to NCCL, and one node, goes by NCCL
  best    ///< the fastest of all that can run
};

/// Times, costs and rates that differ by less than this share count as equal.
inline constexpr double kTie = 0.01;

/// Whether `a` is at most `b`, or equal to it but for a tie.
constexpr bool at_most_a_tie(double a, double b) { return (1 - kTie) * a <= b; }

/// The candidate with the highest `worth`; of those within kTie of it the best that NCCL runs,
/// since everybody has NCCL. `candidates` must not be empty.
template <class Candidates, class Worth, class ByNccl>
auto preferred(const Candidates& candidates, Worth worth, ByNccl by_nccl) {
  const auto less = [&](const auto& a, const auto& b) { return worth(a) < worth(b); };
  const auto best = std::max_element(candidates.begin(), candidates.end(), less);
  const auto nccls =
      std::max_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
        return by_nccl(a) != by_nccl(b) ? by_nccl(b) : less(a, b);
      });
  return by_nccl(*nccls) && at_most_a_tie(worth(*best), worth(*nccls)) ? nccls : best;
}

/// Sets of each point how many times as fast it is as NCCL for the same question; `time` is a
/// point's. Points without an answer, and those that NCCL has none for, keep 0.
template <class Point, class TimeOf>
void note_speedups(std::vector<Point>& points, TimeOf time) {
  std::map<decltype(points.front().question()), Seconds> by_nccl;
  for (const Point& p : points)
    if (p.method == MethodKind::nccl && p.error.empty()) by_nccl.try_emplace(p.question(), time(p));
  for (Point& p : points)
    if (const auto at = by_nccl.find(p.question()); p.error.empty() && at != by_nccl.end())
      p.speedup_vs_nccl = at->second / time(p);
}

/// One way to run a collective, with everything that a scenario says about it.
struct Method {
  Collective collective = Collective::all_reduce;
  MethodKind kind = MethodKind::ours;
  const Algorithm* algorithm = nullptr;  ///< ours, smddp: which one; nccl: which one NCCL_ALGO
                                         ///< forces; null if NCCL chooses
  std::string inner;  ///< of an algorithm that takes one between nodes; else empty
  int segments = 0;   ///< 0: the algorithm chooses by size
  int servers = 0;    ///< dedicated reduction servers
  std::optional<NcclProtocol> protocol;  ///< that is asked for, by NCCL_PROTO too; null: chosen by
                                         ///< size
  int nccl_channels = 0;                 ///< nccl: how many are forced; 0: NCCL chooses
  std::string nccl_release;  ///< nccl: whose choice it is, "2.19"; empty: see NcclForced
  Bytes nccl_buffer;         ///< nccl: NCCL_BUFFSIZE; 0: the profile's
  std::optional<Seconds> nccl_reported = {};  ///< nccl: see NcclForced
  std::string profile = "auto";  ///< name, file, or "auto" for the one made for the instance type

  /// "nccl", "nccl Ring LL128 8 channels" (what is forced), "smddp", "best" or the algorithm's
  /// name, "ring LL" with the protocol that is asked for.
  std::string name() const;
  /// "LL"; empty where none is asked for.
  std::string protocol_word() const { return protocol ? to_text(*protocol) : ""; }
  bool uses_servers() const {
    return kind != MethodKind::nccl && algorithm && algorithm->uses_servers;
  }
  Plan plan(int channels) const {
    return {segments, channels, inner.empty() ? kUsualInner : inner};
  }
};

/// Every word that names a method for a collective: nccl, smddp, best and its algorithms.
std::vector<std::string> method_names(Collective collective = Collective::all_reduce);
/// Why an algorithm is tried only where it is asked for by name, or "": there it takes longer to
/// simulate than it is likely to gain.
std::string why_by_name_only(const Algorithm& algorithm, const Cluster& cluster);
/// The method of that name. Throws InputError with the nearest name for an unknown one, or with the
/// collectives that an algorithm has; `option` begins the message.
Method method_named(const std::string& name, const std::string& option = {},
                    Collective collective = Collective::all_reduce);
/// What a scenario's methods are for: a collective, or a step that has several, of which a method
/// need not have all.
enum class MethodUse : std::uint8_t { one_collective, step };
/// All methods that a scenario's all-reduce axes come to, in the order in which a reader would vary
/// them. One that lacks the collective has, for a step, the first that it has.
std::vector<Method> methods_of(const AllReduceSpec& spec,
                               Collective collective = Collective::all_reduce,
                               MethodUse use = MethodUse::one_collective);
/// Throws InputError where DDP's gradients cannot go by it.
void require_all_reduce(const Method& method);

/// A 90 % prediction interval of a time.
struct Interval {
  Seconds low, high;   ///< 90 % of measurements on healthy clusters are expected between
  bool known = false;  ///< false for `cluster.switch`, which cannot be measured
  std::vector<std::string>
      widened;  ///< why it was widened beyond the calibrated interval; empty: it was not
  /// 90 % of what people publish is expected between: old software, virtual machines and faults
  /// included. Of one collective that a library runs.
  struct Published {
    Seconds low, high;
  };
  std::optional<Published> published = {};

  std::string why() const;  ///< the reasons in one line
};

/// Where an answer comes from.
enum class SimulationMode : std::uint8_t {
  full,          ///< all messages were simulated
  symmetric,     ///< one of each set of equal nodes or rails
  extrapolated,  ///< from fewer segments or nodes, see Outcome::extrapolation_error
  cached         ///< an earlier answer, of this run or on disk
};
/// Of several outcomes that make one answer.
SimulationMode mode_of(std::span<const Outcome* const> outcomes);

/// A method on a cluster, ready to be asked about.
struct Candidate {
  Method method;
  std::shared_ptr<const Cluster> cluster;
  std::shared_ptr<const Profile> profile;
  std::shared_ptr<const Layout> layout;
  int channels = 0;        ///< 0: as many as the topology has rails
  RankGroups groups = {};  ///< every group runs it among its own ranks
  /// The cluster without reduction servers, where `cluster` has them: what NCCL runs on in SMDDP's
  /// place.
  std::shared_ptr<const Cluster> workers = {};
  std::shared_ptr<const Layout> workers_layout = {};
  /// Which of the protocols that may suit an own algorithm, see own_schedule(). The fastest of a
  /// method's candidates is its answer.
  std::size_t protocol_place = 0;

  /// Whether NCCL runs it: as itself, or in SMDDP's place.
  bool by_nccl() const;
  /// Why it cannot run; empty if it can.
  std::string unsupported() const;
  /// The collective of `count` elements, nccl-tests' size. Throws InputError where `unsupported`
  /// says why.
  Question question(std::size_t count, Type type) const;
  /// Around the time of `outcome`, for `bytes`. The error of what was extrapolated is in it.
  Interval interval(Bytes bytes, const Outcome& outcome) const;

 private:
  RunBy run_by(Bytes bytes) const;
};

/// Asks for a collective by each of a point's candidates, and returns the questions' numbers. Less
/// likely protocols are alternatives to the likeliest, by which the same method comes before.
/// Throws as Candidate::question().
std::vector<std::size_t> ask_each(Batch& batch, std::span<const Candidate> candidates,
                                  std::size_t count, Type type);

/// Whether "best" is the best of our own algorithms only, because NCCL cannot be predicted here.
bool best_without_nccl(const Method& method, std::span<const Candidate> candidates);

/// The three questions that tell how two collectives slow each other: both at once, and each alone.
/// All are sent as the first one is (Schedule::sending). concurrent_speeds() computes the speeds
/// from the three answers. Pipelines are shortened to a few segments, because how two collectives
/// share the links does not depend on their length.
struct ConcurrentPair {
  Question both, first, second;
};
ConcurrentPair concurrent_pair(const Question& first, const Question& second);

/// The speed of each collective while both run, relative to running alone: 0.01 … 1. `first` and
/// `second`: their times alone.
std::array<double, 2> concurrent_speeds(const CollectiveResult& both, Seconds first,
                                        Seconds second);

/// The message of an error without "error: " and file position, to be shown in a row.
std::string words_of(const InputError& e);

}  // namespace foreduce
