// Execution plans of MSCCL++: reads and writes of others' memory become messages, and our own
// algorithms become plans.
#include "algorithms/extensions/mscclpp.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <regex>

#include "algorithms/extensions/schedule.hpp"
#include "models/rank_layout.hpp"
#include "scenarios/cli/algorithm_checks.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/machines.hpp"
#include "tests/support/program.hpp"
#include "tests/support/says.hpp"

namespace foreduce {
namespace {

using namespace test;

/// A plan of two GPUs, each with one thread block, a channel to the other, and the other's input
/// and scratch as remote buffers 0 and 1.
std::string two_gpus(const std::string& first, const std::string& second) {
  const auto gpu = [](int id, const std::string& ops) {
    return fmt::format(
        "{{\"id\": {}, \"input_chunks\": 2, \"output_chunks\": 2, \"scratch_chunks\": 2,\n"
        "\"threadblocks\": [{{\"id\": 0, \"ops\": [\n{}],\n"
        "\"channels\": [{{\"channel_type\": \"memory\", \"channel_ids\": [0]}}],\n"
        "\"remote_buffer_refs\": [{{\"access_channel_type\": \"memory\", "
        "\"remote_buffer_ids\": [0, 1]}}]}}],\n"
        "\"channels\": [{{\"channel_type\": \"memory\", \"connected_to\": [{}]}}],\n"
        "\"remote_buffers\": [{{\"rank\": {}, \"type\": \"i\"}}, {{\"rank\": {}, \"type\": "
        "\"s\"}}]}}",
        id, ops, 1 - id, 1 - id, 1 - id);
  };
  return "{\"name\": \"t\", \"collective\": \"allreduce\", \"gpus\": [\n" + gpu(0, first) + ",\n" +
         gpu(1, second) + "]}\n";
}

std::string here(const std::string& type, int index) {
  return fmt::format("{{\"type\": \"{}\", \"index\": {}, \"size\": 1}}", type, index);
}
std::string there(int buffer, int index) {
  return fmt::format("{{\"buffer_id\": {}, \"index\": {}, \"size\": 1}}", buffer, index);
}
std::string op(const std::string& name, const std::string& from, const std::string& to) {
  return fmt::format(
      "{{\"name\": \"{}\", \"src_buff\": [{}], \"dst_buff\": [{}], \"channel_type\": \"memory\"}}",
      name, from, to);
}
std::string sync(const std::string& name) {
  return fmt::format("{{\"name\": \"{}\", \"channel_ids\": [0], \"channel_type\": \"memory\"}}",
                     name);
}
std::string in_order(const std::vector<std::string>& ops) {
  return fmt::format("{}\n", fmt::join(ops, ",\n"));
}

/// Each GPU reads the other's half, and writes the sum back.
std::string by_reads(int me) {
  return in_order(
      {sync("signal"), sync("wait"),
       op("rres", here("i", me) + "," + there(0, me), here("i", me) + "," + there(0, me)),
       sync("signal"), sync("wait")});
}
/// Each GPU writes packets into the other's scratch, and the sums into its input.
std::string by_packets(int me) {
  return in_order(
      {op("ppkt", here("i", 1 - me), there(1, 0)),
       op("respkt", here("i", me) + "," + here("s", 0), here("i", me) + "," + there(1, 1)),
       op("upkt", here("s", 1), here("i", 1 - me))});
}
/// Each GPU copies a half to scratch, where the other gets it; the sums are put there.
std::string by_copies(int me) {
  return in_order({op("copy", here("i", 1 - me), here("s", 1 - me)), sync("signal"), sync("wait"),
                   op("get", there(1, me), here("s", me)),
                   op("re", here("i", me) + "," + here("s", me), here("i", me)),
                   op("pws", here("i", me), there(0, me)).substr(0, 1) + "\"channel_ids\": [0], " +
                       op("pws", here("i", me), there(0, me)).substr(1),
                   sync("wait")});
}

std::string refusal(const std::string& text) {
  return error_of([&] { lowered(as_messages(parse_mscclpp_plan("p.json", text))); });
}

void expect_correct(const Algorithm& algorithm, const Cluster& cluster) {
  const Plan two{.segments = 2};
  const auto broken = check_sums(algorithm, cluster, {{0, two}, {5, two}, {2003, two}});
  ASSERT_FALSE(broken) << "case " << broken->number << ": " << broken->rule.what;
}

TEST(MscclppPlan, ReadsWritesAndPacketsAreMessages) {
  for (const auto& make : {by_reads, by_packets, by_copies}) {
    const std::string text = two_gpus(make(0), make(1));
    SCOPED_TRACE(text);
    ASSERT_EQ(refusal(text), "(accepted)");
    const MscclProgram program = as_messages(parse_mscclpp_plan("p.json", text));
    std::size_t messages = 0;
    const LoweredSchedule schedule = lowered(program);
    for (const LoweredVerbs& v : schedule.ranks[0])
      messages += v.verb == LoweredVerb::send ? v.ranges.size() : 0;
    EXPECT_EQ(messages, 2u);
    expect_correct(algorithm_of(program), cluster_of(flat_machine(), 2));
  }
}

// Plans that Microsoft's own compiler made, played on threads and in the simulator.
TEST(MscclppPlan, MicrosoftsPlansGiveExactResults) {
  const auto plan = [](const std::string& name) {
    return parse_mscclpp_plan(name,
                              read_text(source_folder() / "tests" / "plans" / (name + ".json")));
  };
  for (const auto& [name, collective] : {std::pair{"allreduce_packet", Collective::all_reduce},
                                         std::pair{"reduce_pack", Collective::all_reduce},
                                         std::pair{"transfer_pack", Collective::all_gather}}) {
    SCOPED_TRACE(name);
    const Algorithm algorithm = algorithm_of(as_messages(plan(name)));
    EXPECT_EQ(algorithm.collective, collective);
    expect_correct(algorithm, cluster_of(flat_machine(), 2));
  }
  EXPECT_SAYS(error_of([&] { plan("reduce_nvls"); }), "lets a switch add or multicast");
}

/// Every algorithm as a plan, read again: exact, with the same traffic.
class ExportedPlan : public testing::TestWithParam<const Algorithm*> {};

TEST_P(ExportedPlan, DoesWhatTheAlgorithmDoes) {
  const Algorithm& algorithm = *GetParam();
  if (algorithm.uses_servers || algorithm.name.starts_with("nvls")) return;  // has no such form
  int tried = 0;
  for (const int ranks : {2, 3, 4, 8}) {
    const Cluster cluster = cluster_of(flat_machine(), ranks);
    const Layout layout = rank_layout(cluster);
    const Plan plan{.segments = 2};
    if (unsupported_reason(algorithm, layout, plan)) continue;
    SCOPED_TRACE(ranks);
    const std::string text = to_mscclpp_json(recorded_program(algorithm, layout, plan));
    const Algorithm played = algorithm_of(as_messages(parse_mscclpp_plan("exported.json", text)));
    for (int r = 0; r < ranks; ++r)
      EXPECT_EQ(played.sends(layout, r, 5040, {}), algorithm.sends(layout, r, 5040, plan));
    expect_correct(played, cluster);
    ++tried;
  }
  EXPECT_GT(tried, 1);
}
INSTANTIATE_TEST_SUITE_P(Every, ExportedPlan, testing::ValuesIn(all_algorithms()),
                         [](const auto& of) { return identifier(*of.param); });

TEST(MscclppPlan, NamesWhatIsWrong) {
  const std::string wait = sync("wait"), signal = sync("signal");
  EXPECT_SAYS(
      refusal(two_gpus(in_order({wait, signal}), in_order({wait, signal}))),
      "p.json:4:1: error: this plan never ends; first there wait thread block 0 of GPU 0 at "
      "its 'wait' in line 4, thread block 0 of GPU 1 at its 'wait'");
  EXPECT_SAYS(refusal(two_gpus(in_order({signal}), in_order({wait}))),
              "of chunk 0 of GPU 0, the data of GPU 1 are missing");
  const auto first = [&](const std::string& ops) { return refusal(two_gpus(ops, by_reads(1))); };
  EXPECT_SAYS(first(op("glres", here("i", 0), here("i", 0))),
              "p.json:4:1: error: 'glres' lets a switch add or multicast");
  EXPECT_SAYS(first(op("putt", here("i", 0), there(0, 0))), "did you mean 'put'?");
  EXPECT_SAYS(first(op("put", here("i", 2), there(0, 0))),
              "this buffer has 2 chunks, and chunk 2 is used");
  EXPECT_SAYS(first(op("put", here("x", 0), there(0, 0))), "there is no buffer 'x'");
  EXPECT_SAYS(first(op("put", here("i", 0), there(2, 0))),
              "this must be a whole number from 0 to 1");
  EXPECT_SAYS(first(op("put", here("i", 0), "{\"index\": 0, \"size\": 1}")),
              "'type' is missing here");
  EXPECT_SAYS(first(op("put", here("s", 0), there(0, 0))), "nothing has been written there yet");
  EXPECT_SAYS(first(op("copy", here("i", 0), here("i", 1))),
              "it copies within a GPU what is already in another place of its buffer");
  EXPECT_SAYS(first(op("re", here("i", 0) + "," + here("s", 0), here("s", 1))),
              "its sum is kept in no buffer of its own GPU");
  EXPECT_SAYS(refusal("{\"name\": \"t\", \"collective\": \"scan\", \"gpus\": []}"),
              "p.json:1:29: error: there is no collective 'scan'");
  EXPECT_SAYS(refusal("{\"name\": \"t\""), "p.json:");
}

}  // namespace
}  // namespace foreduce
