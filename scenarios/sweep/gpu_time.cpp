#include "scenarios/sweep/gpu_time.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreduce {

ComputeTime slowest_compute(const Workload& workload, const Cluster& cluster,
                            const std::string& precision, const std::string& sample, int batch,
                            std::string_view framework) {
  ComputeTime slow;
  for (int n = 0; n < cluster.worker_nodes(); ++n) {
    if (n > 0 && &cluster.node(n) == &cluster.node(n - 1)) continue;
    const ComputeTime t =
        compute_time(workload, *cluster.node(n).machine().gpu, precision, sample, batch, framework);
    if (n == 0 || t.forward_backward > slow.forward_backward) slow = t;
  }
  return slow;
}

Bytes smallest_memory(const Cluster& cluster) {
  Bytes least = cluster.node(0).machine().gpu->memory;
  for (int n = 1; n < cluster.worker_nodes(); ++n)
    least = std::min(least, cluster.node(n).machine().gpu->memory);
  return least;
}

std::optional<double> own_rate(const WorkloadSpec& asked, const Prediction& p,
                               const Workload& workload, const Gpu& gpu) {
  if (asked.samples_per_s) return asked.samples_per_s;
  for (const OwnRate& m : asked.measured) {
    const bool its = p.instance == m.instance || p.instance.starts_with(m.instance + " (");
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

}  // namespace foreduce
