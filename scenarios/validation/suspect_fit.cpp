#include "scenarios/validation/suspect_fit.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "models/uncertainty.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/check_limits.hpp"

namespace foreduce {
namespace {

Cluster cluster_of(const Setup& s, int nodes) {
  return {std::vector(static_cast<std::size_t>(nodes), std::make_shared<const Machine>(s.machine)),
          FabricSpec{}};
}

}  // namespace

ExpectedTimes expected_times(const TimedSizes& sizes, const NcclFacts& log,
                             const std::vector<Setup>& setups, const BatchOptions& options) {
  std::vector<CollectiveRequest> requests;
  for (const Setup& s : setups) {
    const auto cluster = std::make_shared<const Cluster>(cluster_of(s, sizes.nodes));
    const auto profile = std::make_shared<const Profile>(s.profile);
    Method method =
        reported_method(s.algorithm, sizes.collective, log.nccl_version, log.plugin_version);
    if (s.protocol) method.protocol = s.protocol;
    method.nccl_channels = s.channels;
    method.nccl_buffer = s.buffer;
    for (const double bytes : sizes.bytes)
      requests.push_back({cluster, profile, Bytes{std::max(4.0, bytes)}, method});
  }
  const std::vector<CollectiveEstimate> answers = estimate_collectives(requests, options);
  const std::size_t each = sizes.bytes.size();
  ExpectedTimes expected{{setups.size(), std::vector<Expectation>(each)}, {}};
  std::map<std::string, int> reasons;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const CollectiveEstimate& e = answers[i];
    Expectations& one = expected.of[i / each];
    if (e.error == kInterrupted) one.reset();
    if (!one || one->empty()) continue;
    if (!e.error.empty() && setups[i / each].fault() == Fault::none)
      throw std::runtime_error("the prediction failed: " + e.error);
    if (!e.error.empty()) {
      one->clear();
      continue;
    }
    if (!e.interval.widened.empty()) {
      const std::string why = e.interval.why();
      if (++reasons[why] > reasons[expected.widened]) expected.widened = why;
    }
    const double time = e.time.value,
                 spread = std::max(CheckLimits::least_spread,
                                   std::pow(e.interval.high / e.time, CheckLimits::to_99_percent));
    (*one)[i % each] = {
        time,
        std::min(time, std::max(CheckLimits::impossible_below * e.least.value, time / spread)),
        time * spread, e.least.value, e.run};
  }
  return expected;
}

std::vector<Expectations> predict_suspects(const std::vector<Setup>& all, const Sample& few,
                                           double healthy_misfit,
                                           const std::function<bool(const Setup&)>& spared,
                                           const PredictSetups& predict) {
  const std::size_t n = few.sizes.size();
  if (n < 3) return predict(all, few.sizes);
  std::vector<Expectations> found = predict(all, {few.sizes.front(), few.sizes.back()});
  std::vector<Setup> left;
  std::vector<std::size_t> whose;
  for (std::size_t s = 0; s < all.size(); ++s) {
    if (!found[s] || found[s]->empty()) continue;
    const auto missed = [&](std::size_t row, std::size_t end) {
      return std::abs(std::log(few.measured[row] / ((*found[s])[end].time * few.correction[row])));
    };
    const double most = std::log1p(may_crawl(all[s]) ? most_misfit(healthy_misfit)
                                                     : poorest_fit(all[s].fault(), healthy_misfit));
    if (spared(all[s]) || missed(0, 0) + missed(n - 1, 1) <= static_cast<double>(n) * most) {
      left.push_back(all[s]);
      whose.push_back(s);
    } else {
      found[s]->clear();
    }
  }
  const std::vector<Expectations> middle =
      predict(left, std::vector(few.sizes.begin() + 1, few.sizes.end() - 1));
  for (std::size_t k = 0; k < whose.size(); ++k) {
    Expectations& whole = found[whose[k]];
    if (!middle[k]) whole.reset();
    else if (middle[k]->empty()) whole->clear();
    else whole->insert(whole->begin() + 1, middle[k]->begin(), middle[k]->end());
  }
  return found;
}

double misfit_of(const std::vector<Expectation>& predicted, const std::vector<double>& measured) {
  double sum = 0;
  for (std::size_t i = 0; i < measured.size(); ++i)
    sum += std::abs(std::log(measured[i] / predicted[i].time));
  return std::exp(sum / static_cast<double>(measured.size())) - 1;
}

double explained(const std::vector<Expectation>& healthy, const std::vector<Expectation>& suspect,
                 const std::vector<double>& measured) {
  double out = 0, within = 0;
  for (std::size_t i = 0; i < measured.size(); ++i)
    if (std::abs(healthy[i].place(measured[i])) > 1) {
      ++out;
      within += std::abs(suspect[i].place(measured[i])) <= 1;
    }
  return out > 0 ? within / out : 1;
}

bool crawls_throughout(const std::vector<double>& sizes, const std::vector<double>& measured,
                       const std::vector<Expectation>& healthy) {
  if (sizes.empty() || sizes.back() < CheckLimits::bandwidth_from) return false;
  const double last = sizes.back(),
               from = last >= 2 * CheckLimits::steady_of_long ? CheckLimits::steady_of_long
                      : last >= CheckLimits::steady_from      ? CheckLimits::steady_from
                                                              : last / 4;
  double least = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (const double times = measured[i] / healthy[i].time; sizes[i] >= from)
      least = least == 0 ? times : std::min(least, times);
  return least > CheckLimits::crawls;
}

double most_misfit(double healthy_misfit) {
  return (healthy_misfit < CheckLimits::little ? CheckLimits::left_of_little : CheckLimits::left) *
         healthy_misfit;
}

double poorest_fit(Fault fault, double healthy_misfit) {
  return std::min(most_misfit(healthy_misfit),
                  fault == Fault::gpu ? CheckLimits::poor_fit_of_other_gpu : CheckLimits::poor_fit);
}

namespace {

/// What a ring takes at least between nodes: whatever busbw counts leaves each node once, over its
/// NICs. Nothing where something else runs.
std::optional<Seconds> least_of_ring(const Setup& suspect, Collective collective, int nodes,
                                     Bytes bytes) {
  const Machine& m = suspect.machine;
  if (suspect.algorithm != NcclAlgorithm::ring || nodes < 2 || m.nic.count < 1) return std::nullopt;
  return bus_factor(collective, nodes * m.gpus()) * bytes / (m.nic.bandwidth * m.nic.count);
}

}  // namespace

bool beyond_its_links(const Setup& suspect, Collective collective, int nodes, const Sample& few) {
  const Cluster cluster = cluster_of(suspect, nodes);
  for (std::size_t i = 0; i < few.sizes.size(); ++i) {
    const auto ring = least_of_ring(suspect, collective, nodes, Bytes{few.sizes[i]});
    if (ring && few.measured[i] * (1 + CheckLimits::rounding) < ring->value) return true;
    if (few.measured[i] <
        CheckLimits::impossible_below *
            uncertainty(suspect.profile, cluster, Bytes{few.sizes[i]}, RunBy::library, collective)
                .least.value)
      return true;
  }
  return false;
}

std::optional<Setup> take_outpaced_algorithm(std::vector<Setup>& all, Collective collective,
                                             int nodes, const Sample& few) {
  const auto outpaced = std::find_if(all.begin(), all.end(), [&](const Setup& s) {
    return s.fault() == Fault::algorithm && s.evidence &&
           beyond_its_links(s, collective, nodes, few);
  });
  if (outpaced == all.end()) return std::nullopt;
  Setup taken = std::move(*outpaced);
  all.erase(outpaced);
  for (Setup& s : all)
    if (s.algorithm == taken.algorithm) s.algorithm.reset();
  return taken;
}

bool is_other_type(Fault fault) { return fault == Fault::gpu || fault == Fault::instance; }

void prefer_published(std::vector<Expectation>& times, const std::vector<double>& sizes,
                      const HealthyRuns& runs) {
  for (std::size_t k = 0; k < times.size(); ++k)
    if (const auto band = runs.at(Bytes{sizes[k]}))
      times[k] = {band->time.value, band->low.value, band->high.value, times[k].least, times[k].by};
}

bool of_small_sizes(Fault fault) { return fault == Fault::latency || fault == Fault::floor; }

bool slows_network(Fault fault) {
  return fault == Fault::rails || fault == Fault::link || fault == Fault::cards ||
         fault == Fault::bounce;
}
bool runs_otherwise(Fault fault) {
  return fault == Fault::algorithm || fault == Fault::protocol || fault == Fault::no_nvls;
}
bool leaves_no_other(Fault fault) { return fault == Fault::sockets || fault == Fault::pcie; }

bool reaches_the_end(const std::vector<Expectation>& suspect, const Sample& few) {
  return few.measured.back() < (few.sizes.back() >= CheckLimits::plateau_from
                                    ? CheckLimits::near_on_plateau
                                    : CheckLimits::near) *
                                   suspect.back().time;
}

namespace {

/// Whether the largest size took far less than it takes with the fault.
bool outruns(const std::vector<Expectation>& suspect, const Sample& few) {
  return few.measured.back() * CheckLimits::near < suspect.back().time;
}

}  // namespace

bool fits_the_end(const Setup& setup, const std::vector<Expectation>& suspect, const Sample& few) {
  const Fault fault = setup.fault();
  if (!may_crawl(setup) && outruns(suspect, few)) return false;
  return (!of_small_sizes(fault) && fault != Fault::protocol) || reaches_the_end(suspect, few);
}

bool is_to_be_mended_first(Fault fault, const std::vector<Expectation>& suspect,
                           const Sample& few) {
  // Not what cannot have held: the run is nearly as fast as a healthy one. A model of LL at large
  // sizes, or of other faults, is not sure enough to say so of a slow one.
  if (fault == Fault::protocol && outruns(suspect, few) &&
      suspect.back().place(few.measured.back()) < -1 &&
      few.measured.back() < CheckLimits::by_ll * few.healthy.back().time)
    return false;
  // Nor is it sure of small sizes of a forced algorithm.
  if (fault == Fault::algorithm)
    return few.sizes.back() >= CheckLimits::told_from &&
           few.healthy.back().place(few.measured.back()) > 1 &&
           std::abs(suspect.back().place(few.measured.back())) <= 1;
  if (fault != Fault::rails && fault != Fault::bounce && fault != Fault::no_nvls &&
      fault != Fault::protocol && fault != Fault::buffer)
    return false;
  double logs = 0, slow = 0;
  for (std::size_t i = 0; i < suspect.size(); ++i)
    if (few.healthy[i].place(few.measured[i]) > 1) {
      logs += std::log(suspect[i].time / few.healthy[i].time);
      ++slow;
    }
  return slow > 0 && logs > slow * std::log(fault == Fault::protocol || fault == Fault::buffer
                                                ? CheckLimits::costs_more
                                                : CheckLimits::costs_much);
}

bool may_crawl(const Setup& suspect) {
  return suspect.fault() == Fault::sockets || suspect.fault() == Fault::pcie ||
         (suspect.fault() == Fault::rails && suspect.machine.nic.count == 1);
}

bool CheckedTable::none_fits_well() const {
  const double healthy = std::log1p(misfit);
  return !causes.empty() && std::all_of(causes.begin(), causes.end(), [&](const Cause& c) {
    return !c.finding.evidence && (c.misfit >= CheckLimits::factor_off ||
                                   (c.misfit >= CheckLimits::doubled &&
                                    std::log1p(c.misfit) > CheckLimits::left_of_factor * healthy));
  });
}

void rank_causes(std::vector<Cause>& causes, double healthy_misfit) {
  if (causes.empty()) return;
  const bool crawl = std::any_of(causes.begin(), causes.end(), [](const Cause& c) {
    return c.crawls && fault_of(c.finding.kind) == Fault::sockets;
  });
  const auto may_be_tcp = [crawl](const Cause& c) {
    const auto* few = std::get_if<cause::FewNics>(&c.finding.kind);
    return crawl && few && few->used == 1;
  };
  const auto weighed = [&](const Cause& c) {
    const Fault fault = fault_of(c.finding.kind);
    if (fault == Fault::gpu) return c.misfit + CheckLimits::handicap_of_other_gpu;
    if (c.finding.evidence) return c.misfit;
    if (may_be_tcp(c)) return c.misfit + CheckLimits::handicap_of_single_nic;
    const bool seldom = fault == Fault::algorithm ||
                        (fault == Fault::instance && c.misfit >= CheckLimits::fits_well);
    return c.misfit + (seldom ? CheckLimits::handicap_of_untold : 0);
  };
  // To whole per cent, as they are shown: of those that fit alike, the usual one comes first.
  std::stable_sort(causes.begin(), causes.end(), [&](const Cause& a, const Cause& b) {
    return std::lround(100 * weighed(a)) < std::lround(100 * weighed(b));
  });
  const double best = causes.front().misfit;
  const auto strong = [&](const Cause& c) {
    return c.certain ||
           (c.finding.evidence &&
            c.misfit <= std::max(best + CheckLimits::alike,
                                 std::min(CheckLimits::poor_fit, most_misfit(healthy_misfit))));
  };
  std::vector<Cause> kept;
  for (const Cause& c : causes) {
    const bool again = std::any_of(kept.begin(), kept.end(), [&](const Cause& better) {
      return have_one_remedy(better.finding.kind, c.finding.kind) ||
             (c.finding.evidence && better.finding.evidence == c.finding.evidence);
    });
    if (!again && (c.finding.evidence || c.crawls || may_be_tcp(c) ||
                   weighed(c) <= weighed(causes.front()) + CheckLimits::alike))
      kept.push_back(c);
  }
  std::stable_partition(kept.begin(), kept.end(), strong);
  const Cause& first = kept.front();
  if ((first.certain && first.misfit < most_misfit(healthy_misfit)) ||
      (first.finding.evidence && first.misfit < CheckLimits::alike))
    std::erase_if(kept, [](const Cause& c) { return !c.finding.evidence; });
  causes = std::move(kept);
}

void settle(CheckedTable& table) {
  rank_causes(table.causes, table.misfit);
  const bool told = !table.causes.empty() && table.causes.front().certain;
  table.unsure = table.unsure && (table.other_machine || !told);
}

}  // namespace foreduce
