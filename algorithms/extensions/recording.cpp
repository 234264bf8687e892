#include "algorithms/extensions/recording.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <tuple>

#include "algorithms/core/transport.hpp"

namespace foreduce {
namespace {

/// A step of a thread block, as the others of the GPU see it.
struct Where {
  int block = -1, step = -1;
};

class Writer {
 public:
  Writer(const RecordedVerbs& recording, MscclProgram shape, std::size_t unit)
      : recording_(recording), unit_(unit), program_(std::move(shape)) {}

  MscclProgram write() {
    for (std::size_t r = 0; r < recording_.size(); ++r) write_gpu(recording_[r]);
    program_.channels = std::max<int>(1, static_cast<int>(channels_.size()));
    return std::move(program_);
  }

 private:
  /// By chunk: of each thread block the last step that reads or writes it.
  using Touched = std::vector<std::map<int, int>>;

  template <class Visit>
  void for_each_chunk(const RecordedVerb& verb, const Visit& visit) const {
    for (std::size_t c = verb.first / unit_; c < (verb.first + verb.count) / unit_; ++c) visit(c);
  }

  /// MSCCL knows channels only: each of a channel, a group and a tree's half is one of its own.
  int channel_of_tag(std::uint64_t tag) {
    if (in_switch_of(tag) != InSwitch::no)
      throw std::invalid_argument(
          "it lets the switch between GPUs add, for which MSCCL has no step");
    const auto key = std::tuple(group_of(tag), channel_of(tag), is_second_half(tag));
    return channels_.try_emplace(key, static_cast<int>(channels_.size())).first->second;
  }

  void write_gpu(const std::vector<RecordedVerb>& verbs) {
    MscclGpu& gpu = program_.gpus.emplace_back();
    gpu.input_chunks = gpu.output_chunks = program_.chunks;
    if (program_.collective == Collective::all_gather)
      gpu.input_chunks /= static_cast<int>(recording_.size());
    std::map<std::tuple<RecordedVerbKind, int, int>, int> blocks;
    std::vector<Where> where(verbs.size());
    Touched touched(static_cast<std::size_t>(program_.chunks));
    for (std::size_t v = 0; v < verbs.size(); ++v) {
      const RecordedVerb& verb = verbs[v];
      if (verb.kind == RecordedVerbKind::join || (verb.count == 0 && verb.slot < 0)) continue;
      gpu.scratch_chunks = std::max(gpu.scratch_chunks, verb.slot + 1);
      const bool sends = verb.kind == RecordedVerbKind::send;
      const int channel = channel_of_tag(verb.tag);
      const auto [at, fresh] = blocks.try_emplace(
          {sends ? RecordedVerbKind::send : RecordedVerbKind::recv, verb.peer, channel},
          static_cast<int>(gpu.blocks.size()));
      if (fresh) {
        MscclBlock& block = gpu.blocks.emplace_back();
        (sends ? block.send_to : block.recv_from) = verb.peer;
        block.channel = channel;
      }
      auto& steps = gpu.blocks[static_cast<std::size_t>(at->second)].steps;
      std::vector<Where> after = awaited(verbs, v, where, at->second, touched);
      // A step waits for one other; those before it for the rest.
      for (std::size_t i = 0; i + 1 < after.size(); ++i) {
        steps.push_back(step_of(verb, StepKind::nothing));
        steps.back().after_block = after[i].block;
        steps.back().after_step = after[i].step;
      }
      steps.push_back(step_of(verb, kind_of(verb.kind)));
      if (!after.empty()) {
        steps.back().after_block = after.back().block;
        steps.back().after_step = after.back().step;
      }
      where[v] = {at->second, static_cast<int>(steps.size()) - 1};
      for_each_chunk(verb, [&](std::size_t chunk) {
        if (!sends) touched[chunk].clear();  // it waits for them, and others for it
        touched[chunk][where[v].block] = where[v].step;
      });
    }
  }

  static StepKind kind_of(RecordedVerbKind kind) {
    switch (kind) {
      case RecordedVerbKind::send: return StepKind::send;
      case RecordedVerbKind::recv:
      case RecordedVerbKind::keep: return StepKind::recv;
      case RecordedVerbKind::recv_reduce: return StepKind::recv_reduce_copy;
      case RecordedVerbKind::copy_kept: return StepKind::copy;
      case RecordedVerbKind::add_kept: return StepKind::reduce;
      case RecordedVerbKind::join: break;
    }
    return StepKind::nothing;
  }

  MscclStep step_of(const RecordedVerb& verb, StepKind kind) const {
    const MscclBuffer place =
        program_.collective == Collective::all_gather ? MscclBuffer::output : MscclBuffer::input;
    MscclStep step;
    step.kind = kind;
    step.from = step.to = {place, static_cast<int>(verb.first / unit_)};
    const bool counts = verb.kind != RecordedVerbKind::keep && kind != StepKind::nothing;
    step.count = counts ? static_cast<int>(verb.count / unit_) : 1;
    if (verb.kind == RecordedVerbKind::keep) step.to = {MscclBuffer::scratch, verb.slot};
    else if (verb.slot >= 0 && kind != StepKind::nothing)
      step.from = {MscclBuffer::scratch, verb.slot};
    return step;
  }

  /// The steps of other thread blocks that must be done first: of each block the last.
  std::vector<Where> awaited(const std::vector<RecordedVerb>& verbs, std::size_t v,
                             const std::vector<Where>& where, int block,
                             const Touched& touched) const {
    std::map<int, int> last;
    const auto wait_for = [&](Where w) {
      if (w.block >= 0 && w.block != block)
        last[w.block] = std::max(last.emplace(w.block, w.step).first->second, w.step);
    };
    const RecordedVerb& verb = verbs[v];
    std::vector<std::uint32_t> open = verb.after;
    std::set<std::uint32_t> seen;
    while (!open.empty()) {
      const std::uint32_t event = open.back();
      open.pop_back();
      if (event == 0 || !seen.insert(event).second) continue;
      const RecordedVerb& of = verbs[event - 1];
      if (of.kind == RecordedVerbKind::join)
        open.insert(open.end(), of.after.begin(), of.after.end());
      else wait_for(where[event - 1]);
    }
    // What a transport's receive does by itself: it waits for earlier verbs on its elements.
    if (verb.kind != RecordedVerbKind::send)
      for_each_chunk(verb, [&](std::size_t chunk) {
        for (const auto& [b, step] : touched[chunk]) wait_for({b, step});
      });
    std::vector<Where> steps;
    for (const auto& [b, s] : last) steps.push_back({b, s});
    return steps;
  }

  const RecordedVerbs& recording_;
  std::size_t unit_ = 1;
  MscclProgram program_;
  std::map<std::tuple<int, int, bool>, int> channels_;
};

}  // namespace

MscclProgram program_of(const RecordedVerbs& recording, MscclProgram shape, std::size_t unit) {
  return Writer(recording, std::move(shape), unit).write();
}

}  // namespace foreduce
