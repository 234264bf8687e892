// What a collective should take on a healthy cluster and on one with a fault, and how well either
// fits what was measured.
#pragma once

#include <cmath>
#include <functional>
#include <optional>

#include "scenarios/validation/healthy.hpp"
#include "scenarios/validation/diagnosis.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {

/// What one size should take on one setup.
struct Expectation {
  double time = 0, low = 0, high = 0, least = 0;
  NcclAlgoProto by = {};  ///< what NCCL is expected to run
  /// 0 where it was expected, 1 at the slow end, on a scale of ratios; at the fast end -1, or what
  /// the links allow.
  double place(double measured) const { return std::log(measured / time) / std::log(high / time); }
  void scale(double factor) {
    time *= factor;
    low *= factor;
    high *= factor;
  }
};

/// What each size should take on one setup; nothing where the user stopped before that was
/// simulated, and no size where a suspect cannot be: where NCCL would not run.
using Expectations = std::optional<std::vector<Expectation>>;

/// A collective of some sizes, in bytes, on so many nodes.
struct TimedSizes {
  Collective collective;
  int nodes;
  const std::vector<double>& bytes;
};

struct ExpectedTimes {
  std::vector<Expectations> of;  ///< each setup
  std::string widened;           ///< why the intervals of most sizes are wider than they might be
};

/// What each size should take on each setup, by the versions of the log's libraries. Throws
/// std::runtime_error if the healthy setup, which has no fault, cannot be simulated.
ExpectedTimes expected_times(const TimedSizes& sizes, const NcclFacts& log,
                             const std::vector<Setup>& setups, const BatchOptions& options);

/// What setups are expected to take at some sizes, as expected_times() answers.
using PredictSetups =
    std::function<std::vector<Expectations>(const std::vector<Setup>&, const std::vector<double>&)>;

/// Of the sizes of a log, a few at which suspects are predicted.
struct Sample {
  std::vector<double> sizes, measured;
  std::vector<double> correction;  ///< of the model: what healthy sites take over what it says
  std::vector<Expectation> healthy;
};

/// What each suspect takes at the sizes of the sample. The two ends are predicted first; where one
/// misses so much there that no middle could make up for it, the rest is left out, and it has no
/// size. `healthy_misfit`: what a cause has to fit better than; `spared`: those that are predicted
/// whatever they miss.
std::vector<Expectations> predict_suspects(const std::vector<Setup>& all, const Sample& few,
                                           double healthy_misfit,
                                           const std::function<bool(const Setup&)>& spared,
                                           const PredictSetups& predict);

/// How far a prediction is off in the mean over sizes: 0.08 is 8 %.
double misfit_of(const std::vector<Expectation>& predicted, const std::vector<double>& measured);

/// The share of what is outside a healthy cluster's interval that is within the suspect's.
double explained(const std::vector<Expectation>& healthy, const std::vector<Expectation>& suspect,
                 const std::vector<double>& measured);

/// Whether every large size takes many times the normal time, as over TCP.
bool crawls_throughout(const std::vector<double>& sizes, const std::vector<double>& measured,
                       const std::vector<Expectation>& healthy);

/// Whether some size was faster than the suspect's links allow, a ring's or any algorithm's;
/// nothing is simulated for that.
bool beyond_its_links(const Setup& suspect, Collective collective, int nodes, const Sample& few);
/// Takes out the algorithm that the log names where some size was faster than that allows, so that
/// the setting did not hold: NCCL chooses then in the other suspects. Nothing where it may hold.
std::optional<Setup> take_outpaced_algorithm(std::vector<Setup>& all, Collective collective,
                                             int nodes, const Sample& few);
/// Whether the fault is that these are machines of another type, which do what is healthy for them.
bool is_other_type(Fault fault);
/// Takes what others published of such clusters in place of the prediction, where they did.
void prefer_published(std::vector<Expectation>& times, const std::vector<double>& sizes,
                      const HealthyRuns& runs);
/// Whether a fault costs each message alike, so that large sizes hardly show it.
bool of_small_sizes(Fault fault);
/// Whether what is sent between nodes takes links or cards that are slower then.
bool slows_network(Fault fault);
/// Whether NCCL runs another algorithm or protocol then than on a healthy cluster.
bool runs_otherwise(Fault fault);
/// Whether a line of the log that speaks of this fault leaves no other cause.
bool leaves_no_other(Fault fault);
/// Whether the largest size takes no longer than the suspect would.
bool reaches_the_end(const std::vector<Expectation>& suspect, const Sample& few);
/// Whether the largest size agrees with a fault that no line of the log tells: it is not far faster
/// than that allows, and what costs messages, or a protocol, leaves no more to be explained there.
bool fits_the_end(const Setup& setup, const std::vector<Expectation>& suspect, const Sample& few);

/// Whether a fault that the log names has to be mended whatever else is wrong, for it takes much
/// longer than a healthy cluster at the sizes that are slow: cards that are missing, GPUDirect or
/// NVLS that is off, by some more a protocol that is forced, and an algorithm that is forced where
/// it explains the largest size.
bool is_to_be_mended_first(Fault fault, const std::vector<Expectation>& suspect, const Sample& few);
/// Whether how slow a suspect is depends on what is not known, flows and cores, so that it may be
/// the cause of times that crawl whatever it misses.
bool may_crawl(const Setup& suspect);

/// What a cause misses at most, where what is measured misses a healthy cluster so much.
double most_misfit(double healthy_misfit);
/// The misfit from which a fault is no explanation, where what is measured misses a healthy cluster
/// by `healthy_misfit`.
double poorest_fit(Fault fault, double healthy_misfit);

/// Puts causes in order of their fit. Those that fit about as well as the best stay; of those with
/// one remedy, and of what one line of the log says, the best. What the log says stays in any case,
/// and comes first if it is certain, fits as well, or explains much of `healthy_misfit` and misses
/// no more than an explanation may.
void rank_causes(std::vector<Cause>& causes, double healthy_misfit);

/// Ranks the causes of a table. Where the log itself says what is wrong and how slow that is, wide
/// intervals leave nothing open.
void settle(CheckedTable& table);

}  // namespace foreduce
