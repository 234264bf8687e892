#include "scenarios/sweep/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "models/caller.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {

std::size_t counted_elements(std::size_t count, int blocks, std::size_t element_size) {
  if (blocks == 1) return count;
  const std::size_t aligned = 16 / element_size, cut = static_cast<std::size_t>(blocks);
  return count / cut / aligned * aligned * cut;
}
namespace {

struct MessageJob {
  Comparison point;
  std::vector<Candidate> candidates;
  std::vector<std::size_t> questions;  // of each candidate; none if the point has an error
};

/// The bound on a row by what sums on this cluster. No exact one is known where switches sum.
void take_bound(Comparison& p, const std::shared_ptr<const Cluster>& cluster, SummedBy by,
                BoundKind asked, const SweepContext& context) {
  const Bytes bytes{static_cast<double>(p.bytes)};
  p.bound = collective_bound(*cluster, p.collective, bytes, summed_at_best(*cluster));
  p.bound_is_exact = false;
  if (asked != BoundKind::exact || by == SummedBy::switches) return;
  if (const auto& cut = context.clusters.exact_cut_of(cluster, p.collective)) {
    p.bound = exact_bound(*cluster, p.collective, bytes, *cut);
    p.bound_is_exact = true;
  }
}

MessageJob prepare(const Scenario& scenario, const ClusterCase& c, Bytes size, const Method& method,
                   const SweepContext& context) {
  const Type type = scenario.messages->dtype;
  MessageJob job;
  Comparison& p = job.point;
  p.collective = method.collective;
  p.instance = c.instance;
  p.method = method.kind;
  p.algorithm = method.name();
  p.inner = method.inner;
  p.profile = context.profiles.name(method.profile, c.cluster);
  p.nodes = c.nodes;
  p.ranks = c.cluster ? c.cluster->gpus() : 0;
  p.oversubscription = c.oversubscription;
  p.placement = c.placement;
  const auto asked = static_cast<std::size_t>(size.value);
  const int blocks = counted_blocks(p.collective, std::max(1, p.ranks));
  p.count = counted_elements(asked / size_of(type), blocks, size_of(type));
  p.bytes = p.count > 0 ? p.count * size_of(type) : asked;
  p.dtype = type;
  p.error = c.error;
  if (p.count == 0)
    p.error = blocks == 1
                  ? fmt::format("{} is less than one element of {}", to_text(size), to_text(type))
                  : fmt::format(
                        "{} is less than a block of 16 B for each of {} ranks, of which "
                        "nccl-tests moves whole ones",
                        to_text(size), blocks);
  if (!p.error.empty()) return job;
  try {
    job.candidates = candidates_of(method, c, context);
    job.point.best_without_nccl = best_without_nccl(method, job.candidates);
  } catch (const InputError& e) {
    p.error = words_of(e);
    return job;
  }
  const auto& cluster = job.candidates.front().cluster;
  take_bound(p, cluster, SummedBy::gpus, scenario.messages->bound, context);
  try {
    job.questions = ask_each(context.batch, job.candidates, p.count, type);
  } catch (const InputError& e) {  // of this size alone
    p.error = words_of(e);
    job.questions.clear();
  }
  return job;
}

void take_answer(MessageJob& job, const Batch& batch, const SweepOptions& options, BoundKind bound,
                 const SweepContext& context) {
  Comparison& p = job.point;
  if (job.questions.empty()) return;
  const std::size_t best = batch.fastest(job.questions), chosen = job.questions[best];
  const Outcome& outcome = batch[chosen];
  const Schedule& schedule = batch.question(chosen).schedule;
  p.error = batch.all_known(job.questions) ? outcome.error : kInterrupted;
  p.segments = schedule.plan.segments;
  p.nccl_channels = schedule.nccl_channels;
  p.chosen_because = schedule.why;
  if (p.method != MethodKind::ours) p.chosen = schedule.name();
  p.time = outcome.result.time;
  p.extrapolation_error = outcome.extrapolation_error;
  p.interval = job.candidates[best].interval(Bytes{static_cast<double>(p.bytes)}, outcome);
  const auto& cluster = job.candidates[best].cluster;
  take_bound(p, cluster, schedule.algorithm->summed_by, bound, context);
  const Seconds least =
      collective_bound(*cluster, p.collective, Bytes{static_cast<double>(p.bytes)},
                       schedule.algorithm->summed_by)
          .time;
  const auto possible = [&](Seconds low) {
    return std::min(p.time, std::max({low, p.bound.time, least}));
  };
  p.interval.low = possible(p.interval.low);
  if (p.interval.published) p.interval.published->low = possible(p.interval.published->low);
  p.bottleneck = outcome.result.bottleneck;
  if (!outcome.result.loads.empty()) {
    p.bottleneck_kind = outcome.result.loads[0].kind;
    p.bottleneck_utilisation = outcome.result.loads[0].utilisation;
  }
  std::vector<const Outcome*> outcomes;
  // Of two protocols that may suit, one answer may be the other's too.
  for (const std::size_t n : std::set(job.questions.begin(), job.questions.end())) {
    outcomes.push_back(&batch[n]);
    const CollectiveResult& r = batch[n].result;
    p.messages += r.messages;
    p.peak_rss_bytes = std::max(p.peak_rss_bytes, r.peak_rss_bytes);
    p.wall_seconds += r.wall_seconds;
  }
  p.mode = mode_of(outcomes);
  if (!p.error.empty()) return;
  p.loads = std::make_shared<const ClusterLoads>(ClusterLoads{
      batch.question(chosen).cluster, schedule.name(), Bytes{static_cast<double>(p.bytes)},
      outcome.result.loads, outcome.result.utilisations});
  if (options.recording == Recording::on)
    p.recorded = recorded(batch.question(chosen), outcome.result.messages, options.record);
}

/// Leaves out what cannot run on another cluster as well.
void keep_usable(UsableMethods& usable, UsableMethods there, const ClusterCase& c) {
  std::erase_if(usable.methods, [&](const Method& m) {
    return std::none_of(there.methods.begin(), there.methods.end(),
                        [&](const Method& other) { return other.name() == m.name(); });
  });
  for (const std::string& why : there.left_out) {
    const std::string name = why.substr(0, why.find(':'));
    const bool told = std::any_of(
        usable.left_out.begin(), usable.left_out.end(),
        [&](const std::string& known) { return known.substr(0, known.find(':')) == name; });
    if (!told)
      usable.left_out.push_back(
          fmt::format("{} (on {})", why, cluster_words(std::to_string(c.nodes), c.instance)));
  }
}

/// Those that are asked for; where none is, all that can run on every cluster.
std::vector<Method> methods_asked(const AllReduceSpec& spec, Collective collective,
                                  const SweepContext& context, Provenance& provenance) {
  if (!spec.algorithm.values.empty()) return methods_of(spec, collective);
  const auto& cases = context.clusters.cases();
  const ClusterCase& first = cases.front();
  if (!first.cluster) throw input_error(first.error);
  const auto usable_on = [&](const ClusterCase& c) {
    return usable_methods(c, spec.profile.first(), context, collective);
  };
  UsableMethods usable = usable_on(first);
  for (const ClusterCase& c : cases)
    if (&c != &first && c.cluster) keep_usable(usable, usable_on(c), c);
  if (usable.methods.empty()) throw input_error(usable.left_out.front());
  provenance.left_out = std::move(usable.left_out);
  AllReduceSpec named = spec;
  for (const Method& m : usable.methods)
    named.algorithm.values.push_back(m.kind == MethodKind::ours ? std::string(m.algorithm->name)
                                                                : m.name());
  return methods_of(named, collective);
}

/// The change, and what a caller adds to every profile.
Change as_called_from(const std::string& caller, Change change) {
  change.profile = [caller, before = change.profile](Profile& p) {
    if (before) before(p);
    p = called_from(caller, std::move(p));
  };
  return change;
}

}  // namespace

Sweep<Comparison> compare(const Scenario& scenario, const SweepOptions& options,
                          const OnPoint<Comparison>& on_point) {
  if (!scenario.messages)
    throw wrong(scenario, "messages",
                "compare needs message sizes; for a training step use `foreduce predict`");
  refuse_too_many(scenario, Asked::messages, options);
  QuestionHash hash(scenario.hash);
  Clusters clusters(scenario, hash, options.change);
  TransportProfiles profiles(scenario, hash,
                             as_called_from(scenario.messages->timed_by, options.change));
  Batch batch;
  const SweepContext context{clusters, profiles, batch, scenario.allreduce.channels,
                             scenario.allreduce.algorithm.values};
  Sweep<Comparison> sweep;
  const std::vector<Method> methods =
      methods_asked(scenario.allreduce, scenario.messages->collective, context, sweep.provenance);
  const auto& sizes = scenario.messages->sizes.values;
  const AxisProduct axes({clusters.cases().size(), sizes.size(), methods.size()});
  check_points_asked(options, axes.size());
  std::vector<MessageJob> jobs;
  for (std::size_t n = 0; n < axes.size(); ++n) {
    if (!options.shard.contains(n)) continue;
    if (options.batch.stop && options.batch.stop()) throw Interrupted();
    const auto at = axes.at(n);
    jobs.push_back(
        prepare(scenario, clusters.cases()[at[0]], sizes[at[1]], methods[at[2]], context));
    jobs.back().point.number = n;
  }
  sweep.all = axes.size();
  sweep.loads_of = options.loads_of;
  sweep.provenance.name = scenario.name;
  sweep.provenance.file = scenario.file;
  sweep.provenance.hash = hash.value();
  sweep.provenance.text = scenario.text;
  sweep.provenance.sums_checked = options.batch.check_sums;
  sweep.provenance.timed_by = scenario.messages->timed_by;
  sweep.provenance.unused_keys = unused_keys(scenario, Asked::messages);
  const bool too_small = std::all_of(jobs.begin(), jobs.end(),
                                     [](const MessageJob& job) { return job.point.count == 0; });
  refuse_if_all_failed(scenario, too_small && !scenario.file.empty() ? "messages.sizes" : "", jobs);
  BatchOptions how = options.batch;
  if (options.recording == Recording::on)  // a trace shows every segment
    how.long_pipelines = LongPipelines::simulate_whole;
  answer_in_order(
      jobs, batch, how,
      [&](MessageJob& job) { take_answer(job, batch, options, scenario.messages->bound, context); },
      on_point, sweep);
  note_speedups(sweep.points, [](const Comparison& p) { return p.time; });
  return sweep;
}

}  // namespace foreduce
