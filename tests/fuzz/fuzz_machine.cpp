// libFuzzer: any bytes are a machine whose graph, routes and exports can be made, or an InputError.
// Build with the preset dev, run build/dev/tests/fuzz_machine -max_total_time=60 CORPUS
// topologies/ec2
#include "tests/fuzz/harness.hpp"
#include "topologies/cluster.hpp"
#include "topologies/export_nccl.hpp"
#include "topologies/export_simgrid.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreduce;
  const std::string file = fuzz::folder().write("machine.yaml", fuzz::text_of(data, size));
  fuzz::accepted_or_refused([&] {
    const auto machine = std::make_shared<const Machine>(load_machine(file));
    text_of(*machine);
    fuzz::accepted_or_refused([&] { to_nccl_topology(*machine); });
    // Of 72 GPUs all pairs take longer than a hundred other files.
    constexpr int kFew = 16;
    if (machine->gpus() <= kFew) {
      const Cluster cluster({machine, machine}, FabricSpec{});
      cluster.binding_links();
      cluster.dot();
      fuzz::accepted_or_refused([&] { to_simgrid(cluster); });
    }
    if (machine->gpus() > 1) machine->with_gpus(machine->gpus() - 1);
  });
  return 0;
}
