// The step model against published training runs. The limits are today's figures: accuracy must not
// rot; they say nothing of being good.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "models/statistics.hpp"
#include "models/workload.hpp"
#include "scenarios/validation/training_runs.hpp"

namespace foreduce {
namespace {

/// All runs, predicted once for all tests of a process.
const std::vector<TrainingPoint>& runs() {
  static const std::vector<TrainingPoint> all = training_runs(BatchOptions{});
  return all;
}

std::map<std::string, TrainingErrors> errors_by_group() {
  std::map<std::string, TrainingErrors> errors;
  for (const TrainingErrors& e : training_errors(runs())) errors[e.group] = e;
  return errors;
}

TEST(TrainingRuns, ErrorsStayWithinTodaysFigures) {
  auto errors = errors_by_group();
  struct Limit {
    const char* group;
    std::size_t n;
    double median, efficiency;
  };
  for (const Limit& l : {Limit{"adaptdl-g4dn, one node", 39, 0.02, 0.02},
                         {"adaptdl-g4dn, flows fitted", 56, 0.03, 0.02},
                         {"adaptdl-g4dn, more nodes", 152, 0.076, 0.052},
                         {"dlperf, one node", 54, 0.045, 0.042},
                         {"dlperf, more nodes", 32, 0.175, 0.142},
                         {"pytorch-ddp-bench, one node", 6, 0.023, 0.022},
                         {"pytorch-ddp-bench, more nodes", 2, 0.036, 0.034},
                         {"aws-samples-dlm, more nodes", 3, 0.215, 0.17},
                         {"dle, one node", 39, 0.026, 0.024},
                         {"csc-ml-benchmarks, one node", 10, 0.043, 0.041},
                         {"csc-ml-benchmarks, more nodes", 6, 0.052, 0.048},
                         {"mlperf-v1.0, more nodes", 3, 0.06, 0.055},
                         {"mlperf-v1.1, more nodes", 6, 0.068, 0.066},
                         {"all beyond one node", 204, 0.078, 0.057}}) {
    ASSERT_EQ(errors.count(l.group), 1u) << l.group;
    EXPECT_EQ(errors[l.group].n, l.n) << l.group;
    EXPECT_LE(errors[l.group].median, l.median) << l.group;
    EXPECT_LE(errors[l.group].efficiency, l.efficiency) << l.group;
  }
}

// The 90 % prediction interval holds on one node and over TCP; DLPerf's frameworks lose more than
// any of it explains.
TEST(TrainingRuns, IntervalsHoldWhatTheyHoldToday) {
  auto errors = errors_by_group();
  EXPECT_GE(errors["adaptdl-g4dn, one node"].inside, 0.9);
  EXPECT_GE(errors["dle, one node"].inside, 0.89);
  EXPECT_GE(errors["all beyond one node"].inside, 0.81);
  ASSERT_EQ(errors.count("the same without sources whose flow was fitted"), 1u);
  EXPECT_GE(errors["the same without sources whose flow was fitted"].inside, 0.59);
}

// models/training.yaml, same_within: 90 % of the steps on one node, and what it would hold of a
// source that had no part in it.
TEST(TrainingRuns, ComputeFactorHoldsNinetyPercentOnOneNode) {
  std::map<std::string, std::vector<double>> factors;
  std::vector<double> all;
  for (const TrainingPoint& p : runs())
    if (p.nodes == 1) {
      all.push_back(std::exp(std::abs(std::log(p.measured_step / p.predicted_step))));
      factors[p.source].push_back(all.back());
    }
  const auto within = [](const std::vector<double>& some, double factor) {
    return static_cast<double>(
        std::count_if(some.begin(), some.end(), [&](double f) { return f <= factor; }));
  };
  EXPECT_EQ(all.size(), 148u);
  EXPECT_GE(within(all, training_constants().same_within), 0.9 * 148);
  double held = 0;
  for (const auto& [left, its] : factors) {
    std::vector<double> others;
    for (const auto& [source, some] : factors)
      if (source != left) others.insert(others.end(), some.begin(), some.end());
    held += within(its, quantile(others, 0.9));
  }
  EXPECT_NEAR(held / 148, 0.89, 0.005);
}

TEST(TrainingRuns, PointsAreThePublishedOnes) {
  const auto found = std::find_if(runs().begin(), runs().end(), [](const TrainingPoint& p) {
    return p.source == "dlperf" && p.nodes == 4 && p.precision == Precision::fp32 &&
           p.library.find("NGC 20.03") != std::string::npos;
  });
  ASSERT_NE(found, runs().end());
  EXPECT_NEAR(found->measured_step, 128 * 32 / 10917.09, 1e-9);
  EXPECT_NEAR(found->measured_efficiency, 0.9287, 2e-4);  // as printed
  for (const TrainingPoint& p : runs()) {
    EXPECT_GT(p.predicted_efficiency, 0.05) << p.line;
    EXPECT_LE(p.predicted_efficiency, 1) << p.line;
  }
}

// A flow is fitted to the runs of one GPU a node alone, and every other run on as many hosts is
// predicted with it and counts.
TEST(TrainingRuns, FlowsComeFromOneGpuANode) {
  std::map<int, double> flows;
  for (const TrainingPoint& p : runs()) {
    EXPECT_EQ(p.gave_flow, p.source == "adaptdl-g4dn" && p.nodes > 1 && p.gpus == p.nodes)
        << p.line;
    if (p.gave_flow) flows[p.nodes] = p.flow.value;
  }
  EXPECT_EQ(flows.size(), 7u);
  for (const auto& [nodes, rate] : flows) {
    EXPECT_GT(rate, 0.3e9) << nodes;  // within the range searched, not at its ends
    EXPECT_LT(rate, 1e9) << nodes;
  }
  for (const TrainingPoint& p : runs()) {
    const bool fitted = p.source == "adaptdl-g4dn" && p.nodes > 1;
    EXPECT_EQ(p.flow.value, fitted ? flows.at(p.nodes) : 0) << p.line;
  }
}

// MLPerf v1.0, BERT-large on 8 nodes: 15,735 samples/s of 64 GPUs with 48 each; one node does
// 2,156.5 with 56, so that batch takes 207.7 ms there, and 48 six sevenths of it but for what every
// batch costs.
TEST(TrainingRuns, TakesComputeFromTheSameTablesOneNode) {
  const auto found = std::find_if(runs().begin(), runs().end(), [](const TrainingPoint& p) {
    return p.source == "mlperf-v1.0" && p.nodes == 8 && p.workload == "bert-large";
  });
  ASSERT_NE(found, runs().end());
  EXPECT_NEAR(found->measured_step, 48 * 64 / 15735.0, 1e-9);
  const double one_node = 56 * 8 / 2156.5;
  EXPECT_GT(found->measured_efficiency * found->measured_step, one_node * 48 / 56);
  EXPECT_LT(found->measured_efficiency * found->measured_step, one_node * 48 / 56 + 0.001);
}

// By hand: MXNet's 256 images a GPU, AMP, 8 GPUs a node.
TEST(TrainingRuns, ComparesWithTheSameGpusOfOneNode) {
  const auto of = [&](int nodes) -> const TrainingPoint& {
    return *std::find_if(runs().begin(), runs().end(), [&](const TrainingPoint& p) {
      return p.source == "dlperf" && p.library == "MXNet" && p.precision == Precision::fp16 &&
             p.gpus == 8 * nodes;
    });
  };
  EXPECT_FALSE(of(1).error_from_one_node);
  ASSERT_TRUE(of(4).error_from_one_node);
  // 2,909 and 10,566 images/s; the prediction loses 2.1 % on the way.
  EXPECT_NEAR(of(4).measured_step / of(1).measured_step, 4 * 2908.88 / 10565.55, 1e-3);
  EXPECT_NEAR(*of(4).error_from_one_node, 0.079, 0.005);
}

}  // namespace
}  // namespace foreduce
