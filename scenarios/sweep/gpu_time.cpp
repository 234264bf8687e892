#include "scenarios/sweep/gpu_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "models/gpu_arithmetic.hpp"
#include "models/program_time.hpp"
#include "scenarios/sweep/buckets.hpp"

namespace foreduce {

namespace {

/// What an MFU counts, at the GPU's peak: the model's own arithmetic, as its program counts it.
Seconds counted_at_peak(const MicroBatch& batch) {
  const bool megatron = batch.workload.framework == Framework::megatron;
  return compute_at_peak(batch) *
         (megatron ? counted_by_megatron(batch.workload, batch.sample) : 1);
}

/// What the asker measured one GPU of an instance type to do in such a case, in samples a second.
std::optional<double> own_rate(const WorkloadSpec& asked, const Prediction& p,
                               const std::string& instance, const Workload& workload,
                               const Gpu& gpu) {
  if (asked.samples_per_s) return asked.samples_per_s;
  for (const UserRate& m : asked.measured) {
    const bool its = instance == m.instance || instance.starts_with(m.instance + " (");
    if (!its || (m.precision && m.precision != p.precision) ||
        (m.batch > 0 && m.batch != p.batch_per_gpu))
      continue;
    if (m.samples_per_s) return m.samples_per_s;
    if (m.mfu) {
      const Seconds least = counted_at_peak({workload, gpu, p.precision, p.sample, 1});
      if (least.value <= 0)
        throw input_error(
            fmt::format("mfu: the {} peak of {} is not known", to_text(p.precision), gpu.model),
            "give samples_per_s instead");
      return *m.mfu / least.value;
    }
    const double tokens = tokens_of(p.sample);
    if (tokens <= 0)
      throw input_error(fmt::format("tokens_per_s: a sample of {} is no number of tokens", p.model),
                        "give samples_per_s instead");
    return *m.tokens_per_s / tokens;
  }
  return std::nullopt;
}

/// By what the asker measured; an error is about the key that says it.
ComputeTime time_by_own(const MicroBatch& batch, const AskersRate& rate,
                        const WorkloadSpec& asked) {
  try {
    return compute_time(batch, rate);
  } catch (const InputError& e) {
    const Problem& first = e.problems().front();
    throw key_error(asked.samples_per_s ? "samples_per_s" : "measured", first.message, first.hint);
  }
}

/// Nodes of one instance type: the first of them, how many, and how fast their GPUs are.
struct Alike {
  std::string instance;
  int node = 0, nodes = 1;
  double speed = 1;
};

std::vector<Alike> parts_of(const Scenario& scenario, const Prediction& p) {
  if (scenario.cluster.mixed.empty()) return {{p.instance}};
  std::vector<Alike> all;
  int first = 0;
  for (const MixedSpec& m : scenario.cluster.mixed) {
    all.push_back({m.instance, first, m.nodes, m.gpu_speed});
    first += m.nodes;
  }
  return all;
}

/// Of a micro-batch on such a GPU at full speed, with what is computed again.
ComputeTime time_on(const Gpu& gpu, const std::string& instance, const Scenario& scenario,
                    const Prediction& p, const Workload& workload) {
  const double again = recomputed_share(p.recompute) * p.recomputed_blocks;
  const double forward = 1 - training_constants().backward_share,
               arithmetic =
                   again > 0 ? 1 + again * forward / arithmetic_share(workload, p.sample) : 1,
               longer = again > 0 ? 1 + again * (1 - backward_share(workload, p.sample)) : 1;
  const std::optional<double> own = own_rate(*scenario.workload, p, instance, workload, gpu);
  const MicroBatch batch{workload, gpu, p.precision, p.sample, p.batch_per_gpu};
  ComputeTime time;
  if (own) {
    // A GPU of several that share the optimizer's states had its part of a step.
    const ShardingPlan& s = p.sharding;
    time = time_by_own(batch, {*own, 1.0 / (s.shard_ranks * s.tensor * s.stages), arithmetic},
                       *scenario.workload);
  } else {
    const bool horovod = scenario.allreduce.bucketing == Bucketing::horovod;
    time = compute_time(batch, horovod ? "" : "pytorch");
    const double more = again * (time.recomputing - 1);  // of the share of the peak
    time.forward_backward = time.forward_backward * (longer / (1 + more));
    time.launches = time.launches * longer;  // what is computed again is launched again
    if (more > 0)
      time.source = with_remark(
          time.source, fmt::format(" ({:.0f} % more of it with recomputation)", 100 * more));
    time.least = time.least * arithmetic;
    time.forward_backward = std::max(time.forward_backward, time.least);
  }
  time.undivided = undivided_by_tensors(batch);
  return time;
}

}  // namespace

GpuTime gpu_time(const Scenario& scenario, const Prediction& p, const Workload& workload,
                 const Cluster& cluster, double speed) {
  GpuTime all;
  double gpus = 0, peak = 0, slowest = 0;
  for (const Alike& part : parts_of(scenario, p)) {
    const Gpu& gpu = *cluster.node(part.node).machine().gpu;
    const double here = static_cast<double>(part.nodes) * gpu.count;
    ComputeTime its = time_on(gpu, part.instance, scenario, p, workload);
    const Seconds least = counted_at_peak({workload, gpu, p.precision, p.sample, p.batch_per_gpu});
    if (least.value > 0) peak += here / least.value;
    its.forward_backward = its.forward_backward / (part.speed * speed);
    its.launches = its.launches / (part.speed * speed);
    its.least = its.least / (part.speed * speed);
    its.optimizer = its.optimizer / part.speed;
    if (part.speed < 1)
      its.source += fmt::format("; {:.3g} % of that speed, as the scenario says", 100 * part.speed);
    const Seconds step =
        its.forward_backward * p.accumulation + its.optimizer + scenario.workload->step_overhead;
    const double rate = p.batch_per_gpu * p.accumulation / step.value;
    all.samples_per_s += here * rate;
    slowest = gpus > 0 ? std::min(slowest, rate) : rate;
    gpus += here;
    const Seconds longest = std::max(its.optimizer, all.slowest.optimizer);
    if (its.forward_backward > all.slowest.forward_backward) all.slowest = std::move(its);
    all.slowest.optimizer = longest;
  }
  all.samples_per_s /= gpus;
  all.slowest_rate = std::min(1.0, slowest / all.samples_per_s);
  if (peak > 0) all.at_peak = Seconds{gpus / peak};
  return all;
}

/// Copies of the model whose samples come into one node, at most. GPUs that divide products or
/// sequences read the same samples, and of a pipeline the first stage alone reads.
static int most_readers(const Prediction& p, const Cluster& cluster) {
  int gpus = 1;
  for (int n = 0; n < cluster.worker_nodes(); ++n)
    gpus = std::max(gpus, cluster.node(n).machine().gpus());
  return std::min(p.sharding.data_parallel(),
                  std::max(1, gpus / (p.sharding.tensor * p.sharding.context)));
}

StepInput step_input(const Scenario& scenario, const Prediction& p, const ComputeTime& compute,
                     const Workload& workload, double slowest, const Cluster& cluster) {
  StepInput in;
  const double backward = backward_share(workload, p.sample),
               again = (1 - backward) * recomputed_share(p.recompute) * p.recomputed_blocks;
  in.backward = compute.forward_backward * (backward + again) / (1 + again);
  in.forward = compute.forward_backward - in.backward;
  in.optimizer = compute.optimizer;
  in.overhead = scenario.workload->step_overhead;
  if (const auto rate = scenario.workload->input_rate)
    in.input = Seconds{static_cast<double>(p.batch_per_gpu) * p.accumulation *
                       most_readers(p, cluster) / *rate};
  in.least_compute = compute.least;
  in.launches = compute.launches;
  in.undivided = compute.undivided;
  in.accumulation = p.accumulation;
  in.every_micro_batch = p.sharding.synchronised == Synchronised::every_micro_batch;
  in.sums = scenario.allreduce.overlap;
  in.buckets = buckets_of(scenario.allreduce, workload, size_of(element_type(p.gradient)), p.bucket,
                          in.backward * slowest);
  return in;
}

Bytes smallest_memory(const Cluster& cluster) {
  Bytes least = cluster.node(0).machine().gpu->memory;
  for (int n = 1; n < cluster.worker_nodes(); ++n)
    least = std::min(least, cluster.node(n).machine().gpu->memory);
  return least;
}

}  // namespace foreduce
