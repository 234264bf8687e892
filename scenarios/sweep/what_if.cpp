// What would help a point: it is estimated again with one thing changed at a time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <variant>

#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/explain.hpp"

namespace foreduce {
namespace {

/// A scenario with one way to run collectives and one size of buckets, and the number that the
/// explained point has in it.
struct OnePoint {
  Scenario scenario;
  std::size_t number = 0;
};

const Comparison* collective_of(const Explanation& e) { return std::get_if<Comparison>(&e.point); }
const Prediction* step_of(const Explanation& e) { return std::get_if<Prediction>(&e.point); }

std::size_t number_of(const Explanation& e) {
  return std::visit([](const auto& p) { return p.number; }, e.point);
}

/// Methods, and buckets of a step, are the last axes.
OnePoint alone(const Scenario& scenario, const Explanation& e) {
  OnePoint one{scenario, number_of(e)};
  AllReduceSpec& spec = one.scenario.allreduce;
  const bool step = step_of(e) != nullptr;
  if (step) {
    const std::size_t buckets = std::max<std::size_t>(1, spec.bucket.values.size());
    if (!spec.bucket.values.empty())
      spec.bucket.values = {spec.bucket.values[one.number % buckets]};
    one.number /= buckets;
  }
  const auto methods =
      methods_of(spec, step ? Collective::all_reduce : collective_of(e)->collective,
                 step ? MethodUse::step : MethodUse::one_collective);
  if (methods.empty()) return one;
  const Method& m = methods[one.number % methods.size()];
  one.number /= methods.size();
  spec.profile.values = {m.profile};
  spec.nccl = {};
  spec.algorithm.values = {m.kind == MethodKind::ours ? std::string(m.algorithm->name) : m.name()};
  if (m.kind == MethodKind::nccl) {
    spec.algorithm.values = {"nccl"};
    if (m.algorithm)
      if (const NcclAlgorithmNames* names = nccl_names_of(m.algorithm->name))
        spec.nccl.algo.values = {names->variable};
    if (m.protocol) spec.nccl.proto.values = {*m.protocol};
    if (m.nccl_channels > 0) spec.nccl.channels.values = {m.nccl_channels};
    if (!m.nccl_release.empty()) spec.nccl.version.values = {m.nccl_release};
    if (m.nccl_buffer.value > 0) spec.nccl.buffsize.values = {m.nccl_buffer};
  }
  if (!m.inner.empty()) spec.inner.values = {m.inner};
  else spec.inner.values.resize(1);
  spec.segments.values = {m.segments};
  spec.protocol.values = {m.kind == MethodKind::ours && m.protocol ? m.protocol_word() : "auto"};
  if (m.servers > 0) spec.servers.count.values = {m.servers};
  else spec.servers.count.values.resize(1);
  return one;
}

/// A number of a profile, if it has that.
template <class Q>
void scale(std::optional<Estimated<Q>>& number, double factor) {
  if (number) number->value = number->value * factor;
}

void double_nics(Machine& m) {
  m.nic.bandwidth = m.nic.bandwidth * 2;
  m.nic.baseline_bandwidth = m.nic.baseline_bandwidth * 2;
}
void double_pcie(Machine& m) {
  if (!m.pcie) return;
  m.pcie->bandwidth = m.pcie->bandwidth * 2;
  m.pcie->uplink = m.pcie->uplink * 2;
}

/// What hardware and messages would have to be like.
std::vector<std::pair<ChangeKind, Change>> changes_of_machines() {
  const auto network = [](Profile& p) -> LinkClass& { return p.of(PathClass::network); };
  return {{ChangeKind::nic_bandwidth, {double_nics, {}}},
          {ChangeKind::network_latency,
           {[](Machine& m) { m.nic.latency = m.nic.latency / 2; },
            [network](Profile& p) { scale(network(p).latency, 0.5); }}},
          {ChangeKind::message_cost,
           {[](Machine& m) { m.nic.message_overhead = m.nic.message_overhead / 2; },
            [network](Profile& p) {
              scale(network(p).overhead, 0.5);
              scale(network(p).proxy_rate, 2);
              for (Protocol& protocol : p.protocols) {
                for (auto* time : {&protocol.overhead, &protocol.net_hop, &protocol.rdma_ring_hop,
                                   &protocol.gap})
                  scale(*time, 0.5);
                scale(protocol.proxy_rate, 2);
              }
            }}},
          {ChangeKind::nvlink_bandwidth,
           {[](Machine& m) {
              if (m.nvlink) m.nvlink->bandwidth = m.nvlink->bandwidth * 2;
            },
            {}}},
          {ChangeKind::nvlink_latency,
           {[](Machine& m) {
              if (m.nvlink) m.nvlink->latency = m.nvlink->latency / 2;
            },
            [](Profile& p) {
              scale(p.of(PathClass::nvlink).latency, 0.5);
              for (Protocol& protocol : p.protocols) scale(protocol.hop, 0.5);
            }}},
          {ChangeKind::pcie_bandwidth, {double_pcie, {}}},
          {ChangeKind::nic_and_pcie_bandwidth,
           {[](Machine& m) {
              double_nics(m);
              double_pcie(m);
            },
            {}}},
          {ChangeKind::reduction,
           {[](Machine& m) {
              if (m.gpu) m.gpu->reduce_bandwidth = m.gpu->reduce_bandwidth * 2;
              if (m.host) m.host->reduce_bandwidth = m.host->reduce_bandwidth * 2;
            },
            [](Profile& p) {
              scale(p.reduce_bandwidth, 2);
              for (Protocol& protocol : p.protocols)  // by which a channel's threads copy and add
                for (auto* rate : {&protocol.channel_rate, &protocol.net_channel_rate})
                  scale(*rate, 2);
            }}}};
}

/// What NCCL chooses of a point.
std::vector<ScheduleName> chosen_of(const Comparison& point) { return {point.chosen}; }
std::vector<ScheduleName> chosen_of(const Prediction& point) { return point.chosen; }

/// Estimates the explained point's variants, and keeps those that have an answer.
class Changes {
 public:
  Changes(const Explanation& e, OnePoint one, const SweepOptions& options)
      : explained_(e), one_(std::move(one)), options_(options) {
    options_.recording = Recording::off;
    if (const Comparison* c = collective_of(e))  // as the explained point was simulated
      if (c->recorded) options_.batch.long_pipelines = LongPipelines::simulate_whole;
  }

  /// With another machine or other messages.
  void machines(ChangeKind kind, const Change& change) {
    options_.change = change;
    estimate({.kind = kind}, one_.scenario);
    options_.change = {};
  }
  /// With something else in the scenario.
  void scenario(WhatIf what, const std::function<void(Scenario&)>& edit) {
    Scenario other = one_.scenario;
    edit(other);
    estimate(std::move(what), other);
  }
  const OnePoint& one() const { return one_; }
  std::vector<WhatIf> all() && {
    std::stable_sort(all_.begin(), all_.end(),
                     [](const WhatIf& a, const WhatIf& b) { return a.saved > b.saved; });
    return std::move(all_);
  }

 private:
  void estimate(WhatIf what, const Scenario& scenario) {
    if (options_.batch.stop && options_.batch.stop()) return;
    options_.shard = {};
    options_.shard.only = one_.number;
    try {
      if (step_of(explained_)) {
        const auto sweep = predict(scenario, options_);
        if (!sweep.points.front().error.empty()) return;
        what.time = sweep.points.front().step.total;
        what.chosen = chosen_of(sweep.points.front());
      } else {
        const auto sweep = compare(scenario, options_);
        if (!sweep.points.front().error.empty()) return;
        what.time = sweep.points.front().time;
        what.chosen = chosen_of(sweep.points.front());
      }
    } catch (const InputError&) {  // that cannot be: it is no way out
      return;
    }
    what.saved = explained_.time - what.time;
    const std::vector<ScheduleName> before =
        std::visit([](const auto& point) { return chosen_of(point); }, explained_.point);
    if (what.kind == ChangeKind::algorithm || what.chosen == before) what.chosen.clear();
    all_.push_back(std::move(what));
  }

  const Explanation& explained_;
  OnePoint one_;
  SweepOptions options_;
  std::vector<WhatIf> all_;
};

/// Whether a link of that kind is used.
bool uses(const ClusterLoads& loads, LinkKind kind) {
  return std::any_of(loads.loads.begin(), loads.loads.end(),
                     [kind](const LinkLoad& l) { return l.kind == kind; });
}

/// Whether links of both kinds are about as busy, so that neither alone is what limits.
bool as_busy(const ClusterLoads& loads, LinkKind one, LinkKind other) {
  const auto most = [&](LinkKind kind) {
    double busiest = 0;
    for (const LinkLoad& l : loads.loads)
      if (l.kind == kind) busiest = std::max(busiest, l.utilisation);
    return busiest;
  };
  return std::min(most(one), most(other)) >= kAsBusy * std::max(most(one), most(other)) &&
         most(one) > 0;
}

void change_machines(Changes& changes, const ClusterLoads& loads) {
  for (const auto& [kind, change] : changes_of_machines()) {
    if (kind == ChangeKind::nic_and_pcie_bandwidth &&
        !as_busy(loads, LinkKind::network, LinkKind::pcie))
      continue;
    const bool network = kind == ChangeKind::nic_bandwidth || kind == ChangeKind::network_latency ||
                         kind == ChangeKind::message_cost,
               nvlink = kind == ChangeKind::nvlink_bandwidth || kind == ChangeKind::nvlink_latency;
    if ((network && !uses(loads, LinkKind::network)) ||
        (nvlink && !uses(loads, LinkKind::nvlink)) ||
        (kind == ChangeKind::pcie_bandwidth && !uses(loads, LinkKind::pcie)))
      continue;
    changes.machines(kind, change);
  }
}

void change_cluster(Changes& changes) {
  const FabricFields& fabric = changes.one().scenario.cluster.fabric;
  if (fabric.nodes_per_leaf > 0 &&
      std::any_of(fabric.oversubscription.values.begin(), fabric.oversubscription.values.end(),
                  [](double o) { return o > 1; }))
    changes.scenario({.kind = ChangeKind::oversubscription}, [](Scenario& s) {
      for (double& o : s.cluster.fabric.oversubscription.values) o = 1;
    });
  const auto& placed = fabric.placement.values;
  if (fabric.nodes_per_leaf > 0 &&
      std::find(placed.begin(), placed.end(), Placement::spread) != placed.end())
    changes.scenario({.kind = ChangeKind::placement}, [](Scenario& s) {
      for (Placement& p : s.cluster.fabric.placement.values) p = Placement::packed;
    });
}

void change_algorithm(Changes& changes, Collective collective, const Cluster& cluster) {
  const std::string now = changes.one().scenario.allreduce.algorithm.first();
  for (const std::string& name : method_names(collective)) {
    if (name == "best" || name == now) continue;
    const Algorithm* own = find_algorithm(name, collective);
    if (own && !why_by_name_only(*own, cluster).empty()) continue;  // as for `best`
    changes.scenario({.kind = ChangeKind::algorithm, .word = name}, [&](Scenario& s) {
      s.allreduce.algorithm.values = {name};
      s.allreduce.nccl = {};
      s.allreduce.segments.values = {0};
      s.allreduce.protocol.values = {"auto"};
    });
  }
}

void change_step(Changes& changes, const Prediction& p) {
  if (p.sharding.is_ddp())
    for (const double factor : {0.25, 0.5, 2.0, 4.0}) {
      const Bytes bucket = p.bucket * factor;
      changes.scenario({.kind = ChangeKind::bucket, .bytes = bucket},
                       [bucket](Scenario& s) { s.allreduce.bucket.values = {bucket}; });
    }
  if (p.gradient == Precision::fp32)
    changes.scenario({.kind = ChangeKind::gradient, .word = "fp16"}, [](Scenario& s) {
      auto& types = s.workload->gradient.values;
      types.resize(std::max<std::size_t>(1, types.size()));
      for (Precision& type : types) type = Precision::fp16;
    });
  changes.machines(ChangeKind::compute, {{}, {}, 2});
}

}  // namespace

std::vector<WhatIf> what_would_help(const Scenario& scenario, const Explanation& e,
                                    const SweepOptions& options) {
  Changes changes(e, alone(scenario, e), options);
  const auto loads = std::visit([](const auto& p) { return p.loads; }, e.point);
  if (loads) change_machines(changes, *loads);
  change_cluster(changes);
  const Prediction* p = step_of(e);
  if (p) change_step(changes, *p);
  if (!changes.one().scenario.allreduce.algorithm.values.empty() && loads && !loads->loads.empty())
    change_algorithm(changes, p ? Collective::all_reduce : collective_of(e)->collective,
                     *loads->cluster);
  return std::move(changes).all();
}

}  // namespace foreduce
