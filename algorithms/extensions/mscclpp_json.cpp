// A schedule as an execution plan of MSCCL++: one thread block a GPU does what the rank posts, in
// that order, by packets, which carry their own flags. So no signal is needed.
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "algorithms/extensions/lowered.hpp"
#include "algorithms/extensions/mscclpp.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

const char* word_of(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "allreduce";
    case Collective::all_gather: return "allgather";
    case Collective::reduce_scatter: return "reducescatter";
    case Collective::all_to_all: return "alltoall";
    case Collective::broadcast: break;
  }
  return "broadcast";
}

/// Where each message lies in its receiver's scratch, by sender, receiver, channel and sequence.
class Slots {
 public:
  explicit Slots(const LoweredSchedule& schedule) : sizes_(schedule.ranks.size()) {
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
      for (const LoweredVerbs& v : schedule.ranks[r])
        if (v.verb == LoweredVerb::send)
          for (const LoweredRange& p : v.ranges) {
            int& size = sizes_[static_cast<std::size_t>(v.peer)];
            slots_[{static_cast<int>(r), v.peer, v.channel, p.sequence}] = size;
            size += p.count;
          }
  }
  int of(int from, int to, int channel, int sequence) const {
    return slots_.at({from, to, channel, sequence});
  }
  int chunks(int rank) const { return sizes_[static_cast<std::size_t>(rank)]; }

 private:
  std::map<std::tuple<int, int, int, int>, int> slots_;
  std::vector<int> sizes_;
};

/// The GPUs that a GPU exchanges messages with, or only those that it sends to.
enum class Peers : std::uint8_t { all, receivers };
std::vector<int> peers_of(const std::vector<LoweredVerbs>& verbs, Peers which) {
  std::set<int> peers;
  for (const LoweredVerbs& v : verbs)
    if (v.verb == LoweredVerb::send || (which == Peers::all && v.verb != LoweredVerb::join))
      peers.insert(v.peer);
  return {peers.begin(), peers.end()};
}

/// 0, 1, … n-1.
Json numbers_below(std::size_t n) {
  Json all = Json::array();
  for (std::size_t i = 0; i < n; ++i) all.push_back(i);
  return all;
}

Json ops_of(const std::vector<LoweredVerbs>& verbs, int rank, const std::vector<int>& peers,
            const Slots& slots, const char* own) {
  Json ops = Json::array();
  for (const LoweredVerbs& v : verbs)
    for (const LoweredRange& p : v.ranges) {
      const Json mine{{"type", own}, {"index", p.first}, {"size", p.count}};
      if (v.verb == LoweredVerb::send) {
        const auto peer = std::find(peers.begin(), peers.end(), v.peer) - peers.begin();
        const Json there{{"buffer_id", peer},
                         {"index", slots.of(rank, v.peer, v.channel, p.sequence)},
                         {"size", p.count}};
        ops.push_back({{"name", "ppkt"},
                       {"src_buff", Json::array({mine})},
                       {"dst_buff", Json::array({there})},
                       {"channel_type", "memory"}});
        continue;
      }
      const Json arrived{{"type", "s"},
                         {"index", slots.of(v.peer, rank, v.channel, p.sequence)},
                         {"size", p.count}};
      if (v.verb == LoweredVerb::recv)
        ops.push_back({{"name", "upkt"},
                       {"src_buff", Json::array({arrived})},
                       {"dst_buff", Json::array({mine})}});
      else
        ops.push_back({{"name", "repkt"},
                       {"src_buff", Json::array({mine, arrived})},
                       {"dst_buff", Json::array({mine})},
                       {"reduce_op", "sum"}});
    }
  return ops;
}

}  // namespace

std::string to_mscclpp_json(const MscclProgram& program) {
  const LoweredSchedule schedule = lowered(program);
  const Slots slots(schedule);
  const bool gathers = program.collective == Collective::all_gather;
  const bool scatters = program.collective == Collective::reduce_scatter;
  Json gpus = Json::array();
  for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
    const auto& verbs = schedule.ranks[r];
    const std::vector<int> peers = peers_of(verbs, Peers::all),
                           receivers = peers_of(verbs, Peers::receivers);
    Json buffers = Json::array();
    for (const int peer : receivers)
      buffers.push_back(
          {{"rank", peer}, {"type", "s"}, {"access_channel_types", Json::array({"memory"})}});
    const Json channel{{"channel_type", "memory"}, {"connected_to", peers}},
        used{{"channel_type", "memory"}, {"channel_ids", numbers_below(peers.size())}},
        reached{{"access_channel_type", "memory"},
                {"remote_buffer_ids", numbers_below(receivers.size())}};
    const Json block{
        {"id", 0},
        {"ops", ops_of(verbs, static_cast<int>(r), receivers, slots, gathers ? "o" : "i")},
        {"channels", Json::array({used})},
        {"remote_buffer_refs", Json::array({reached})}};
    gpus.push_back({{"id", r},
                    {"input_chunks", gathers ? chunks_of_block(program) : program.chunks},
                    {"output_chunks", scatters ? chunks_of_block(program) : program.chunks},
                    {"scratch_chunks", slots.chunks(static_cast<int>(r))},
                    {"threadblocks", Json::array({block})},
                    {"channels", Json::array({channel})},
                    {"remote_buffers", buffers},
                    {"semaphores", Json::array()}});
  }
  const Json plan{{"name", program.name},
                  {"collective", word_of(program.collective)},
                  {"protocol", "LL"},
                  {"inplace", true},
                  {"reuse_resources", false},
                  {"gpus", gpus},
                  {"num_threads_per_block", 1024},
                  {"use_double_scratch_buffer", true},
                  {"buffer_alignment", 16},
                  {"min_message_size", 0},
                  {"max_message_size", std::uint64_t{1} << 40}};
  return plan.dump(1) + "\n";
}

}  // namespace foreduce
