// What other makers and clouds call machines that ship.
#include "topologies/other_names.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios/sweep/scenario.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"
#include "topologies/machine.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(OtherNames, NameAMachineThatShips) {
  const std::vector<std::string> known = machine_names();
  EXPECT_GE(other_names().size(), 20u);
  for (const auto& [pattern, said] : other_names()) {
    const std::string machine = said.substr(0, said.find(' '));
    EXPECT_NE(std::find(known.begin(), known.end(), machine), known.end()) << pattern;
    for (const std::string& name : known)
      EXPECT_FALSE(name.starts_with(pattern.substr(0, pattern.size() - 1)))
          << name << " ships itself";
  }
}

TEST(OtherNames, AreToldToWhoAsksForThem) {
  const auto error = [](const std::string& name) {
    return error_of([&] {
      parse_scenario("s.yaml",
                     "name: x\nworkload: { model: gpt2-124m, batch_per_gpu: 1 }\n"
                     "cluster: { instance: " +
                         name + ", nodes: 2 }\n");
    });
  };
  EXPECT_SAYS(error("dgx-h100"), "hgx-h100-ib has such GPUs\n");
  EXPECT_SAYS(error("ND96isr_H100_v5"), "hgx-h100-ib has such GPUs\n");
  EXPECT_SAYS(error("Standard_ND96amsr_A100_v4"), "dgx-a100 has such GPUs\n");
  EXPECT_SAYS(error("a3-highgpu-8g"),
              "hgx-h100-ib has such GPUs; its cards are slower and use GPUDirect-TCPX");
  EXPECT_SAYS(error("a3-ultragpu-8g"), "hgx-h200-ib has such GPUs");
  EXPECT_SAYS(error_of([] { machine_named("dgx-b200"); }), "hgx-b200-ib has such GPUs");
  EXPECT_SAYS(error("p4d.24xlarg"), "did you mean 'p4d.24xlarge'?");
}

}  // namespace
}  // namespace foreduce
