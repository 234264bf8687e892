// The own solver of shared links against SimGrid's: whole all-reduces that are drawn at random.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "models/nccl_schedule.hpp"
#include "models/profile.hpp"
#include "tests/support/simulation.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Draws clusters, and who sends what over them how.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  /// Elements: from one to 16 million, of any number.
  std::size_t count() {
    return static_cast<std::size_t>(
        std::exp(std::uniform_real_distribution(0.0, std::log(16e6))(random_)));
  }
  Cluster cluster(const Algorithm& algorithm) {
    static const std::vector<std::vector<const char*>> machines = {{"p3dn.24xlarge"},
                                                                   {"p4d.24xlarge"},
                                                                   {"p5.48xlarge"},
                                                                   {"g5.12xlarge"},
                                                                   {"g5.48xlarge"},
                                                                   {"p3.8xlarge"},
                                                                   {"p3.16xlarge"},
                                                                   {"p3dn.24xlarge", "g5.48xlarge"},
                                                                   {"p3.8xlarge", "p3.16xlarge"}};
    const auto& types = machines[below(machines.size())];
    std::vector<std::shared_ptr<const Machine>> nodes;
    for (const char* type : types) nodes.push_back(ec2(type));
    for (std::size_t more = below(5); more > 0; --more) nodes.push_back(nodes[below(types.size())]);
    first_ = types.front();
    const FabricSpec fabric{.nodes_per_leaf = static_cast<int>(below(3)),
                            .oversubscription = 1 + static_cast<double>(below(7)) / 2,
                            .placement_group = below(2) == 0};
    return Cluster(nodes, fabric, servers_for(algorithm));
  }
  /// By the data sheet, by the instance type's profile, or as NCCL would.
  Schedule schedule(const Cluster& cluster, const Algorithm& algorithm, double bytes) {
    const Layout layout = rank_layout(cluster);
    const Plan wanted{.segments = static_cast<int>(below(4)), .channels = 0, .inner = "ring"};
    const auto profile = std::make_shared<const Profile>(Profiles().made_for(first_));
    const std::size_t way = below(3);
    if (way == 0 && !profile->protocols.empty())
      return nccl_schedule({cluster, layout, profile}, Bytes{bytes});
    if (way == 1) return own_schedule(algorithm, wanted, {cluster, layout, profile}, Bytes{bytes});
    Schedule ideal;
    ideal.algorithm = &algorithm;
    ideal.plan = with_defaults(algorithm, wanted, layout, static_cast<std::size_t>(bytes));
    return ideal;
  }

 private:
  std::mt19937 random_;
  const char* first_ = "";
};

/// Seconds. SimGrid takes what is 1e-14 s apart for simultaneous, in each of the steps.
constexpr double kClock = 1e-13;

/// Whether the case of this number can run; if so, both solvers must give the same result.
bool same_by_both(unsigned number) {
  Draw draw(number);
  const Algorithm& drawn = *all_algorithms()[draw.below(all_algorithms().size())];
  const Cluster cluster = draw.cluster(drawn);
  const std::size_t count = draw.count();
  const Schedule schedule = draw.schedule(cluster, drawn, 4.0 * static_cast<double>(count));
  if (unsupported_reason(*schedule.algorithm, rank_layout(cluster), schedule.plan)) return false;
  SCOPED_TRACE(testing::Message() << "case " << number << ": " << schedule.algorithm->name << " of "
                                  << count << " elements on " << cluster.nodes() << " x "
                                  << cluster.node(0).machine().name);
  SimOptions own = draw.below(2) == 0 ? in_full() : by_symmetry();
  own.sending = schedule.sending;
  SimOptions judge = own;
  judge.solver = Solver::simgrid;
  const CollectiveCall asked{cluster, *schedule.algorithm, schedule.plan, count};
  const CollectiveResult want = simulate(asked, judge);
  expect_same_result(simulate(asked, own), want, 1e-9 + kClock / want.time.value);
  return true;
}

TEST(NetworkModel, BothSolversGiveTheSame) {
  int compared = 0;
  for (unsigned number = 0; number < 250; ++number) compared += same_by_both(number);
  EXPECT_GT(compared, 150);
}

}  // namespace
}  // namespace foreduce
