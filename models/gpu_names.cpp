#include "models/gpu_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace foreduce {
namespace {

const std::vector<Gpu>& catalogue_gpus() {
  static const std::vector<Gpu> all = [] {
    std::vector<Gpu> gpus;
    const Catalogue catalogue;
    for (const std::string& name : catalogue.names())
      if (const Machine machine = catalogue.load(name); machine.gpu) gpus.push_back(*machine.gpu);
    return gpus;
  }();
  return all;
}

bool has_gpu(const Cluster& cluster, const std::string& family) {
  for (int n = 0; n < cluster.nodes(); ++n)
    if (const auto& gpu = cluster.node(n).machine().gpu; gpu && is_model(gpu->model, family))
      return true;
  return false;
}

}  // namespace

const Gpu* known_gpu(const std::string& family) {
  const Gpu* fastest = nullptr;
  for (const Gpu& gpu : catalogue_gpus())
    if (is_model(gpu.model, family) &&
        (!fastest || gpu.memory_bandwidth > fastest->memory_bandwidth))
      fastest = &gpu;
  return fastest;
}

std::string suggest_gpu(const std::string& family) {
  std::set<std::string> families;
  for (const Gpu& known : catalogue_gpus()) families.insert(family_of(known));
  return suggest(family, {families.begin(), families.end()});
}

void require_known_gpus(const Workload& workload,
                        const std::vector<std::shared_ptr<const Cluster>>& clusters) {
  for (const Measured& m : workload.measured) {
    const bool known =
        known_gpu(m.gpu) || std::any_of(clusters.begin(), clusters.end(),
                                        [&](const auto& c) { return c && has_gpu(*c, m.gpu); });
    if (!known)
      throw input_error(fmt::format("workload {}: measured: no instance type, and no machine of "
                                    "this scenario, has a GPU called '{}'",
                                    workload.name, m.gpu),
                        suggest_gpu(m.gpu));
  }
}

}  // namespace foreduce
