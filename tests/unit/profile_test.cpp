// Profiles: read, refused, written.
#include <gtest/gtest.h>

#include "input/yaml.hpp"
#include "models/caller.hpp"
#include "models/profile.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/profiles.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Why a profile with this besides its head is refused.
std::string refusal(const std::string& body) {
  return error_of([&] { profile_with(body); });
}

class ShippedProfile : public testing::TestWithParam<std::string> {};

TEST_P(ShippedProfile, IsWrittenToTheSameValues) {
  Profile first = Profiles().load(GetParam());
  const std::string text = to_yaml(first);
  EXPECT_EQ(to_yaml(read_profile(YamlFile::parse("again.yaml", text))), text);
  EXPECT_EQ(first.ideal(), GetParam() == "ideal");
  EXPECT_LE(free_parameters(first).size(), 9u);  // B200 has two of one host and two of several
  for (const FreeParameter& f : free_parameters(first)) EXPECT_GT(*f.value, 0) << f.name;
}

INSTANTIATE_TEST_SUITE_P(shipped, ShippedProfile, testing::ValuesIn(Profiles().names()),
                         [](const auto& name) { return identifier(name.param); });

TEST(Profile, SaysWhatIsWrongWithANumber) {
  EXPECT_SAYS(refusal(R"(
links: { network: { latency: { value: 3, origin: fitted, source: s } } }
)"),
              "test.yaml:4");
  EXPECT_SAYS(refusal(R"(
links: { network: { latency: { value: 3 us, origin: fited, source: s } } }
)"),
              "did you mean 'fitted'");
  EXPECT_SAYS(refusal(R"(
links:
  network:
    latency: { value: 3 us, origin: fitted, interval: [4 us, 5 us], source: s }
)"),
              "around the value");
  EXPECT_SAYS(refusal(R"(
links: { nvlink: { efficiency: { value: 1.2, origin: fitted, source: s } } }
)"),
              "at most 1");
}

TEST(Profile, NamesTheNearestKindOfLink) {
  EXPECT_SAYS(refusal("links: { nvlnk: {} }\n"), "did you mean 'nvlink'");
}

TEST(Profile, RefusesALengthOfRestsWithoutRests) {
  EXPECT_SAYS(refusal(protocol_with(number("gap_from", "1 KiB"))), "there is none");
  EXPECT_SAYS(refusal(protocol_with(number("net_hop_whole_from", "1 KiB"))),
              "says when a net_hop is whole, and there is none");
  EXPECT_SAYS(refusal(protocol_with(number("rdma_ring_hop", "1 us"))),
              "stands with rdma_ring_hop_whole_from");
}

// They were taken, and a schedule was cut into none.
TEST(Profile, RefusesChannelsThatCannotBeCounted) {
  for (const char* key : {"channels", "channels_one_node", "channels_nvls"})
    for (const char* count : {"5e-324", "0.5", "1025"})
      EXPECT_SAYS(refusal(number(key, count) + "\n"), "channels are 1 to 1024");
}

TEST(Profile, KeepsControlCharactersOfItsNotes) {
  const Profile first = profile_with(R"(note: "a\x00b\tc\e[31m\"\\\x7f")"
                                     "\n");
  EXPECT_EQ(first.note, std::string("a\0b\tc\x1b[31m\"\\\x7f", 13));
  EXPECT_EQ(read_profile(YamlFile::parse("again.yaml", to_yaml(first))).note, first.note);
}

TEST(Caller, AddsToTheLaunchOfEveryProfile) {
  const Profile profile = Profiles().load("nccl-h100");
  ASSERT_TRUE(profile.launch);
  EXPECT_EQ(text_of(called_from(kUsualCaller, profile)), text_of(profile));
  const Profile called = called_from(kTorch, profile);
  EXPECT_EQ(called.launch->value, profile.launch->value + added_by(kTorch));
  EXPECT_GT(added_by(kTorch).value, 10e-6);
  EXPECT_EQ(called_from(kTorch, Profiles().load("ideal")).launch->value, added_by(kTorch));
  for (const std::string& name : caller_names()) EXPECT_GE(added_by(name).value, 0);
  EXPECT_THROW(added_by("horovod"), std::out_of_range);
}

// A machine of one's own may be called like an instance type: its GPUs say what it is.
TEST(NearestProfile, GoesByTheGpuAndNotByTheName) {
  Machine machine = Catalogue().load("g6e.48xlarge");
  const std::string own = Profiles().nearest_to(machine).name;
  machine.name = "p4d.24xlarge";
  EXPECT_EQ(Profiles().nearest_to(machine).name, own);
  EXPECT_EQ(Profiles().nearest_to(Catalogue().load("p4d.24xlarge")).name, "nccl-a100");
}

// A file's own latency changed the bound alone, which then was beyond what NCCL took.
TEST(NearestProfile, HasAFilesOwnLatenciesWhereItBeginsWithAnInstanceType) {
  const Profiles profiles;
  const Profile of_p5 = profiles.nearest_to(Catalogue().load("p5.48xlarge"));
  const auto latency = [](const Profile& p, PathClass over) {
    return p.of(over).latency->value.value;
  };
  Machine mine = Catalogue().load("p5.48xlarge");
  mine.like = mine.name;
  EXPECT_EQ(text_of(profiles.nearest_to(mine)), text_of(of_p5));
  mine.nic.latency += Seconds{100e-6};
  mine.nvlink->latency += Seconds{3e-6};
  const Profile shifted = profiles.nearest_to(mine);
  EXPECT_NEAR(latency(shifted, PathClass::network), latency(of_p5, PathClass::network) + 100e-6,
              1e-12);
  EXPECT_NEAR(latency(shifted, PathClass::nvlink), latency(of_p5, PathClass::nvlink) + 3e-6, 1e-12);
  mine.nvlink->latency = Seconds{0};  // what is left of the profile's would be below nothing
  EXPECT_EQ(latency(profiles.nearest_to(mine), PathClass::nvlink), 0);
}

// A copy, which a later fit of p5 must not leave behind.
TEST(ShippedFabric, EfaHasTheNumbersOfTheGpuThatItWasFittedWith) {
  const Profile efa = Profiles().load_fabric("efa"), h100 = Profiles().load("nccl-h100");
  const LinkClass &ours = efa.of(PathClass::network), &theirs = h100.of(PathClass::network);
  EXPECT_DOUBLE_EQ(ours.latency->value.value, theirs.latency->value.value);
  EXPECT_DOUBLE_EQ(ours.efficiency->value, theirs.efficiency->value);
  EXPECT_DOUBLE_EQ(efa.protocol("Simple")->net_hop->value.value,
                   h100.protocol("Simple")->net_hop->value.value);
  EXPECT_DOUBLE_EQ(efa.protocol("LL128")->gap->value.value,
                   h100.protocol("LL128")->gap->value.value);
}

}  // namespace
}  // namespace foreduce
