// An algorithm as a program of MSCCL's: each rank posts its schedule on a transport that only notes
// it.
#include <fmt/format.h>

#include <numeric>
#include <stdexcept>

#include "algorithms/extensions/recording.hpp"
#include "algorithms/extensions/schedule.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

class Recorder : public Backend {
 public:
  std::vector<RecordedVerb> verbs;

 private:
  Event note(RecordedVerb verb) {
    verbs.push_back(std::move(verb));
    return {static_cast<std::uint32_t>(verbs.size())};
  }
  Event do_send(int to, std::uint64_t tag, Buffer data, Event after) override {
    return note({RecordedVerbKind::send, to, tag, data.offset, data.count, {after.id}, -1});
  }
  Event do_recv(int from, std::uint64_t tag, Buffer into) override {
    return note({RecordedVerbKind::recv, from, tag, into.offset, into.count, {}, -1});
  }
  Event do_recv_reduce(int from, std::uint64_t tag, Buffer into, Op) override {
    return note({RecordedVerbKind::recv_reduce, from, tag, into.offset, into.count, {}, -1});
  }
  Event do_join(std::span<const Event> events) override {
    RecordedVerb verb;
    for (const Event e : events) verb.after.push_back(e.id);
    return note(std::move(verb));
  }
  void do_wait(Event) override {}
  void do_wait_all() override {}
  double do_now() const override { return 0; }
};

RecordedVerbs record(const Algorithm& algorithm, const Layout& layout, const Plan& plan,
                     std::size_t count) {
  RecordedVerbs all;
  for (int r = 0; r < layout.size(); ++r) {
    Recorder recorder;
    Transport transport(recorder, layout, r);
    algorithm.run(transport, Buffer{nullptr, 0, count, Type::f32}, Op::sum, plan, {});
    all.push_back(std::move(recorder.verbs));
  }
  return all;
}

/// The largest number of elements of which every message is a multiple.
std::size_t grain(const RecordedVerbs& recording, std::size_t count) {
  std::size_t unit = count;
  for (const auto& rank : recording)
    for (const RecordedVerb& v : rank)
      if (v.kind != RecordedVerbKind::join && v.count > 0)
        unit = std::gcd(unit, std::gcd(v.first, v.count));
  return unit;
}

/// Of several sizes the one with the fewest chunks: the more even the cuts, the fewer.
struct Sized {
  RecordedVerbs recording;
  std::size_t count = 0, unit = 1;
};
Sized fewest_chunks(const Algorithm& algorithm, const Layout& layout, const Plan& plan) {
  const std::size_t base = static_cast<std::size_t>(layout.workers) *
                           static_cast<std::size_t>(plan.channels) * plan.cut().parts();
  Sized best;
  for (const std::size_t times : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 16u}) {
    const std::size_t count = base * times;
    RecordedVerbs tried = record(algorithm, layout, plan, count);
    const std::size_t unit = grain(tried, count);
    if (best.count == 0 || count / unit < best.count / best.unit)
      best = {std::move(tried), count, unit};
  }
  return best;
}

}  // namespace

MscclProgram recorded_program(const Algorithm& algorithm, const Layout& layout, const Plan& plan) {
  if (const auto why = unsupported_reason(algorithm, layout, plan))
    throw std::invalid_argument(*why);
  if (algorithm.uses_servers)
    throw std::invalid_argument("it needs reduction servers, which MSCCL has not");
  const Sized sized = fewest_chunks(algorithm, layout, plan);
  MscclProgram shape;
  shape.name = std::string(algorithm.name);
  shape.collective = algorithm.collective;
  const auto blocks =
      static_cast<std::size_t>(counted_blocks(algorithm.collective, layout.workers));
  const std::size_t chunks = std::lcm(sized.count / sized.unit, blocks);
  shape.chunks = static_cast<int>(chunks);
  MscclProgram program = program_of(sized.recording, std::move(shape), sized.count / chunks);
  program.file = fmt::format("the schedule of {}", algorithm.name);
  try {
    lowered(program);  // a file that foreduce would not read is not written
  } catch (const InputError& e) {
    throw std::invalid_argument(
        fmt::format("its messages do not come in the order in which MSCCL "
                    "receives them ({})",
                    e.problems().front().message));
  }
  return program;
}

}  // namespace foreduce
