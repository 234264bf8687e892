// Ranks on a simulated network, from the first verb to the result.
#include <algorithm>
#include <map>

#include "sim/engine/network.hpp"
#include "sim/simulator.hpp"

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
  std::map<std::string, std::size_t> busiest;
  for (std::size_t id = 0; id < links_.size(); ++id) {
    const double bytes = links_.carried(id);
    if (bytes == 0) continue;
    const BytesPerSecond width = cluster_.link_bandwidth(id);
    const double utilisation = end_ > 0 ? bytes / (width.value * end_) : 0;
    LinkLoad& load = classes[cluster_.link_class(id)];
    if (utilisation < load.utilisation) continue;
    load = {cluster_.link_class(id), cluster_.link_kind(id), width, bytes, utilisation};
    busiest[load.link] = id;
  }
  if (cluster_.nodes() <= kMostDetailedNodes)
    for (std::size_t id = 0; id < cluster_.link_count(); ++id) {
      const double bytes = links_.carried(id % links_.size());  // one node may stand for all
      const double most = cluster_.link_bandwidth(id).value * end_;
      r.utilisations.push_back(most > 0 ? bytes / most : 0);
    }
  if (log_) record_into(r.record, classes, busiest);
  for (auto& [name, load] : classes) r.loads.push_back(std::move(load));
  rank_loads(r);
  return r;
}

void NetworkModel::record_into(CollectiveRecord& record,
                               const std::map<std::string, LinkLoad>& classes,
                               const std::map<std::string, std::size_t>& busiest) const {
  const bool all = options_.record == Recorded::all;
  if (options_.record != Recorded::path) record.messages = log_->messages();
  if (options_.record == Recorded::messages) return;
  std::map<std::string, std::size_t> number;
  for (const auto& [name, id] : busiest) {
    number[name] = record.links.size();
    record.links.push_back({name, classes.at(name).bytes, {}});
    if (all) record.links.back().rates = log_->rates_on(symmetry_.link(id), symmetry_.flows(id));
  }
  record.path = log_->path_to(last_event_);
  std::map<std::size_t, std::size_t> kept;
  for (PathStep& step : record.path) {
    if (step.link != PathStep::kNone) step.link = number.at(cluster_.link_class(step.link));
    if (all || step.message == PathStep::kNone) continue;
    const auto [at, fresh] = kept.try_emplace(step.message, record.messages.size());
    if (fresh) record.messages.push_back(log_->messages()[step.message]);
    step.message = at->second;
  }
}

std::optional<CollectiveResult> run_ranks(const SimulatedNetwork& on,
                                          const std::function<void(Transport&)>& rank_function) {
  NetworkModel network(on);
  network.run(rank_function);
  if (network.abandoned()) return std::nullopt;
  return network.result();
}

}  // namespace foreduce
