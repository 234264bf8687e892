// What terminals, containers and log shippers make of a log, and how it says that a run failed.
#include "scenarios/validation/log_text.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "scenarios/report/gzip.hpp"
#include "scenarios/validation/nccl_log.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

const std::string kPrinted =
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 8589934592 step: 2(factor)\n"
    "#  size  count  type  redop  root  time  algbw  busbw #wrong\n"
    "1048576 262144 float sum -1 408.7 2.57 4.81 0\n"
    "# Avg bus bandwidth    : 4.81\n";

std::string wide(const std::string& text, bool big_endian) {
  std::string bytes = big_endian ? "\xfe\xff" : "\xff\xfe";
  for (const char c : text) bytes += big_endian ? std::string{'\0', c} : std::string{c, '\0'};
  return bytes;
}

TEST(LogText, IsReadWhateverItsEncoding) {
  constexpr std::size_t kMost = 1 << 20;
  EXPECT_EQ(readable("x", gzipped(kPrinted), kMost), kPrinted);
  EXPECT_EQ(readable("x", gzipped(kPrinted) + gzipped("more"), kMost), kPrinted + "more");
  for (const bool big_endian : {false, true})
    EXPECT_EQ(readable("x", wide(kPrinted, big_endian), kMost), kPrinted);
  EXPECT_EQ(readable("x", "one\rtwo\r\nthree\r", kMost), "one\ntwo\r\nthree\r");
  EXPECT_SAYS(error_of([] { readable("x", "\x1f\x8b and no gzip", kMost); }), "cannot be unpacked");
  EXPECT_SAYS(error_of([] { readable("x", gzipped(kPrinted).substr(0, 30), kMost); }),
              "cannot be unpacked");
  EXPECT_SAYS(error_of([] { readable("x", gzipped(std::string(1 << 21, 'x')), kMost); }),
              "is larger than 1 MiB");
}

/// The lines of a text, each wrapped.
template <class Wrap>
std::string wrapped_lines(std::string text, Wrap wrap) {
  std::string all;
  for (std::size_t end; (end = text.find('\n')) != std::string::npos; text.erase(0, end + 1))
    all += wrap(text.substr(0, end)) + "\n";
  return all;
}

TEST(LogText, IsUnwrappedLineByLine) {
  using nlohmann::json;
  const auto docker = [](const std::string& line) {
    return json{{"log", line + "\n"}, {"stream", "stdout"}, {"attrs", {{"tag", {1, 2}}}}}.dump();
  };
  const auto cloudwatch = [](const std::string& line) {
    return json{{"timestamp", 1}, {"message", line}}.dump();
  };
  const auto logfmt = [](const std::string& line) { return "level=info msg=\"" + line + "\""; };
  for (const std::string& text :
       {wrapped_lines(kPrinted, docker), wrapped_lines(kPrinted, cloudwatch),
        wrapped_lines(kPrinted, logfmt)}) {
    const NcclLog log = parse_nccl_log("x.log", text);
    ASSERT_EQ(log.tables.size(), 1u) << text;
    EXPECT_EQ(log.tables[0].rows.at(0).bytes, 1048576);
    EXPECT_TRUE(log.tables[0].ended);
    EXPECT_EQ(log.notes, parse_nccl_log("x.log", kPrinted).notes);
  }
  json events = json::array();
  wrapped_lines(kPrinted, [&](const std::string& line) {
    events.push_back({{"message", line}, {"timestamp", 1}});
    return line;
  });
  for (const json& all : {events, json{{"events", events}}})
    EXPECT_EQ(parse_nccl_log("x.log", all.dump()).tables.size(), 1u);
  EXPECT_FALSE(unwrapped("{ \"no\": \"text\" }"));
  EXPECT_FALSE(unwrapped("1048576 262144 float sum -1 408.7 2.57 4.81 0"));
}

TEST(LogText, SaysThatARunFailed) {
  EXPECT_EQ(failure_in("--- mpirun noticed that process rank 1 exited on signal 9 (Killed)."),
            "mpirun noticed that process rank 1 exited on signal 9 (Killed).");
  for (const char* line :
       {"srun: error: node-1: task 11: Out Of Memory", "Test timeout (600s) node-1 pid 4711",
        "slurmstepd: error: *** STEP 4711.0 ON node-1 CANCELLED AT … DUE TO TIME LIMIT ***",
        "NVRM: Xid (PCI:0000:53:00): 79, GPU has fallen off the bus.",
        "NCCL WARN NET/IB : Got completion from peer 10.0.0.11 with status=12"})
    EXPECT_TRUE(failure_in(line)) << line;
  EXPECT_FALSE(failure_in("NCCL WARN NET/OFI aws-ofi-nccl is not the newest"));
  EXPECT_LE(
      failure_in("srun: error: " + std::string(1000, '\x01') + std::string(1000, 'x'))->size(),
      120u);
}

// Rows that are whole say nothing of a run that died before it printed any.
TEST(LogText, ReadsARunThatDiedOrHung) {
  const std::string heading = kPrinted.substr(0, kPrinted.find("1048576"));
  const auto failed = [](const std::string& text) {
    return parse_nccl_log("x.log", text).failed_runs;
  };
  EXPECT_TRUE(failed(kPrinted).empty());
  EXPECT_TRUE(failed(kPrinted + kPrinted).empty());
  EXPECT_TRUE(failed("srun: error: of an earlier job step\n" + kPrinted).empty());
  ASSERT_EQ(failed(kPrinted + heading).size(), 1u);
  EXPECT_EQ(failed(kPrinted + heading)[0].line, 5);
  EXPECT_EQ(failed(kPrinted + heading)[0].failure, "");
  const auto between = failed(kPrinted + heading + "srun: error: node-1: Killed\n" + kPrinted);
  ASSERT_EQ(between.size(), 1u);
  EXPECT_EQ(between[0].failure, "srun: error: node-1: Killed");
  EXPECT_EQ(parse_nccl_log("x.log", kPrinted + "srun: error: node-1: Killed\n").tables[0].failure,
            "srun: error: node-1: Killed");
}

}  // namespace
}  // namespace foreduce
