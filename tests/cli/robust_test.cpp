// What must not be lost or crash the program, whatever it reads and wherever it writes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "tests/support/files.hpp"
#include "tests/support/probes.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

const std::string kProgram = FOREDUCE_PROGRAM;

class Deep : public testing::TestWithParam<const char*> {};

// Each overflowed the stack.
TEST_P(Deep, JsonDeeperThan64LevelsIsRefused) {
  const TemporaryFolder folder;
  const std::string deep =
      folder.write("deep.json", "{\"points\":\n  " + std::string(1'000'000, '[')).string();
  const std::string asked = std::regex_replace(std::string(GetParam()), std::regex("FILE"), deep);
  const Result r = foreduce_says(
      std::regex_replace(asked, std::regex("CLUSTER"), scenario_path("message-sizes-p4d")));
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "deep.json:2:66: error: JSON more than 64 levels deep");
}
INSTANTIATE_TEST_SUITE_P(Commands, Deep,
                         testing::Values("merge FILE", "show FILE", "check FILE",
                                         "validate ideal FILE --cluster CLUSTER",
                                         "calibrate FILE --cluster CLUSTER"));

TEST(Json, MistakesHaveTheirPlace) {
  const TemporaryFolder folder;
  const auto says = [&](const std::string& text, const std::string& command = "show ") {
    const Result r = foreduce_says(command + folder.write("r.json", text).string());
    EXPECT_EQ(r.status, 2) << text;
    EXPECT_SAYS_NOT(r.out, "json.exception");
    return r.out;
  };
  EXPECT_SAYS(says("{\n \"kind\": predict }"), "r.json:2:10: error: not JSON from here on");
  EXPECT_SAYS(says("{\"kind\":\"predict\",\"points\":[{\"nodes\":\"many\"}]}"),
              "a field is missing or of another type than foreduce writes");
  EXPECT_SAYS(says("{\"kind\":\"list\",\"what\":7}"), "a field is missing or of another type");
  for (const char* key : {"nodes", "gpus", "ranks", "count"})
    for (const char* number : {"1e111", "-5"})
      EXPECT_SAYS(says(fmt::format(R"({{"kind":"compare","points":[{{"{}":{}}}]}})", key, number)),
                  fmt::format("{} is {}", key, std::string(number) == "-5" ? "-5" : "1e+111"));
  EXPECT_SAYS(says("[1e999]"), "not JSON: a number is out of range");
  EXPECT_SAYS(says(""), "not JSON from here on");
}

TEST(Input, EndlessFilesAreRefused) {
  for (const char* command : {"show /dev/zero", "check /dev/zero", "predict /dev/zero",
                              "calibrate /dev/zero --cluster s.yaml"}) {
    const Result r = foreduce_says(command);
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_LT(r.seconds, 20) << command;
  }
}

// All of it was read, line by line, which took the machine's memory.
TEST(Input, EndlessTensorsAreRefused) {
  const TemporaryFolder folder;
  folder.write("w.yaml",
               R"(workload: w
tensors: /dev/zero
variants: [{ sample: 512 tokens, flops: 900 TFLOP }]
)");
  const auto file = folder.write("s.yaml",
                                 R"(name: x
workload: { model: ./w.yaml, batch_per_gpu: 8 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "/dev/zero: error: is larger than 64 MiB");
}

// They reached the terminal as they stood in the file.
TEST(Output, EscapeSequencesOfAFileAreShownAsText) {
  const TemporaryFolder folder;
  const Result key =
      foreduce_says("predict " + folder.write("s.yaml", "\x1b]0;title\x07: 1\n").string());
  EXPECT_EQ(key.status, 2);
  EXPECT_SAYS(key.out, "\\x1b]0;title\\x07: there is no such key here");
  EXPECT_SAYS_NOT(key.out, "\x1b");
  nlohmann::json report = json_of("list instances");
  report["instances"][0]["instance"] = "\x1b[31mred";
  const Result shown = foreduce_says("show " + folder.write("r.json", report.dump()).string());
  EXPECT_EQ(shown.status, 0) << shown.out;
  EXPECT_SAYS(shown.out, "\\x1b[31mred");
  EXPECT_SAYS_NOT(shown.out, "\x1b");
}

// The table's columns were those of the first entry, its cells those of each.
TEST(Show, EntriesOfAListMayHaveOtherKeys) {
  const TemporaryFolder folder;
  nlohmann::json report = json_of("list instances");
  report["instances"][0].erase("gpus");
  report["instances"][1]["more"] = "x";
  report["instances"][2] = nlohmann::json::object();
  const Result r = foreduce_says("show --wide " + folder.write("r.json", report.dump()).string());
  EXPECT_EQ(r.status, 0) << r.out;
  EXPECT_SAYS(r.out, report["instances"][1]["instance"].get<std::string>());
}

// "stod" was all that it said.
TEST(Show, TimesTooSmallForTheirDigitsAreShown) {
  const TemporaryFolder folder;
  nlohmann::json report = json_of("topology p4d.24xlarge");
  report["links"][0]["latency_s"] = 5e-324;
  const Result r = foreduce_says("show " + folder.write("r.json", report.dump()).string());
  EXPECT_EQ(r.status, 0) << r.out;
}

// A full disk was success for answers over 4 KiB.
TEST(Output, AFullDiskIsAnError) {
  for (const char* command : {"schema", "list algorithms", "help", "help predict", "docs commands",
                              "topology p5.48xlarge"}) {
    const Result r = shell(kProgram + " " + command + " > /dev/full");
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_SAYS(r.out, "standard output cannot be written");
  }
  EXPECT_EQ(foreduce_says("topology p5.48xlarge -o /dev/full").status, 2);
}

// The old answer or the new one, never half of one.
TEST(Output, KeepsTheOldAnswerUntilTheNewIsWhole) {
  const TemporaryFolder folder;
  const auto file = folder.write("answer.json", "old");
  // 8 KiB are the most that may be written: the disk is full in the middle.
  const Result r = shell("ulimit -f 8; trap '' XFSZ; " + kProgram +
                         " topology p5.48xlarge --format json -o " + file.string());
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_SAYS(r.out, "cannot be written");
  EXPECT_EQ(read_text(file), "old");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.exists();
  EXPECT_EQ(files, 1u);

  std::filesystem::permissions(file, std::filesystem::perms(0640));
  const auto link = folder.path() / "link.json";
  std::filesystem::create_symlink(file, link);
  EXPECT_EQ(foreduce_says("topology p4d.24xlarge --format json -o " + link.string()).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(link));
  EXPECT_TRUE(nlohmann::json::accept(read_text(file)));
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms(0640));
}

TEST(Output, RefusesWhatCannotBeWrittenBeforeTheWork) {
  const std::string name(300, 'n');
  for (const std::string& file :
       {std::string("/"), std::string("/nowhere/x.json"), "/tmp/" + name}) {
    const Result r = foreduce_says("predict " + scenario_path("bert-large-p3dn") + " -o " + file);
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, "cannot be written");
  }
}

// Killed at any moment, a sweep loses at most the simulations in flight.
TEST(Killed, SweepGoesOnWhereItWas) {
  const TemporaryFolder folder;
  const std::string asked =
      " compare --instance p5.48xlarge --nodes 16 --algorithm nccl,ring,tree "
      "--sizes 1KiB:1GiB:x4 --no-cost --format json";
  const std::string cached = "FOREDUCE_CACHE=" + folder.path().string() + " " + kProgram + asked;
  const Result whole = shell(kProgram + asked + " 2>/dev/null");
  ASSERT_EQ(whole.status, 0);
  const auto kept = [&] {
    std::size_t answers = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path()))
      answers += entry.path().extension() == ".answer";
    return answers;
  };
  std::mt19937 dice(7);
  std::size_t before = 0;
  for (int kill = 0; kill < 50; ++kill) {
    shell("timeout -s KILL " + std::to_string(0.02 + 0.001 * static_cast<double>(dice() % 150)) +
          " sh -c '" + cached + "' >/dev/null");
    EXPECT_GE(kept(), before);
    before = kept();
  }
  EXPECT_GT(before, 0u);
  const Result last = shell(cached + " 2>/dev/null");
  EXPECT_EQ(last.status, 0);
  EXPECT_EQ(last.out, whole.out);
  const Result again = shell(cached + " 2>/dev/null");
  EXPECT_EQ(again.out, whole.out);
}

TEST(Cache, ShowsAndClearsIt) {
  const TemporaryFolder folder;
  const std::string env = "FOREDUCE_CACHE=" + folder.path().string() + " " + kProgram;
  shell(env + " compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 8B");
  EXPECT_SAYS(shell(env + " cache").out, ": 1 answers, ");
  shell(env + " compare --instance p4d.24xlarge --nodes 2 --algorithm ring --sizes 16B --no-cache");
  EXPECT_SAYS(shell(env + " cache").out, "; 1 of this build of foreduce");
  EXPECT_SAYS(shell(env + " cache --clear").out, "1 answer removed");
  EXPECT_SAYS(shell(env + " cache").out, ": 0 answers, ");
  EXPECT_SAYS(shell("FOREDUCE_CACHE=off " + kProgram + " cache").out, "nothing is kept");
}

// Ctrl-C while causes are sought: the verdict is known by then.
TEST(Check, TellsWhatItKnowsWhenInterrupted) {
  const TemporaryFolder folder;
  std::string log =
      "#                                                              out-of-place\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  for (int i = 10; i <= 32; ++i) {
    const double bytes = std::pow(2.0, i), us = 4 * (600 + bytes / 80e3);
    log += fmt::format("{:12.0f} {:12.0f} float sum -1 {:.1f} {:.2f} {:.2f} 0\n", bytes, bytes / 4,
                       us, bytes / us / 1e3, bytes / us / 1e3 * 2 * 127 / 128);
  }
  const auto file = folder.write("slow.log", log).string();
  const std::string command =
      kProgram + " check " + file + " --instance p4d.24xlarge --nodes 16 --against model";
  const Result whole = shell("export FOREDUCE_CACHE=off; " + command);
  ASSERT_EQ(whole.status, 1) << whole.out;
  Result stopped;
  for (const double part : {0.7, 0.5, 0.3}) {  // what else runs may have slowed the whole one
    stopped = shell(fmt::format("export FOREDUCE_CACHE=off; timeout -s INT {} {}",
                                part * whole.seconds, command));
    if (stopped.status == 124) break;
  }
  EXPECT_EQ(stopped.status, 124) << stopped.out;  // timeout's own: it had to end it
  if (whole.seconds > 2) {
    EXPECT_SAYS(words(stopped.out), "causes were tried");
  }
}

TEST(Plot, FolderIsTriedBeforeTheWork) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "not a folder");
  for (const std::string& place : {file.string(), std::string("/proc/nowhere")}) {
    const Result r = foreduce_says("plan " + scenario_path("plan-resnet50") + " --plot " + place);
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, "pictures cannot be written there");
    EXPECT_SAYS_NOT(r.out, "Cheapest");
  }
  const auto scenario = folder.write(
      "long.yaml", std::regex_replace(read_text(scenario_path("plan-resnet50")),
                                      std::regex("name: .*"), "name: " + std::string(300, 'x')));
  EXPECT_NE(foreduce_says("plan " + scenario.string() + " --plot " + (folder.path() / "p").string())
                .status,
            2);
}

TEST(CalibrateReference, FolderIsTriedBeforeTheWork) {
  const TemporaryFolder folder;
  const auto file = folder.write("file", "not a folder");
  const Result r =
      foreduce_says("calibrate --reference --profile tcp --rounds 1 --folder " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "profiles cannot be written there");
  const std::filesystem::path missing = folder.path() / "new" / "deep";
  const Result made =
      foreduce_says("calibrate --reference --profile tcp --rounds 1 --folder " + missing.string());
  EXPECT_EQ(made.status, 0) << made.out;
  EXPECT_TRUE(std::filesystem::exists(missing / "tcp.yaml"));
}

TEST(Scenario, ATinyRateIsRefused) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
name: x
workload: { model: resnet50, batch_per_gpu: 64, samples_per_s: 5e-324 }
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
)");
  const Result r = foreduce_says("predict " + file.string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "samples_per_s");
  EXPECT_SAYS_NOT(r.out, "nan");
}

// Each searched the file for its line, which took 12 seconds in all.
TEST(Scenario, TellsAHundredOfFortyThousandMistakes) {
  const TemporaryFolder folder;
  std::string text = "name: x\n";
  for (int i = 0; i < 40'000; ++i) text += "k" + std::to_string(i) + ": 1\n";
  const Result r = foreduce_says("predict " + folder.write("s.yaml", text).string());
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "more mistakes");
  EXPECT_LT(lines_of(r.out).size(), 1000u);
}

TEST(Simulation, EndsAfterThePointTimeout) {
  const Result r = foreduce_says(
      "compare " + (source_folder() / "tests/bench/mixed.yaml").string() + " --point-timeout 0.5");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "not done after 0.5 s");
}

// Fewer at a time, rather than no answer.
TEST(Simulation, TakesFewProcessesWhereThereIsNoRoomForMore) {
  const std::string asked =
      " compare --instance p4d.24xlarge --nodes 2 --sizes 8B:1MiB:x2 "
      "--algorithm ring,tree --no-cost --format csv --jobs 64";
  const Result few = shell("ulimit -n 12; " + kProgram + asked);
  EXPECT_EQ(few.status, 0) << few.out;
  EXPECT_EQ(few.out, shell(kProgram + asked).out);
}

TEST(Simulation, RefusesMoreRanksThanItCanRun) {
  const TemporaryFolder folder;
  const auto file = folder.write("s.yaml", R"(
name: x
cluster: { mixed: [{ instance: p4d.24xlarge, nodes: 2500 }, { instance: p4de.24xlarge, nodes: 2500 }] }
allreduce: { algorithm: double-tree, channels: 1 }
messages: { sizes: 1 MiB }
)");
  const Result r = foreduce_says("compare " + file.string());
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_SAYS(words(r.out), "40000 ranks would be simulated, and at most 30000 can be");
}

// count -1 was a result, and a million segments took 2.5 GB.
TEST(Validate, ChecksWhatARunSays) {
  const TemporaryFolder folder;
  const auto says = [&](const std::string& count, const std::string& segments) {
    const auto file = folder.write(
        "r.json",
        "{\"kind\":\"run\",\"layout\":{\"ranks\":32},\"rows\":[{\"algorithm\":\"ring\","
        "\"dtype\":\"f32\",\"count\":" +
            count + ",\"segments\":" + segments + ",\"in_place\":{\"median_s\":0.001}}]}");
    const auto cluster = folder.write("c.yaml", R"(
name: x
cluster: { instance: p4d.24xlarge, nodes: 4 }
allreduce: { algorithm: ring }
messages: { sizes: 1 MiB }
)");
    return foreduce_says("validate ideal " + file.string() + " --cluster " + cluster.string());
  };
  EXPECT_EQ(says("1024", "1").status, 0) << says("1024", "1").out;
  for (const auto& [count, segments] : {std::pair("-1", "1"),
                                        {"0", "1"},
                                        {"1024", "1000000"},
                                        {"1024", "0"},
                                        {"1e30", "1"},
                                        {"1.5", "1"}})
    EXPECT_EQ(says(count, segments).status, 2) << count << " " << segments;
}

/// Machine files of every kind: with and without GPUs, NICs, NVLink, PCIe, price and base.
std::vector<std::string> machine_files(const TemporaryFolder& folder) {
  std::vector<std::string> files;
  for (const char* name :
       {"ec2/c5n.18xlarge", "ec2/p3.2xlarge", "ec2/g4dn.12xlarge", "ec2/p3dn.24xlarge",
        "ec2/p5.48xlarge", "elsewhere/dgx-1v", "elsewhere/optcast-server"})
    files.push_back((source_folder() / "topologies" / (std::string(name) + ".yaml")).string());
  for (const auto& [name, text] : {std::pair("host.yaml",
                                             R"(instance: h
host: { cpu: c, sockets: 1, memory_bandwidth: 50 GB/s, reduce_bandwidth: 9 GB/s }
nic: { count: 1, bandwidth: 10 Gbps, latency: 20 us }
)"),
                                   {"gpu.yaml",
                                    R"(instance: g
gpu: { model: mine, count: 1, reduce_bandwidth: 99 GB/s }
nic: { count: 1, bandwidth: 10 Gbps, latency: 20 us }
)"},
                                   {"like.yaml", "like: p4d.24xlarge\nnic: { latency: 99 us }\n"}})
    files.push_back(folder.write(name, text).string());
  return files;
}

// Checks across keys made lists of so many elements.
TEST(Machine, NumbersBeyondTheirLimitsCostNoMemory) {
  const TemporaryFolder folder;
  for (const auto& [gpus, nics] :
       {std::pair("-5", "1"), {"2", "-1"}, {"1999999999", "1"}, {"2", "1999999999"}}) {
    const auto file = folder.write("m.yaml", fmt::format(R"(
instance: g
gpu: {{ model: mine, count: {}, reduce_bandwidth: 9 GB/s }}
nvlink: {{ kind: switch, links: 4, bandwidth: 25 GB/s, latency: 1 us }}
host: {{ cpu: c, sockets: 1, memory_bandwidth: 50 GB/s, reduce_bandwidth: 9 GB/s }}
pcie:
  bandwidth: 12 GB/s
  latency: 1 us
  switches: [{{ socket: 0, gpus: [0, 1], nics: [0] }}]
nic: {{ count: {}, bandwidth: 10 Gbps, latency: 20 us }}
)",
                                                         gpus, nics));
#ifdef __SANITIZE_ADDRESS__  // which needs address space
    const Result r = foreduce_says("topology " + file.string());
#else
    const Result r = shell("ulimit -v 4000000; " + kProgram + " topology " + file.string());
#endif
    EXPECT_EQ(r.status, 2);
    EXPECT_TRUE(std::regex_search(r.out, std::regex("count: '[-0-9]+' is too (small|large)")))
        << r.out;
    EXPECT_SAYS_NOT(r.out, "memory for this");
    EXPECT_SAYS_NOT(r.out, "vector");
  }
}

// Routes were searched once a pair, which took hours.
TEST(Machine, DescribesTheMostGpus) {
  const TemporaryFolder folder;
  const auto file = folder.write("m.yaml",
                                 R"(instance: g
gpu: { model: mine, count: 1024, reduce_bandwidth: 99 GB/s }
nvlink: { kind: switch, links: 4, bandwidth: 25 GB/s, latency: 1 us }
nic: { count: 8, bandwidth: 10 Gbps, latency: 20 us }
)");
  const Result r = shell("timeout 120 " + kProgram + " topology " + file.string());
  EXPECT_EQ(r.status, 0) << r.out;
}

// It was refused for reduction servers, which nothing asked for.
TEST(Validate, TakesMachinesWithoutAHost) {
  const TemporaryFolder folder;
  folder.write("m.yaml",
               R"(instance: f
gpu: { model: mine, count: 1, reduce_bandwidth: 9 GB/s }
nic: { count: 1, bandwidth: 10 Gbps, latency: 20 us }
)");
  const auto cluster = folder.write("c.yaml",
                                    R"(name: x
cluster: { instance: ./m.yaml, nodes: 4 }
allreduce: { algorithm: ring }
messages: { sizes: 1 MiB }
)");
  const auto runs = folder.write(
      "r.json", R"({"kind":"run","layout":{"ranks":4},"rows":[{"algorithm":"ring","dtype":"f32",)"
                R"("count":1024,"segments":1,"in_place":{"median_s":0.001}}]})");
  const Result r =
      foreduce_says("validate ideal " + runs.string() + " --cluster " + cluster.string());
  EXPECT_EQ(r.status, 0) << r.out;
}

// calibrate crashed with a host that has no GPU, where topology is content with it.
TEST(Machine, NoCommandCrashesWithAFileThatAnotherAccepts) {
  const TemporaryFolder folder;
  const auto probe = folder.write(
      "probe.json", probe_report([](int, double bytes) { return 1e-5 + bytes * 1e-9; }));
  for (const std::string& machine : machine_files(folder)) {
    SCOPED_TRACE(machine);
    const auto scenario = folder.write("s.yaml",
                                       "name: x\nworkload: { model: resnet50, batch_per_gpu: 8 }\n"
                                       "cluster: { instance: " +
                                           machine +
                                           R"(, nodes: 2 }
allreduce: { algorithm: [nccl, ring, best] }
messages: { sizes: 64 KiB }
goal: { samples: 1M }
)");
    const auto cluster = folder.write("c.yaml", "name: x\ncluster: { instance: " + machine +
                                                    R"(, nodes: 2 }
allreduce: { algorithm: ring }
messages: { sizes: 64 KiB }
)");
    const std::string log = (source_folder() / "tests/logs/dlami_p4d_2n.txt").string();
    for (const std::string& command :
         {"topology " + machine, "topology --dot " + machine, "topology --simgrid " + machine,
          "predict " + scenario.string(), "compare " + scenario.string(),
          "plan " + scenario.string(), "compare --nodes 2 --sizes 8B --check --instance " + machine,
          "check " + log + " --nodes 2 --instance " + machine,
          "validate ideal " + log + " --cluster " + cluster.string(),
          "calibrate " + probe.string() + " --cluster " + cluster.string()}) {
      const Result r = foreduce_says(command);
      EXPECT_LE(r.status, 2) << command << "\n" << r.out;
      EXPECT_SAYS_NOT(r.out, "exception");
    }
  }
}

}  // namespace
}  // namespace foreduce
