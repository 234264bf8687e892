#include "scenarios/sweep/gpu_time.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace foreduce {

namespace {

/// What the asker measured one GPU of an instance type to do in such a case, in samples a second.
std::optional<double> own_rate(const WorkloadSpec& asked, const Prediction& p,
                               const std::string& instance, const Workload& workload,
                               const Gpu& gpu) {
  if (asked.samples_per_s) return asked.samples_per_s;
  for (const OwnRate& m : asked.measured) {
    const bool its = instance == m.instance || instance.starts_with(m.instance + " (");
    if (!its || (!m.precision.empty() && m.precision != p.precision) ||
        (m.batch > 0 && m.batch != p.batch_per_gpu))
      continue;
    if (m.samples_per_s) return m.samples_per_s;
    if (m.mfu) {
      const Seconds least = compute_at_peak(workload, gpu, p.precision, p.sample, 1);
      if (least.value <= 0)
        throw input_error(
            fmt::format("mfu: the {} peak of {} is not known", p.precision, gpu.model),
            "samples_per_s");
      return *m.mfu / least.value;
    }
    const double tokens = tokens_of(p.sample);
    if (tokens <= 0)
      throw input_error(fmt::format("tokens_per_s: a sample of {} is no number of tokens", p.model),
                        "samples_per_s");
    return *m.tokens_per_s / tokens;
  }
  return std::nullopt;
}

/// Nodes of one instance type: the first of them, and how fast their GPUs are.
struct Alike {
  std::string instance;
  int node = 0;
  double speed = 1;
};

std::vector<Alike> parts_of(const Scenario& scenario, const Prediction& p) {
  if (scenario.cluster.mixed.empty()) return {{p.instance}};
  std::vector<Alike> all;
  int first = 0;
  for (const MixedSpec& m : scenario.cluster.mixed) {
    all.push_back({m.instance, first, m.gpu_speed});
    first += m.nodes;
  }
  return all;
}

}  // namespace

GpuTime slowest_compute(const Scenario& scenario, const Prediction& p, const Workload& workload,
                        const Cluster& cluster, std::string_view framework) {
  const WorkloadSpec& asked = *scenario.workload;
  std::optional<GpuTime> slow;
  for (const Alike& part : parts_of(scenario, p)) {
    const Gpu& gpu = *cluster.node(part.node).machine().gpu;
    const std::optional<double> own = own_rate(asked, p, part.instance, workload, gpu);
    GpuTime its{
        own ? compute_time(workload, gpu, p.precision, p.sample, p.batch_per_gpu, *own)
            : compute_time(workload, gpu, p.precision, p.sample, p.batch_per_gpu, framework),
        own ? RateFrom::asker : RateFrom::us};
    for (Seconds* time : {&its.time.forward_backward, &its.time.optimizer, &its.time.least})
      *time = *time / part.speed;
    if (part.speed < 1)
      its.time.source +=
          fmt::format("; {:.3g} % of that speed, as the scenario says", 100 * part.speed);
    if (!slow || its.time.forward_backward > slow->time.forward_backward) slow = std::move(its);
  }
  return *slow;
}

Bytes smallest_memory(const Cluster& cluster) {
  Bytes least = cluster.node(0).machine().gpu->memory;
  for (int n = 1; n < cluster.worker_nodes(); ++n)
    least = std::min(least, cluster.node(n).machine().gpu->memory);
  return least;
}

}  // namespace foreduce
