// `foreduce calibrate` of logs of nccl-tests: a profile of one's own cluster.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "tests/support/files.hpp"
#include "tests/support/probes.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;

std::string log_path(const std::string& name) {
  return (source_folder() / "tests" / "logs" / name).string();
}

/// Errors of a set's totals, as `show` of a report gives them.
double error_of_set(const nlohmann::json& report, const std::string& set, const char* range) {
  for (const auto& e : report["errors"])
    if (e["source"] == "all" && e["set"] == set) return e[range]["geometric_mean_error"];
  ADD_FAILURE() << "no total of " << set;
  return NAN;
}

/// What the program says of a calibration, with the profile in `file`.
nlohmann::json calibrated(const std::string& logs, const fs::path& file, int rounds = 2) {
  const Result r = foreduce_says(fmt::format("calibrate {} --rounds {} --format json -o {} 2>&1",
                                             logs, rounds, file.string()));
  EXPECT_EQ(r.status, 0) << r.out;
  return nlohmann::json::parse(r.out, nullptr, false);
}

/// nccl-tests' table of two and of four nodes of a cluster that the shipped profile does not know:
/// what a known profile with other numbers predicts.
std::string log_by(const fs::path& profile, int nodes, const TemporaryFolder& folder,
                   const std::string& collective = "all_reduce") {
  const Result r = foreduce_says(fmt::format(
      "compare --instance p4d.24xlarge --nodes {} --algorithm nccl --sizes 1KiB:256MiB:x4 "
      "--profile {} --format nccl-tests --collective {}",
      nodes, profile.string(), collective));
  EXPECT_EQ(r.status, 0) << r.out;
  return folder.write(fmt::format("{}-{}.log", collective, nodes), r.out).string();
}

std::string with_number(std::string profile, const std::string& after, const std::string& value,
                        const std::string& indent) {
  const auto at = profile.find("value: ", profile.find(after));
  const auto end = profile.find("source:", at);  // without its interval, which was of another
  return profile.replace(at, end - at,
                         "value: " + value + "\n" + indent + "origin: fitted\n" + indent);
}

TEST(CalibrateLogs, FindsAnotherClustersTimesOnMoreNodes) {
  const TemporaryFolder folder;
  std::string profile = read_text(source_folder() / "models/profiles/nccl-a100.yaml");
  profile = with_number(profile, "  network:\n    latency:", "60 us", "      ");
  profile = with_number(profile, "launch:", "30 us", "  ");
  const fs::path truth = folder.write("truth.yaml", profile), mine = folder.path() / "mine.yaml";
  const std::string two = log_by(truth, 2, folder), four = log_by(truth, 4, folder);
  const auto report = calibrated(two + " --instance p4d.24xlarge --nodes 2", mine);
  EXPECT_LT(error_of_set(report, "every other size", "below_1MiB"), 0.05);
  EXPECT_GT(error_of_set(report, "as shipped", "below_1MiB"), 0.25);
  const auto rows = [&](const fs::path& by) {
    std::map<double, double> times;
    const auto compared = json_of(
        "compare --instance p4d.24xlarge --nodes 4 --algorithm nccl "
        "--sizes 1KiB:256MiB:x4 --profile " +
        by.string());
    for (const auto& p : compared["points"]) times[p["bytes"]] = p["time_us"];
    return times;
  };
  const auto want = rows(truth), got = rows(mine);
  double off = 0;
  for (const auto& [bytes, time] : want) off += std::abs(std::log(got.at(bytes) / time));
  EXPECT_LT(off / static_cast<double>(want.size()), 0.1) << "four nodes, of which it saw none";
  // Both logs at once: each is predicted from the other, too. An all-gather beside them is
  // predicted, and not fitted.
  const std::string gather = log_by(truth, 2, folder, "all_gather");
  const Result both = foreduce_says("calibrate " + gather + " " + two + " " + four +
                                    " --instance p4d.24xlarge --rounds 1 -o " + mine.string());
  EXPECT_EQ(both.status, 0) << both.out;
  EXPECT_SAYS(both.out, "node counts that it had not seen");
  EXPECT_SAYS(both.out, "than it is fitted to, by");
  const Result none =
      foreduce_says("calibrate " + gather + " --instance p4d.24xlarge -o " + mine.string());
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "there is no all-reduce in this log");
  EXPECT_SAYS(none.out, "--collective all_gather fits the profile to what is there");
}

TEST(CalibrateLogs, FitsTheCollectivesThatAreAsked) {
  const TemporaryFolder folder;
  std::string profile = read_text(source_folder() / "models/profiles/nccl-a100.yaml");
  profile = with_number(profile, "launch:", "60 us", "  ");
  const fs::path truth = folder.write("truth.yaml", profile), mine = folder.path() / "mine.yaml";
  const std::string gather = log_by(truth, 2, folder, "all_gather"),
                    scatter = log_by(truth, 2, folder, "reduce_scatter");
  const auto report =
      calibrated(gather + " " + scatter + " --instance p4d.24xlarge --collective all_gather", mine);
  EXPECT_EQ(report["fitted_to"], gather);
  EXPECT_LT(error_of_set(report, "every other size", "below_1MiB"),
            0.7 * error_of_set(report, "as shipped", "below_1MiB"));
  EXPECT_LT(error_of_set(report, "other collectives", "below_1MiB"), 0.05) << "a reduce-scatter";
  // What the profile was compared with decides how sure its predictions are.
  const auto widened = [&](const std::string& collective) {
    return json_of(
               "compare --instance p4d.24xlarge --nodes 2 --algorithm nccl --sizes 64KiB "
               "--collective " +
               collective + " --profile " + mine.string())["points"][0]["interval_widened"]
        .get<bool>();
  };
  EXPECT_FALSE(widened("all_gather"));
  EXPECT_TRUE(widened("reduce_scatter"));
  EXPECT_TRUE(widened("all_reduce"));
  const Result two = foreduce_says("calibrate " + gather + " " + scatter +
                                   " --instance p4d.24xlarge --rounds 1 -o " + mine.string() +
                                   " --collective all_gather,reduce_scatter");
  EXPECT_EQ(two.status, 0) << two.out;
  EXPECT_SAYS_NOT(two.out, "than it is fitted to");
  EXPECT_FALSE(widened("reduce_scatter"));
  EXPECT_SAYS(foreduce_says("calibrate " + gather + " --collective alltoall " +
                            "--instance p4d.24xlarge -o " + mine.string())
                  .out,
              "there is no all-to-all in this log");
}

TEST(CalibrateLogs, PredictsSizesItHasNotSeenBetterThanTheShippedProfile) {
  const TemporaryFolder folder;
  const auto report =
      calibrated(log_path("eksefa_p3dn_2n_1gpu.txt") + " --instance p3dn.24xlarge --nodes 2",
                 folder.path() / "mine.yaml");
  for (const char* range : {"below_1MiB", "from_1MiB"})
    EXPECT_LT(error_of_set(report, "every other size", range),
              0.5 * error_of_set(report, "as shipped", range));
  const Result used = foreduce_says(
      "compare --instance p3dn.24xlarge --nodes 2 --gpus-per-node 1 --algorithm nccl --sizes 1MiB "
      "--profile " +
      (folder.path() / "mine.yaml").string());
  EXPECT_EQ(used.status, 0) << used.out;
  EXPECT_SAYS_NOT(used.out, "not calibrated");
}

TEST(CalibrateLogs, KeepsWhatTheLogsDoNotTell) {
  const TemporaryFolder folder;
  calibrated(log_path("awsome_p5_1n_batch.txt") + " --instance p5.48xlarge --nodes 1",
             folder.path() / "mine.yaml", 1);
  const std::string mine = read_text(folder.path() / "mine.yaml"),
                    shipped = read_text(source_folder() / "models/profiles/nccl-h100.yaml");
  const auto network = [](const std::string& profile) {
    const auto from = profile.find("  network:");
    return profile.substr(from, profile.find("  nvlink:") - from);
  };
  EXPECT_EQ(network(mine), network(shipped)) << "one node says nothing of the network";
}

TEST(CalibrateLogs, SaysWhatItNeeds) {
  const TemporaryFolder folder;
  const std::string p4d = log_path("dlami_p4d_2n.txt");
  EXPECT_SAYS(foreduce_says("calibrate " + p4d).out, "give --instance");
  const fs::path report = folder.write("probe.json", R"({"foreduce_version":"1","kind":"probe"})");
  EXPECT_SAYS(foreduce_says("calibrate " + report.string()).out, "calibrate needs --cluster");
  const fs::path cluster = folder.write("c.yaml", R"(
name: x
cluster: { instance: p4d.24xlarge, nodes: 2 }
allreduce: { algorithm: ring }
messages: { sizes: 64 KiB }
)");
  EXPECT_SAYS(
      foreduce_says("calibrate " + p4d + " --instance p4d.24xlarge --cluster " + cluster.string())
          .out,
      "cannot be given together");
  EXPECT_SAYS(foreduce_says("calibrate " + p4d + " --instance p4d.24xlarge --nccl-version new").out,
              "no release of NCCL");
  std::string wrong = read_text(p4d);
  wrong.replace(wrong.find("  0\n"), 4, "  7\n");
  const Result refused = foreduce_says("calibrate " + folder.write("wrong.log", wrong).string() +
                                       " --instance p4d.24xlarge --nodes 2");
  EXPECT_EQ(refused.status, 2) << refused.out;
  EXPECT_SAYS(refused.out, "wrong");
  EXPECT_SAYS(foreduce_says("calibrate " + folder.write("x.log", "size\n").string()).out, "x.log");
  EXPECT_EQ(foreduce_says("calibrate --reference --collective all_gather").status, 2);
  EXPECT_EQ(foreduce_says("calibrate --reference --instance p4d.24xlarge").status, 2);
  // A cluster that no profile of p4d can be: the times are another machine's.
  const Result other = foreduce_says("calibrate " + log_path("awsome_p5_2n.txt") +
                                     " --instance p4d.24xlarge --nodes 2 --rounds 1 -o " +
                                     (folder.path() / "other.yaml").string());
  EXPECT_SAYS(other.out, "does not describe these logs");
  EXPECT_EQ(other.status, 1);
}

// A profile of old software predicts old software.
TEST(CalibrateLogs, RemembersTheReleaseThatRan) {
  const TemporaryFolder folder;
  const std::string on = "--instance p4d.24xlarge --nodes 4 --algorithm nccl --sizes 8B:64MiB:x8 ";
  const std::string log =
      folder
          .write("old.log",
                 foreduce_says("compare " + on + "--nccl-version 2.10 --format nccl-tests").out)
          .string();
  const fs::path mine = folder.path() / "mine.yaml";
  calibrated(log + " --instance p4d.24xlarge --nodes 4 --nccl-version 2.10", mine);
  EXPECT_SAYS(read_text(mine), "nccl_release: \"2.10\"");
  std::string misspelt = read_text(mine);
  misspelt.replace(misspelt.find("\"2.10\""), 6, "\"2.99\"");
  const Result refused =
      foreduce_says("compare " + on + "--profile " + folder.write("bad.yaml", misspelt).string());
  EXPECT_EQ(refused.status, 2) << refused.out;
  EXPECT_SAYS(refused.out, "nccl_release: there is no release of NCCL called '2.99'");
  const auto first = [&](const std::string& more) {
    return json_of("compare " + on + more)["points"][0]["time_us"].get<double>();
  };
  const double old = first("--nccl-version 2.10");
  EXPECT_NEAR(first("--profile " + mine.string()) / old, 1, 0.05);
  EXPECT_GT(std::abs(std::log(first("") / old)), 0.3) << "the newest is another";
}

// Machines that are like an instance type have their measurements under its name.
TEST(CalibrateLogs, KnowTheClusterThatTheyAreOf) {
  const TemporaryFolder folder;
  const fs::path mine = folder.path() / "mine.yaml";
  const std::string machine =
      (source_folder() / "topologies" / "elsewhere" / "hgx-h100-ib.yaml").string();
  const auto report =
      calibrated(log_path("nebius_h100_ib_2n.txt") + " --instance " + machine, mine, 1);
  EXPECT_LT(error_of_set(report, "every other size", "from_1MiB"), 0.1);
  const auto points = json_of("compare --nodes 2 --algorithm nccl --sizes 1GiB --instance " +
                              machine + " --profile " + mine.string())["points"];
  EXPECT_EQ(points[0]["interval_widened"], false) << points[0];
}

TEST(CalibrateLogs, TellsThatTheyAreOfASickCluster) {
  const TemporaryFolder folder;
  const auto remarks = [&](const std::string& log) {
    const std::string kept = (folder.path() / log).string() + ".yaml";
    const Result r = foreduce_says(
        fmt::format("calibrate {} --instance p4d.24xlarge --rounds 1 --format json -o {} 2>&1",
                    log_path(log), kept));
    return nlohmann::json::parse(r.out)["remarks"].dump();
  };
  const std::string sick = remarks("skypilot_p4d_2n_one_efa.txt");
  EXPECT_SAYS(sick, "1 of 4 rails carries everything");
  EXPECT_SAYS(sick, "the profile describes it as it is, fault included");
  EXPECT_SAYS_NOT(remarks("skypilot_p4d_2n.txt"), "fault");
}

TEST(Calibrate, ExitStatusSaysWhetherTheProfileDescribesItsMessages) {
  const TemporaryFolder folder;
  // It asks nothing but what the cluster is.
  const auto cluster =
      folder.write("c.yaml", "cluster: { instance: p4d.24xlarge, nodes: 2 }\n").string();
  EXPECT_SAYS(foreduce_says("compare " + cluster).out, "compare needs message sizes");
  EXPECT_SAYS(foreduce_says("predict " + cluster).out, "predict needs a workload");
  const auto calibrated_to = [&](double disturbed) {
    const auto report = folder.write("probe.json", probe_report([=](int place, double bytes) {
                                       const double time = 1e-5 + bytes * 1e-9;
                                       return place % 3 == 0 ? disturbed * time : time;
                                     }));
    return foreduce_says("calibrate " + report.string() + " --cluster " + cluster + " -o " +
                         (folder.path() / "profile.yaml").string());
  };
  const Result calm = calibrated_to(1);
  EXPECT_EQ(calm.status, 0) << calm.out;
  EXPECT_SAYS(calm.out, "Medians are within ");
  const Result disturbed = calibrated_to(20);
  EXPECT_EQ(disturbed.status, 1) << disturbed.out;
  EXPECT_SAYS(disturbed.out, "Do not predict with it.");
}

}  // namespace
}  // namespace foreduce
