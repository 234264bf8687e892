// What launchers say about a process in the environment.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "real/launch.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

std::optional<ProcessPlace> place(std::map<std::string, std::string> variables) {
  return place_from_environment([&](const char* name) {
    return variables.contains(name) ? variables.at(name).c_str() : nullptr;
  });
}
TEST(Launch, ReadsThePlaceThatLaunchersGive) {
  EXPECT_FALSE(place({}));
  const auto torch = place({{"RANK", "3"},
                            {"WORLD_SIZE", "8"},
                            {"GROUP_RANK", "1"},
                            {"MASTER_ADDR", "10.0.0.1"},
                            {"MASTER_PORT", "1234"},
                            {"TORCHELASTIC_RUN_ID", "j"}});
  ASSERT_TRUE(torch);
  EXPECT_EQ(torch->process, 3);
  EXPECT_EQ(torch->processes, 8);
  EXPECT_EQ(torch->node, 1);
  EXPECT_EQ(torch->address, "10.0.0.1");
  EXPECT_EQ(torch->port, 1234);
  EXPECT_EQ(torch->job, "j");
  // The agent's store listens on MASTER_PORT itself.
  EXPECT_EQ(place({{"RANK", "0"},
                   {"WORLD_SIZE", "2"},
                   {"MASTER_PORT", "29500"},
                   {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
                ->port,
            29501);
  const auto mpi = place({{"OMPI_COMM_WORLD_RANK", "1"},
                          {"OMPI_COMM_WORLD_SIZE", "2"},
                          {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(mpi);
  EXPECT_EQ(mpi->address, "127.0.0.1");
  EXPECT_THROW(place({{"OMPI_COMM_WORLD_RANK", "1"},
                      {"OMPI_COMM_WORLD_SIZE", "2"},
                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
               std::invalid_argument);
  const auto slurm = place({{"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "16"},
                            {"SLURM_NODEID", "2"},
                            {"SLURM_STEP_NODELIST", "gpu[03-08]-ib,x1"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->address, "gpu03-ib");
  EXPECT_EQ(slurm->node, 2);
  EXPECT_FALSE(
      place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));  // an allocation's shell, not srun
}
TEST(Launch, TakesTheTokenFromTheEnvironment) {
  const std::string digits = "00112233445566778899aabbccddeeff";
  const auto with = [](const std::string& token) {
    return place({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"FOREDUCE_TOKEN", token}})->token;
  };
  EXPECT_EQ(place({{"RANK", "0"}, {"WORLD_SIZE", "2"}})->token, std::nullopt);
  EXPECT_EQ(with(digits)->hex(), digits);
  for (const char* wrong : {"", "secret-of-mine", "00112233445566778899aabbccddeefg"}) try {
      with(wrong);
      FAIL() << wrong;
    } catch (const std::invalid_argument& e) {
      EXPECT_SAYS(std::string(e.what()), "FOREDUCE_TOKEN");
      EXPECT_SAYS_NOT(std::string(e.what()), "of-mine") << "it is a secret";
    }
}
TEST(Launch, NamesTheVariableThatIsNotValid) {
  for (const char* rank : {"x", "-1", "8", "1.5", ""}) try {
      place({{"RANK", rank}, {"WORLD_SIZE", "8"}});
      FAIL() << "RANK=" << rank;
    } catch (const std::invalid_argument& e) {
      EXPECT_SAYS(std::string(e.what()), "RANK");
    }
}

}  // namespace
}  // namespace foreduce
