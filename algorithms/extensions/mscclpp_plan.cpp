#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "algorithms/extensions/mscclpp.hpp"
#include "input/units.hpp"
#include "input/yaml.hpp"

namespace foreduce {
namespace {

constexpr int kMostGpus = 1024, kMostChunks = 16384, kMostIds = 4096;

struct OpWord {
  const char* word;
  PlanOpKind kind;
  bool awaits_packets = false, signals = false;
};
constexpr OpWord kOpWords[] = {{"nop", PlanOpKind::nothing},
                               {"flush", PlanOpKind::nothing},
                               {"signal", PlanOpKind::signal},
                               {"rlxsignal", PlanOpKind::signal},
                               {"wait", PlanOpKind::wait},
                               {"rlxwait", PlanOpKind::wait},
                               {"sem_acquire", PlanOpKind::acquire},
                               {"sem_release", PlanOpKind::release},
                               {"barrier", PlanOpKind::barrier},
                               {"put", PlanOpKind::move},
                               {"pws", PlanOpKind::move, false, true},
                               {"pwsf", PlanOpKind::move, false, true},
                               {"get", PlanOpKind::move},
                               {"copy", PlanOpKind::move},
                               {"ppkt", PlanOpKind::move},
                               {"cpkt", PlanOpKind::move},
                               {"rppkt", PlanOpKind::move, true},
                               {"upkt", PlanOpKind::move, true},
                               {"re", PlanOpKind::reduce},
                               {"rre", PlanOpKind::reduce},
                               {"res", PlanOpKind::reduce},
                               {"rres", PlanOpKind::reduce},
                               {"repkt", PlanOpKind::reduce, true},
                               {"respkt", PlanOpKind::reduce, true},
                               {"recpkt", PlanOpKind::reduce, true},
                               {"recspkt", PlanOpKind::reduce, true}};
/// Operations on a switch that adds and multicasts.
constexpr std::array kSwitchWords = {"glres", "gstore", "gstorepkt"};

struct CollectiveWord {
  const char* word;
  Collective collective;
};
constexpr CollectiveWord kCollectiveWords[] = {{"allreduce", Collective::all_reduce},
                                               {"allgather", Collective::all_gather},
                                               {"reducescatter", Collective::reduce_scatter},
                                               {"alltoall", Collective::all_to_all},
                                               {"broadcast", Collective::broadcast}};

/// JSON is YAML, whose reader knows the place of everything.
class Reader {
 public:
  Reader(const std::string& name, const std::string& text) : file_(YamlFile::parse(name, text)) {
    plan_.shape.file = name;
  }

  MscclppPlan read() {
    const YamlNode& root = file_.root();
    plan_.shape.name = text(root, "name");
    read_collective(root);
    const YamlNode& gpus = list(root, "gpus");
    if (gpus.items.empty() || gpus.items.size() > kMostGpus)
      fail(gpus, fmt::format("a plan has 1 to {} GPUs", kMostGpus));
    const auto count = static_cast<int>(gpus.items.size());
    plan_.gpus.resize(gpus.items.size());
    for (int g = 0; g < count; ++g) {
      const YamlNode& gpu = gpus.items[static_cast<std::size_t>(g)];
      if (whole(gpu, "id", 0, kMostGpus) != g)
        fail(gpu, fmt::format("GPUs are numbered in order; this is number {}", g));
      channels_.push_back(read_channels(gpu, count));
      read_size(gpu, g);
    }
    const int blocks = counted_blocks(plan_.shape.collective, count);
    if (plan_.shape.chunks % blocks != 0)
      fail(gpus, fmt::format("{} chunks are no multiple of {} GPUs", plan_.shape.chunks, count));
    for (int g = 0; g < count; ++g) connect(g, gpus.items[static_cast<std::size_t>(g)]);
    for (int g = 0; g < count; ++g) read_gpu(g, gpus.items[static_cast<std::size_t>(g)]);
    return std::move(plan_);
  }

 private:
  /// A channel of a GPU: memory or port, to which GPU.
  struct Channel {
    std::string type;
    int peer = 0;
  };
  /// What a thread block's numbers refer to, by type of channel.
  struct Local {
    std::map<std::string, std::vector<int>> channels;
    std::map<std::string, std::vector<PlanBuffer>> buffers;
  };

  [[noreturn]] void fail(const YamlNode& at, std::string message, std::string hint = {}) const {
    throw InputError(Problem{file_.name(), at.mark.line, at.mark.column, "", std::move(message),
                             std::move(hint), ""});
  }
  const YamlNode& field(const YamlNode& node, const char* key) const {
    const YamlNode* found = node.kind == YamlNode::Kind::map ? node.find(key) : nullptr;
    if (!found) fail(node, fmt::format("'{}' is missing here", key));
    return *found;
  }
  const YamlNode& list(const YamlNode& node, const char* key) const {
    const YamlNode& found = field(node, key);
    if (found.kind != YamlNode::Kind::list) fail(found, fmt::format("'{}' must be a list", key));
    return found;
  }
  /// The list, or an empty one where there is none.
  const YamlNode& list_or_none(const YamlNode& node, const char* key) const {
    static const YamlNode none;
    return node.find(key) ? list(node, key) : none;
  }
  std::string text(const YamlNode& node, const char* key) const {
    const YamlNode& found = field(node, key);
    if (found.kind != YamlNode::Kind::scalar) fail(found, fmt::format("'{}' must be a word", key));
    return found.text;
  }
  int whole(const YamlNode& value, int least, int most) const {
    double number = 0;
    std::string why;
    if (value.kind != YamlNode::Kind::scalar || !parse_number(value.text, number, why) ||
        number != std::floor(number) || number < least || number > most)
      fail(value, fmt::format("this must be a whole number from {} to {}", least, most));
    return static_cast<int>(number);
  }
  int whole(const YamlNode& node, const char* key, int least, int most) const {
    return whole(field(node, key), least, most);
  }

  void read_collective(const YamlNode& root) {
    const std::string word = text(root, "collective");
    std::vector<std::string> known;
    for (const CollectiveWord& w : kCollectiveWords) {
      if (word == w.word) {
        plan_.shape.collective = w.collective;
        return;
      }
      known.emplace_back(w.word);
    }
    fail(field(root, "collective"), fmt::format("there is no collective '{}'", word),
         suggest(word, known));
  }

  /// The chunks of the largest buffer, which all GPUs must agree on.
  void read_size(const YamlNode& gpu, int g) {
    const bool gathers = plan_.shape.collective == Collective::all_gather;
    int chunks = whole(gpu, gathers ? "output_chunks" : "input_chunks", 0, kMostChunks);
    if (chunks == 0 && !gathers) chunks = whole(gpu, "output_chunks", 0, kMostChunks);
    if (chunks == 0) fail(gpu, "this GPU has no chunks");
    if (g > 0 && chunks != plan_.shape.chunks)
      fail(gpu,
           fmt::format("this GPU has {} chunks, the first one {}", chunks, plan_.shape.chunks));
    plan_.shape.chunks = chunks;
    plan_.gpus[static_cast<std::size_t>(g)].scratch_chunks =
        whole(gpu, "scratch_chunks", 0, kMostChunks * 16);
  }

  std::vector<Channel> read_channels(const YamlNode& gpu, int gpus) const {
    std::vector<Channel> all;
    for (const YamlNode& channel : list_or_none(gpu, "channels").items) {
      const std::string type = text(channel, "channel_type");
      if (type == "switch") continue;  // its operations are refused where they stand
      for (const YamlNode& peer : list(channel, "connected_to").items)
        all.push_back({type, whole(peer, 0, gpus - 1)});
    }
    return all;
  }

  /// The k-th channel of a type to a GPU is the k-th of that type from it.
  void connect(int g, const YamlNode& at) {
    const auto& mine = channels_[static_cast<std::size_t>(g)];
    for (std::size_t c = 0; c < mine.size(); ++c) {
      const auto same = [&](const Channel& other, int peer) {
        return other.type == mine[c].type && other.peer == peer;
      };
      auto nth = std::count_if(mine.begin(), mine.begin() + static_cast<std::ptrdiff_t>(c),
                               [&](const Channel& other) { return same(other, mine[c].peer); });
      const auto& theirs = channels_[static_cast<std::size_t>(mine[c].peer)];
      int end = -1;
      for (std::size_t d = 0; d < theirs.size() && end < 0; ++d)
        if (same(theirs[d], g) && nth-- == 0) end = static_cast<int>(d);
      if (end < 0 || mine[c].peer == g)
        fail(at, fmt::format("a {} channel of GPU {} to GPU {} has no other end", mine[c].type, g,
                             mine[c].peer));
      plan_.gpus[static_cast<std::size_t>(g)].peers.emplace_back(mine[c].peer, end);
    }
  }

  /// The place of a type's n-th channel among all of the GPU.
  int channel_of(const YamlNode& at, int g, const std::string& type, int n) const {
    const auto& all = channels_[static_cast<std::size_t>(g)];
    for (std::size_t c = 0; c < all.size(); ++c)
      if (all[c].type == type && n-- == 0) return static_cast<int>(c);
    fail(at, fmt::format("GPU {} has no such {} channel", g, type));
  }

  MscclBuffer buffer_of(const YamlNode& node) const {
    const std::string word = text(node, "type");
    if (word == "i") return MscclBuffer::input;
    if (word == "o") return MscclBuffer::output;
    if (word == "s") return MscclBuffer::scratch;
    fail(field(node, "type"), fmt::format("there is no buffer '{}'", word), "i, o or s");
  }

  void read_gpu(int g, const YamlNode& node) {
    PlanGpu& gpu = plan_.gpus[static_cast<std::size_t>(g)];
    for (const YamlNode& semaphore : list_or_none(node, "semaphores").items)
      gpu.semaphores.push_back(whole(semaphore, "init_value", 0, kMostIds));
    std::vector<PlanBuffer> remote;
    for (const YamlNode& buffer : list_or_none(node, "remote_buffers").items)
      remote.push_back({whole(buffer, "rank", 0, static_cast<int>(plan_.gpus.size()) - 1),
                        buffer_of(buffer), 0, 0});
    for (const YamlNode& block : list(node, "threadblocks").items) {
      Local local;
      for (const YamlNode& channel : list_or_none(block, "channels").items) {
        const std::string type = text(channel, "channel_type");
        for (const YamlNode& id : list(channel, "channel_ids").items)
          local.channels[type].push_back(
              type == "switch" ? -1 : channel_of(id, g, type, whole(id, 0, kMostIds)));
      }
      for (const YamlNode& refs : list_or_none(block, "remote_buffer_refs").items)
        for (const YamlNode& id : list(refs, "remote_buffer_ids").items) {
          const int n = whole(id, 0, static_cast<int>(remote.size()) - 1);
          local.buffers[text(refs, "access_channel_type")].push_back(
              remote[static_cast<std::size_t>(n)]);
        }
      auto& ops = gpu.blocks.emplace_back();
      for (const YamlNode& op : list(block, "ops").items) read_op(g, op, local, ops);
    }
  }

  void read_op(int g, const YamlNode& node, const Local& local, std::vector<PlanOp>& into) {
    const std::string name = text(node, "name");
    if (name == "pipeline") {
      for (const YamlNode& inner : list(node, "ops").items) read_op(g, inner, local, into);
      return;
    }
    if (std::find(kSwitchWords.begin(), kSwitchWords.end(), name) != kSwitchWords.end())
      fail(node,
           fmt::format("'{}' lets a switch add or multicast, which foreduce cannot play", name));
    if (node.find("tbg_info"))
      fail(node, "several thread blocks share this operation, which foreduce cannot play");
    const auto word = std::find_if(std::begin(kOpWords), std::end(kOpWords),
                                   [&](const OpWord& w) { return name == w.word; });
    if (word == std::end(kOpWords)) {
      std::vector<std::string> known;
      for (const OpWord& w : kOpWords) known.emplace_back(w.word);
      fail(node, fmt::format("there is no operation '{}'", name), suggest(name, known));
    }
    PlanOp& op = into.emplace_back();
    op.kind = word->kind;
    op.name = name;
    op.awaits_packets = word->awaits_packets;
    op.signals = word->signals;
    op.place = {node.mark.line, node.mark.column};
    const std::string type = node.find("channel_type") ? text(node, "channel_type") : "";
    if (op.kind == PlanOpKind::signal || op.kind == PlanOpKind::wait || op.signals)
      for (const YamlNode& id : list(node, "channel_ids").items)
        op.channels.push_back(local_of(id, local.channels, type, "channel"));
    if (op.kind == PlanOpKind::acquire || op.kind == PlanOpKind::release)
      for (const YamlNode& id : list(node, "semaphore_ids").items) {
        const auto count = plan_.gpus[static_cast<std::size_t>(g)].semaphores.size();
        op.semaphores.push_back(whole(id, 0, static_cast<int>(count) - 1));
      }
    if (op.kind == PlanOpKind::barrier) {
      op.barrier = whole(node, "barrier_id", 0, kMostIds);
      op.blocks = whole(node, "num_threadblocks", 1, kMostIds);
    }
    if (op.kind != PlanOpKind::move && op.kind != PlanOpKind::reduce) return;
    for (const YamlNode& from : list(node, "src_buff").items)
      op.from.push_back(chunks(g, from, local, type));
    for (const YamlNode& to : list(node, "dst_buff").items)
      op.to.push_back(chunks(g, to, local, type));
    check_counts(node, op);
  }

  void check_counts(const YamlNode& node, const PlanOp& op) const {
    if (op.from.empty() || op.to.empty() ||
        (op.kind == PlanOpKind::move && op.from.size() != op.to.size()))
      fail(node, fmt::format("'{}' has {} sources and {} destinations", op.name, op.from.size(),
                             op.to.size()));
    const auto other = [&](const PlanBuffer& b) { return b.count != op.from.front().count; };
    if (std::any_of(op.from.begin(), op.from.end(), other) ||
        std::any_of(op.to.begin(), op.to.end(), other))
      fail(node, "sources and destinations are not of one size");
  }

  template <class T>
  const T& local_of(const YamlNode& id, const std::map<std::string, std::vector<T>>& all,
                    const std::string& type, const char* what) const {
    const auto found = all.find(type);
    const int count = found == all.end() ? 0 : static_cast<int>(found->second.size());
    if (count == 0) fail(id, fmt::format("this thread block has no {} of type '{}'", what, type));
    return found->second[static_cast<std::size_t>(whole(id, 0, count - 1))];
  }

  PlanBuffer chunks(int g, const YamlNode& node, const Local& local,
                    const std::string& type) const {
    if (node.kind == YamlNode::Kind::map && node.find("switch_channel_id"))
      fail(node, "this is on a switch, which foreduce cannot play");
    PlanBuffer b;
    if (const YamlNode* id = node.kind == YamlNode::Kind::map ? node.find("buffer_id") : nullptr)
      b = local_of(*id, local.buffers, type, "remote buffer");
    else b = {g, buffer_of(node), 0, 0};
    b.first = whole(node, "index", 0, kMostChunks * 16);
    b.count = whole(node, "size", 1, kMostChunks);
    const int own = plan_.shape.chunks /
                    counted_blocks(plan_.shape.collective, static_cast<int>(plan_.gpus.size()));
    const bool block =
        (b.buffer == MscclBuffer::input && plan_.shape.collective == Collective::all_gather) ||
        (b.buffer == MscclBuffer::output && plan_.shape.collective == Collective::reduce_scatter);
    const int there = b.buffer == MscclBuffer::scratch
                          ? plan_.gpus[static_cast<std::size_t>(b.gpu)].scratch_chunks
                      : block ? own
                              : plan_.shape.chunks;
    if (b.first + b.count > there)
      fail(node, fmt::format("this buffer has {} chunks, and chunk {} is used", there,
                             b.first + b.count - 1));
    return b;
  }

  YamlFile file_;
  MscclppPlan plan_;
  std::vector<std::vector<Channel>> channels_;  // of each GPU
};

}  // namespace

MscclppPlan parse_mscclpp_plan(const std::string& name, const std::string& text) {
  return Reader(name, text).read();
}

}  // namespace foreduce
