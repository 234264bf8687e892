// Real ranks: exact sums over libfabric, who is who, and how a run ends when something breaks.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "algorithms/core/registry.hpp"
#include "models/fit.hpp"
#include "real/launch.hpp"
#include "real/measure.hpp"
#include "real/ofi_port.hpp"
#include "real/rendezvous.hpp"
#include "tests/support/shell.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

namespace fs = std::filesystem;

using namespace test;
const std::string kProgram = FOREDUCE_PROGRAM;
Result run(const std::string& arguments) { return shell(kProgram + " run " + arguments); }

/// A port that nobody listens on now.
int free_port() {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ::bind(s, reinterpret_cast<sockaddr*>(&address), sizeof address);
  ::getsockname(s, reinterpret_cast<sockaddr*>(&address), &length);
  ::close(s);
  return ::ntohs(address.sin_port);
}

int connect_to(const char* host, int port) {
  const int s = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host, &address.sin_addr);
  if (::connect(s, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return s;
  ::close(s);
  return -1;
}

#define NEEDS_OFI() \
  if (!has_ofi()) GTEST_SKIP() << "this build has no libfabric: nothing between processes is tested"

void expect_exact(const std::string& arguments) {
  const Result r = run(arguments + " --check --warmup 0 --iterations 2 --format json");
  ASSERT_EQ(r.status, 0) << arguments << "\n" << r.out;
  const auto json = nlohmann::json::parse(r.out);
  ASSERT_FALSE(json["rows"].empty());
  for (const auto& row : json["rows"])
    for (const char* place : {"out_of_place", "in_place"}) {
      EXPECT_EQ(row[place]["wrong"], 0) << arguments << ": " << row["algorithm"] << " " << row["bytes"] << " " << place;
      EXPECT_EQ(row[place]["samples_s"].size(), 2u);
    }
}

std::string all_algorithms() {
  std::string names;
  for (const Algorithm* a : algorithms())
    if (!a->name.starts_with("nvls")) names += (names.empty() ? "" : ",") + std::string(a->name);  // those need a switch that adds
  return names;
}

TEST(RealOfi, EveryAlgorithmSumsExactlyBetweenProcesses) {
  NEEDS_OFI();
  for (const int ranks : {2, 3, 5, 8})
    expect_exact("--transport ofi --ranks " + std::to_string(ranks) + " --algorithm " + all_algorithms() +
                 " --sizes '4 B,20 KiB,600 KiB'");
}
TEST(RealOfi, NodesOfThreadsSumExactly) {
  NEEDS_OFI();
  expect_exact("--transport ofi --ranks 6 --per-process 2 --algorithm " + all_algorithms() + " --sizes '4 B,1 MiB' --segments 3");
}
TEST(RealOfi, EveryTypeSumsExactly) {
  NEEDS_OFI();
  for (const char* type : {"f32", "f64", "f16", "bf16", "i32"})
    expect_exact(std::string("--transport ofi --ranks 3 --algorithm ring,double-tree --sizes '6 KiB,1 MiB' --dtype ") + type);
}
TEST(RealOfi, SeveralRailsAndChannelsSumExactly) {
  NEEDS_OFI();
  expect_exact("--transport ofi --ranks 4 --rails 2 --channels 2 --algorithm ring,double-tree --sizes '4 B,3 MiB'");
}
TEST(RealOfi, OtherProvidersSumExactly) {
  NEEDS_OFI();
  if (shell(kProgram + " list transports --format csv").out.find("shm") == std::string::npos)
    GTEST_SKIP() << "libfabric has no shm provider here";
  expect_exact("--transport ofi --provider shm --ranks 3 --algorithm ring,direct --sizes '4 B,1 MiB'");
}
// What was registered is let go with the memory: the next data may lie at the same address.
TEST(RealOfi, RegisteredMemorySumsExactlyThoughDataMoves) {
  NEEDS_OFI();
  const int status = spawn(2, [](const ProcessPlace& here) {
    SessionOptions options;
    options.network.register_always = true;
    Session session(here, options);
    double wrong = 0;
    for (int round = 0; round < 4; ++round) {
      const Algorithm& ring = *find_algorithm("ring");
      const std::size_t count = 600'000;
      Trial trial{"ring", &ring, nullptr, with_defaults(ring, {0, 1, "ring"}, session.workers(), count * 4), count, Type::f32};
      for (const TrialResult& r : measure(session, {trial}, {.warmup = 0, .iterations = 2, .check = true}))
        wrong += r.in_place.wrong + r.out_of_place.wrong;
    }
    session.leave();
    return wrong == 0 ? 0 : 3;
  });
  EXPECT_EQ(status, 0);
}
TEST(RealThreads, EveryAlgorithmSumsExactlyInTheLoop) {
  expect_exact("--ranks 4 --algorithm " + all_algorithms() + " --sizes '4 B,20 KiB,1 MiB'");
}

TEST(RealBaseline, MpiStandsInTheSameTable) {
  if (shell(kProgram + " list transports --format csv").out.find("mpi,yes") == std::string::npos ||
      shell("command -v mpirun").status != 0)
    GTEST_SKIP() << "no MPI here: the baseline is not tested";
  expect_exact("--ranks 2 --algorithm ring,mpi --sizes '64 KiB'");
}

TEST(RealReplay, AStepWaitsForItsGradients) {
  const Result r = run("--workload resnet50 --ranks 2 --iterations 1 --warmup 0 --compute-scale 0.2 --format json");
  ASSERT_EQ(r.status, 0) << r.out;
  const auto row = nlohmann::json::parse(r.out)["rows"][0];
  EXPECT_GT(row["buckets"], 2);
  EXPECT_GE(row["median_s"].get<double>(), row["backward_s"].get<double>());
}

TEST(RealEnvironment, NoVariableIsEverWritten) {
  const Result r = shell("SECRET_TOKEN=hunter2 " + kProgram + " run --sizes '4 B' --iterations 1 --format json");
  ASSERT_EQ(r.status, 0);
  EXPECT_EQ(r.out.find("hunter2"), std::string::npos);
}

// ---- who is who

std::optional<ProcessPlace> place(std::map<std::string, std::string> variables) {
  return place_from_environment([&](const char* name) { return variables.contains(name) ? variables.at(name).c_str() : nullptr; });
}
TEST(Launch, LaunchersAreUnderstood) {
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
  EXPECT_EQ(place({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_USE_AGENT_STORE", "True"}})->port,
            29501);
  const auto mpi = place({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}});
  ASSERT_TRUE(mpi);
  EXPECT_EQ(mpi->address, "127.0.0.1");
  EXPECT_THROW(place({{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}}),
               std::invalid_argument);
  const auto slurm = place({{"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "5"},
                            {"SLURM_NTASKS", "16"},
                            {"SLURM_NODEID", "2"},
                            {"SLURM_STEP_NODELIST", "gpu[03-08],x1"}});
  ASSERT_TRUE(slurm);
  EXPECT_EQ(slurm->address, "gpu03");
  EXPECT_EQ(slurm->node, 2);
  EXPECT_FALSE(place({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "1"}}));  // an allocation's shell, not srun
}
TEST(Launch, NonsenseIsNamed) {
  for (const char* rank : {"x", "-1", "8", "1.5", ""}) try {
      place({{"RANK", rank}, {"WORLD_SIZE", "8"}});
      FAIL() << "RANK=" << rank;
    } catch (const std::invalid_argument& e) {
      EXPECT_NE(std::string(e.what()).find("RANK"), std::string::npos);
    }
}

// ---- when things break

/// What a rank's message must say.
void expect_story(const std::string& text) {
  EXPECT_NE(text.find("rank "), std::string::npos) << text;
  EXPECT_TRUE(text.find("recv") != std::string::npos || text.find("send") != std::string::npos) << text;
  EXPECT_NE(text.find("step "), std::string::npos) << text;
  EXPECT_NE(text.find(" bytes"), std::string::npos) << text;
}

TEST(Broken, AKilledRankEndsTheOthers) {
  NEEDS_OFI();
  // The shell becomes the launcher; one of its children is killed as soon as there are three.
  const Result r =
      shell(kProgram +
            " run --transport ofi --ranks 3 --sizes '16 MiB' --iterations 100000 --timeout 10 & launcher=$!; "
            "until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.05; done; sleep 3; children=$(pgrep -P $launcher | tr '\n' ' "
            "'); victim=$(pgrep -P $launcher | tail -1); kill -9 $victim; "
            "wait $launcher; status=$?; for child in $children; do [ -d /proc/$child ] && echo ORPHAN; done; exit $status");
  EXPECT_EQ(r.status, 137) << r.out;
  EXPECT_LT(r.seconds, 20);
  EXPECT_NE(r.out.find("was killed by signal 9"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("process 2 is gone"), std::string::npos) << r.out;
  EXPECT_EQ(r.out.find("ORPHAN"), std::string::npos);
  expect_story(r.out);
}

TEST(Broken, AKilledLauncherLeavesNobody) {
  NEEDS_OFI();
  const Result r = shell(
      kProgram +
      " run --transport ofi --ranks 3 --sizes '16 MiB' --iterations 100000 --timeout 10 & launcher=$!; "
      "until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.05; done; children=$(pgrep -P $launcher | tr '\\n' ' '); kill -9 "
      "$launcher; sleep 1; "
      "for child in $children; do [ -d /proc/$child ] && grep -q '^State:.[^Z]' /proc/$child/status && echo ALIVE; done; true");
  EXPECT_EQ(r.out.find("ALIVE"), std::string::npos) << r.out;
}

TEST(Broken, CtrlCEndsAllAtOnce) {
  NEEDS_OFI();
  for (const char* transport : {"threads", "ofi"}) {
    // A shell lets what it starts in the background ignore SIGINT; a terminal does not.
    const Result r = shell("setsid env --default-signal=INT " + kProgram + " run --transport " + transport +
                           " --ranks 3 --sizes '16 MiB' --iterations 100000 --timeout 20 & group=$!; sleep 2; "
                           "kill -INT -$group; wait $group; status=$?; pgrep -g $group && echo ORPHAN; exit $status");
    EXPECT_EQ(r.status, 130) << transport << "\n" << r.out;
    EXPECT_LT(r.seconds, 12);
    EXPECT_EQ(r.out.find("ORPHAN"), std::string::npos) << r.out;
  }
}

TEST(Broken, AnIgnoredSigchldHangsNobody) {
  NEEDS_OFI();
  const Result r =
      shell("timeout 30 env --ignore-signal=CHLD " + kProgram + " run --transport ofi --ranks 2 --sizes '4 KiB' --iterations 3");
  EXPECT_EQ(r.status, 0) << r.out;
}

// Some libraries below libfabric catch signals and call exit() from there.
TEST(Broken, LibrariesDoNotKeepTheSignals) {
  NEEDS_OFI();
  const Result r = shell(kProgram +
                         " run --transport ofi --ranks 2 --sizes '16 MiB' --iterations 100000 & launcher=$!; sleep 2; "
                         "for child in $(pgrep -P $launcher); do grep SigCgt /proc/$child/status; done; kill -TERM $launcher; wait "
                         "$launcher; exit $?");
  EXPECT_EQ(r.status, 143) << r.out;
  std::size_t seen = 0;
  for (std::size_t at = 0; (at = r.out.find("SigCgt:", at)) != std::string::npos; ++at, ++seen)
    EXPECT_EQ(std::stoull(r.out.substr(at + 7), nullptr, 16) & 0x4002u, 0u) << r.out;  // SIGINT, SIGTERM
  EXPECT_EQ(seen, 2u) << r.out;
}

TEST(Broken, APeerThatNeverComesIsNamed) {
  NEEDS_OFI();
  const std::string port = std::to_string(free_port());
  const Result hub =
      shell("RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + kProgram + " run --transport ofi --timeout 1");
  EXPECT_EQ(hub.status, 1);
  EXPECT_NE(hub.out.find("process 1, 2 of 3 did not come to 127.0.0.1:" + port), std::string::npos) << hub.out;
  const Result other =
      shell("RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " + kProgram + " run --transport ofi --timeout 1");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.out.find("process 0 did not answer at 127.0.0.1:" + port), std::string::npos) << other.out;
}

TEST(Broken, DisagreementIsSaidByAll) {
  NEEDS_OFI();
  for (const auto& [flag, mine, theirs] :
       std::vector<std::tuple<std::string, std::string, std::string>>{{"--sizes", "4KiB", "8KiB"},
                                                                      {"--algorithm", "ring", "direct"},
                                                                      {"--dtype", "f32", "f64"},
                                                                      {"--per-process", "1", "2"}}) {
    const std::string start = "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) + " " + kProgram +
                              " run --transport ofi --timeout 10 " + flag + " ";
    const Result r = shell("RANK=1 " + start + theirs + " & RANK=0 " + start + mine + "; first=$?; wait $!; echo status $first $?");
    EXPECT_NE(r.out.find("status 1 1"), std::string::npos) << r.out;
    EXPECT_NE(r.out.find("process 1 was started differently from process 0"), std::string::npos) << r.out;
    EXPECT_LT(r.seconds, 9) << "the disagreement was known at once";
  }
}

TEST(Broken, APortInUseIsNamed) {
  NEEDS_OFI();
  const int taken = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(::bind(taken, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(taken, 1), 0);
  ::getsockname(taken, reinterpret_cast<sockaddr*>(&address), &length);
  const Result r = shell("RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(::ntohs(address.sin_port)) +
                         " " + kProgram + " run --transport ofi --timeout 5");
  ::close(taken);
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.out.find("Address already in use"), std::string::npos) << r.out;
}

TEST(Broken, AMissingProviderNamesThoseThereAre) {
  NEEDS_OFI();
  const Result r = run("--transport ofi --provider nosuch --ranks 2 --timeout 5");
  EXPECT_EQ(r.status, 1);
  EXPECT_NE(r.out.find("no provider 'nosuch'"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("tcp"), std::string::npos) << r.out;
}

TEST(Broken, AFullDiskIsSaid) {
  const Result r = run("--sizes '4 B' --iterations 1 -o /dev/full");
  EXPECT_EQ(r.status, 2);
  EXPECT_NE(r.out.find("/dev/full: error: cannot be written"), std::string::npos) << r.out;
}

TEST(Broken, WrongWordsAreRefusedBeforeAnythingStarts) {
  for (const char* arguments : {"--algorithm rign", "--dtype f31", "--sizes 5parsec", "--ranks 0", "--transport carrier-pigeon",
                                "--ranks 3 --per-process 2 --transport ofi", "--iterations 0"}) {
    const Result r = run(arguments);
    EXPECT_EQ(r.status, 2) << arguments << "\n" << r.out;
  }
  EXPECT_NE(run("--algorithm rign").out.find("ring"), std::string::npos);
}

TEST(Rendezvous, StrangersAreDroppedWithoutHarm) {
  RendezvousOptions options;
  options.port = free_port();
  options.processes = 2;
  options.job = "ours";
  options.timeout_s = 20;
  Rendezvous hub(options);
  EXPECT_EQ(connect_to("127.0.0.2", options.port), -1) << "it listens on an address that was not given";
  std::jthread strangers([&] {
    std::vector<std::string> words = {"GET / HTTP/1.0\r\n\r\n",
                                      std::string("foreduce\xff\xff\xff\xff", 12),
                                      std::string("foreduce\0\0\0\2{]", 14),
                                      std::string(100000, '\0'),
                                      std::string("foreduce\0\0\0\2{}", 14),
                                      std::string("foreduce\0\0\0\1", 12),
                                      ""};
    for (const std::string hello :
         {R"({"process":1,"job":"theirs","settings":{},"about":{}})", R"({"process":99,"job":"ours","settings":{},"about":{}})",
          R"({"process":"1","job":"ours"})", R"({"process":0,"job":"ours","settings":{},"about":{}})", R"([1])"})
      words.push_back(std::string("foreduce\0\0\0", 11) + static_cast<char>(hello.size()) + hello);
    std::vector<int> sockets;
    for (const std::string& word : words) {
      const int s = connect_to("127.0.0.1", options.port);
      [[maybe_unused]] const auto sent = ::send(s, word.data(), word.size(), MSG_NOSIGNAL);
      sockets.push_back(s);
    }
    // One that trickles: it must not keep the real one out.
    const int slow = connect_to("127.0.0.1", options.port);
    [[maybe_unused]] const auto sent = ::send(slow, "fore", 4, MSG_NOSIGNAL);
    RendezvousOptions real = options;
    real.process = 1;
    Rendezvous member(real);
    const auto about = member.meet({{"a", 1}}, {{"name", "member"}});
    EXPECT_EQ(about.at(0)["name"], "hub");
    for (const int s : sockets) ::close(s);
    ::close(slow);
  });
  const auto about = hub.meet({{"a", 1}}, {{"name", "hub"}});
  ASSERT_EQ(about.size(), 2u);
  EXPECT_EQ(about[1]["name"], "member");
}

// ---- calibration

TEST(Fit, RecoversWhatMadeThePointsDespiteOutliers) {
  std::vector<CalibrationPoint> points;
  const double latency = 40e-6, per_byte = 1 / (0.9 * 1e9), reduce_bandwidth = 8e9, overhead = 2e-6;
  int i = 0;
  for (double bytes = 1024; bytes <= 4e6; bytes *= 2, ++i) {
    const double noise = 1 + 0.01 * ((i * 37) % 5 - 2);
    points.push_back({"exchange", "network", bytes, 1,
                      (latency + 2 * overhead + bytes * per_byte) * noise * (i == 4 ? 5 : 1)});  // one wild point
    points.push_back({"ping-pong", "network", bytes, 1, latency + 2 * overhead + bytes * per_byte});
    points.push_back({"fold", "memory", bytes, 1, 1e-7 + bytes / reduce_bandwidth});
  }
  points.push_back({"burst", "network", 1024, 1, std::max(overhead, 1024 * per_byte)});
  points.push_back({"burst", "network", 4096, 1, std::max(overhead, 4096 * per_byte)});
  const Calibration c = calibrate(points, BytesPerSecond{1e9}, BytesPerSecond{1e10}, "test");
  const LinkClass& network = c.profile.of(PathClass::network);
  EXPECT_NEAR(network.latency->value.value, latency, 0.1 * latency);
  EXPECT_NEAR(network.efficiency->value, 0.9, 0.02);
  EXPECT_NEAR(network.overhead->value.value, overhead, 0.02 * overhead);
  EXPECT_NEAR(c.profile.reduce_bandwidth->value.value, reduce_bandwidth, 0.02 * reduce_bandwidth);
  EXPECT_LE((*network.efficiency->interval)[0], network.efficiency->value);
  EXPECT_GE((*network.efficiency->interval)[1], network.efficiency->value);
  bool kept_back = false;
  for (const CalibrationError& e : c.errors)
    if (e.kind == "ping-pong") {
      EXPECT_FALSE(e.fitted);
      EXPECT_LT(e.median, 0.05);
      kept_back = true;
    }
  EXPECT_TRUE(kept_back);
  const Profile again = parse_profile("again", to_yaml(c.profile));
  EXPECT_NEAR(again.of(PathClass::network).efficiency->value, network.efficiency->value, 1e-8);
}
TEST(Fit, NothingGoesBelowZero) {
  Eigen::MatrixXd a(4, 2);
  Eigen::VectorXd b(4);
  for (int i = 0; i < 4; ++i) {
    a.row(i) << 1, 1000 * (i + 1);
    b[i] = 1e-6 * (i + 1) - 0.5e-6;  // a line that meets zero time at half a step
  }
  const LinearFit fit = fit_robust(a, b);
  EXPECT_EQ(fit.x[0], 0);
  EXPECT_GT(fit.x[1], 0);
  EXPECT_THROW(fit_robust(a.topRows(1), b.head(1)), std::invalid_argument);
}
TEST(Fit, TooFewPointsAreSaid) {
  EXPECT_THROW(calibrate({{"exchange", "network", 1024, 1, 1e-3}}, BytesPerSecond{1e9}, BytesPerSecond{1e9}, "test"), InputError);
  EXPECT_THROW(calibrate({}, BytesPerSecond{1e9}, BytesPerSecond{1e9}, "test"), InputError);
}

// ---- calibrate and validate as commands

const std::string kTestbed = std::string(FOREDUCE_SOURCE_FOLDER) + "/tests/testbed/testbed.py";

TEST(Validate, HoldsARunAgainstTheSimulator) {
  const fs::path folder = fs::path(testing::TempDir()) / "bed";
  ASSERT_EQ(shell(kTestbed + " --hosts 4 --rate 100 --write " + folder.string()).status, 0);
  // What the simulator itself says of this cluster, as if it had been measured, the last row a third too slow.
  const Result predicted = shell(kProgram + " compare --instance " + (folder / "host.yaml").string() +
                                 " --nodes 4 --algorithm ring,direct --sizes '64 KiB,1 MiB' --profile ideal --format json");
  ASSERT_EQ(predicted.status, 0) << predicted.out;
  nlohmann::json report{{"kind", "run"}, {"layout", {{"ranks", 4}}}, {"rows", nlohmann::json::array()}};
  const auto points = nlohmann::json::parse(predicted.out)["points"];
  for (const auto& p : points)
    report["rows"].push_back({{"algorithm", p["algorithm"]},
                              {"segments", p["segments"]},
                              {"count", p["count"]},
                              {"dtype", "float"},
                              {"in_place", {{"median_s", p["time_us"].get<double>() * 1e-6}}}});
  std::ofstream(folder / "run.json") << report;
  const std::string command =
      kProgram + " validate ideal " + (folder / "run.json").string() + " --cluster " + (folder / "cluster.yaml").string();
  const Result exact = shell(command + " --format json --tolerance 0.001");
  ASSERT_EQ(exact.status, 0) << exact.out;
  EXPECT_LT(nlohmann::json::parse(exact.out)["worst_error"].get<double>(), 1e-6);
  ASSERT_EQ(shell(command + " --plot " + folder.string()).status, 0);
  std::ifstream picture(folder / "ideal.svg");
  const std::string svg(std::istreambuf_iterator<char>(picture), {});
  EXPECT_EQ(svg.rfind("<svg", 0), 0u);
  EXPECT_NE(svg.find(">ring<"), std::string::npos);  // in the legend
  report["rows"].back()["in_place"]["median_s"] = 1.5 * report["rows"].back()["in_place"]["median_s"].get<double>();
  std::ofstream(folder / "run.json") << report;
  const Result wrong = shell(command + " --format json --tolerance 0.3");
  EXPECT_EQ(wrong.status, 1);
  EXPECT_NEAR(nlohmann::json::parse(wrong.out)["worst_error"].get<double>(), 1.0 / 3, 1e-6);
  for (const char* text : {"", "[]", "{}", R"({"kind":"run","rows":[{}]})", R"({"kind":"run","rows":[{"algorithm":"rign"}]})",
                           R"({"kind":"run","rows":[]})", "{\"kind\":"}) {
    std::ofstream(folder / "run.json") << text;
    const Result bad = shell(command);
    EXPECT_EQ(bad.status, 2) << text << "\n" << bad.out;
    EXPECT_NE(bad.out.find("run.json"), std::string::npos) << bad.out;
  }
}

Result on_testbed(const std::string& options, const std::string& command) {
  return shell(kTestbed + " " + options + " -- " + kProgram + " " + command);
}
#define NEEDS_TESTBED(result) \
  if ((result).status == 77) GTEST_SKIP() << "no network namespaces here: " << (result).out

TEST(Testbed, CalibratesAndAddsExactlyOnShapedCables) {
  NEEDS_OFI();
  const fs::path folder = fs::path(testing::TempDir()) / "bed4";
  const std::string bed = "--hosts 4 --rate 400 --write " + folder.string();
  const Result calibrated = on_testbed(bed, "calibrate --transport ofi --sizes 16KiB:512KiB:x2 --iterations 3 --cluster " +
                                                (folder / "cluster.yaml").string() + " -o " + (folder / "profile.yaml").string());
  NEEDS_TESTBED(calibrated);
  ASSERT_EQ(calibrated.status, 0) << calibrated.out;
  const Result ran = on_testbed(
      bed, "run --transport ofi --algorithm ring,direct --sizes 256KiB,1MiB --iterations 3 --warmup 1 --check --format json -o " +
               (folder / "run.json").string());
  ASSERT_EQ(ran.status, 0) << ran.out;
  std::ifstream in(folder / "run.json");
  const auto rows = nlohmann::json::parse(in)["rows"];
  for (const auto& row : rows) EXPECT_EQ(row["in_place"]["wrong"], 0);
  const Result validated =
      shell("cd " + folder.string() + " && " + kProgram + " validate ./profile.yaml run.json --cluster cluster.yaml --format json");
  ASSERT_EQ(validated.status, 0) << validated.out;
  // No limit on the error here: this machine is shared. The table in real/README.md is where it is judged.
  EXPECT_EQ(nlohmann::json::parse(validated.out)["points"], 4);
}

TEST(Testbed, ACutCableEndsEveryRank) {
  NEEDS_OFI();
  const Result r = on_testbed("--hosts 3 --rate 100 --cut 1:6",
                              "run --transport ofi --algorithm ring --sizes '4 MiB' --iterations 1000 --timeout 3");
  NEEDS_TESTBED(r);
  EXPECT_EQ(r.status, 1) << r.out;
  EXPECT_LT(r.seconds, 40);
  expect_story(r.out);
  for (const char* rank : {"rank 0", "rank 1", "rank 2"}) EXPECT_NE(r.out.find(rank), std::string::npos) << r.out;
}

TEST(Testbed, AKilledHostEndsEveryRank) {
  NEEDS_OFI();
  const Result r = on_testbed("--hosts 3 --rate 100 --kill 2:6",
                              "run --transport ofi --algorithm ring --sizes '4 MiB' --iterations 1000 --timeout 20");
  NEEDS_TESTBED(r);
  EXPECT_EQ(r.status, 137) << r.out;
  EXPECT_LT(r.seconds, 20) << "a closed connection is known at once";
  EXPECT_NE(r.out.find("process 2 is gone"), std::string::npos) << r.out;
  expect_story(r.out);
}

TEST(Testbed, LeavesNothingBehind) {
  const Result r = shell("links=$(ip -o link | wc -l); " + kTestbed +
                         " --hosts 2 -- sleep 31 & bed=$!; sleep 1; kill -9 $bed; sleep 1; pgrep -x -f 'sleep 31' && echo LEFT; "
                         "[ $(ip -o link | wc -l) = $links ] || echo LEFT; true");
  EXPECT_EQ(r.out.find("LEFT"), std::string::npos) << r.out;
}

}  // namespace
}  // namespace foreduce
