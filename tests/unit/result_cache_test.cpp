// Answers of earlier runs: found where everything is equal, and nowhere else.
#include "sim/result_cache.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>

#include "scenarios/sweep/estimate.hpp"
#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"

namespace foreduce {
namespace {

using namespace test;

/// Asks one all-reduce with a cache, and says how many simulations that took.
struct Answered {
  Seconds time;
  std::size_t simulations = 0;
};
struct OneAllReduce {
  Machine machine = *ec2("p4d.24xlarge");
  Profile profile = Profiles().made_for("p4d.24xlarge");
  FabricSpec fabric = {};
  double bytes = 1 << 20;
  LongPipelines long_pipelines = LongPipelines::extrapolate;
};
Answered ask(const std::filesystem::path& cache, const OneAllReduce& q) {
  const auto machine = std::make_shared<const Machine>(q.machine);
  const CollectiveRequest request{
      std::make_shared<const Cluster>(std::vector(2, machine), q.fabric),
      std::make_shared<const Profile>(q.profile), Bytes{q.bytes},
      reported_method(NcclAlgorithm::ring)};
  BatchOptions options;
  options.cache = cache;
  options.long_pipelines = q.long_pipelines;
  Answered asked;
  options.progress = [&](std::size_t done, std::size_t) { asked.simulations = done; };
  const CollectiveEstimate e = estimate_collectives({&request, 1}, options)[0];
  EXPECT_EQ(e.error, "");
  asked.time = e.time;
  return asked;
}

TEST(ResultCache, AnswersAgainWithoutSimulating) {
  const TemporaryFolder folder;
  const Answered first = ask(folder.path(), {}), again = ask(folder.path(), {});
  EXPECT_EQ(first.simulations, 1u);
  EXPECT_EQ(again.simulations, 0u);
  EXPECT_EQ(again.time, first.time);
  EXPECT_EQ(cache_contents(folder.path()).answers, 1u);
  EXPECT_EQ(cache_contents(folder.path()).answers_of_this_build, 1u);
  EXPECT_EQ(ask({}, {}).simulations, 1u);
  EXPECT_EQ(clear_cache(folder.path()).removed, 1u);
  EXPECT_EQ(ask(folder.path(), {}).simulations, 1u);
}

TEST(ResultCache, FirstAnswerOfABuildRemovesThoseOfBuildsThatNobodyRuns) {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const std::string old(40, 'a'), recent(40, 'b');
  for (const std::string& build : {old, recent, std::string("mine")}) {
    fs::create_directories(folder.path() / build / "00");
    folder.write(build + "/00/x.answer", "x");
  }
  for (const fs::path& path : {folder.path() / old / "00", folder.path() / old,
                               folder.path() / recent, folder.path() / "mine"})
    fs::last_write_time(
        path, fs::file_time_type::clock::now() - std::chrono::hours(24 * kDaysOfOtherBuilds + 1));
  ask(folder.path(), {});
  EXPECT_FALSE(fs::exists(folder.path() / old));
  EXPECT_TRUE(fs::exists(folder.path() / recent));
  EXPECT_TRUE(fs::exists(folder.path() / "mine" / "00" / "x.answer"));  // of no build
  EXPECT_EQ(cache_contents(folder.path()).answers_of_this_build, 1u);
}

TEST(ResultCache, SaysWhyNothingIsKept) {
  const TemporaryFolder folder;
  EXPECT_EQ(why_nothing_is_kept(folder.path() / "new" / "too"), "");
  const auto file = folder.write("file", "x");
  EXPECT_EQ(why_nothing_is_kept(file / "below"), file.string() + " is not a folder");
}

// Every one of these is another question; the last asks the first again.
TEST(ResultCache, KnowsWhatMatters) {
  const TemporaryFolder folder;
  std::vector<OneAllReduce> all(9);
  all[1].machine.nic.bandwidth = 0.999999 * all[1].machine.nic.bandwidth;
  all[2].machine.pcie->switches[0].nics = {1};
  all[2].machine.pcie->switches[1].nics = {0};
  all[3].machine.nvlink->latency = Seconds{3.4000001e-6};
  all[4].profile.links[0].latency->value = Seconds{22.8262296e-6};
  all[5].profile.protocols.back().slots->value += 1;
  all[6].fabric.nodes_per_leaf = 1;
  all[7].bytes += 4;
  all[8].long_pipelines = LongPipelines::simulate_whole;
  for (std::size_t i = 0; i < all.size(); ++i)
    EXPECT_EQ(ask(folder.path(), all[i]).simulations, 1u) << i;
  EXPECT_EQ(ask(folder.path(), all[0]).simulations, 0u);
  EXPECT_EQ(cache_contents(folder.path()).answers, all.size());
}

// A program that was built otherwise has a folder of its own.
TEST(ResultCache, NeverAnswersAnotherBuild) {
  const TemporaryFolder folder;
  ask(folder.path(), {});
  const auto mine = std::filesystem::directory_iterator(folder.path())->path();
  std::filesystem::rename(mine, folder.path() / "0123456789abcdef");
  EXPECT_EQ(cache_contents(folder.path()).answers_of_this_build, 0u);
  EXPECT_EQ(ask(folder.path(), {}).simulations, 1u);
}

TEST(ResultCache, TakesADamagedFileForNone) {
  const TemporaryFolder folder;
  const Answered whole = ask(folder.path(), {});
  std::filesystem::path file;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    if (entry.is_regular_file()) file = entry.path();
  const auto size = std::filesystem::file_size(file);
  for (std::uintmax_t left = 0; left < size; left += size / 40) {
    std::filesystem::resize_file(file, left);
    const Answered again = ask(folder.path(), {});
    EXPECT_EQ(again.simulations, 1u);
    EXPECT_EQ(again.time, whole.time);
  }
  std::ofstream(file) << "rubbish";
  EXPECT_EQ(ask(folder.path(), {}).time, whole.time);
}

// What lies behind an array's end was read.
TEST(ResultCache, TakesAFileWithCutNumbersForNone) {
  const TemporaryFolder folder;
  const Answered whole = ask(folder.path(), {});
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
    if (!entry.is_regular_file()) continue;
    std::ifstream in(entry.path(), std::ios::binary);
    nlohmann::json answer = nlohmann::json::from_cbor(in);
    auto& numbers = answer.at("result").at("loads").at("numbers").get_binary();
    ASSERT_GT(numbers.size(), sizeof(double));
    numbers.resize(numbers.size() - sizeof(double));
    const auto bytes = nlohmann::json::to_cbor(answer);
    std::ofstream(entry.path(), std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
  const Answered again = ask(folder.path(), {});
  EXPECT_EQ(again.simulations, 1u);
  EXPECT_EQ(again.time, whole.time);
}

TEST(ResultCache, AnswersWhereNothingCanBeKept) {
  EXPECT_EQ(ask("/proc/nowhere", {}).simulations, 1u);
  const TemporaryFolder folder;
  const auto file = folder.write("file", "not a folder");
  EXPECT_EQ(ask(file, {}).simulations, 1u);
  EXPECT_EQ(clear_cache(file).removed, 0u);
}

TEST(ResultCache, ManyProcessesMayShareIt) {
  const TemporaryFolder folder;
  const Seconds alone = ask({}, {}).time;
  std::vector<pid_t> children;
  for (int c = 0; c < 8; ++c) {
    const pid_t child = ::fork();
    if (child == 0) {
      bool same = true;
      for (int i = 0; i < 5; ++i) same = same && ask(folder.path(), {}).time == alone;
      ::_exit(same ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 1u);  // and nothing half-written
}

}  // namespace
}  // namespace foreduce
