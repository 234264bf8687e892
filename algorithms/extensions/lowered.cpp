#include "algorithms/core/transport.hpp"
#include "algorithms/extensions/lowered.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "algorithms/extensions/contributions.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

/// A message on its way, or received.
struct Message {
  std::vector<Contributions> values;
  std::vector<int> chunks;   // where each comes from
  std::vector<bool> begins;  // a range of its own begins with this chunk
  std::vector<bool> used;    // received into the rank's buffer
  int from = -1, to = -1, channel = 0;
  int depth = 0;  // messages one after another until it has arrived
  FilePlace sent, received;
};

/// A verb that is not cut into ranges yet.
struct Posted {
  LoweredVerbs verbs;
  int message = -1, first = 0, count = 0, from_chunk = 0;  // of the message; the rank's first chunk
  int depth = 0;
};

/// Data that arrived and are kept aside.
struct Kept {
  int message = -1, chunk = 0;
};

struct Block {
  std::size_t next = 0;
  std::vector<int> gate;     // verbs that its next send waits for
  std::vector<int> verb_of;  // by step: the verb that ends it, or -1
  std::vector<int> waiting;  // blocks of the GPU that wait for one of its steps
  bool queued = false;
};

struct Gpu {
  std::vector<Contributions> values;
  std::vector<int> writer;  // the last verb that wrote a chunk, or -1
  std::vector<Kept> scratch;
  std::vector<Block> blocks;
  std::vector<Posted> posted;
};

class Lowering {
 public:
  explicit Lowering(const MscclProgram& program)
      : p_(program), own_(chunks_of_block(program)), n_(static_cast<int>(program.gpus.size())) {
    for (int r = 0; r < n_; ++r) {
      Gpu& gpu = gpus_.emplace_back();
      for (int c = 0; c < p_.chunks; ++c) gpu.values.push_back(Contributions::given(p_, r, c));
      gpu.writer.assign(gpu.values.size(), -1);
      gpu.scratch.resize(static_cast<std::size_t>(of(r).scratch_chunks));
      for (const MscclBlock& block : of(r).blocks) {
        gpu.blocks.emplace_back().verb_of.assign(block.steps.size(), -1);
        connect(r, block);
      }
    }
  }

  LoweredSchedule run() {
    for (int r = 0; r < n_; ++r)
      for (int b = 0; b < static_cast<int>(of(r).blocks.size()); ++b) wake(r, b);
    while (!sends_.empty() || !others_.empty()) {
      // Sends first: what they read is not overwritten yet, also where output lies on input.
      auto& queue = sends_.empty() ? others_ : sends_;
      const auto [r, b] = queue.front();
      queue.pop_front();
      block(r, b).queued = false;
      execute(r, b);
    }
    check_end();
    return result();
  }

 private:
  using Connection = std::tuple<int, int, int>;  // from, to, channel

  const MscclGpu& of(int r) const { return p_.gpus[static_cast<std::size_t>(r)]; }
  const MscclBlock& of(int r, int b) const { return of(r).blocks[static_cast<std::size_t>(b)]; }
  Gpu& gpu(int r) { return gpus_[static_cast<std::size_t>(r)]; }
  Block& block(int r, int b) { return gpu(r).blocks[static_cast<std::size_t>(b)]; }
  Message& message(int m) { return messages_[static_cast<std::size_t>(m)]; }
  Posted& posted(int r, int v) { return gpu(r).posted[static_cast<std::size_t>(v)]; }

  [[noreturn]] void fail(FilePlace at, std::string text, std::string hint = {}) const {
    throw InputError(
        Problem{p_.file, at.line, at.column, "", std::move(text), std::move(hint), ""});
  }

  /// Both ends of a connection have one thread block each, so that messages have an order.
  void connect(int r, const MscclBlock& block) {
    const int b = static_cast<int>(gpu(r).blocks.size()) - 1;
    const auto once = [&](std::map<Connection, int>& ends, const Connection& c, const char* does) {
      if (!ends.emplace(c, b).second)
        fail(block.place, fmt::format("a second thread block of GPU {} {} on channel {}", r, does,
                                      block.channel));
    };
    if (block.send_to >= 0)
      once(senders_, {r, block.send_to, block.channel}, "sends to the same GPU");
    if (block.recv_from >= 0)
      once(receivers_, {block.recv_from, r, block.channel}, "receives from the same GPU");
  }

  static bool receives(StepKind k) {
    return k == StepKind::recv || k == StepKind::recv_copy_send ||
           k == StepKind::recv_reduce_send || k == StepKind::recv_reduce_copy ||
           k == StepKind::recv_reduce_copy_send;
  }

  /// Queues a block whose next step may run.
  void wake(int r, int b) {
    Block& state = block(r, b);
    const MscclBlock& code = of(r, b);
    if (state.queued || state.next == code.steps.size()) return;
    const MscclStep& step = code.steps[state.next];
    if (step.after_block >= 0 && step.after_step >= 0) {
      Block& other = block(r, step.after_block);
      if (other.next <= static_cast<std::size_t>(step.after_step)) {
        other.waiting.push_back(b);
        return;
      }
    }
    if (receives(step.kind) && arrived_[{code.recv_from, r, code.channel}].empty()) return;
    state.queued = true;
    (step.kind == StepKind::send ? sends_ : others_).emplace_back(r, b);
  }

  void execute(int r, int b) {
    Block& state = block(r, b);
    const std::size_t number = state.next;
    const MscclStep& step = of(r, b).steps[number];
    if (step.after_block >= 0 && step.after_step >= 0)
      wait_for(state,
               block(r, step.after_block).verb_of[static_cast<std::size_t>(step.after_step)]);
    state.verb_of[number] = post(r, b, step);
    if (step.kind != StepKind::send) wait_for(state, state.verb_of[number]);
    ++state.next;
    wake(r, b);
    for (const int waiting : std::exchange(state.waiting, {})) wake(r, waiting);
  }

  static void wait_for(Block& state, int verb) {
    if (verb >= 0 && std::find(state.gate.begin(), state.gate.end(), verb) == state.gate.end())
      state.gate.push_back(verb);
  }

  /// Does one step. Returns the verb after which it has received what it should, or -1.
  int post(int r, int b, const MscclStep& step) {
    switch (step.kind) {
      case StepKind::nothing: return -1;
      case StepKind::send: send(r, b, step, step.from); return -1;
      case StepKind::recv: return take(r, b, step, LoweredVerb::recv, step.to);
      case StepKind::recv_copy_send: return pass_on(r, b, step, LoweredVerb::recv, step.to);
      case StepKind::recv_reduce_send:
        return pass_on(r, b, step, LoweredVerb::recv_reduce, step.from);
      case StepKind::recv_reduce_copy:
        return take(r, b, step, LoweredVerb::recv_reduce, summed_in_place(r, step));
      case StepKind::recv_reduce_copy_send:
        return pass_on(r, b, step, LoweredVerb::recv_reduce, summed_in_place(r, step));
      case StepKind::copy: return within_gpu(r, step, LoweredVerb::recv);
      case StepKind::reduce: break;
    }
    return within_gpu(r, step, LoweredVerb::recv_reduce);
  }

  int pass_on(int r, int b, const MscclStep& step, LoweredVerb verb, MscclChunks where) {
    const int received = take(r, b, step, verb, where);
    wait_for(block(r, b), received);
    send(r, b, step, where);
    return received;
  }

  /// The rank's chunk, in which input and output are one. Scratch has none.
  int chunk(int r, MscclChunks where, FilePlace at) const {
    const bool own =
        (where.place == MscclBuffer::input && p_.collective == Collective::all_gather) ||
        (where.place == MscclBuffer::output && p_.collective == Collective::reduce_scatter);
    if (where.place == MscclBuffer::scratch)
      fail(at,
           "foreduce has no verb for this: scratch memory here holds only what has arrived, "
           "until a cpy or re step takes it");
    return where.first + (own ? r * own_ : 0);
  }
  MscclChunks summed_in_place(int r, const MscclStep& step) const {
    if (chunk(r, step.from, step.place) != chunk(r, step.to, step.place))
      fail(step.place, "foreduce has no verb for this: a sum is kept where one of its parts was");
    return step.to;
  }

  void send(int r, int b, const MscclStep& step, MscclChunks what) {
    const MscclBlock& code = of(r, b);
    const int first = chunk(r, what, step.place);
    Posted verb;
    verb.verbs = {LoweredVerb::send, code.send_to, code.channel, {}, {}};
    Message& sent = messages_.emplace_back();
    sent.from = r;
    sent.to = code.send_to;
    sent.channel = code.channel;
    sent.sent = step.place;
    for (int c = first; c < first + step.count; ++c) {
      sent.values.push_back(gpu(r).values[static_cast<std::size_t>(c)]);
      work_ += sent.values.back().size();
      sent.chunks.push_back(c);
      sent.begins.push_back(c == first || c % own_ == 0);
      const int writer = gpu(r).writer[static_cast<std::size_t>(c)];
      add_once(verb.verbs.after, writer);
    }
    if (work_ > kMostWork) fail(step.place, "this schedule is larger than can be checked");
    sent.used.resize(sent.values.size());
    add_once(verb.verbs.after, gate(r, b));
    for (const int v : verb.verbs.after) verb.depth = std::max(verb.depth, posted(r, v).depth);
    sent.depth = ++verb.depth;
    verb.message = static_cast<int>(messages_.size()) - 1;
    verb.count = step.count;
    verb.from_chunk = first;
    gpu(r).posted.push_back(std::move(verb));
    const Connection connection{r, code.send_to, code.channel};
    arrived_[connection].push_back(static_cast<int>(messages_.size()) - 1);
    if (const auto receiver = receivers_.find(connection); receiver != receivers_.end())
      wake(code.send_to, receiver->second);
  }

  static void add_once(std::vector<int>& to, int verb) {
    if (verb >= 0 && std::find(to.begin(), to.end(), verb) == to.end()) to.push_back(verb);
  }

  /// One verb for all that the block's next send waits for, or -1.
  int gate(int r, int b) {
    auto& waits = block(r, b).gate;
    if (waits.empty()) return -1;
    if (waits.size() > 1) {
      Posted join;
      join.verbs.after = waits;
      for (const int v : waits) join.depth = std::max(join.depth, posted(r, v).depth);
      gpu(r).posted.push_back(std::move(join));
      waits = {static_cast<int>(gpu(r).posted.size()) - 1};
    }
    return waits.front();
  }

  /// Receives the next message of the block's connection.
  int take(int r, int b, const MscclStep& step, LoweredVerb verb, MscclChunks where) {
    const MscclBlock& code = of(r, b);
    auto& queue = arrived_[{code.recv_from, r, code.channel}];
    const int m = queue.front();
    queue.pop_front();
    Message& got = message(m);
    got.received = step.place;
    if (step.count != static_cast<int>(got.values.size()))
      fail(step.place, fmt::format("{} chunks are received where GPU {} sends {} (line {})",
                                   step.count, code.recv_from, got.values.size(), got.sent.line));
    if (where.place != MscclBuffer::scratch)
      return receive(r, step.place, verb, m, 0, step.count, chunk(r, where, step.place));
    if (verb != LoweredVerb::recv) chunk(r, where, step.place);  // fails: a sum in scratch
    for (int i = 0; i < step.count; ++i) {
      gpu(r).scratch[static_cast<std::size_t>(where.first + i)] = {m, i};
      got.begins[static_cast<std::size_t>(i)] = true;
    }
    return -1;
  }

  /// Receives chunks of a message that has arrived into the rank's buffer.
  int receive(int r, FilePlace at, LoweredVerb kind, int m, int begin, int count, int to) {
    Message& got = message(m);
    Posted verb;
    verb.verbs = {kind, got.from, got.channel, {}, {}};
    verb.message = m;
    verb.first = begin;
    verb.count = count;
    verb.from_chunk = to;
    verb.depth = got.depth;
    const int number = static_cast<int>(gpu(r).posted.size());
    for (int i = 0; i < count; ++i) {
      const auto index = static_cast<std::size_t>(begin + i), c = static_cast<std::size_t>(to + i);
      if (!same_size(got.chunks[index], to + i))
        fail(at, fmt::format("chunk {} of GPU {} comes to the place of chunk {}, which may be of "
                             "another size",
                             got.chunks[index], got.from, to + i));
      if ((to + i) % own_ == 0) got.begins[index] = true;
      got.used[index] = true;
      Contributions& value = gpu(r).values[c];
      if (kind == LoweredVerb::recv) value = got.values[index];
      else {
        value += got.values[index];
        if (gpu(r).writer[c] >= 0)
          verb.depth = std::max(verb.depth, posted(r, gpu(r).writer[c]).depth);
      }
      gpu(r).writer[c] = number;
      got.values[index] = {};  // no longer needed
    }
    gpu(r).posted.push_back(std::move(verb));
    return number;
  }
  /// Blocks of an all-to-all are equal; other chunks may differ by an element.
  bool same_size(int a, int b) const {
    return p_.collective == Collective::all_to_all ? a % own_ == b % own_ : a == b;
  }

  /// cpy and re: of what arrived and was kept aside. In place a cpy from input to output is
  /// nothing.
  int within_gpu(int r, const MscclStep& step, LoweredVerb verb) {
    const int to = chunk(r, step.to, step.place);
    if (step.from.place != MscclBuffer::scratch) {
      if (verb == LoweredVerb::recv && chunk(r, step.from, step.place) == to) return -1;
      fail(step.place, fmt::format("foreduce has no verb for this: {} within a GPU is for what has "
                                   "arrived in scratch",
                                   name_of(step.kind)));
    }
    int last = -1;
    for (int i = 0; i < step.count; ++i) {
      const Kept& kept = gpu(r).scratch[static_cast<std::size_t>(step.from.first + i)];
      if (kept.message < 0)
        fail(step.place,
             fmt::format("nothing has arrived in chunk {} of scratch", step.from.first + i));
      if (message(kept.message).used[static_cast<std::size_t>(kept.chunk)])
        fail(step.place,
             fmt::format("foreduce has no verb for this: chunk {} of scratch is used a second time",
                         step.from.first + i));
      last = receive(r, step.place, verb, kept.message, kept.chunk, 1, to + i);
    }
    return last;
  }

  void check_end() {
    for (int r = 0; r < n_; ++r)
      for (int b = 0; b < static_cast<int>(of(r).blocks.size()); ++b)
        if (block(r, b).next < of(r, b).steps.size()) fail_stuck();
    for (const auto& [connection, queue] : arrived_)
      if (!queue.empty()) {
        const auto& [from, to, channel] = connection;
        fail(message(queue.front()).sent,
             fmt::format("GPU {} does not receive what GPU {} sends it here on channel {}", to,
                         from, channel));
      }
    for (const Message& m : messages_)
      if (std::find(m.used.begin(), m.used.end(), false) != m.used.end())
        fail(m.received, "what is received here is never added or copied from scratch");
    for (int r = 0; r < n_; ++r)
      for (int c = 0; c < p_.chunks; ++c) {
        const auto wanted = Contributions::wanted(p_, r, c);
        const Contributions& is = gpu(r).values[static_cast<std::size_t>(c)];
        if (wanted && is != *wanted)
          fail(of(r).place,
               fmt::format("in place this schedule gives a wrong {}: of chunk {} of GPU "
                           "{}, {}",
                           title_of(p_.collective), c, r, is.difference(*wanted)));
      }
  }

  /// Names the first thread blocks that wait for ever.
  [[noreturn]] void fail_stuck() {
    constexpr std::size_t kNamed = 4;
    std::vector<std::string> who;
    std::size_t stuck = 0;
    FilePlace first;
    for (int r = 0; r < n_; ++r)
      for (int b = 0; b < static_cast<int>(of(r).blocks.size()); ++b) {
        const MscclBlock& code = of(r, b);
        const std::size_t next = block(r, b).next;
        if (next == code.steps.size()) continue;
        const MscclStep& step = code.steps[next];
        if (stuck++ == 0) first = step.place;
        if (who.size() == kNamed) continue;
        const bool depends =
            step.after_block >= 0 && step.after_step >= 0 &&
            block(r, step.after_block).next <= static_cast<std::size_t>(step.after_step);
        who.push_back(fmt::format(
            "thread block {} of GPU {} waits in line {} for {}", b, r, step.place.line,
            depends
                ? fmt::format("step {} of thread block {}", step.after_step, step.after_block)
                : fmt::format("a message of GPU {} on channel {}", code.recv_from, code.channel)));
      }
    fail(first, fmt::format("this schedule never ends: {}{}", fmt::join(who, "; "),
                            stuck > kNamed ? fmt::format("; and {} more", stuck - kNamed) : ""));
  }

  /// Cuts messages into ranges that are contiguous on both sides, and numbers them along their
  /// connections.
  LoweredSchedule result() {
    std::map<Connection, int> next;
    std::vector<std::vector<LoweredRange>> ranges;  // by message; first: within the message
    for (const Message& m : messages_) {
      int& sequence = next[{m.from, m.to, m.channel}];
      auto& mine = ranges.emplace_back();
      for (int i = 0; i < static_cast<int>(m.begins.size()); ++i)
        if (m.begins[static_cast<std::size_t>(i)]) mine.push_back({sequence++, i, 1, i > 0});
        else ++mine.back().count;
      if (sequence > kMostInSequence)
        fail(m.sent,
             fmt::format("GPU {} sends GPU {} more messages than can be numbered", m.from, m.to));
    }
    LoweredSchedule schedule;
    for (Gpu& gpu : gpus_) {
      auto& verbs = schedule.ranks.emplace_back();
      for (Posted& v : gpu.posted) {
        schedule.longest_chain = std::max(schedule.longest_chain, v.depth);
        if (v.message >= 0)
          for (LoweredRange range : ranges[static_cast<std::size_t>(v.message)])
            if (range.first >= v.first && range.first < v.first + v.count) {
              range.first += v.from_chunk - v.first;
              v.verbs.ranges.push_back(range);
            }
        verbs.push_back(std::move(v.verbs));
      }
    }
    return schedule;
  }

  /// Terms that may be copied: some seconds.
  static constexpr std::size_t kMostWork = 500'000'000;
  /// Tag::step.
  static constexpr int kMostInSequence = 1 << TagBits::step;

  const MscclProgram& p_;
  int own_, n_;
  std::vector<Gpu> gpus_;
  std::deque<Message> messages_;
  std::map<Connection, int> senders_, receivers_;
  std::map<Connection, std::deque<int>> arrived_;
  std::deque<std::pair<int, int>> sends_, others_;
  std::size_t work_ = 0;
};

}  // namespace

LoweredSchedule lowered(const MscclProgram& program) { return Lowering(program).run(); }

}  // namespace foreduce
