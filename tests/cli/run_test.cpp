// `run`: collectives in the columns of nccl-tests' programs, and what they are compared with.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "algorithms/core/registry.hpp"
#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// What a program of nccl-tests prints for 8 B and 1 MiB of floats on four ranks.
struct Columns {
  Collective collective;
  const char* redop;
  int root;
  int small_bytes, small_count;  ///< of the row for 8 B
  int count;                     ///< of the row for 1 MiB
  double bus_factor;
};
void PrintTo(const Columns& columns, std::ostream* out) { *out << name_of(columns.collective); }

class RunColumns : public testing::TestWithParam<Columns> {
 protected:
  static std::string arguments() {
    return fmt::format("run --ranks 4 --collective {} --sizes 8B,1MiB --iterations 2 --check ",
                       name_of(GetParam().collective));
  }
};

TEST_P(RunColumns, AreThoseOfNcclTests) {
  const Columns& due = GetParam();
  const Result r = foreduce_says(arguments());
  ASSERT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out,
              fmt::format("\n# Collective test starting: {}_perf\n", name_of(due.collective)));
  EXPECT_SAYS(r.out, fmt::format("# busbw = algbw x {:.4g};", due.bus_factor));
  EXPECT_SAYS(r.out, fmt::format("\n{:>12}  {:>12}     float  {:>6}  {:>6}  ", due.small_bytes,
                                 due.small_count, due.redop, due.root));
  EXPECT_SAYS(r.out, fmt::format("\n     1048576  {:>12}     float  {:>6}  {:>6}  ", due.count,
                                 due.redop, due.root));
  EXPECT_SAYS(r.out, "\n# Out of bounds values : 0 OK\n");
}

TEST_P(RunColumns, AreInJsonWithTheCollective) {
  const Columns& due = GetParam();
  const Result r = foreduce_says(arguments() + "--format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const auto report = nlohmann::json::parse(r.out);
  EXPECT_EQ(report.at("collective"), std::string(name_of(due.collective)));
  const auto& row = report.at("rows").at(1);
  EXPECT_EQ(row.at("bytes"), 1 << 20);
  EXPECT_EQ(row.at("count"), due.count);
  const auto& timing = row.at("in_place");
  EXPECT_EQ(timing.at("wrong"), 0);
  const double algbw = timing.at("algbw_GBps"), busbw = timing.at("busbw_GBps");
  EXPECT_NEAR(algbw, (1 << 20) / timing.at("median_s").get<double>() / 1e9, 1e-9 * algbw);
  EXPECT_NEAR(busbw, due.bus_factor * algbw, 1e-9 * algbw);
}

// Sizes, counts and operations: nccl-tests, src/*.cu; factors: its doc/PERFORMANCE.md.
INSTANTIATE_TEST_SUITE_P(
    Of, RunColumns,
    testing::Values(Columns{Collective::all_reduce, "sum", -1, 8, 2, 262144, 1.5},
                    Columns{Collective::reduce_scatter, "sum", -1, 0, 0, 65536, 0.75},
                    Columns{Collective::all_gather, "none", -1, 0, 0, 65536, 0.75},
                    Columns{Collective::broadcast, "none", 0, 8, 2, 262144, 1},
                    Columns{Collective::all_to_all, "none", -1, 0, 0, 65536, 0.75}),
    [](const auto& of) { return std::string(name_of(of.param.collective)); });

TEST_P(RunColumns, AreInCsvWithTheCollective) {
  const Columns& due = GetParam();
  const Result r = foreduce_says(arguments() + "--format csv");
  EXPECT_SAYS(r.out, "collective,algorithm,bytes,count,dtype,");
  EXPECT_SAYS(r.out, fmt::format("\n{},{},1048576,{},float,", name_of(due.collective),
                                 due.collective == Collective::all_to_all ? "pairwise" : "ring",
                                 due.count));
}

// 100 floats are 33 for each of three ranks, and those 8 times 16 bytes.
TEST(RunSizes, AreBlocksOfSixteenBytes) {
  const std::string rows =
      foreduce_says("run --ranks 3 --collective all_gather --sizes 400B --iterations 1").out;
  EXPECT_SAYS(rows, "\n         384            32     float ");
  EXPECT_SAYS(foreduce_says("run --ranks 3 --collective broadcast --sizes 400B --iterations 1").out,
              "\n         400           100     float ");
}

TEST(RunAverage, IsOfOneAlgorithm) {
  const std::string text =
      foreduce_says("run --ranks 2 --algorithm ring,direct --sizes 1KiB,1MiB --iterations 2").out;
  std::istringstream lines(text);
  std::vector<double> averages, busbw;
  for (std::string line; std::getline(lines, line);) {
    double average = 0, out = 0, in = 0;
    if (std::sscanf(line.c_str(), "# Avg bus bandwidth : %lf", &average) == 1) {
      ASSERT_EQ(busbw.size(), 4u) << text;
      // Of each column two decimals are printed.
      EXPECT_NEAR(average, (busbw[0] + busbw[1] + busbw[2] + busbw[3]) / 4, 0.006) << text;
      averages.push_back(average);
      busbw.clear();
    } else if (std::sscanf(line.c_str(), "%*d %*d float sum -1 %*f %*f %lf %*s %*f %*f %lf", &out,
                           &in) == 2) {
      busbw.insert(busbw.end(), {out, in});
    }
  }
  EXPECT_EQ(averages.size(), 2u) << text;
}

TEST(RunDefault, IsAnAlgorithmOfTheCollective) {
  for (const Collective collective : kCollectives) {
    const Result r = foreduce_says(
        fmt::format("run --ranks 2 --collective {} --sizes 1KiB --iterations 1 --format json",
                    name_of(collective)));
    ASSERT_EQ(r.status, 0) << r.out;
    EXPECT_EQ(nlohmann::json::parse(r.out).at("rows").at(0).at("algorithm"),
              collective == Collective::all_to_all ? "pairwise" : "ring");
  }
}

struct Refused {
  std::string arguments, part, hint;
};
void PrintTo(const Refused& refused, std::ostream* out) { *out << refused.arguments; }

class RunRefuses : public testing::TestWithParam<Refused> {};

// In fp32, the default, nobody measured it on H100, whose peak is in machines' files.
TEST(RunWorkload, KnowsThePeaksOfGpusThatShip) {
  const Result r = foreduce_says(
      "run --workload gpt2-124m --gpu H100 --ranks 2 --iterations 1 --warmup 0 --compute-scale "
      "0.01");
  EXPECT_EQ(r.status, 0) << r.out;
}

// What is replayed is how collectives hide behind computing, however its time is known.
TEST(RunWorkload, TakesAnEstimateOfWhatNobodyMeasured) {
  const Result r = foreduce_says(
      "run --workload gpt2-124m --ranks 2 --sharding zero3 --iterations 1 --warmup 0 "
      "--compute-scale 0.01");
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "\nCompute: 0.01 times the estimate, ");
}

TEST_P(RunRefuses, WithOneErrorThatSaysWhatIsAccepted) {
  const Result r = foreduce_says("run " + GetParam().arguments);
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_SAYS(r.out, GetParam().part);
  EXPECT_SAYS(r.out, GetParam().hint);
}

INSTANTIATE_TEST_SUITE_P(
    Usage, RunRefuses,
    testing::Values(
        Refused{"--collective allgather", "'allgather' is not accepted here",
                "did you mean 'all_gather'?"},
        Refused{"--collective reduce_scatter --algorithm ring,double-tree",
                "'double-tree' has no reduce-scatter",
                "these have: bruck, direct, hierarchical, nvls, pat, recursive-halving, ring, mpi, "
                "nccl"},
        Refused{"--collective alltoall --algorithm ring", "'ring' has no all-to-all",
                "these have: pairwise, mpi, nccl"},
        Refused{"--collective alltoall --algorithm pairwize",
                "there is no algorithm called 'pairwize'", "did you mean 'pairwise'?"},
        Refused{"--collective all_gather --workload resnet50",
                "replays all collectives of a training step", "leave --collective away"},
        Refused{"--sharding zero3", "--sharding is about a training step", "--workload"},
        Refused{"--workload resnet50 --hybrid 2", "--sharding is none", "--sharding zero3"},
        Refused{"--workload resnet50 --sharding zeroo3", "'zeroo3' is not accepted here",
                "did you mean 'zero3'?"},
        Refused{"--workload resnet50 --sharding zero3 --algorithm double-tree",
                "'double-tree' has no all-gather", "these have: bruck"},
        Refused{"--workload resnet50 --sharding zero3 --hybrid 3 --ranks 4",
                "4 data-parallel GPUs cannot be divided into sharding groups of 3", ""},
        Refused{"--workload resnet50 --sharding zero3 --ranks 1", "nobody to share with",
                "--ranks 2"},
        Refused{"--workload resnet50 --sharding zero2 --units 4 --ranks 2", "'4' has no unit",
                "MiB"},
        Refused{"--collective reduce_scatter --algorithm mpi --dtype f16",
                "MPI does not reduce f16", "--dtype f32"},
        Refused{"--collective all_gather --algorithm nccl", "GPUs' memory", "--transport cuda"},
        Refused{"--workload resnet50 --sharding zero2 --prefetch 3",
                "--sharding zero2 gathers none", "--sharding zero3"},
        Refused{"--workload resnet50 --sharding zero3 --bucket 1MiB",
                "--bucket cuts gradients that are all-reduced, and --sharding zero3 has units",
                "--units"},
        Refused{"--gpu A100 --sizes 1MiB", "--gpu: this says how a training step is replayed",
                "--workload resnet50"},
        Refused{"--workload resnet50 --check", "--check: this is of collectives by size",
                "leave it away"},
        Refused{"--algorithm ring --inner tree", "--inner: none of these algorithms",
                "--algorithm hierarchical"},
        Refused{"--algorithm ring --servers 3", "--servers: none of these algorithms",
                "--algorithm reduction-server"},
        Refused{"--transport ofi --workload gpt2-124m --ranks 2 --gpu V10",
                "nobody measured gpt2-124m on 'V10'", "V100"}));

}  // namespace
}  // namespace foreduce
