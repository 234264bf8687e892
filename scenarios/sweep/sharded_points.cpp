#include "scenarios/sweep/sharded_points.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "input/counted.hpp"
#include "input/problem.hpp"
#include "scenarios/sweep/memory_shortage.hpp"

namespace foreduce {
namespace {

double share_of(const std::vector<ModelUnit>& units) {
  double share = 0;
  for (const ModelUnit& u : units) share += u.share;
  return share;
}
/// Attention's part of a block's arithmetic: what a sample takes beyond its tensors' products,
/// which belongs to blocks.
double attention_share(const Workload& workload, const std::string& sample,
                       const std::vector<ModelUnit>& units) {
  double blocks = 0;
  for (const ModelUnit& u : units) blocks += u.root ? 0 : u.share;
  return blocks > 0 ? std::min(1.0, (1 - linear_share(workload, sample)) / blocks) : 0;
}
/// Of all elements of `all`, the part whose optimizer's step one GPU of the stage does.
double optimized_share(const std::vector<ModelUnit>& stage, const std::vector<ModelUnit>& all,
                       const ShardingPlan& plan) {
  double here = 0, everywhere = 0;
  for (const ModelUnit& u : stage)
    here +=
        static_cast<double>(u.elements - u.experts) / plan.shard_ranks +
        static_cast<double>(u.experts) * plan.expert_span / (plan.expert * plan.expert_shards());
  for (const ModelUnit& u : all) everywhere += static_cast<double>(u.elements);
  return here / (everywhere * plan.tensor);
}
/// What a GPU has of a unit: of experts its own, where they are divided among GPUs.
ModelUnit part_of(ModelUnit unit, const ShardingPlan& plan) {
  const auto divided = [](std::size_t elements, int parts) {
    return (elements + static_cast<std::size_t>(parts) - 1) / static_cast<std::size_t>(parts);
  };
  const std::size_t experts = plan.expert > 1 ? unit.experts : 0;
  unit.elements = divided(unit.elements - experts, plan.tensor);
  unit.experts = divided(experts, plan.expert_parts());
  return unit;
}

/// What travels between a block's tokens and its experts. Throws InputError for a workload whose
/// experts cannot be divided so.
void add_exchanges(ShardedStepInput& in, const Prediction& p, const Workload& workload) {
  const ShardingPlan& plan = in.plan;
  in.experts_output = in.block_output;
  if (!workload.experts) {
    if (plan.expert > 1)
      throw key_error("expert_parallel",
                      fmt::format("{} is no mixture of experts that GPUs could share", p.model));
    return;
  }
  if (workload.experts->count % plan.expert != 0)
    throw key_error("expert_parallel",
                    fmt::format("the {} experts of {} cannot be divided among {} GPUs",
                                workload.experts->count, p.model, plan.expert));
  in.exchanged = in.block_output * static_cast<std::size_t>(workload.experts->per_token);
  if (plan.sequence == Sequence::whole && plan.expert_span > 1)
    throw key_error("expert_parallel",
                    fmt::format("groups of {} GPUs that share experts span tensor-parallel ones, "
                                "which must have tokens of their own",
                                plan.expert),
                    "sequence_parallel: yes");
  if (plan.sequence == Sequence::whole || plan.expert == 1) return;
  // Each of the GPUs that divide a sequence sends its own tokens, and all of them gather what came
  // (Megatron-LM's alltoall dispatcher).
  in.experts_output = in.exchanged;
  in.exchanged /= static_cast<std::size_t>(plan.tensor);
}

/// Throws InputError where GPUs cannot share the point's sequences: each has two parts of them, one
/// from either end, with which causal attention takes all as long (Megatron-LM, torchtitan).
void require_sequence(const Prediction& p) {
  const int gpus = p.sharding.context;
  if (gpus == 1) return;
  const auto tokens = static_cast<std::int64_t>(tokens_of(p.sample));
  if (tokens == 0)
    throw key_error("context_parallel",
                    fmt::format("a sample of {} is no single sequence of tokens that GPUs could "
                                "share: {}",
                                p.model, p.sample));
  if (tokens % (2 * gpus) == 0) return;
  int fewer = gpus;
  while (fewer > 1 && tokens % (2 * fewer) != 0) --fewer;
  throw key_error(
      "context_parallel",
      fmt::format("{} tokens cannot be cut into {} equal parts, two for each of {} GPUs", tokens,
                  2 * gpus, gpus),
      fmt::format("context_parallel: {}", fewer));
}

Interval interval_of(const ShardedPoint& sharded, const Batch& batch, const Spread& compute) {
  using Bound = StepCollectives::Bound;
  const auto total = [&](double factor, Bound bound) {
    ShardedStepInput in = sharded.step;
    in.forward = in.forward * factor;
    in.backward = in.backward * factor;
    return play_sharded_step(in, sharded.collectives->costs(batch, sharded.compute_shares, bound))
        .total;
  };
  const ShardedStepInput& in = sharded.step;
  const double fast = fastest_compute(compute.faster, in.forward + in.backward, in.least_compute);
  const StepSpan span =
      span_of_totals(total(1, Bound::usual), {total(1, Bound::low), total(1, Bound::high)},
                     {total(fast, Bound::usual), total(compute.slower, Bound::usual)},
                     std::max(in.input, in.least_compute * in.accumulation + in.overhead));
  Interval interval = sharded.collectives->interval(batch);
  interval.low = span.low;
  interval.high = span.high;
  return interval;
}

/// Throws InputError where a stage has fewer blocks than parts. Parts may differ by one block: the
/// embedding or the loss takes its place (Megatron-LM's
/// account_for_embedding_in_pipeline_split), or a layout says so.
void require_parts(const ShardingPlan& plan, const std::vector<std::vector<ModelUnit>>& stages,
                   int accumulation) {
  if (plan.parts == 1) return;
  for (const auto& stage : stages) {
    int blocks = 0;
    for (const ModelUnit& u : stage) blocks += u.blocks;
    if (blocks < plan.parts)
      throw key_error("virtual_pipeline", fmt::format("a stage of {} cannot be cut into {} parts",
                                                      counted(blocks, "block"), plan.parts));
  }
  if (accumulation % plan.stages != 0)
    throw key_error("virtual_pipeline",
                    fmt::format("the parts of {} stages take turns with micro-batches in multiples "
                                "of {}, and a step has {}",
                                plan.stages, plan.stages, accumulation),
                    fmt::format("accumulation: {}",
                                (accumulation + plan.stages - 1) / plan.stages * plan.stages));
}

/// As many times as long forward and backward of the GPU's part of a model take as computing them
/// does, since kernels must be launched. `of_model`: the time for those of the whole model;
/// `forwards`: how often forward's exchanges run, with what is computed again.
double add_launches(ShardedStepInput& in, Seconds of_model, Seconds computing,
                    const Workload& workload, double forwards) {
  if (of_model.value <= 0 || computing.value <= 0) return 1;
  const TrainingConstants& c = training_constants();
  // Each GPU of those that share matrices or sequences launches all kernels.
  const Seconds kernels = of_model * share_of(in.units);
  Seconds exchanges;
  if (in.plan.tensor > 1 && workload.framework != Framework::megatron)
    for (const ModelUnit& u : in.units)
      exchanges = exchanges + c.tensor_launches * u.blocks * ((forwards + 1) / 2);
  const Seconds launches = kernels + exchanges, longest = std::max(launches, computing);
  in.launch_bound = launches >= computing;
  // A program may launch exchanges as fast as NVIDIA's do, and one may take longer for everything.
  // Without exchanges compute's own interval holds what launches may take, unless they rule only
  // here, where each GPU computes a part.
  if (exchanges.value > 0 || in.launch_bound)
    in.launches_within = {longest / std::max(kernels, computing),
                          std::max(1.0, c.launches_slower * launches / longest)};
  return longest / computing;
}

}  // namespace

ShardedStepInput sharded_step(const Prediction& p, const StepInput& whole,
                              const Workload& workload) {
  const ShardingPlan& plan = p.sharding;
  const auto units = units_of(workload, plan.units, size_of(p.parameter_type()));
  const auto stages = stages_of(units, plan.stages);
  const auto longest =
      std::max_element(stages.begin(), stages.end(),
                       [](const auto& a, const auto& b) { return share_of(a) < share_of(b); });
  require_parts(plan, stages, whole.accumulation);
  constexpr int kMostMicroBatches = 20'000;  // each is played
  if (whole.accumulation > kMostMicroBatches)
    throw key_error("accumulation",
                    fmt::format("{} micro-batches are more than the {} of a sharded step",
                                whole.accumulation, kMostMicroBatches));
  ShardedStepInput in;
  in.plan = plan;
  for (const ModelUnit& u : *longest) in.units.push_back(part_of(u, plan));
  // Norms, dropout and residuals are every tensor-parallel GPU's own, unless sequences are divided.
  const double undivided = plan.sequence == Sequence::divided ? 0 : whole.undivided;
  const double part =
      share_of(in.units) * (undivided + (1 - undivided) / plan.tensor) / plan.context;
  const Seconds divided = (whole.forward + whole.backward) * part;
  const double forwards = p.recompute == Recompute::full ? 1 + p.recomputed_blocks : 1,
               longer = add_launches(in, whole.launches, divided, workload, forwards);
  in.forward = whole.forward * (part * longer);
  in.backward = whole.backward * (part * longer);
  in.overhead = whole.overhead;
  in.input = whole.input;
  in.least_compute = whole.least_compute * (share_of(in.units) / (plan.tensor * plan.context));
  in.optimizer = whole.optimizer * optimized_share(*longest, units, plan);
  in.accumulation = whole.accumulation;
  in.other_stages = share_of(units) / share_of(*longest) - 1;
  in.slowest = whole.slowest;
  in.recording = whole.recording;
  in.sums = whole.sums;
  in.block_output = static_cast<std::size_t>(
      std::llround(block_output(workload, p.sample, p.batch_per_gpu) / plan.context));
  if ((plan.tensor > 1 || plan.stages > 1) && tokens_of(p.sample) == 0 && shrinks_images(workload))
    throw key_error(
        plan.tensor > 1 ? "tensor_parallel" : "pipeline",
        fmt::format("{} is no transformer, whose equal blocks are what tensor_parallel and "
                    "pipeline divide",
                    p.model));
  if (plan.model_gpus() > 1 && in.block_output == 0)
    throw input_error(
        fmt::format("{}: its tensors name no blocks that tensor_parallel, context_parallel or "
                    "pipeline could divide",
                    p.model));
  require_sequence(p);
  in.attention = attention_share(workload, p.sample, units);
  in.keys_and_values = static_cast<std::size_t>(
      std::llround(keys_and_values(workload, p.sample, p.batch_per_gpu, plan.tensor)));
  add_exchanges(in, p, workload);
  // Of blocks that are computed again in part, as most of them do.
  in.passes_in_backward = p.recompute == Recompute::full && p.recomputed_blocks >= 0.5 ? 2 : 1;
  return in;
}

std::vector<std::size_t> ShardedPoint::questions() const {
  const auto& here = collectives->questions();
  std::set<std::size_t> all(here.begin(), here.end());
  if (on_one_node)
    all.merge(std::set<std::size_t>(on_one_node->collectives->questions().begin(),
                                    on_one_node->collectives->questions().end()));
  return {all.begin(), all.end()};
}

void ask_one_node(Prediction& p, ShardedPoint& sharded, const ClusterCase& cluster,
                  const StepInput& whole, const MemoryQuestion& memory, const StepAsker& asker) {
  if (p.nodes == 1) return;
  try {
    const ClusterCase* node = asker.context.clusters.one_node(cluster);
    if (!node) throw input_error("nodes of several types have no one node to compare with");
    Prediction there = p;
    there.nodes = 1;
    there.gpus = node->cluster->gpus();
    const ShardingPlan& plan = p.sharding;
    const ShardingPlan divided =
        divide(there.gpus, plan.sharding, plan.replicas > 1 ? plan.shard_ranks : 0, plan.tensor,
               plan.stages, plan.expert, plan.context);
    there.sharding = plan;
    there.sharding.sharding = divided.sharding;
    there.sharding.shard_ranks = divided.shard_ranks;
    there.sharding.replicas = divided.replicas;
    there.sharding.expert_span = divided.expert_span;
    MemoryQuestion asked = memory;
    asked.sharding = there.sharding;
    there.memory = memory_of(asked);
    if (!there.fits())
      throw input_error(fmt::format("one node is too small: {}", memory_shortage(there)));
    auto one = std::make_unique<ShardedPoint>();
    one->step = sharded_step(there, whole, *memory.workload);
    one->collectives.emplace(one->step, asker.method,
                             StepCollectives::Types{p.parameter_type(), element_type(p.gradient)},
                             *node, on_one_node(asker.context, *node));
    one->compute_shares = one->collectives->compute_shares(asker.compute_share);
    sharded.on_one_node = std::move(one);
  } catch (const InputError& e) {
    p.no_efficiency_node = words_of(e);
  }
}

namespace {

/// Throughput for each GPU, over that on one node; 0 where that is unknown, and the point says why.
double efficiency_of(Prediction& p, const ShardedPoint& sharded, const Batch& batch) {
  if (p.nodes == 1) return 1;
  if (!sharded.on_one_node) return 0;
  const ShardedPoint& one = *sharded.on_one_node;
  for (const std::size_t number : one.collectives->questions())
    if (const Outcome& outcome = batch[batch.in_place_of(number)]; !outcome.ok) {
      p.no_efficiency_node = outcome.error;
      return 0;
    }
  const Seconds there =
      play_sharded_step(one.step, one.collectives->costs(batch, one.compute_shares,
                                                         StepCollectives::Bound::usual))
          .total;
  // As many samples for each GPU in either, for as many share a model's matrices and layers.
  return there / p.step.total;
}

}  // namespace

void answer_sharded(Prediction& p, const ShardedPoint& sharded, const Batch& batch,
                    const Spread& compute) {
  p.step = play_sharded_step(
      sharded.step,
      sharded.collectives->costs(batch, sharded.compute_shares, StepCollectives::Bound::usual));
  const Spread launches = sharded.step.launches_within;
  p.interval =
      interval_of(sharded, batch,
                  {compute.faster * launches.faster, std::max(compute.slower, launches.slower)});
  note_estimated_compute(p);
  p.launch_bound = sharded.step.launch_bound;
  const CollectiveUse* most = nullptr;
  for (const CollectiveUse& use : p.step.collectives) {
    if (!most || use.time > most->time) most = &use;
    const std::size_t question = sharded.collectives->answered_by(batch, use.kind, use.elements);
    if (sharded.step.recording == Recording::on)
      p.traced.push_back(traced(use.kind, use.elements,
                                size_of(sharded.collectives->type_of(use.kind)), batch, question));
    note_chosen(p, batch.question(question).schedule.name());
  }
  if (most)
    note_limits(p, batch, sharded.collectives->answered_by(batch, most->kind, most->elements));
  p.throughput = static_cast<double>(p.sharding.data_parallel()) * p.batch_per_gpu *
                 p.accumulation / p.step.total.value;
  // Beside GPUs that divide the whole model's work evenly, and wait for nothing.
  p.efficiency_gpu = (sharded.evenly_divided * p.accumulation + sharded.step.optimizer +
                      p.step.overhead - p.step.input_wait) /
                     p.step.total;
  p.efficiency_node = efficiency_of(p, sharded, batch);
  p.tokens_per_s = p.throughput * tokens_of(p.sample);
}

}  // namespace foreduce
