// A plan of MSCCL++ as messages: every read of another GPU's memory and every write into it becomes
// a message, sent from the chunk that holds the data.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <stdexcept>

#include "algorithms/core/transport.hpp"
#include "algorithms/extensions/mscclpp.hpp"
#include "algorithms/extensions/recording.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

/// What a chunk of scratch holds.
struct Cell {
  enum class Kind : std::uint8_t {
    nothing,
    same_as,  ///< what chunk `chunk` of the GPU's own buffer held in its version `version`
    kept      ///< a message that waits in scratch of the schedule, as `slot`
  };
  Kind kind = Kind::nothing;
  int chunk = 0, version = 0;
  int slot = 0, from = 0;
  std::uint64_t tag = 0;
};

struct Gpu {
  std::vector<Cell> scratch;
  std::vector<int> version;           // of each own chunk
  std::vector<std::uint32_t> writer;  // the event that wrote it last; 0: none
  std::vector<int> told;              // by channel: signals that have come
  std::vector<int> semaphores;
  std::map<int, int> at_barrier;  // thread blocks that have arrived, ever
  std::vector<std::size_t> next;  // by thread block
  std::vector<int> passing;       // the arrival at a barrier that a thread block waits with
  int slots = 0;
};

class Runner {
 public:
  explicit Runner(const MscclppPlan& plan)
      : plan_(plan),
        own_(plan.shape.chunks /
             counted_blocks(plan.shape.collective, static_cast<int>(plan.gpus.size()))),
        recording_(plan.gpus.size()) {
    for (const PlanGpu& p : plan.gpus) {
      Gpu& gpu = gpus_.emplace_back();
      gpu.scratch.resize(static_cast<std::size_t>(p.scratch_chunks));
      gpu.version.resize(static_cast<std::size_t>(plan.shape.chunks));
      gpu.writer.resize(gpu.version.size());
      gpu.told.resize(p.peers.size());
      gpu.semaphores = p.semaphores;
      gpu.next.resize(p.blocks.size());
      gpu.passing.assign(p.blocks.size(), -1);
    }
  }

  MscclProgram run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int g = 0; g < static_cast<int>(gpus_.size()); ++g)
        for (int b = 0; b < static_cast<int>(gpu(g).next.size()); ++b)
          while (step(g, b)) moved = true;
    }
    check_ended();
    try {
      return program_of(recording_, plan_.shape, 1);
    } catch (const std::invalid_argument& e) {
      fail({1, 1}, e.what());
    }
  }

 private:
  [[noreturn]] void fail(FilePlace at, std::string text) const {
    throw InputError(Problem{plan_.shape.file, at.line, at.column, "", std::move(text), "", ""});
  }
  [[noreturn]] void no_message(const PlanOp& op, const char* why) const {
    fail(op.place, fmt::format("foreduce has no messages for this '{}': {}", op.name, why));
  }

  const PlanGpu& of(int g) const { return plan_.gpus[static_cast<std::size_t>(g)]; }
  Gpu& gpu(int g) { return gpus_[static_cast<std::size_t>(g)]; }
  const PlanOp* next_op(int g, int b) {
    const auto& ops = of(g).blocks[static_cast<std::size_t>(b)];
    const std::size_t next = gpu(g).next[static_cast<std::size_t>(b)];
    return next < ops.size() ? &ops[next] : nullptr;
  }

  /// The own chunk, in which input and output are one; -1 for scratch.
  int own_chunk(const PlanBuffer& b, int k) const {
    if (b.buffer == MscclBuffer::scratch) return -1;
    const bool block =
        (b.buffer == MscclBuffer::input && plan_.shape.collective == Collective::all_gather) ||
        (b.buffer == MscclBuffer::output && plan_.shape.collective == Collective::reduce_scatter);
    return b.first + k + (block ? b.gpu * own_ : 0);
  }
  Cell& scratch(const PlanBuffer& b, int k) {
    return gpu(b.gpu).scratch[static_cast<std::size_t>(b.first + k)];
  }
  /// What a chunk holds: an own one itself.
  Cell cell(const PlanBuffer& b, int k) {
    const int chunk = own_chunk(b, k);
    if (chunk < 0) return scratch(b, k);
    return {Cell::Kind::same_as, chunk, version(b.gpu, chunk), 0, 0, 0};
  }
  int& version(int g, int chunk) { return gpu(g).version[static_cast<std::size_t>(chunk)]; }

  /// Does the next operation of a thread block, if it may start.
  bool step(int g, int b) {
    const PlanOp* op = next_op(g, b);
    if (!op || !may_start(g, b, *op)) return false;
    switch (op->kind) {
      case PlanOpKind::signal: signal(g, *op); break;
      case PlanOpKind::wait:
        for (const int c : op->channels) --gpu(g).told[static_cast<std::size_t>(c)];
        break;
      case PlanOpKind::acquire:
        for (const int s : op->semaphores) --gpu(g).semaphores[static_cast<std::size_t>(s)];
        break;
      case PlanOpKind::release:
        for (const int s : op->semaphores) ++gpu(g).semaphores[static_cast<std::size_t>(s)];
        break;
      case PlanOpKind::move:
        for (std::size_t i = 0; i < op->from.size(); ++i)
          for (int k = 0; k < op->from[i].count; ++k) move(b, *op, op->from[i], op->to[i], k);
        break;
      case PlanOpKind::reduce:
        for (int k = 0; k < op->from.front().count; ++k) reduce(g, b, *op, k);
        break;
      case PlanOpKind::nothing:
      case PlanOpKind::barrier: break;
    }
    if (op->signals) signal(g, *op);
    ++gpu(g).next[static_cast<std::size_t>(b)];
    return true;
  }

  bool may_start(int g, int b, const PlanOp& op) {
    if (op.kind == PlanOpKind::wait)
      return std::all_of(op.channels.begin(), op.channels.end(),
                         [&](int c) { return gpu(g).told[static_cast<std::size_t>(c)] > 0; });
    if (op.kind == PlanOpKind::acquire)
      return std::all_of(op.semaphores.begin(), op.semaphores.end(),
                         [&](int s) { return gpu(g).semaphores[static_cast<std::size_t>(s)] > 0; });
    if (op.kind == PlanOpKind::barrier) return past_barrier(g, b, op);
    if (!op.awaits_packets) return true;
    for (const PlanBuffer& from : op.from)
      for (int k = 0; k < from.count; ++k)
        if (from.gpu == g && cell(from, k).kind == Cell::Kind::nothing) return false;
    return true;
  }

  /// Arrives once, and may pass when all of its round have.
  bool past_barrier(int g, int b, const PlanOp& op) {
    int& mine = gpu(g).passing[static_cast<std::size_t>(b)];
    int& arrived = gpu(g).at_barrier[op.barrier];
    if (mine < 0) mine = arrived++;
    if (arrived < (mine / op.blocks + 1) * op.blocks) return false;
    mine = -1;
    return true;
  }

  void signal(int g, const PlanOp& op) {
    for (const int c : op.channels) {
      const auto [peer, channel] = of(g).peers[static_cast<std::size_t>(c)];
      ++gpu(peer).told[static_cast<std::size_t>(channel)];
    }
  }

  /// Notes a verb of a rank; returns its event.
  std::uint32_t note(int g, RecordedVerb verb) {
    if (++notes_ > kMostNotes) fail({1, 1}, "this plan is larger than can be checked");
    auto& verbs = recording_[static_cast<std::size_t>(g)];
    verbs.push_back(std::move(verb));
    return static_cast<std::uint32_t>(verbs.size());
  }
  /// An own chunk has been written.
  void written(int g, int chunk, std::uint32_t event) {
    gpu(g).writer[static_cast<std::size_t>(chunk)] = event;
    ++version(g, chunk);
  }

  /// Sends what a chunk of `from` holds to another GPU. Returns the tag.
  std::uint64_t send(int b, const PlanOp& op, const Cell& what, int from, int to) {
    if (what.kind == Cell::Kind::nothing) no_message(op, "nothing has been written there yet");
    if (what.kind == Cell::Kind::kept)
      no_message(op, "what has arrived in scratch is passed on before it is copied or added");
    if (version(from, what.chunk) != what.version)
      no_message(op, "what scratch holds is no longer in the buffer that it was copied from");
    if (b > 255) no_message(op, "it is in more thread blocks than there are channels");
    const std::uint64_t tag = pack({.step = sequence_++ % (1 << TagBits::step), .channel = b}, 0);
    note(from, {RecordedVerbKind::send,
                to,
                tag,
                static_cast<std::size_t>(what.chunk),
                1,
                {gpu(from).writer[static_cast<std::size_t>(what.chunk)]},
                -1});
    return tag;
  }

  void move(int b, const PlanOp& op, const PlanBuffer& from, const PlanBuffer& to, int k) {
    const Cell what = cell(from, k);
    const int chunk = own_chunk(to, k);
    if (from.gpu == to.gpu && what.kind == Cell::Kind::kept && chunk >= 0)
      take(op, from, to.gpu, k, chunk, RecordedVerbKind::copy_kept);
    else deliver(b, op, what, from.gpu, to, k);
  }

  /// Puts what a chunk of GPU `from` holds into one of its own or of another GPU.
  void deliver(int b, const PlanOp& op, const Cell& what, int from, const PlanBuffer& to, int k) {
    const int chunk = own_chunk(to, k);
    if (from == to.gpu) {
      if (what.kind == Cell::Kind::nothing) no_message(op, "nothing has been written there yet");
      if (chunk < 0) scratch(to, k) = what;
      else if (what.chunk != chunk || what.version != version(from, chunk))
        no_message(op, "it copies within a GPU what is already in another place of its buffer");
      return;
    }
    const std::uint64_t tag = send(b, op, what, from, to.gpu);
    if (chunk >= 0) {
      written(
          to.gpu, chunk,
          note(to.gpu,
               {RecordedVerbKind::recv, from, tag, static_cast<std::size_t>(chunk), 1, {}, -1}));
      return;
    }
    const int slot = gpu(to.gpu).slots++;
    note(to.gpu, {RecordedVerbKind::keep, from, tag, 0, 0, {}, slot});
    scratch(to, k) = {Cell::Kind::kept, 0, 0, slot, from, tag};
  }

  /// Copies or adds what is kept into an own chunk.
  void take(const PlanOp& op, const PlanBuffer& from, int g, int k, int chunk,
            RecordedVerbKind kind) {
    Cell& kept = scratch(from, k);
    if (kept.kind != Cell::Kind::kept) no_message(op, "nothing has arrived there");
    written(
        g, chunk,
        note(g, {kind, kept.from, kept.tag, static_cast<std::size_t>(chunk), 1, {}, kept.slot}));
    if (kind == RecordedVerbKind::copy_kept)
      kept = {Cell::Kind::same_as, chunk, version(g, chunk), 0, 0, 0};
    else kept = {};
  }

  /// The sum of all sources into one own chunk, and from there to all other destinations.
  void reduce(int g, int b, const PlanOp& op, int k) {
    const auto local = std::find_if(op.to.begin(), op.to.end(), [&](const PlanBuffer& to) {
      return to.gpu == g && to.buffer != MscclBuffer::scratch;
    });
    if (local == op.to.end()) no_message(op, "its sum is kept in no buffer of its own GPU");
    const int chunk = own_chunk(*local, k);
    const auto is_base = [&](const PlanBuffer& from) {
      const Cell c = from.gpu == g ? cell(from, k) : Cell{};
      return c.kind == Cell::Kind::same_as && c.chunk == chunk && c.version == version(g, chunk);
    };
    // The own part is added to where it stands; without one the first source comes first.
    const auto base = std::find_if(op.from.begin(), op.from.end(), is_base);
    bool first = base == op.from.end();
    for (auto from = op.from.begin(); from != op.from.end(); ++from) {
      if (from == base) continue;
      add(g, b, op, *from, k, chunk,
          first ? RecordedVerbKind::recv : RecordedVerbKind::recv_reduce);
      first = false;
    }
    const Cell sum{Cell::Kind::same_as, chunk, version(g, chunk), 0, 0, 0};
    for (auto to = op.to.begin(); to != op.to.end(); ++to)
      if (to != local) deliver(b, op, sum, g, *to, k);
  }

  void add(int g, int b, const PlanOp& op, const PlanBuffer& from, int k, int chunk,
           RecordedVerbKind kind) {
    if (from.gpu == g)
      return take(op, from, g, k, chunk,
                  kind == RecordedVerbKind::recv ? RecordedVerbKind::copy_kept
                                                 : RecordedVerbKind::add_kept);
    const std::uint64_t tag = send(b, op, cell(from, k), from.gpu, g);
    written(g, chunk, note(g, {kind, from.gpu, tag, static_cast<std::size_t>(chunk), 1, {}, -1}));
  }

  /// Names the first thread blocks that wait for ever.
  void check_ended() {
    constexpr std::size_t kNamed = 4;
    std::vector<std::string> who;
    FilePlace first;
    for (int g = 0; g < static_cast<int>(gpus_.size()); ++g)
      for (int b = 0; b < static_cast<int>(gpu(g).next.size()); ++b) {
        const PlanOp* op = next_op(g, b);
        if (!op || who.size() == kNamed) continue;
        if (who.empty()) first = op->place;
        who.push_back(fmt::format("thread block {} of GPU {} at its '{}' in line {}", b, g,
                                  op->name, op->place.line));
      }
    if (!who.empty())
      fail(first, fmt::format("this plan never ends; first there wait {}", fmt::join(who, ", ")));
  }

  const MscclppPlan& plan_;
  int own_;
  RecordedVerbs recording_;
  std::vector<Gpu> gpus_;
  int sequence_ = 0, notes_ = 0;
  static constexpr int kMostNotes = 2'000'000;
};

}  // namespace

MscclProgram as_messages(const MscclppPlan& plan) { return Runner(plan).run(); }

}  // namespace foreduce
