#include "algorithms/extensions/schedule.hpp"

#include <fmt/format.h>

#include <map>
#include <memory>

#include "algorithms/extensions/mscclpp.hpp"
#include "input/files.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

/// A lowered schedule with what gives its chunks their elements.
class Player {
 public:
  explicit Player(const MscclProgram& program)
      : schedule_(lowered(program)),
        collective_(program.collective),
        chunks_(program.chunks),
        own_(chunks_of_block(program)) {}

  int ranks() const { return static_cast<int>(schedule_.ranks.size()); }
  int longest_chain() const { return schedule_.longest_chain; }

  Event run(Transport& t, const Buffer& data, Op op, const Plan& plan, Event after) const {
    if (t.layout().at(t.rank()).server) return {};
    std::vector<Event> done{after};
    for (int k = 0; k < plan.segments; ++k) post(t, data, op, {plan.segments, k}, after, done);
    return t.join(done);
  }

  std::size_t sends(int rank, std::size_t count, int segments) const {
    std::size_t total = 0;
    if (rank >= ranks()) return 0;  // a server
    for (const LoweredVerbs& verb : of(rank))
      if (verb.verb == LoweredVerb::send)
        for (const LoweredRange& range : verb.ranges)
          for (int k = 0; k < segments; ++k)
            total += part(Buffer{nullptr, 0, count}, range, {segments, k}).count;
    return total;
  }

 private:
  struct Segment {
    int of = 1, number = 0;
  };

  const std::vector<LoweredVerbs>& of(int rank) const {
    return schedule_.ranks[static_cast<std::size_t>(rank)];
  }

  /// The elements of a range, which lies in one block.
  Buffer part(const Buffer& data, const LoweredRange& range, Segment segment) const {
    const int block = range.first / own_, first = range.first % own_;
    const Buffer whole = collective_ == Collective::all_to_all ? equal_block(data, ranks(), block)
                                                               : data.chunk(chunks_ / own_, block);
    const Buffer mine = whole.segment(segment.of, segment.number);
    const Buffer begin = mine.chunk(own_, first), last = mine.chunk(own_, first + range.count - 1);
    Buffer all = begin;
    all.count = last.offset + last.count - begin.offset;
    return all;
  }

  /// Posts the rank's whole schedule for one segment; adds the events of its receives to `done`.
  void post(Transport& t, const Buffer& data, Op op, Segment segment, Event after,
            std::vector<Event>& done) const {
    std::vector<Event> events;
    for (const LoweredVerbs& verb : of(t.rank())) {
      std::vector<Event> before;
      for (const int v : verb.after) before.push_back(events[static_cast<std::size_t>(v)]);
      if (verb.verb == LoweredVerb::send) before.push_back(after);
      const Event ready = before.size() == 1 ? before.front()
                          : before.empty()   ? Event{}
                                             : t.join(before);
      std::vector<Event> happened;
      for (const LoweredRange& range : verb.ranges) {
        const Tag tag{.step = range.sequence,
                      .segment = segment.number,
                      .channel = verb.channel,
                      .packed = range.follows ? Packed::yes : Packed::no};
        const Buffer elements = part(data, range, segment);
        if (verb.verb == LoweredVerb::send) t.send(verb.peer, tag, elements, ready);
        else if (verb.verb == LoweredVerb::recv)
          happened.push_back(t.recv(verb.peer, tag, elements));
        else happened.push_back(t.recv_reduce(verb.peer, tag, elements, op));
      }
      done.insert(done.end(), happened.begin(), happened.end());
      events.push_back(verb.verb == LoweredVerb::join ? ready
                       : happened.size() == 1         ? happened.front()
                       : happened.empty()             ? Event{}
                                                      : t.join(happened));
    }
  }

  LoweredSchedule schedule_;
  Collective collective_;
  int chunks_, own_;
};

/// By the name of a loaded schedule.
std::map<std::string, std::vector<std::string>>& all_without_effect() {
  static std::map<std::string, std::vector<std::string>> all;
  return all;
}

bool is_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

}  // namespace

Algorithm algorithm_of(const MscclProgram& program) {
  const auto player = std::make_shared<const Player>(program);
  Algorithm a;
  a.name = "schedule";
  a.collective = program.collective;
  a.idea = "a schedule of MSCCL's, as its file says it";
  a.cost = "as its file says";
  a.wins = "where it was made for";
  a.source = "Cowan et al., MSCCLang, ASPLOS 2023";
  a.run = [player](Transport& t, Buffer data, Op op, const Plan& plan, Event after) {
    return player->run(t, data, op, plan, after);
  };
  a.sends = [player](const Layout&, int rank, std::size_t count, const Plan& plan) {
    return player->sends(rank, count, plan.segments);
  };
  a.steps = [player](int) { return player->longest_chain(); };
  a.unsupported_reason = [player](const Layout& layout, const Plan&) -> std::optional<std::string> {
    if (layout.workers == player->ranks()) return std::nullopt;
    return fmt::format("the schedule is for {} GPUs, and there are {}", player->ranks(),
                       layout.workers);
  };
  return a;
}

const Algorithm& load_schedule(const std::string& name, const std::filesystem::path& file) {
  const std::string text = read_text(file);
  const MscclProgram program = is_json(text) ? as_messages(parse_mscclpp_plan(file.string(), text))
                                             : parse_msccl_xml(file.string(), text);
  const std::string content = sha1(text);
  if (const Algorithm* there = find_algorithm(name, program.collective)) {
    if (there->content == content) return *there;
    throw file_error(file, fmt::format("another schedule is called '{}' already", name));
  }
  all_without_effect()[name] = program.without_effect;
  return add_algorithm(algorithm_of(program), name, file.string(), content);
}

std::vector<std::string> without_effect(const std::string& name) {
  const auto at = all_without_effect().find(name);
  return at == all_without_effect().end() ? std::vector<std::string>{} : at->second;
}

void load_schedules(const std::vector<std::string>& names, const std::filesystem::path& folder) {
  for (const std::string& name : names)
    if (names_file(name)) load_schedule(name, folder / name);
}

}  // namespace foreduce
