#include "scenarios/validation/training_runs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <stdexcept>

#include "models/statistics.hpp"
#include "scenarios/sweep/estimate.hpp"
#include "scenarios/validation/training_data.hpp"

namespace foreduce {
namespace {

using Times = std::map<std::size_t, CollectiveEstimate>;

/// Each run's all-reduces by their elements; equal ones are simulated once. Throws
/// std::runtime_error where one cannot be.
std::vector<Times> simulated(const std::vector<PublishedRun>& all, const BatchOptions& options) {
  std::vector<CollectiveRequest> requests;
  std::vector<std::vector<std::size_t>> numbers;
  std::map<std::string, std::size_t> asked;
  std::map<std::string, std::shared_ptr<const Cluster>> clusters;
  for (const PublishedRun& run : all) {
    const std::string where =
        fmt::format("{}|{}|{}|{}|{}", run.point.source, run.machine.name, run.point.nodes,
                    run.point.gpus, run.machine.nic.flow_limit.value);
    auto& cluster = clusters[where];
    if (!cluster)
      cluster =
          std::make_shared<const Cluster>(std::vector(static_cast<std::size_t>(run.point.nodes),
                                                      std::make_shared<const Machine>(run.machine)),
                                          FabricSpec{});
    auto& of = numbers.emplace_back();
    for (const Bucket& b : run.step.buckets) {
      const Bytes bytes{static_cast<double>(b.elements * run.element)};
      const auto [at, fresh] =
          asked.try_emplace(fmt::format("{}|{}", where, bytes.value), requests.size());
      if (fresh)
        requests.push_back({cluster, run.profile, bytes,
                            reported_method(std::nullopt, Collective::all_reduce, run.nccl)});
      of.push_back(at->second);
    }
  }
  const std::vector<CollectiveEstimate> estimates = estimate_collectives(requests, options);
  std::vector<Times> times(all.size());
  for (std::size_t j = 0; j < all.size(); ++j)
    for (std::size_t i = 0; i < numbers[j].size(); ++i) {
      const CollectiveEstimate& e = estimates[numbers[j][i]];
      if (!e.error.empty())
        throw std::runtime_error("an all-reduce could not be simulated: " + e.error);
      times[j][all[j].step.buckets[i].elements] = e;
    }
  return times;
}

/// Where a source's table does not say what a TCP flow got between its hosts, and it was not the
/// same between all: what its runs of one GPU a node say of each number of hosts (least sum of
/// absolute errors) is what its runs of several GPUs are predicted with.
class FlowFit {
 public:
  FlowFit(const std::vector<PublishedRun>& all, const BatchOptions& options) {
    for (const PublishedRun& run : all)
      if (gives(run)) {
        slow_.push_back(run);
        slow_.back().machine.nic.flow_limit = BytesPerSecond{kSlowest};
        fast_.push_back(run);
        fast_.back().machine.nic.flow_limit = BytesPerSecond{kFastest};
      }
    at_slow_ = simulated(slow_, options);
    at_fast_ = simulated(fast_, options);
    for (const PublishedRun& run : slow_)
      if (const auto [at, fresh] = flows_.try_emplace(run.point.nodes, kSlowest); fresh)
        at->second = best(run.point.nodes);
  }
  void apply(std::vector<PublishedRun>& all) const {
    for (PublishedRun& run : all) {
      const auto found = run.fit_flow ? flows_.find(run.point.nodes) : flows_.end();
      if (found == flows_.end()) continue;
      run.machine.nic.flow_limit = BytesPerSecond{found->second};
      run.point.flow = run.machine.nic.flow_limit;
      run.point.gave_flow = gives(run);
    }
  }

 private:
  static constexpr double kSlowest = 0.1e9, kFastest = 1.25e9;  // bytes/s
  static bool gives(const PublishedRun& run) {
    return run.fit_flow && run.point.nodes > 1 && run.point.gpus == run.point.nodes;
  }
  /// A ring's time is a latency and so many bytes over the flow's rate.
  double error(int nodes, double rate) const {
    const double part = (1 / rate - 1 / kFastest) / (1 / kSlowest - 1 / kFastest);
    double sum = 0;
    for (std::size_t j = 0; j < slow_.size(); ++j) {
      if (slow_[j].point.nodes != nodes) continue;
      const Step step = play_step(slow_[j].step, [&](std::size_t n) {
        return at_fast_[j].at(n).time + (at_slow_[j].at(n).time - at_fast_[j].at(n).time) * part;
      });
      sum += std::abs(std::log(slow_[j].point.measured_step / step.total.value));
    }
    return sum;
  }
  double best(int nodes) const {
    double flow = kSlowest;
    for (double rate = kSlowest, least = error(nodes, rate); rate < kFastest; rate *= 1.01)
      if (const double e = error(nodes, rate); e < least) {
        least = e;
        flow = rate;
      }
    return flow;
  }

  std::vector<PublishedRun> slow_, fast_;
  std::vector<Times> at_slow_, at_fast_;
  std::map<int, double> flows_;
};

void predict_step(PublishedRun& run, const Times& times) {
  const AllReduceTime usual = [&](std::size_t elements) { return times.at(elements).time; };
  const Step step = play_step(run.step, usual);
  const StepSpan span = span_of_step(
      run.step, usual, [&](std::size_t elements) { return times.at(elements).interval.low; },
      [&](std::size_t elements) { return times.at(elements).interval.high; },
      {training_constants().same_within, training_constants().same_within});
  run.point.low = span.low.value;
  run.point.high = span.high.value;
  run.point.predicted_step = step.total.value;
  run.point.predicted_efficiency = step.compute / step.total;
}

}  // namespace

std::vector<TrainingPoint> training_runs(const BatchOptions& options) {
  std::vector<PublishedRun> runs = published_runs();
  FlowFit(runs, options).apply(runs);
  const std::vector<Times> times = simulated(runs, options);
  std::vector<TrainingPoint> points;
  for (std::size_t j = 0; j < runs.size(); ++j) {
    predict_step(runs[j], times[j]);
    points.push_back(runs[j].point);
  }
  for (TrainingPoint& p : points)
    for (const TrainingPoint& one : points) {
      const double alone = p.measured_efficiency * p.measured_step,
                   there = one.measured_efficiency * one.measured_step;
      if (p.nodes > 1 && one.nodes == 1 && one.gpus * p.nodes == p.gpus && one.source == p.source &&
          one.library == p.library && one.workload == p.workload && one.precision == p.precision &&
          one.batch == p.batch && std::abs(alone / there - 1) < 1e-3)
        p.error_from_one_node =
            p.measured_step / one.measured_step / (p.predicted_step / one.predicted_step) - 1;
    }
  return points;
}

std::vector<TrainingErrors> training_errors(const std::vector<TrainingPoint>& points) {
  std::map<std::string, std::vector<const TrainingPoint*>> groups;
  std::vector<const TrainingPoint*> beyond, others;
  for (const TrainingPoint& p : points) {
    groups[p.source + (p.gave_flow    ? ", flows fitted"
                       : p.nodes == 1 ? ", one node"
                                      : ", more nodes")]
        .push_back(&p);
    if (p.nodes > 1 && !p.gave_flow) beyond.push_back(&p);
    if (p.nodes > 1 && p.flow.value == 0) others.push_back(&p);
  }
  std::vector<TrainingErrors> all;
  const auto sum_up = [&](const std::string& name, const std::vector<const TrainingPoint*>& of) {
    std::vector<double> absolute, signed_, efficiency, from_one_node;
    std::size_t inside = 0;
    for (const TrainingPoint* p : of) {
      absolute.push_back(std::abs(p->error()));
      signed_.push_back(p->error());
      efficiency.push_back(std::abs(p->predicted_efficiency - p->measured_efficiency));
      inside += p->low <= p->measured_step && p->measured_step <= p->high;
      if (p->error_from_one_node) from_one_node.push_back(std::abs(*p->error_from_one_node));
    }
    const auto worst = [](const std::vector<double>& errors) {
      return errors.empty() ? 0 : *std::max_element(errors.begin(), errors.end());
    };
    all.push_back({name, of.size(), median(absolute), worst(absolute), median(signed_),
                   of.empty() ? 0 : static_cast<double>(inside) / static_cast<double>(of.size()),
                   median(efficiency), from_one_node.size(), median(from_one_node),
                   worst(from_one_node)});
  };
  for (const auto& [name, of] : groups) sum_up(name, of);
  sum_up("all beyond one node", beyond);
  sum_up("the same without sources whose flow was fitted", others);
  return all;
}

}  // namespace foreduce
