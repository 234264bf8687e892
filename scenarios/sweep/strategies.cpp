#include "scenarios/sweep/strategies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "input/counted.hpp"
#include "models/units.hpp"

namespace foreduce {
namespace {

UnitRule unit_rule(const std::string& units) {
  if (units == "block") return {UnitRule::By::block, {}};
  if (units == "tensors") return {UnitRule::By::tensor, {}};
  double bytes = 0;
  std::string why;
  if (!parse_quantity(units, UnitsOf<Bytes>::table, UnitsOf<Bytes>::kind, bytes, why))
    throw key_error("units", why);
  return {UnitRule::By::size, Bytes{bytes}};
}

/// DDP and ZeRO-1 keep gradients whole, and sum them once a step (torch DDP's no_sync, DeepSpeed's
/// stage 1), DDP after every backward where it is told to; ZeRO-2 has no room for whole ones, and
/// FSDP sums after every backward unless it is told not to, or is part of a pipeline
/// (torch/distributed/pipelining/stage.py).
Synchronised synchronised_of(Sharding sharding, int stages, const std::optional<bool>& no_sync) {
  const bool once = sharding == Sharding::none || sharding == Sharding::zero1;
  if (sharding == Sharding::none && no_sync == false) return Synchronised::every_micro_batch;
  if (once && no_sync == false)
    throw key_error("no_sync",
                    "zero1 keeps gradients whole, and sums them after the last micro-batch",
                    "zero2 sums them after every one");
  if (sharding == Sharding::zero2 && no_sync == true)
    throw key_error("no_sync", "zero2 keeps no whole gradients that could wait", "zero1 does");
  const bool waits = once || no_sync.value_or(sharding == Sharding::zero3 && stages > 1);
  return waits ? Synchronised::last_micro_batch : Synchronised::every_micro_batch;
}

}  // namespace

bool all_reduces(const Strategy& one) {
  return one.sharding == Sharding::none || !one.hybrid.empty() || one.tensor > 1;
}

std::vector<Strategy> strategies_of(const WorkloadSpec& workload) {
  std::vector<Strategy> all;
  const auto hybrids =
      workload.hybrid.values.empty() ? std::vector<std::string>{""} : workload.hybrid.values;
  for (const std::string& word : workload.sharding.values)
    for (const std::string& hybrid : hybrids)
      for (const int tensor : workload.tensor_parallel.values)
        for (const int context : workload.context_parallel.values)
          for (const int stages : workload.pipeline.values)
            for (const int parts : workload.virtual_pipeline.values)
              for (const int expert : workload.expert_parallel.values) {
                // A group of one GPU shares nothing, and where there is one stage none takes turns.
                const Sharding sharding = hybrid == "1" ? Sharding::none : sharding_named(word);
                const bool all_gpus = sharding == Sharding::none || hybrid == "world";
                const Strategy one{sharding, all_gpus ? "" : hybrid, tensor, context,
                                   stages,   stages > 1 ? parts : 1, expert};
                if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
              }
  return all;
}

namespace {

/// GPUs of a sharding group; 0: all.
int group_of(const std::string& hybrid, int per_node) {
  if (hybrid.empty()) return 0;
  if (hybrid == "node") return std::max(1, per_node);
  double ranks = 0;
  std::string why;
  if (!parse_number(hybrid, ranks, why) || ranks < 1 || ranks > 1e6)
    throw key_error("hybrid", fmt::format("'{}' is no number of GPUs", hybrid), "node, world");
  return static_cast<int>(ranks);
}

}  // namespace

ShardingPlan plan_of(const Strategy& strategy, const WorkloadSpec& workload, Precision precision,
                     int nodes, int gpus, Framework framework) {
  const int per_node = gpus / nodes;
  if (per_node % strategy.tensor != 0)
    throw key_error(
        "tensor_parallel",
        fmt::format("{} GPUs of a node cannot be divided into tensor-parallel groups of {}",
                    per_node, strategy.tensor));
  // Where several stages share a node, the node's GPUs of one of them.
  const int of_stage = gpus / std::max(1, strategy.stages),
            per_stage = of_stage > 0 && per_node % of_stage == 0 ? of_stage : per_node;
  const int hybrid = group_of(strategy.hybrid, per_stage / strategy.tensor);
  ShardingPlan plan = divide(gpus, strategy.sharding, hybrid, strategy.tensor, strategy.stages,
                             strategy.expert, strategy.context);
  plan.parts = strategy.parts;
  if (plan.sharding != Sharding::none) {  // else nothing is gathered, and gradients go by block
    // Of 52 published runs of DeepSpeed's ZeRO-3 on 128 to 1,024 A100 (docs/accuracy-notes.md) 50
    // are inside with these, and 27 with FSDP2's.
    const bool by_tensors =
        framework == Framework::deepspeed && plan.sharding == Sharding::zero3 && plan.stages == 1;
    plan.units = unit_rule(!workload.units.empty() ? workload.units
                           : by_tensors            ? "tensors"
                                                   : "block");
    plan.prefetch = workload.prefetch.value_or(by_tensors ? 0 : 1);
    // In a pipeline parameters would travel for every micro-batch (torchtitan, parallelize.py).
    plan.reshard = workload.reshard_after_forward.value_or(plan.stages == 1)
                       ? Reshard::after_forward
                       : Reshard::after_backward;
  }
  if (plan.stages > 1 && plan.units.by != UnitRule::By::block)
    throw key_error("units", "a pipeline's stages are cut between blocks, and so are their units",
                    "units: block");
  plan.sequence = workload.sequence_parallel ? Sequence::divided : Sequence::whole;
  plan.communicators = workload.communicators;
  plan.context_communication = workload.context_communication;
  if (workload.fp8_all_gather && plan.sharding == Sharding::zero3 && precision == Precision::fp8)
    plan.gathered = Gathered::fp8;
  plan.synchronised = synchronised_of(plan.sharding, plan.stages, workload.no_sync);
  return plan;
}

ShardingPlan plan_on(const Strategy& s, const WorkloadSpec& workload, Precision precision,
                     const ClusterCase& c, Framework framework) {
  const bool groups = !s.hybrid.empty() || s.tensor * s.context * s.stages * s.expert > 1;
  if (groups && !have_as_many_gpus(*c.cluster))
    throw input_error(
        "groups of GPUs among nodes with different numbers of them (cluster.mixed) are not "
        "modelled",
        "one group of all: sharding: zero3 without hybrid, tensor_parallel and so on");
  return plan_of(s, workload, precision, c.nodes, c.cluster->gpus(), framework);
}

bool copies_gradients(const AllReduceSpec& how, const ShardingPlan& plan) {
  return how.bucketing == Bucketing::ddp && !how.gradient_as_bucket_view &&
         plan.sharding == Sharding::none && plan.data_parallel() > 1;
}

std::string copies_words(const ShardingPlan& plan) {
  const int copies = plan.data_parallel();
  if (plan.model_gpus() == 1) return counted(copies, "GPU");
  return fmt::format("{} of the model, {}on {}",
                     copies == 1 ? "1 copy" : fmt::format("{} copies", copies),
                     copies == 1 ? "" : "each ", counted(plan.model_gpus(), "GPU"));
}

std::vector<bool> repeated_strategies(const std::vector<Strategy>& strategies,
                                      const WorkloadSpec& workload, Precision precision, int nodes,
                                      int gpus) {
  std::vector<bool> repeated;
  std::vector<ShardingPlan> plans;
  for (const Strategy& strategy : strategies) {
    repeated.push_back(false);
    if (gpus < 1) continue;
    try {
      const ShardingPlan plan = plan_of(strategy, workload, precision, nodes, gpus);
      repeated.back() = std::find(plans.begin(), plans.end(), plan) != plans.end();
      plans.push_back(plan);
    } catch (const InputError&) {  // its own point says why
    }
  }
  return repeated;
}

ShardingPlan unplaced(const Strategy& strategy) {
  ShardingPlan plan;
  plan.sharding = strategy.sharding;
  plan.tensor = strategy.tensor;
  plan.context = strategy.context;
  plan.stages = strategy.stages;
  plan.parts = strategy.parts;
  plan.expert = strategy.expert;
  return plan;
}

Precision default_gradient(Precision precision, const ShardingPlan& plan, Framework framework) {
  const Precision kept = kept_type(precision);
  const bool sums_in_fp32 = framework == Framework::megatron && kept == Precision::bf16;
  return plan.sharding == Sharding::none || sums_in_fp32 ? Precision::fp32 : kept;
}

std::vector<Recompute> recomputes_of(const WorkloadSpec& workload) {
  std::vector<Recompute> all;
  for (const std::string& word : workload.recompute.values) {
    const Recompute how = word == "no" || word == "false"   ? Recompute::none
                          : word == "yes" || word == "true" ? Recompute::full
                                                            : *value_named<Recompute>(word);
    if (std::find(all.begin(), all.end(), how) == all.end()) all.push_back(how);
  }
  return all;
}

double recomputed_part(const WorkloadSpec& asked, const Workload& workload, Recompute how,
                       int stages) {
  if (asked.recompute_blocks == 0 || how == Recompute::none) return 1;
  const int blocks = blocks_of(workload);
  if (blocks == 0)
    throw input_error(fmt::format("recompute_blocks: {} names no blocks", workload.name),
                      "a workload whose tensors are named by block, as model.layers.0");
  const double of_stage = 1.0 * blocks / stages;
  if (asked.recompute_blocks > std::ceil(of_stage))
    throw input_error(fmt::format("recompute_blocks: {} of the {} blocks of a stage",
                                  asked.recompute_blocks, std::ceil(of_stage)),
                      "without it all blocks are computed again");
  return std::min(1.0, asked.recompute_blocks / of_stage);
}

}  // namespace foreduce
