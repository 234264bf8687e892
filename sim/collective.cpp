#include "sim/collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "sim/network.hpp"

namespace foreduce {

CollectiveResult NetworkModel::result() const {
  CollectiveResult r;
  r.time = Seconds{end_};
  r.messages = messages_;
  r.symmetric = symmetry_.any();
  for (const auto& rank : ranks_) {
    r.traffic.push_back(rank->traffic());
    r.timeline.insert(r.timeline.end(), rank->timeline().begin(), rank->timeline().end());
  }
  std::map<std::string, LinkLoad> classes;
  for (std::size_t id = 0; id < links_.size(); ++id) {
    const double bytes = links_[symmetry_.link(id)].bytes * symmetry_.flows(id);
    if (bytes == 0) continue;
    const BytesPerSecond width = cluster_.link_bandwidth(id);
    const double utilisation = end_ > 0 ? bytes / (width.value * end_) : 0;
    LinkLoad& load = classes[cluster_.link_class(id)];
    if (utilisation < load.utilisation) continue;
    load = {cluster_.link_class(id), cluster_.link_kind(id), width, bytes, utilisation};
  }
  for (auto& [name, load] : classes) r.loads.push_back(std::move(load));
  std::stable_sort(r.loads.begin(), r.loads.end(), [](const LinkLoad& a, const LinkLoad& b) {
    return a.utilisation > b.utilisation + 1e-9;
  });
  r.bottleneck = r.loads.empty() || r.loads[0].utilisation < 0.5 ? "latency" : r.loads[0].link;
  return r;
}

CollectiveResult simulate_here(const AllReduce& asked, const SimOptions& options,
                               std::span<const Buffer> data) {
  const auto begin = std::chrono::steady_clock::now();
  const Cluster& cluster = asked.cluster;
  const Algorithm& algorithm = asked.algorithm;
  const std::size_t count = asked.count;
  const Type type = asked.type;
  const Layout layout = rank_layout(cluster);
  const Plan plan = with_defaults(algorithm, asked.plan, layout, count * size_of(type));
  if (const auto why = unsupported_reason(algorithm, layout, plan))
    throw input_error(fmt::format("{} cannot run here: {}", algorithm.name, *why));

  // Equal chunks are what makes channels and nodes alike. A count that does not divide is spread
  // evenly over one that does, which moves each chunk by less than an element.
  const bool use_symmetry = options.use_symmetry && data.empty();
  const SymmetryReduction symmetry =
      use_symmetry ? SymmetryReduction(cluster, layout, algorithm, plan, count)
                   : SymmetryReduction(cluster, layout);
  std::size_t elements = count;
  double element_bytes = static_cast<double>(size_of(type));
  if (symmetry.any() && count > 0) {
    elements = (count + symmetry.unit() - 1) / symmetry.unit() * symmetry.unit();
    element_bytes *= static_cast<double>(count) / static_cast<double>(elements);
  }

  NetworkModel network(
      cluster, layout, symmetry, element_bytes,
      algorithm.gpus_alike ? ChannelOrder::as_numbered : ChannelOrder::from_own_rail, options);
  network.run([&](Transport& t) {
    const Buffer buffer = data.empty() ? Buffer{nullptr, 0, elements, type}
                                       : data[static_cast<std::size_t>(t.rank())];
    algorithm.run(t, buffer, asked.op, plan, {});
  });
  CollectiveResult result = network.result();
  result.wall_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return result;
}

}  // namespace foreduce
