#include "scenarios/sweep/sharded_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace foreduce {
namespace {

double share_of(const std::vector<ModelUnit>& units) {
  double share = 0;
  for (const ModelUnit& u : units) share += u.share;
  return share;
}
double elements_of(const std::vector<ModelUnit>& units) {
  double elements = 0;
  for (const ModelUnit& u : units) elements += static_cast<double>(u.elements);
  return elements;
}

Interval interval_of(const ShardedPoint& sharded, const Batch& batch, double compute_within) {
  using Bound = StepCollectives::Bound;
  const auto total = [&](double factor, Bound bound) {
    ShardedStepInput in = sharded.step;
    in.forward = in.forward * factor;
    in.backward = in.backward * factor;
    return play_sharded_step(in, sharded.collectives->costs(batch, sharded.compute_share, bound))
        .total;
  };
  const ShardedStepInput& in = sharded.step;
  const double fast = fastest_compute(compute_within, in.forward + in.backward, in.least_compute);
  const StepSpan span =
      span_of_totals(total(1, Bound::usual), {total(1, Bound::low), total(1, Bound::high)},
                     {total(fast, Bound::usual), total(compute_within, Bound::usual)},
                     in.least_compute * in.accumulation + in.overhead);
  Interval interval = sharded.collectives->interval(batch);
  interval.low = span.low;
  interval.high = span.high;
  return interval;
}

}  // namespace

ShardedStepInput sharded_step(const Prediction& p, const StepInput& whole,
                              const Workload& workload) {
  const ShardingPlan& plan = p.sharding;
  const auto units = units_of(workload, plan.units, size_of(type_named(p.parameter_type())));
  const auto stages = stages_of(units, plan.stages);
  const auto longest =
      std::max_element(stages.begin(), stages.end(),
                       [](const auto& a, const auto& b) { return share_of(a) < share_of(b); });
  ShardedStepInput in;
  in.units = *longest;
  in.plan = plan;
  for (ModelUnit& u : in.units)  // a tensor-parallel GPU's part
    u.elements = (u.elements + static_cast<std::size_t>(plan.tensor) - 1) /
                 static_cast<std::size_t>(plan.tensor);
  const double part = share_of(in.units) / plan.tensor;
  in.forward = whole.forward * part;
  in.backward = whole.backward * part;
  in.overhead = whole.overhead;
  in.least_compute = whole.least_compute * part;
  in.optimizer = whole.optimizer *
                 (elements_of(*longest) / elements_of(units) / (plan.tensor * plan.shard_ranks));
  in.accumulation = whole.accumulation;
  in.slowest = whole.slowest;
  in.block_output =
      static_cast<std::size_t>(std::llround(block_output(workload, p.sample, p.batch_per_gpu)));
  if (plan.tensor * plan.stages > 1 && in.block_output == 0)
    throw input_error(fmt::format(
        "{}: its tensors name no blocks that tensor_parallel or pipeline could divide", p.model));
  in.tensor_in_backward = p.recompute == Recompute::full ? 4 : 2;
  return in;
}

void answer_sharded(Prediction& p, const ShardedPoint& sharded, const Batch& batch,
                    double compute_within) {
  p.step = play_sharded_step(
      sharded.step,
      sharded.collectives->costs(batch, sharded.compute_share, StepCollectives::Bound::usual));
  p.interval = interval_of(sharded, batch, compute_within);
  if (!p.compute_measured)
    p.interval.widened.push_back(
        fmt::format("compute of {} in {} on this GPU is an estimate", p.model, p.precision));
  const CollectiveUse* most = nullptr;
  for (const CollectiveUse& use : p.step.collectives) {
    if (!most || use.time > most->time) most = &use;
    const std::string& name =
        batch.question(sharded.collectives->answered_by(batch, use.kind, use.elements))
            .schedule.name;
    if (p.method != MethodKind::ours &&
        std::find(p.chosen.begin(), p.chosen.end(), name) == p.chosen.end())
      p.chosen.push_back(name);
  }
  if (most) {
    const CollectiveResult& result =
        batch[sharded.collectives->answered_by(batch, most->kind, most->elements)].result;
    p.bottleneck = result.bottleneck;
    if (!result.loads.empty()) {
      p.bottleneck_kind = result.loads[0].kind;
      p.bottleneck_utilisation = result.loads[0].utilisation;
    }
  }
  p.throughput = static_cast<double>(p.sharding.data_parallel()) * p.batch_per_gpu *
                 p.accumulation / p.step.total.value;
  p.efficiency_gpu = (p.step.compute + p.step.overhead) / p.step.total;
  p.tokens_per_s = p.throughput * tokens_of(p.sample);
  p.mfu = sharded.step.least_compute * p.accumulation / p.step.total;
}

}  // namespace foreduce
