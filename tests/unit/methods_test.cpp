// Which algorithms are tried where none is asked for by name.
#include "scenarios/sweep/methods.hpp"

#include <gtest/gtest.h>

#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

// All algorithms took more than 150 s among 2,048 GPUs.
TEST(Methods, LeaveOutWhatTakesLongBesideASlowNode) {
  const auto why = [](const char* algorithm, int nodes) {
    std::vector machines(static_cast<std::size_t>(nodes), ec2("p4d.24xlarge"));
    machines.back() = ec2("p4de.24xlarge");
    return why_by_name_only(*find_algorithm(algorithm), Cluster(machines, {}));
  };
  EXPECT_SAYS(why("hierarchical", 65), "nodes differ");
  EXPECT_SAYS(why("reduction-server", 65), "nodes differ");
  EXPECT_EQ(why("hierarchical", 64), "");
  EXPECT_EQ(why("ring", 65), "");
  EXPECT_EQ(why_by_name_only(*find_algorithm("hierarchical"), cluster_of(ec2("p4d.24xlarge"), 65)),
            "");
}

}  // namespace
}  // namespace foreduce
