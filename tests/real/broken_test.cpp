// How a run ends when a process dies, settings differ, or something is missing.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "real/launch.hpp"
#include "real/session.hpp"
#include "tests/real/real_support.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

TEST(Broken, KilledRankEndsTheOthers) {
  NEEDS_OFI();
  // The shell starts the launcher and kills one of its children as soon as there are three.
  const Result r = shell(kProgram +
                         " run --transport ofi --ranks 3 --sizes '16 MiB' --iterations 100000 "
                         "--timeout 10 & launcher=$!; "
                         "until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.05; done; sleep "
                         "3; children=$(pgrep -P $launcher | tr '\n' ' "
                         "'); victim=$(pgrep -P $launcher | tail -1); kill -9 $victim; "
                         "wait $launcher; status=$?; for child in $children; do [ -d /proc/$child "
                         "] && echo ORPHAN; done; exit $status");
  EXPECT_EQ(r.status, 137) << r.out;
  EXPECT_LT(r.seconds, 20);
  EXPECT_SAYS(r.out, "was killed by signal 9");
  EXPECT_SAYS(r.out, "process 2 is gone");
  EXPECT_SAYS_NOT(r.out, "ORPHAN");
  expect_rank_report(r.out);
}

// The others end after their timeout, and a stopped process knows nothing of that.
TEST(Broken, StoppedRankEndsWithTheOthers) {
  NEEDS_OFI();
  for (const char* victim : {"head", "tail"}) {
    const Result r = shell(
        kProgram +
        " run --transport ofi --ranks 3 --sizes '1 MiB' --iterations 100000 --timeout 3 & "
        "launcher=$!; until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.05; done; sleep 2; "
        "children=$(pgrep -P $launcher | tr '\n' ' '); kill -STOP $(pgrep -P $launcher | " +
        victim + " -1); wait $launcher; status=$?; " +
        "for child in $children; do [ -d /proc/$child ] && echo ORPHAN; done; exit $status");
    EXPECT_EQ(r.status, 137) << r.out;
    EXPECT_LT(r.seconds, 2 + 3 + 5 + 1) << r.out;  // until it is stopped, timeout, and 5 s
    const std::string process = std::string(victim) == "head" ? "0" : "2";
    EXPECT_SAYS(r.out, "process " + process + " was stopped by a signal while others ended");
    EXPECT_SAYS(r.out, "made no progress for 3 s");
    EXPECT_SAYS(r.out, "rank " + process);
    EXPECT_SAYS_NOT(r.out, "ORPHAN");
    expect_rank_report(r.out);
  }
}

// libfabric's shm provider removes its files only if its process ends by itself.
TEST(Broken, KilledRanksLeaveNoSharedMemory) {
  NEEDS_OFI();
  if (shell(kProgram + " list transports --format csv").out.find("shm") == std::string::npos)
    GTEST_SKIP() << "libfabric has no shm provider here";
  for (const char* kill : {"kill -TERM $launcher", "kill -KILL ${children%% *}"}) {
    const Result r =
        shell(kProgram +
              " run --transport ofi --provider shm --ranks 2 --sizes '16 MiB' --iterations 100000 "
              "--timeout 5 & launcher=$!; sleep 2; children=$(pgrep -P $launcher | tr '\n' ' '); "
              "files() { for child in $children; do ls /dev/shm | grep \"^$child:\"; done; }; "
              "files | sed 's/^/BEFORE /'; " +
              kill + "; wait $launcher; files | sed 's/^/LEFT /'; true");
    EXPECT_SAYS(r.out, "BEFORE ");
    EXPECT_SAYS_NOT(r.out, "LEFT ") << kill << "\n" << r.out;
  }
}

// From before the ranks meet until well into the iterations: 24 moments, each rank in turn.
TEST(Broken, RanksKilledAtAnyMomentLeaveNothing) {
  NEEDS_OFI();
  const bool shm =
      shell(kProgram + " list transports --format csv").out.find("shm") != std::string::npos;
  for (int kill = 0; kill < 24; ++kill) {
    const std::string provider = shm && kill % 2 ? " --provider shm" : "",
                      moment = std::to_string(0.001 * (kill * 37 % 100) * (kill % 3 ? 15 : 1)),
                      which = std::to_string(kill % 3 + 1);
    const Result r = shell(
        kProgram + " run --transport ofi" + provider +
        " --ranks 3 --sizes '1 MiB' --iterations 100000 --timeout 10 & launcher=$!; "
        "until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.01; done; "
        "children=$(pgrep -P $launcher | tr '\n' ' '); sleep " +
        moment + "; kill -9 $(echo $children | cut -d ' ' -f " + which +
        "); wait $launcher; status=$?; for child in $children; do [ -d /proc/$child ] && echo "
        "ORPHAN; ls /dev/shm | grep \"^$child:\" | sed 's/^/LEFT /'; done; exit $status");
    EXPECT_EQ(r.status, 137) << "kill " << kill << " after " << moment << " s\n" << r.out;
    // Three timeouts: a rank that is killed while it connects lets the others wait for one, and
    // other tests may keep this machine busy.
    EXPECT_LT(r.seconds, 30) << kill;
    EXPECT_SAYS(r.out, "was killed by signal 9");
    EXPECT_SAYS_NOT(r.out, "ORPHAN");
    EXPECT_SAYS_NOT(r.out, "LEFT ");
  }
}

TEST(Broken, KilledLauncherLeavesNoProcess) {
  NEEDS_OFI();
  const Result r = shell(kProgram +
                         " run --transport ofi --ranks 3 --sizes '16 MiB' --iterations 100000 "
                         "--timeout 10 & launcher=$!; "
                         "until [ $(pgrep -P $launcher | wc -l) = 3 ]; do sleep 0.05; done; "
                         "children=$(pgrep -P $launcher | tr '\n' ' '); kill -9 "
                         "$launcher; sleep 1; "
                         "for child in $children; do [ -d /proc/$child ] && grep -q '^State:.[^Z]' "
                         "/proc/$child/status && echo ALIVE; done; true");
  EXPECT_SAYS_NOT(r.out, "ALIVE");
}

// The answer of mpirun's ranks comes through a file without a name, so none can be left or
// prepared.
TEST(Broken, KilledProgramLeavesNoMpirun) {
  NEEDS_MPI();
  for (const char* signal : {"TERM", "KILL"}) {
    const Result r = shell(
        "TMPDIR=$(mktemp -d); export TMPDIR; " + kProgram +
        " run --ranks 2 --algorithm mpi --sizes '4 MiB' --iterations 100000 --timeout 60 & "
        "program=$!; for i in $(seq 200); do mpirun=$(pgrep -P $program); ranks=$(pgrep -P "
        "${mpirun:-1} foreduce | tr '\n' ' '); [ $(echo $ranks | wc -w) = 2 ] && break; sleep "
        "0.05; done; echo $ranks RANKS; kill -" +
        signal +
        " $program; sleep 4; for one in $mpirun $ranks; do grep -q '^State:.[^Z]' "
        "/proc/$one/status 2>/dev/null && echo ALIVE $one; done; ls $TMPDIR | grep foreduce; rm -r "
        "$TMPDIR; true");
    EXPECT_SAYS_NOT(r.out, "ALIVE");
    EXPECT_SAYS_NOT(r.out, "foreduce-");
    EXPECT_SAYS(r.out, " RANKS");
    EXPECT_GE(std::atoi(r.out.c_str()), 2) << "the ranks must have started: " << r.out;
  }
}

TEST(Broken, CtrlCEndsAllProcesses) {
  NEEDS_OFI();
  for (const char* transport : {"threads", "ofi"}) {
    // Background processes of a shell ignore SIGINT, unlike those of a terminal.
    const Result r = shell(
        "setsid env --default-signal=INT " + kProgram + " run --transport " + transport +
        " --ranks 3 --sizes '16 MiB' --iterations 100000 --timeout 20 & group=$!; sleep 2; "
        "kill -INT -$group; wait $group; status=$?; pgrep -g $group && echo ORPHAN; exit $status");
    EXPECT_EQ(r.status, 130) << transport << "\n" << r.out;
    EXPECT_LT(r.seconds, 12);
    EXPECT_SAYS_NOT(r.out, "ORPHAN");
  }
}

TEST(Broken, RunEndsIfSigchldIsIgnored) {
  NEEDS_OFI();
  const Result r = shell("timeout 30 env --ignore-signal=CHLD " + kProgram +
                         " run --transport ofi --ranks 2 --sizes '4 KiB' --iterations 3");
  EXPECT_EQ(r.status, 0) << r.out;
}

// Some libraries below libfabric catch signals and call exit() in the handler.
TEST(Broken, LibrariesCatchNoSignals) {
  NEEDS_OFI();
  const Result r = shell(
      kProgram +
      " run --transport ofi --ranks 2 --sizes '16 MiB' --iterations 100000 & launcher=$!; sleep 2; "
      "for child in $(pgrep -P $launcher); do grep SigCgt /proc/$child/status; done; kill -TERM "
      "$launcher; wait "
      "$launcher; exit $?");
  EXPECT_EQ(r.status, 143) << r.out;
  std::size_t seen = 0;
  for (std::size_t at = 0; (at = r.out.find("SigCgt:", at)) != std::string::npos; ++at, ++seen)
    EXPECT_EQ(std::stoull(r.out.substr(at + 7), nullptr, 16) & 0x4002u, 0u)
        << r.out;  // SIGINT, SIGTERM
  EXPECT_EQ(seen, 2u) << r.out;
}

// A process that dies before the meeting cost the others the whole timeout.
TEST(Broken, DeathBeforeTheMeetingEndsTheOthersAtOnce) {
  NEEDS_OFI();
  for (const int victim : {0, 2}) {
    const auto start = std::chrono::steady_clock::now();
    std::string path = testing::TempDir() + "foreduce-death-XXXXXX";
    const int file = ::mkstemp(path.data());
    const int status = spawn(3, [&](const ProcessPlace& place) {
      if (place.process == victim) ::raise(SIGKILL);
      SessionOptions options;
      options.timeout_s = 60;
      try {
        const Session session(place, options);
      } catch (const TransportError& e) {
        const std::string line = std::string(e.what()) + "\n";
        return ::write(file, line.data(), line.size()) > 0 ? 1 : 2;
      }
      return 0;
    });
    EXPECT_EQ(status, 137);
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
    std::ifstream said(path);
    int lines = 0;
    for (std::string line; std::getline(said, line); ++lines)
      EXPECT_SAYS(line, "process " + std::to_string(victim) +
                            " was killed by signal 9 (Killed) before all processes had met");
    EXPECT_EQ(lines, 2);
    ::close(file);
    ::unlink(path.c_str());
  }
}

TEST(Broken, NamesThePeerThatNeverComes) {
  NEEDS_OFI();
  const std::string port = std::to_string(free_port());
  const Result hub = shell("RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " +
                           kProgram + " run --transport ofi --timeout 1");
  EXPECT_EQ(hub.status, 1);
  EXPECT_SAYS(hub.out, "process 1, 2 of 3 did not come to 127.0.0.1:" + port);
  const Result other = shell("RANK=1 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + port + " " +
                             kProgram + " run --transport ofi --timeout 1");
  EXPECT_EQ(other.status, 1);
  EXPECT_SAYS(other.out, "process 0 did not answer at 127.0.0.1:" + port);
}

TEST(Broken, AllProcessesReportDifferentSettings) {
  NEEDS_OFI();
  for (const auto& [flag, mine, theirs] :
       std::vector<std::tuple<std::string, std::string, std::string>>{
           {"--sizes", "4KiB", "8KiB"},
           {"--algorithm", "ring", "direct"},
           {"--dtype", "f32", "f64"},
           {"--per-process", "1", "2"}}) {
    const std::string start =
        "WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(free_port()) + " " +
        kProgram + " run --transport ofi --timeout 10 " + flag + " ";
    const Result r = shell("RANK=1 " + start + theirs + " & RANK=0 " + start + mine +
                           "; first=$?; wait $!; echo status $first $?");
    EXPECT_SAYS(r.out, "status 1 1");
    EXPECT_SAYS(r.out, "process 1 was started differently from process 0");
    EXPECT_LT(r.seconds, 9) << "the difference is known at once, before the timeout";
  }
}

TEST(Broken, ReportsThatThePortIsInUse) {
  NEEDS_OFI();
  const BoundSocket taken;
  ASSERT_TRUE(taken.listen());
  const Result r = shell(
      "RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" + std::to_string(taken.port()) +
      " " + kProgram + " run --transport ofi --timeout 5");
  EXPECT_EQ(r.status, 1);
  EXPECT_SAYS(r.out, "Address already in use");
}

TEST(Broken, MissingProviderListsTheExistingOnes) {
  NEEDS_OFI();
  const Result r = run("--transport ofi --provider nosuch --ranks 2 --timeout 5");
  EXPECT_EQ(r.status, 2);
  EXPECT_TRUE(r.out.starts_with("error: --provider: libfabric has no provider 'nosuch'")) << r.out;
  EXPECT_EQ(r.out.find("nosuch"), r.out.rfind("nosuch")) << "once, whatever the ranks: " << r.out;
  EXPECT_SAYS(r.out, "tcp");
}

TEST(Broken, AddressesOfOtherHostsAreRefused) {
  NEEDS_OFI();
  for (const char* address : {"banana", "192.0.2.1"}) {
    const Result r =
        run("--transport ofi --ranks 2 --sizes 1KiB --address " + std::string(address));
    EXPECT_EQ(r.status, 2);
    EXPECT_SAYS(r.out, "error: --address: this host has no IPv4 address '" + std::string(address));
    EXPECT_SAYS(r.out, "\n  accepted: ");
  }
  EXPECT_EQ(run("--transport ofi --ranks 2 --sizes 1KiB --address 127.0.0.1").status, 0);
  const Result none = run("--transport ofi --ranks 2 --sizes 1KiB --provider ''");
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "error: --provider: the value is empty");
}

TEST(Broken, ReportsAFullDisk) {
  const Result r = run("--sizes '4 B' --iterations 1 -o /dev/full");
  EXPECT_EQ(r.status, 2);
  EXPECT_SAYS(r.out, "/dev/full: error: cannot be written");
}

TEST(Broken, RefusesWrongArgumentsBeforeStarting) {
  for (const char* arguments : {"--algorithm rign", "--dtype f31", "--sizes 5parsec", "--ranks 0",
                                "--transport carrier-pigeon",
                                "--ranks 3 --per-process 2 --transport ofi", "--iterations 0"}) {
    const Result r = run(arguments);
    EXPECT_EQ(r.status, 2) << arguments << "\n" << r.out;
  }
  EXPECT_SAYS(run("--algorithm rign").out, "ring");
}

}  // namespace
}  // namespace foreduce
