// Collectives of several groups of GPUs in one node at once: tensor-parallel groups, and sharding
// groups of a part of a node.
#include <gtest/gtest.h>

#include "models/nccl_schedule.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/sweep/methods.hpp"
#include "tests/support/simulation.hpp"
#include "tests/support/sizes.hpp"

namespace foreduce::test {
namespace {

constexpr double kMebibyte = 1 << 20;

/// Groups of four of the eight GPUs of a node, neighbours or every second.
constexpr RankGroups kFours[] = {{4, 1}, {4, 2}};

double seconds_by_nccl(const char* algorithm, Collective collective, const Cluster& cluster,
                       RankGroups groups, double bytes) {
  const Layout all = rank_layout(cluster);
  const Layout layout = groups.whole() ? all : all.subset(groups.of(0));
  const auto profile = std::make_shared<const Profile>(Profiles().made_for("p5.48xlarge"));
  const Schedule schedule =
      nccl_schedule({cluster, layout, profile}, Bytes{bytes},
                    {value_named<NcclAlgorithm>(algorithm), NcclProtocol::simple}, collective);
  CollectiveCall call{cluster, *schedule.algorithm, schedule.plan, floats_in(bytes)};
  call.groups = groups;
  SimOptions options = in_full();
  options.sending = schedule.sending;
  return simulate(call, options).time.value;
}

/// The switch has a link for each GPU, so groups do not meet. They used to be refused, as if the
/// switch of a p5 could not reduce.
TEST(GroupsInANode, ReduceInTheSwitchAsANodeOfSoManyGpus) {
  const Machine whole = *ec2("p5.48xlarge");
  const Cluster eight = cluster_of(ec2("p5.48xlarge"), 1),
                four = cluster_of(std::make_shared<const Machine>(whole.with_gpus(4)), 1);
  for (const Collective c :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (const double bytes : {kMebibyte, 256 * kMebibyte})
      for (const RankGroups& groups : kFours) {
        const double alone = seconds_by_nccl("nvls", c, four, {}, bytes);
        EXPECT_GT(alone, 3.0 / 4 * bytes / 450e9);  // no link does more
        EXPECT_TRUE(close(seconds_by_nccl("nvls", c, eight, groups, bytes), alone, 1e-9))
            << title_of(c) << " of " << bytes << " bytes, stride " << groups.stride;
      }
}

// A group was one ring in rank order, over links that a mesh does not have: 20 GB/s for 80.
TEST(GroupsInANode, TakeTheRingsOfTheirMesh) {
  const Machine whole = *ec2("p3dn.24xlarge");
  const Cluster eight = cluster_of(ec2("p3dn.24xlarge"), 1),
                four = cluster_of(std::make_shared<const Machine>(whole.with_gpus(4)), 1);
  for (const Collective c :
       {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
    const double bytes = 256 * kMebibyte, alone = seconds_by_nccl("ring", c, four, {}, bytes);
    EXPECT_TRUE(close(seconds_by_nccl("ring", c, eight, {4, 1}, bytes), alone, 0.02))
        << title_of(c);
    // Every other GPU: links of 0, 2, 6 and 4 in turn, of which some are single.
    EXPECT_LT(seconds_by_nccl("ring", c, eight, {4, 2}, bytes), 2 * alone) << title_of(c);
  }
}

// Stages of a pipeline on three nodes begin in the middle of one, too.
TEST(GroupsInANode, AreReducedBySymmetryExactly) {
  const Cluster cluster = cluster_of(ec2("p5.48xlarge"), 3);
  for (const Algorithm* algorithm : all_algorithms())
    for (const RankGroups& groups : {RankGroups{4, 1}, RankGroups{4, 2}, RankGroups{2, 1},
                                     RankGroups{2, 4}, RankGroups{12, 2}}) {
      const Layout layout = rank_layout(cluster).subset(groups.of(0));
      const Plan plan = with_defaults(*algorithm, {.segments = 2}, layout, 0);
      if (algorithm->uses_servers || unsupported_reason(*algorithm, layout, plan)) continue;
      SCOPED_TRACE(testing::Message() << algorithm->name << ", groups of " << groups.size
                                      << ", stride " << groups.stride);
      const CollectiveCall call{cluster,   *algorithm, plan,  std::size_t{1} << 18,
                                Type::f32, Op::sum,    groups};
      expect_same_result(simulate(call, by_symmetry()), simulate(call, in_full()), 1e-9);
    }
}

/// What FSDP, HSDP and tensor parallelism ask for.
TEST(GroupsInANode, NcclAnswersForGroupsOfEverySize) {
  for (const char* instance : {"p4d.24xlarge", "p5.48xlarge", "p5en.48xlarge", "p6-b200.48xlarge"})
    for (const int nodes : {1, 2, 4, 32}) {
      const auto cluster = std::make_shared<const Cluster>(cluster_of(ec2(instance), nodes));
      const auto layout = std::make_shared<const Layout>(rank_layout(*cluster));
      const auto profile = std::make_shared<const Profile>(Profiles().made_for(instance));
      for (const RankGroups& groups : {RankGroups{2, 1}, RankGroups{4, 1}, RankGroups{2, 4},
                                       RankGroups{4 * nodes, 2}, RankGroups{2 * nodes, 4}})
        for (const Collective c :
             {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
          const Candidate nccl{method_named("nccl", "", c), cluster, profile, layout, 0, groups};
          EXPECT_EQ(nccl.unsupported(), "");
          for (double bytes = 1024; bytes < 1e10; bytes *= 32)
            EXPECT_NO_THROW(nccl.question(floats_in(bytes), Type::f32))
                << nodes << " x " << instance << ", " << title_of(c) << " of " << bytes
                << " bytes in groups of " << groups.size << ", stride " << groups.stride;
        }
    }
}

}  // namespace
}  // namespace foreduce::test
