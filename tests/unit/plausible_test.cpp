// Values of machines that no hardware has.
#include "topologies/plausible.hpp"

#include <gtest/gtest.h>

#include "scenarios/report/machine_words.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

TEST(ImplausibleValues, AreThereInNoMachineThatShips) {
  for (const std::string& name : machine_names())
    for (const ImplausibleValue& v : implausible_values(machine_named(name)))
      ADD_FAILURE() << name << ": " << implausible_words(v);
}

/// What is said of the one odd value of a p5.48xlarge that `change` made; empty if nothing is.
template <class Change>
std::string said_of(Change change) {
  Machine m = machine_named("p5.48xlarge");
  change(m);
  const auto odd = implausible_values(m);
  EXPECT_LE(odd.size(), 1u);
  return odd.empty() ? "" : implausible_words(odd.front());
}

TEST(ImplausibleValues, NameACardsRateInBits) {
  const std::string said = said_of([](Machine& m) { m.nic.bandwidth = BytesPerSecond{400e9}; });
  EXPECT_EQ(said,
            "nic.bandwidth: 400 GB/s is 3.2 Tb/s a card; cards have up to 1.6 Tb/s; did you mean "
            "400 Gb/s?");
  EXPECT_EQ(said_of([](Machine& m) { m.nic.bandwidth = BytesPerSecond{200e9}; }), "");
}

TEST(ImplausibleValues, AreToldOfEveryLinkAndLatency) {
  EXPECT_SAYS(said_of([](Machine& m) { m.nvlink->bandwidth = BytesPerSecond{900e9}; }),
              "nvlink.bandwidth: all links of a GPU together are 16.2 TB/s");
  EXPECT_SAYS(said_of([](Machine& m) { m.pcie->bandwidth = BytesPerSecond{256e9}; }),
              "pcie.bandwidth: 256 GB/s is more than 16 lanes of PCIe 6.0 have, 126 GB/s");
  EXPECT_SAYS(said_of([](Machine& m) { m.nic.latency = Seconds{5e-3}; }),
              "nic.latency: 5 ms is more than any link or network takes");
  EXPECT_SAYS(said_of([](Machine& m) { m.pcie->latency = Seconds{1e-9}; }), "is less than");
  EXPECT_EQ(said_of([](Machine& m) { m.pcie->latency = Seconds{0}; }), "");
}

}  // namespace
}  // namespace foreduce
