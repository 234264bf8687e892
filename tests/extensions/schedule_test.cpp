// Schedules as data: MSCCL's XML is read, checked and played, and our own algorithms are written.
#include "algorithms/extensions/schedule.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "models/rank_layout.hpp"
#include "scenarios/cli/algorithm_checks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A schedule of two GPUs with the given thread blocks.
std::string two_gpus(const std::string& first, const std::string& second,
                     const std::string& attributes = "coll=\"allreduce\" nchunksperloop=\"2\"") {
  return "<algo name=\"t\" proto=\"Simple\" nchannels=\"2\" ngpus=\"2\" " + attributes +
         ">\n<gpu id=\"0\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"2\">\n" + first +
         "\n</gpu>\n<gpu id=\"1\" i_chunks=\"2\" o_chunks=\"2\" s_chunks=\"2\">\n" + second +
         "\n</gpu>\n</algo>\n";
}
std::string block(int id, int send, int recv, const std::string& steps) {
  return fmt::format("<tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"0\">\n{}</tb>", id, send, recv,
                     steps);
}
std::string step(int s, const std::string& type, const std::string& src, int srcoff,
                 const std::string& dst, int dstoff, int cnt = 1, int depid = -1, int deps = -1) {
  return fmt::format(
      "<step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" dstoff=\"{}\" "
      "cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"0\"/>\n",
      s, type, src, srcoff, dst, dstoff, cnt, depid, deps);
}

/// Each GPU sends its half away, adds what it gets in scratch, and sends the sum back.
std::string through_scratch(int me) {
  const int other = 1 - me;
  return block(0, other, other,
               step(0, "s", "i", other, "s", 0) + step(1, "r", "i", me, "s", 0) +
                   step(2, "re", "s", 0, "i", me) + step(3, "s", "i", me, "o", me) +
                   step(4, "r", "i", other, "o", other));
}

std::string refusal(const std::string& text) {
  return error_of([&] { lowered(parse_msccl_xml("s.xml", text)); });
}

/// Result, traffic and bits on threads and in the simulator.
void expect_correct(const Algorithm& algorithm, const Cluster& cluster) {
  std::vector<SumsCase> cases;
  for (const std::size_t elements : {std::size_t{0}, std::size_t{5}, std::size_t{2003}})
    for (const int segments : {1, 3}) cases.push_back({elements, {.segments = segments}});
  const auto broken = check_sums(algorithm, cluster, cases);
  ASSERT_FALSE(broken) << cases[broken->number].elements << " elements in "
                       << cases[broken->number].plan.segments << ": " << broken->rule.what;
}

TEST(Schedule, ScratchIsWhereWhatArrivesIsKept) {
  const MscclProgram program =
      parse_msccl_xml("s.xml", two_gpus(through_scratch(0), through_scratch(1)));
  const LoweredSchedule schedule = lowered(program);
  EXPECT_EQ(schedule.longest_chain, 2);
  int sums = 0;
  for (const LoweredVerbs& v : schedule.ranks[0]) sums += v.verb == LoweredVerb::recv_reduce;
  EXPECT_EQ(sums, 1);
  expect_correct(algorithm_of(program), cluster_of(flat_machine(), 2));
}

TEST(Schedule, SaysWhichOfItsAttributesHaveNoEffect) {
  const auto without_effect = [](const std::string& attributes) {
    const std::string all = "coll=\"allreduce\" nchunksperloop=\"2\" " + attributes;
    std::string text = two_gpus(through_scratch(0), through_scratch(1), all);
    if (attributes.find("proto") != std::string::npos)
      text.erase(text.find("proto=\"Simple\""), std::string("proto=\"Simple\"").size());
    return parse_msccl_xml("s.xml", text).without_effect;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(without_effect("minBytes=\"0\" maxBytes=\"1099511627776\""), Words{});
  EXPECT_EQ(without_effect("proto=\"LL\" minBytes=\"1048576\" maxBytes=\"2097152\""),
            (Words{"proto=LL", "minBytes=1048576", "maxBytes=2097152"}));
  EXPECT_SAYS(error_of([&] { without_effect("proto=\"Foo\""); }),
              "s.xml:1:2: error: proto=\"Foo\" is no protocol of NCCL's\n  accepted: Simple, LL, "
              "LL128");
  EXPECT_SAYS(error_of([&] { without_effect("minBytes=\"1MiB\""); }),
              "minBytes=\"1MiB\" is no number of bytes");
}

// rrs and rcs pass on what arrives, as in a ring of three.
TEST(Schedule, PassesOnWhatArrives) {
  std::string text =
      "<algo name=\"r\" proto=\"LL\" nchannels=\"1\" nchunksperloop=\"3\" ngpus=\"3\" "
      "coll=\"allreduce\">\n";
  for (int r = 0; r < 3; ++r)
    text += fmt::format(
        "<gpu id=\"{}\" i_chunks=\"3\" o_chunks=\"0\" s_chunks=\"0\">\n{}</gpu>\n", r,
        block(0, (r + 1) % 3, (r + 2) % 3,
              step(0, "s", "i", r, "i", r) + step(1, "rrs", "i", (r + 2) % 3, "i", (r + 2) % 3) +
                  step(2, "rrcs", "i", (r + 1) % 3, "i", (r + 1) % 3) +
                  step(3, "rcs", "i", r, "i", r) +
                  step(4, "r", "i", (r + 2) % 3, "i", (r + 2) % 3)));
  const MscclProgram program = parse_msccl_xml("ring.xml", text + "</algo>\n");
  EXPECT_EQ(lowered(program).longest_chain, 4);
  expect_correct(algorithm_of(program), cluster_of(flat_machine(), 3));
}

/// Every algorithm as MSCCL's XML, read again: exact, with the same traffic.
class Exported : public testing::TestWithParam<const Algorithm*> {};

TEST_P(Exported, DoesWhatTheAlgorithmDoes) {
  const Algorithm& algorithm = *GetParam();
  int tried = 0;
  for (const int ranks : {2, 3, 4, 8})
    for (const int per_node : {1, 4}) {
      if (ranks % per_node != 0) continue;
      const Cluster cluster = per_node == 1
                                  ? cluster_of(flat_machine(), ranks)
                                  : cluster_of(wide_machine(per_node, 2), ranks / per_node);
      const Layout layout = rank_layout(cluster);
      const Plan plan{.segments = per_node == 1 ? 3 : 1,
                      .channels = static_cast<int>(layout.channels.size())};
      if (algorithm.uses_servers || algorithm.name.starts_with("nvls") ||
          unsupported_reason(algorithm, layout, plan))
        continue;
      SCOPED_TRACE(testing::Message() << ranks << " ranks, " << per_node << " a node");
      const std::string text = to_msccl_xml(recorded_program(algorithm, layout, plan));
      const MscclProgram program = parse_msccl_xml("exported.xml", text);
      EXPECT_EQ(to_msccl_xml(program), text);
      const Algorithm played = algorithm_of(program);
      for (int r = 0; r < ranks; ++r)
        EXPECT_EQ(played.sends(layout, r, 5040, {}), algorithm.sends(layout, r, 5040, plan));
      expect_correct(played, cluster);
      ++tried;
    }
  if (!algorithm.uses_servers && !algorithm.name.starts_with("nvls")) {
    EXPECT_GT(tried, 1);
  }
}
INSTANTIATE_TEST_SUITE_P(Every, Exported, testing::ValuesIn(all_algorithms()),
                         [](const auto& of) { return identifier(*of.param); });

TEST(Schedule, RefusesToWriteWhatMscclHasNoStepFor) {
  const auto why = [](const char* name, Layout layout) {
    try {
      recorded_program(*find_algorithm(name), layout, {});
    } catch (const std::invalid_argument& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  Layout switched = Layout::uniform(1, 4);
  switched.switch_reduces = true;
  EXPECT_SAYS(why("nvls", switched), "MSCCL has no step");
  EXPECT_SAYS(why("reduction-server", Layout::uniform(2, 1, 1)), "reduction servers");
}

// ------------------------------------------------------------------ what is wrong, and where

TEST(Schedule, NamesWhoWaitsForEver) {
  const auto each = [](int me) {  // both receive before they send
    return block(0, 1 - me, 1 - me,
                 step(0, "rrc", "i", 0, "i", 0, 2) + step(1, "s", "i", 0, "i", 0, 2));
  };
  const std::string why = refusal(two_gpus(each(0), each(1)));
  EXPECT_SAYS(why, "s.xml:4:");
  EXPECT_SAYS(why,
              "this schedule never ends: thread block 0 of GPU 0 waits in line 4 for a message of "
              "GPU 1 on channel 0; thread block 0 of GPU 1 waits in line 10");
  const std::string circle =
      refusal(two_gpus(block(0, 1, -1, step(0, "s", "i", 0, "i", 0, 1, 1, 0)) +
                           block(1, -1, 1, step(0, "nop", "i", 0, "i", 0, 1, 0, 0)),
                       ""));
  EXPECT_SAYS(circle, "waits in line 4 for step 0 of thread block 1");
}

TEST(Schedule, NamesAWrongSum) {
  const std::string good = through_scratch(0);
  const auto with = [&](const std::string& of, const std::string& instead) {
    return refusal(two_gpus(
        std::regex_replace(good, std::regex(of), instead, std::regex_constants::format_first_only),
        through_scratch(1)));
  };
  EXPECT_EQ(refusal(two_gpus(good, through_scratch(1))), "(accepted)");
  // What arrives replaces the own data instead of being added.
  EXPECT_SAYS(with("type=\"re\"", "type=\"cpy\""),
              "in place this schedule gives a wrong all-reduce: of chunk 0 of GPU 0, the data of "
              "GPU 0 are missing");
  // The sum is sent before it is one.
  EXPECT_SAYS(refusal(two_gpus("", "")), "of chunk 0 of GPU 0, the data of GPU 1 are missing");
  const auto twice = [](int me) {
    return block(0, 1 - me, 1 - me,
                 step(0, "s", "i", 0, "i", 0, 2) + step(1, "s", "i", 0, "i", 0, 2) +
                     step(2, "rrc", "i", 0, "i", 0, 2) + step(3, "rrc", "i", 0, "i", 0, 2));
  };
  EXPECT_SAYS(refusal(two_gpus(twice(0), twice(1))), "the data of GPU 1 are in it 2 times");
}

TEST(Schedule, NamesMessagesThatDoNotMeet) {
  const std::string sends = block(0, 1, -1, step(0, "s", "i", 0, "i", 0, 2));
  EXPECT_SAYS(refusal(two_gpus(sends, "")),
              "s.xml:4:2: error: GPU 1 does not receive what GPU 0 sends it here on channel 0");
  EXPECT_SAYS(refusal(two_gpus(sends, block(0, -1, 0, step(0, "rrc", "i", 0, "i", 0, 1)))),
              "1 chunks are received where GPU 0 sends 2 (line 4)");
  EXPECT_SAYS(refusal(two_gpus(sends, block(0, -1, 0, step(0, "r", "i", 0, "s", 0, 2)))),
              "what is received here is never added or copied from scratch");
  EXPECT_SAYS(refusal(two_gpus(sends + "\n" + block(1, 1, -1, ""), "")),
              "a second thread block of GPU 0 sends to the same GPU on channel 0");
}

TEST(Schedule, NamesWhatATransportHasNoVerbFor) {
  const std::string sends = block(0, 1, -1, step(0, "s", "i", 0, "s", 0, 2));
  const auto second = [&](const std::string& steps) {
    return refusal(two_gpus(sends, block(0, 0, 0, steps)));
  };
  EXPECT_SAYS(second(step(0, "rcs", "i", 0, "s", 0, 2)), "scratch memory here holds only");
  EXPECT_SAYS(second(step(0, "rrc", "i", 0, "i", 0, 2) + step(1, "re", "i", 0, "i", 1)),
              "re within a GPU is for what has arrived in scratch");
  EXPECT_SAYS(second(step(0, "r", "i", 0, "s", 0, 2) + step(1, "re", "s", 0, "i", 0) +
                     step(2, "re", "s", 0, "i", 0)),
              "chunk 0 of scratch is used a second time");
  EXPECT_SAYS(second(step(0, "r", "i", 0, "s", 0, 2) + step(1, "re", "s", 0, "i", 1)),
              "chunk 0 of GPU 0 comes to the place of chunk 1");
}

TEST(Schedule, ErrorsOfFilesHaveTheirPlace) {
  const auto parse_error = [](const std::string& text) {
    return error_of([&] { parse_msccl_xml("s.xml", text); });
  };
  EXPECT_SAYS(parse_error("<algo name=\"x\"\n<"), "error: not XML");
  EXPECT_SAYS(parse_error("<system/>"), "there is no <algo>");
  EXPECT_SAYS(parse_error(two_gpus("", "", "coll=\"alreduce\" nchunksperloop=\"2\"")),
              "coll=\"alreduce\" is no collective");
  EXPECT_SAYS(parse_error(two_gpus("", "", "coll=\"alreduce\" nchunksperloop=\"2\"")),
              "did you mean 'allreduce'?");
  EXPECT_SAYS(parse_error(two_gpus("", "", "coll=\"allgather\" nchunksperloop=\"3\"")),
              "nchunksperloop=\"3\" is no multiple of ngpus=\"2\"");
  EXPECT_SAYS(parse_error(two_gpus("", "", "coll=\"allreduce\" nchunksperloop=\"x\"")),
              "nchunksperloop=\"x\" is no whole number from 1 to 16384");
  const auto in_first = [&](const std::string& blocks) {
    return parse_error(two_gpus(blocks, ""));
  };
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "snd", "i", 0, "i", 0))),
              "s.xml:4:2: error: there is no step of type=\"snd\"");
  EXPECT_SAYS(in_first(block(0, 2, -1, "")), "send=\"2\" is no whole number from -1 to 1");
  EXPECT_SAYS(in_first(block(0, 0, -1, "")), "GPU 0 exchanges messages with itself");
  EXPECT_SAYS(in_first(block(1, 1, -1, "")), "thread blocks are numbered in order");
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "s", "q", 0, "i", 0))),
              "srcbuf=\"q\" is none of i, o and s");
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "s", "i", 1, "i", 0, 2))),
              "srcbuf=\"i\" has 2 chunks, and chunk 2 is used");
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "r", "i", 0, "i", 0))),
              "this step receives, and its thread block has no recv=");
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "s", "i", 0, "i", 0, 1, 3, 0))),
              "depid=\"3\" deps=\"0\": there is no such step");
  EXPECT_SAYS(in_first(block(0, 1, -1, step(0, "s", "i", 0, "i", 0, 1, 0, -1))),
              "depid=\"0\" deps=\"-1\": there is no such step");
  EXPECT_SAYS(parse_error("<algo name=\"t\" coll=\"allreduce\" nchannels=\"1\" ngpus=\"2\" "
                          "nchunksperloop=\"1\">\n<gpu id=\"1\" i_chunks=\"1\" o_chunks=\"1\" "
                          "s_chunks=\"0\"/></algo>"),
              "there is no <gpu id=\"0\">");
}

}  // namespace
}  // namespace foreduce
