// Algorithms from plug-ins, as a user has them: everywhere the built-in ones are, checked like
// them, and refused for one clear reason.
#include <gtest/gtest.h>

#include "tests/support/files.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A plug-in that tests/plugins builds.
std::string plugin(const std::string& name) {
  return std::string(FOREDUCE_TEST_PLUGINS) + "/" + name + ".so";
}
std::string with(const std::string& name) { return " --plugin " + plugin(name); }

TEST(Plugin, IsWhereBuiltInAlgorithmsAre) {
  const TemporaryFolder folder;
  const std::string scenario = folder
                                   .write("s.yaml",
                                          R"(name: x
workload: { model: resnet50, precision: fp16, batch_per_gpu: 64 }
cluster: { instance: p3dn.24xlarge, nodes: 2 }
allreduce: { algorithm: [ring, my-ring] }
)")
                                   .string();
  const auto fine = [](const std::string& arguments, const std::string& says) {
    const Result r = foreduce_says(arguments);
    EXPECT_EQ(r.status, 0) << arguments << "\n" << r.out;
    EXPECT_SAYS(r.out, says);
  };
  fine("list algorithms" + with("my_ring"), "my-ring, all-reduce");
  fine("list algorithms" + with("my_ring"), "from    " + plugin("my_ring"));
  fine("schema" + with("my_ring"), "\"my-ring\"");
  fine("predict " + scenario + with("my_ring"), "my-ring");
  fine("compare --instance p4d.24xlarge --nodes 2 --sizes 1MiB --algorithm my-ring" +
           with("my_ring"),
       "my-ring");
  fine("run --check --ranks 3 --sizes 1KiB,1MiB --algorithm my-ring,ring" + with("my_ring"),
       "my-ring");
  fine("run --check --ranks 3 --transport ofi --sizes 1KiB --algorithm my-ring" + with("my_ring"),
       "my-ring");
  // Without it the name is nobody's.
  EXPECT_EQ(foreduce_says("predict " + scenario).status, 2);
  EXPECT_SAYS(foreduce_says("predict " + scenario).out, "there is no algorithm called 'my-ring'");
}

// The example does what the built-in ring does on one rail, message by message.
TEST(Plugin, TakesTheTimeOfTheSameAlgorithm) {
  const auto points =
      json_of("compare --instance p3.2xlarge --nodes 5 --sizes 1KiB,1MiB --algorithm ring,my-ring" +
              with("my_ring"))["points"];
  ASSERT_EQ(points.size(), 4u);
  for (const auto& p : points)
    for (const auto& q : points)
      if (p["bytes"] == q["bytes"]) {
        EXPECT_DOUBLE_EQ(p["time_us"].get<double>(), q["time_us"].get<double>());
      }
}

TEST(Plugin, MayBeNamedByTheEnvironment) {
  const std::string say = std::string(FOREDUCE_PROGRAM) + " list algorithms";
  EXPECT_SAYS(shell("FOREDUCE_PLUGINS=:" + plugin("my_ring") + ": " + say).out, "my-ring");
  // Named twice it is one plug-in.
  EXPECT_EQ(shell("FOREDUCE_PLUGINS=" + plugin("my_ring") + " " + say + with("my_ring")).status, 0);
  const Result r = shell("FOREDUCE_PLUGINS=/nosuch.so " + say);
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "/nosuch.so: error: FOREDUCE_PLUGINS: there is no such file");
}

TEST(Plugin, IsRefusedForOneReason) {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& file, const std::string& why) {
    const Result r = foreduce_says("list algorithms --plugin " + file);
    EXPECT_EQ(r.status, 2) << r.out;
    EXPECT_SAYS(r.out, why);
    EXPECT_LE(lines_of(r.out).size(), 2u) << r.out;
  };
  refused("nosuch.so", "nosuch.so: error: there is no such file");
  refused(folder.write("text.so", "hello").string(), "this is no shared object");
  refused(folder.write("cut.so", std::string("\x7f") + "ELF").string(),
          "this plug-in is cut short");
  refused(folder.path().string(), "this is a folder");
  refused(plugin("no_entry"), "this is no plug-in: foreduce_plugin_abi is missing");
  refused(plugin("old_abi"),
          "was built for the plug-in ABI 0 (libstdc++), and this foreduce has 9 (libstdc++)");
  refused(plugin("taken_name"),
          "there is an algorithm 'ring' for all-reduce already, which is built in");
  refused(plugin("twice"), "it registers 'broken' twice for all-reduce");
  refused(plugin("empty"), "it registers no algorithm");
  refused(plugin("incomplete"), "the algorithm 'broken' has no sends");
  refused(plugin("odd_name"), "is called 'My Ring'; names have a-z");
  refused(plugin("reserved_name"), "is called 'nccl', which means something else");
  for (const std::uintmax_t size : {40u, 3000u}) {
    std::filesystem::copy_file(plugin("my_ring"), folder.path() / "cut.so",
                               std::filesystem::copy_options::overwrite_existing);
    std::filesystem::resize_file(folder.path() / "cut.so", size);
    refused((folder.path() / "cut.so").string(), "this plug-in is cut short");
  }
  std::filesystem::copy_file(plugin("my_ring"), folder.path() / "copy.so");
  refused(plugin("my_ring") + " --plugin " + (folder.path() / "copy.so").string(),
          "there is an algorithm 'my-ring' for all-reduce already, of " + plugin("my_ring"));
}

// The one difference between these plug-ins of the same name is their content.
TEST(Plugin, ItsContentIsPartOfWhatIsRemembered) {
  const TemporaryFolder folder;
  const std::string program =
      "FOREDUCE_CACHE=" + (folder.path() / "cache").string() + " " + FOREDUCE_PROGRAM;
  const auto remembered_after = [&](const std::string& name) {
    const Result r =
        shell(program +
              " compare --instance p3.2xlarge --nodes 4 --sizes 64KiB --protocol Simple "
              "--algorithm broken" +
              with(name));
    EXPECT_EQ(r.status, 0) << r.out;
    return shell(program + " cache").out;
  };
  EXPECT_SAYS(remembered_after("wrong_traffic"), ": 1 answers");
  EXPECT_SAYS(remembered_after("wrong_traffic"), ": 1 answers");
  EXPECT_SAYS(remembered_after("wrong_steps"), ": 2 answers");
}

// It was only with --check; a plug-in that sums wrongly had a time.
TEST(Plugin, OneThatSumsWronglyHasNoTime) {
  for (const std::string& command :
       {std::string("compare --instance p3.2xlarge --nodes 4 --sizes 64KiB --algorithm broken"),
        "predict " + scenario_path("bert-large-p3dn") + " --set cluster.nodes=2" +
            " --set allreduce.algorithm=broken"}) {
    const Result r = foreduce_says(command + with("wrong_result"));
    EXPECT_EQ(r.status, 1) << r.out;
    EXPECT_SAYS(r.out, "the all-reduce of broken is wrong on ");
  }
}

TEST(TestAlgorithm, PassesWhatIsRight) {
  for (const std::string& arguments :
       {std::string("my-ring --ranks 1,3,8") + with("my_ring"), std::string("ring --ranks 2,8"),
        std::string("pat --ranks 5")}) {
    const Result r = foreduce_says("test-algorithm " + arguments);
    EXPECT_EQ(r.status, 0) << r.out;
    EXPECT_SAYS(r.out, "cases keep all rules");
  }
}

// Recursive doubling claimed steps among six ranks that it saves, and servers beside one rank took
// longer than no time at all.
class TestAlgorithmOf : public testing::TestWithParam<const Algorithm*> {};
TEST_P(TestAlgorithmOf, PassesAsItIsAsked) {
  const Algorithm& algorithm = *GetParam();
  // A switch that reduces is asked for as it comes.
  const std::string ranks = algorithm.name.starts_with("nvls") ? "" : " --ranks 1,6,8,12";
  const Result r =
      foreduce_says("test-algorithm " + std::string(algorithm.name) + " --collective " +
                    std::string(name_of(algorithm.collective)) + ranks);
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, "cases keep all rules");
}
INSTANTIATE_TEST_SUITE_P(Every, TestAlgorithmOf, testing::ValuesIn(all_algorithms()),
                         [](const auto& of) { return identifier(*of.param); });

TEST(TestAlgorithm, NamesTheFirstCaseThatFails) {
  const auto fails = [](const std::string& name, const std::string& check, const std::string& why) {
    const std::string asked =
        "test-algorithm broken --timeout 1 --ranks 4 --elements 7" + with(name);
    const auto rows = json_of(asked)["rows"];
    ASSERT_FALSE(rows.empty());
    EXPECT_EQ(rows[0].value(check, ""), "fails") << rows[0];
    EXPECT_SAYS(rows[0].value("failure", ""), why);
  };
  fails("wrong_result", "result", "element 0 of rank");
  const Result told =
      foreduce_says("test-algorithm broken --ranks 4 --elements 7" + with("wrong_result"));
  EXPECT_EQ(told.status, 1) << told.out;
  EXPECT_SAYS(told.out, "First: the all_reduce of broken on 4 ranks");
  fails("wrong_traffic", "traffic", "rank 0 sends 21 elements on threads and claims 7");
  fails("stuck", "result", "nothing has arrived");
  fails("endless", "result", "not done after");  // it used to go on for ever
  fails("crashing", "result", "");               // by which signal depends on the build
  fails("wrong_symmetry", "symmetry", "");
  fails("wrong_steps", "time", "less than what it sends and its steps take");
}

TEST(TestAlgorithm, RefusesWhatItCannotCheck) {
  const Result unknown = foreduce_says("test-algorithm rnig");
  EXPECT_EQ(unknown.status, 2);
  EXPECT_SAYS(unknown.out, "did you mean 'ring'?");
  const Result none = foreduce_says("test-algorithm nvls --ranks 3");
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "nvls cannot run its all-reduce on any of these ranks");
  EXPECT_EQ(foreduce_says("test-algorithm ring --collective alltoall").status, 2);
}

TEST(Plugin, WrongSumsOnRealRanksAreAFailure) {
  const auto run = [](const std::string& name, const std::string& options) {
    return foreduce_says("run --ranks 3 --sizes 1KiB --check --algorithm " + name + " " + options)
        .status;
  };
  EXPECT_EQ(run("broken", with("wrong_result")), 1);
  EXPECT_EQ(run("broken", "--format json" + with("wrong_result")), 1);
  EXPECT_EQ(run("ring", ""), 0);
}

}  // namespace
}  // namespace foreduce
