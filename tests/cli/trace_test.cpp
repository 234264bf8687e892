// Traces of a step and of a collective, read back: what is exposed adds up to the report's number,
// counters integrate to the links' bytes, and rows are what trace viewers accept.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;
namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kClose = 1e-9;

/// The trace that a command writes, uncompressed by gzip's own program.
json trace_of(const std::string& arguments) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "trace.json.gz";
  const Result r = foreduce_says(arguments + " --no-cost --trace " + file.string());
  EXPECT_EQ(r.status, 0) << r.out;
  return json::parse(shell("gzip -dc " + file.string()).out, nullptr, false);
}

/// Events of that phase.
std::vector<json> events_of(const json& trace, const std::string& phase) {
  std::vector<json> some;
  for (const json& e : trace.at("traceEvents"))
    if (e.at("ph") == phase) some.push_back(e);
  return some;
}

bool computes(const json& slice) {
  return slice.at("cat") == "kernel" &&
         slice.at("name").get<std::string>().find("nccl") == std::string::npos;
}
bool communicates(const json& slice) { return slice.at("cat") == "kernel" && !computes(slice); }

double end_of(const json& slice) {
  return slice.at("ts").get<double>() + slice.at("dur").get<double>();
}

/// No slice of a row begins before the one before it has ended, in whole nanoseconds: Perfetto
/// rounds start and duration, each for itself, and reports rows whose slices overlap.
void expect_rows_in_order(const json& trace) {
  const auto nanoseconds = [](const json& microseconds) {
    return std::llround(1000 * microseconds.get<double>());
  };
  std::map<std::pair<int, int>, std::map<double, std::pair<long long, long long>>> rows;
  for (const json& e : events_of(trace, "X")) {
    const long long begin = nanoseconds(e.at("ts"));
    rows[{e.at("pid"), e.at("tid")}][e.at("ts")] = {begin, begin + nanoseconds(e.at("dur"))};
  }
  ASSERT_FALSE(rows.empty());
  for (const auto& [row, slices] : rows) {
    long long before = 0;
    for (const auto& [start, slice] : slices) {
      EXPECT_GE(slice.first, before) << "row " << row.second << " of " << row.first;
      before = slice.second;
    }
  }
}

/// Counters are rates in GB/s over microseconds.
void expect_counters_are_the_links_bytes(const json& trace) {
  std::map<std::string, std::vector<std::pair<double, double>>> counters;
  for (const json& e : events_of(trace, "C"))
    counters[e.at("name")].emplace_back(e.at("ts"), e.at("args").at("GB/s"));
  const json& bytes = trace.at("otherData").at("link_bytes");
  ASSERT_EQ(counters.size(), bytes.size());
  ASSERT_FALSE(counters.empty());
  for (const auto& [link, values] : counters) {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < values.size(); ++i)
      sum += values[i].second * 1e9 * (values[i + 1].first - values[i].first) * 1e-6;
    EXPECT_EQ(values.back().second, 0) << link;
    EXPECT_NEAR(sum / bytes.at(link).get<double>(), 1, kClose) << link;
  }
}

struct Step {
  const char* name;
  std::string arguments;
};
void PrintTo(const Step& step, std::ostream* out) { *out << step.name; }

class StepTrace : public testing::TestWithParam<Step> {};

TEST_P(StepTrace, AddsUpToTheReport) {
  const json trace = trace_of("predict " + GetParam().arguments);
  ASSERT_TRUE(trace.is_object());
  const json report = json_of("predict " + GetParam().arguments + " --no-cost");
  const json& p = report.at("points").at(0);
  EXPECT_EQ(trace.at("otherData").at("point").at("step_time_s"), p.at("step_time_s"));
  double exposed = 0, compute = 0, bubble = 0, end = 0;
  std::size_t collectives = 0;
  for (const json& e : events_of(trace, "X")) {
    end = std::max(end, end_of(e));
    if (e.at("cat") == "exposed") exposed += e.at("dur").get<double>();
    if (e.at("cat") == "bubble") bubble += e.at("dur").get<double>();
    if (computes(e)) compute += e.at("args").at("alone_us").get<double>();
    collectives += communicates(e);
  }
  const double step = 1e6 * p.at("step_time_s").get<double>();
  const auto expect_microseconds = [&](double found, double seconds) {
    EXPECT_NEAR(found, 1e6 * seconds, kClose * step);
  };
  expect_microseconds(end, p.at("step_time_s"));
  expect_microseconds(exposed, p.at("exposed_communication_s"));
  expect_microseconds(bubble, p.at("pipeline_bubble_s"));
  expect_microseconds(
      compute, p.at("compute_time_s").get<double>() + p.at("straggler_wait_s").get<double>());
  std::size_t counted = 0;
  for (const json& use : p.at("collectives")) counted += use.at("count").get<std::size_t>();
  EXPECT_EQ(collectives, counted);
  expect_rows_in_order(trace);
  expect_counters_are_the_links_bytes(trace);
}

INSTANTIATE_TEST_SUITE_P(
    strategies, StepTrace,
    testing::Values(
        Step{"buckets", scenario_path("first-look") + " --point 6"},
        Step{"accumulation",
             scenario_path("first-look") + " --point 6 --set workload.accumulation=3"},
        Step{"overhead",
             scenario_path("first-look") + " --point 6 --set workload.step_overhead=50ms"},
        Step{"zero2", scenario_path("ddp-or-fsdp-g5") + " --point 7"},
        Step{"zero3", scenario_path("ddp-or-fsdp-g5") + " --point 8"},
        Step{"stages", scenario_path("llama2-70b-p5-hsdp") +
                           " --point 0 --set workload.pipeline=2 --set workload.tensor_parallel=2"},
        Step{"stages_and_overhead",
             scenario_path("llama2-70b-p5-hsdp") +
                 " --point 0 --set workload.pipeline=2 --set workload.tensor_parallel=2 "
                 "--set workload.step_overhead=50ms"}),
    [](const auto& step) { return std::string(step.param.name); });

TEST(StepTraceFile, IsPlainUnlessItsEndingIsGz) {
  const TemporaryFolder folder;
  const std::string plain = (folder.path() / "a.json").string(), packed = plain + ".gz",
                    question = "predict " + scenario_path("first-look") + " --point 2 --no-cost";
  ASSERT_EQ(foreduce_says(question + " --trace " + plain).status, 0);
  ASSERT_EQ(foreduce_says(question + " --trace " + packed).status, 0);
  EXPECT_FALSE(json::parse(read_text(plain), nullptr, false).is_discarded());
  EXPECT_EQ(shell("gzip -dc " + packed).out, read_text(plain));
}

// A box for every slice of the trace, with the same times; and one row for each kind.
TEST(StepTraceFile, IsADrawingIfItsEndingIsSvg) {
  const TemporaryFolder folder;
  const std::string drawing = (folder.path() / "step.svg").string(),
                    events = (folder.path() / "step.json").string(),
                    question = "predict " + scenario_path("llama2-7b-p4d-fsdp") +
                               " --point 5 --no-cost --trace ";
  ASSERT_EQ(foreduce_says(question + drawing).status, 0);
  ASSERT_EQ(foreduce_says(question + events).status, 0);
  const std::string svg = read_text(drawing);
  const auto count = [&svg](const std::string& what) {
    std::size_t found = 0;
    for (std::size_t at = 0; (at = svg.find(what, at)) != std::string::npos; ++at) ++found;
    return found;
  };
  std::size_t slices = 0;
  const json trace = json::parse(read_text(events));
  for (const json& e : trace.at("traceEvents")) slices += e.at("ph") == "X";
  EXPECT_GT(slices, 100u);
  EXPECT_EQ(count("<title>"), slices);
  EXPECT_EQ(count("></text>"), 0u);
  EXPECT_EQ(count("</svg>"), 1u);
  for (const char* row : {"compute", "all_gather", "reduce_scatter", "all_reduce", "exposed"})
    EXPECT_EQ(count(std::string(">") + row + "</text>"), 1u) << row;
  EXPECT_EQ(count("x=\"-"), 0u);
  EXPECT_EQ(foreduce_says(question + drawing + ".gz").status, 2);
  const Result collective =
      foreduce_says("compare --instance p4d.24xlarge --sizes 1MiB --trace x.svg");
  EXPECT_EQ(collective.status, 2);
  EXPECT_SAYS(collective.out, "a drawing is of a training step");
}

// Equal buckets told their size and schedule as often as there are such buckets.
TEST(StepTraceFile, DrawingTellsOfEachBucketOnce) {
  const TemporaryFolder folder;
  const std::string drawing = (folder.path() / "step.svg").string();
  ASSERT_EQ(
      foreduce_says("predict " + scenario_path("first-look") + " --point 6 --trace " + drawing)
          .status,
      0);
  const std::string svg = read_text(drawing);
  std::size_t buckets = 0, by = 0;
  for (std::size_t at = 0; (at = svg.find("<title>all_reduce", at)) != std::string::npos; ++at)
    ++buckets;
  for (std::size_t at = 0; (at = svg.find(" by ", at)) != std::string::npos; ++at) ++by;
  EXPECT_GT(buckets, 5u);
  EXPECT_EQ(by, buckets);
}

// A .pdf was written, with JSON in it.
TEST(StepTraceFile, IsRefusedWithAnotherEnding) {
  const TemporaryFolder folder;
  const std::string file = (folder.path() / "step.pdf").string();
  const Result step =
      foreduce_says("predict " + scenario_path("first-look") + " --point 2 --trace " + file);
  EXPECT_EQ(step.status, 2);
  EXPECT_SAYS(words(step.out), ".json or .json.gz, a trace for Perfetto, or .svg");
  const Result collective =
      foreduce_says("compare --instance p4d.24xlarge --sizes 1MiB --trace " + file);
  EXPECT_EQ(collective.status, 2);
  EXPECT_SAYS(words(collective.out), ".json or .json.gz");
  EXPECT_SAYS_NOT(collective.out, ".svg");
  EXPECT_FALSE(fs::exists(file));
}

TEST(StepTraceFile, NeedsOneExistingPoint) {
  const std::string question = "predict " + scenario_path("first-look");
  const Result several = foreduce_says(question + " --trace unwritten.json");
  EXPECT_EQ(several.status, 2);
  EXPECT_SAYS(several.out, "there are 8");
  EXPECT_SAYS(several.out, "--point");
  const Result none = foreduce_says(question + " --point 8");
  EXPECT_EQ(none.status, 2);
  EXPECT_SAYS(none.out, "there is no point 8");
  EXPECT_EQ(foreduce_says(question + " --point 1 --shard 1/2").status, 2);
  EXPECT_EQ(foreduce_says(question + " --point 1 --trace /nowhere/a.json").status, 2);
}

class CollectiveTrace : public testing::TestWithParam<Step> {};

TEST_P(CollectiveTrace, HasEveryMessageAndByte) {
  const json trace = trace_of("compare " + GetParam().arguments);
  ASSERT_TRUE(trace.is_object());
  const json report = json_of("compare " + GetParam().arguments + " --no-cost");
  const json& p = report.at("points").at(0);
  std::size_t messages = 0, kernels = 0;
  double end = 0;
  for (const json& e : events_of(trace, "X")) {
    const json& a = e.at("args");
    if (communicates(e)) {  // Holistic Trace Analysis opens no trace without a kernel
      ++kernels;
      EXPECT_EQ(e.at("ts"), 0);
      EXPECT_EQ(e.at("dur"), trace.at("otherData").at("time_us"));
      EXPECT_EQ(a.at("bytes"), p.at("bytes"));
      EXPECT_TRUE(a.contains("stream"));
      continue;
    }
    ++messages;
    EXPECT_LE(a.at("posted_us").get<double>(), e.at("ts").get<double>());
    EXPECT_LE(end_of(e), a.at("landed_us").get<double>() * (1 + kClose));
    end = std::max(end, a.at("landed_us").get<double>());
  }
  EXPECT_EQ(messages, p.at("simulated_messages").get<std::size_t>());
  EXPECT_EQ(kernels, 1u);
  EXPECT_NEAR(trace.at("otherData").at("time_us").get<double>() / p.at("time_us").get<double>(), 1,
              kClose);
  EXPECT_LE(end, p.at("time_us").get<double>() * (1 + kClose));
  EXPECT_GT(end, 0.5 * p.at("time_us").get<double>());
  expect_rows_in_order(trace);
  expect_counters_are_the_links_bytes(trace);
}

INSTANTIATE_TEST_SUITE_P(
    algorithms, CollectiveTrace,
    testing::Values(
        Step{"ring", "--instance p3dn.24xlarge --nodes 2 --algorithm ring --sizes 64MiB"},
        Step{"small", "--instance p4d.24xlarge --nodes 4 --algorithm nccl --sizes 1KiB"},
        Step{"rounded", "--instance p3dn.24xlarge --nodes 4 --algorithm double-tree --sizes 8MiB"},
        Step{"tree", "--instance p4d.24xlarge --nodes 3 --algorithm double-tree --sizes 16MiB"},
        Step{"ideal",
             "--instance p4d.24xlarge --nodes 2 --algorithm ring --profile ideal --sizes 1MiB"},
        Step{"nvls", "--instance p5.48xlarge --nodes 1 --algorithm nvls --sizes 64MiB"}),
    [](const auto& step) { return std::string(step.param.name); });

/// The closed form: in a ring of n ranks each sends 2 (n - 1) chunks.
TEST(CollectiveTraceFile, RingSendsTwiceTheChunksBetweenNeighbours) {
  const json trace = trace_of(
      "compare --instance p3.2xlarge --nodes 4 --algorithm ring --segments 1 --sizes 4MiB");
  ASSERT_TRUE(trace.is_object());
  std::map<int, double> sent;
  for (const json& e : events_of(trace, "X"))
    if (!communicates(e)) sent[e.at("pid")] += e.at("args").at("bytes").get<double>();
  ASSERT_FALSE(sent.empty());
  for (const auto& [rank, bytes] : sent) EXPECT_EQ(bytes, 2 * 3 * 1024 * 1024) << rank;
}

}  // namespace
}  // namespace foreduce
