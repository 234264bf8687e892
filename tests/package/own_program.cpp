// What an installed foreduce lets a user's own program do: simulate an all-reduce on a machine of
// the catalogue.
#include <cstdio>

#include "sim/collective.hpp"
#include "topologies/machine.hpp"

int main() {
  using namespace foreduce;
  const auto machine = std::make_shared<const Machine>(machine_named("p4d.24xlarge"));
  const Cluster cluster({machine, machine}, FabricSpec{});
  const CollectiveResult result =
      simulate({cluster, *find_algorithm("ring"), Plan{.segments = 0, .channels = 0}, 1 << 20});
  std::printf("%zu algorithms; a ring of 4 MiB takes %.0f us\n", algorithms().size(),
              result.time.value * 1e6);
}
