// What is kept of a point that someone wants to look at.
#include <fmt/format.h>

#include "input/holds.hpp"
#include "scenarios/sweep/predict.hpp"
#include "sim/expected_cost.hpp"

namespace foreduce {

void check_points_asked(const SweepOptions& options, std::size_t points) {
  const std::string range =
      points == 1 ? "there is one, number 0" : fmt::format("they are numbered 0 to {}", points - 1);
  if (options.shard.only && *options.shard.only >= points)
    throw input_error(fmt::format("--point: there is no point {}", *options.shard.only), range);
  if (options.recording == Recording::on && !options.shard.only && points != 1)
    throw input_error(fmt::format("{} shows one point, and there are {}", options.recorder, points),
                      "choose one with --point; " + range);
}

TracedCollective traced(Stream kind, std::size_t elements, std::size_t element_bytes,
                        const Batch& batch, std::size_t question) {
  const CollectiveResult& result = batch[question].result;
  TracedCollective t{kind,
                     elements,
                     Bytes{static_cast<double>(elements * element_bytes)},
                     batch.question(question).schedule.name(),
                     result.loads,
                     std::make_shared<const Question>(batch.question(question)),
                     result.time,
                     result.messages};
  for (LinkLoad& load : t.loads)
    load.bytes = load.utilisation * load.bandwidth.value * result.time.value;
  return t;
}

void note_limits(Prediction& point, const Batch& batch, std::size_t number) {
  const CollectiveResult& result = batch[number].result;
  const Question& question = batch.question(number);
  point.bottleneck = result.bottleneck;
  if (!result.loads.empty()) {
    point.bottleneck_kind = result.loads[0].kind;
    point.bottleneck_utilisation = result.loads[0].utilisation;
  }
  const Bytes bytes{static_cast<double>(question.count * size_of(question.type))};
  point.loads = std::make_shared<const ClusterLoads>(ClusterLoads{
      question.cluster, question.schedule.name(), bytes, result.loads, result.utilisations});
}

void note_chosen(Prediction& point, const ScheduleName& schedule) {
  if (point.method != MethodKind::ours && !holds(point.chosen, schedule))
    point.chosen.push_back(schedule);
}

void note_estimated_compute(Prediction& point) {
  if (!point.compute_measured)
    point.interval.widened.push_back(fmt::format("compute of {} in {} on this GPU is an estimate",
                                                 point.model, to_text(point.precision)));
}

std::shared_ptr<const CollectiveResult> recorded(const Question& q, std::uint64_t messages,
                                                 Recorded what) {
  constexpr double kMost = 1'000'000;
  const CollectiveCall call{
      *q.cluster, *q.schedule.algorithm, q.schedule.plan, q.count, q.type, Op::sum, q.groups,
      q.beside};
  // The answer may be from a part of a long pipeline, or of a long ring; the record is of all.
  const double all = std::max(static_cast<double>(messages), expected_cost(call).messages);
  if (all > kMost)
    throw input_error(fmt::format("{:.0f} messages are too many to be recorded", all),
                      fmt::format("at most {:.0f}: a smaller size, or fewer nodes", kMost));
  SimOptions options;
  options.sending = q.schedule.sending;
  options.record = what;
  return std::make_shared<const CollectiveResult>(simulate(call, options));
}

}  // namespace foreduce
