#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <pugixml.hpp>
#include <sstream>

#include "algorithms/extensions/msccl.hpp"
#include "input/problem.hpp"

namespace foreduce {
namespace {

constexpr std::array<std::string_view, 9> kStepNames = {"nop", "s",    "r",   "rcs", "rrs",
                                                        "rrc", "rrcs", "cpy", "re"};
constexpr std::array<std::string_view, 3> kPlaces = {"i", "o", "s"};

/// What a file may have at most; MSCCL's own limits are lower.
constexpr int kMostGpus = 1024, kMostChunks = 16384, kMostChannels = 256, kMostSteps = 1'000'000;
constexpr std::size_t kMostOnAll = 1'000'000;

struct CollectiveWord {
  const char* word;
  Collective collective;
};
/// msccl-tools' names first, which are also written.
constexpr CollectiveWord kCollectiveWords[] = {
    {"allreduce", Collective::all_reduce},          {"allgather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter}, {"alltoall", Collective::all_to_all},
    {"broadcast", Collective::broadcast},           {"reducescatter", Collective::reduce_scatter}};

class Reader {
 public:
  Reader(const std::string& name, const std::string& text) : text_(text) {
    program_.file = name;
    for (std::size_t i = 0; i < text.size(); ++i)
      if (text[i] == '\n') newlines_.push_back(i);
  }

  MscclProgram read() {
    pugi::xml_document document;
    const auto parsed =
        document.load_buffer(text_.data(), text_.size(), pugi::parse_default, pugi::encoding_utf8);
    if (!parsed) fail(place_of(parsed.offset), fmt::format("not XML: {}", parsed.description()));
    const pugi::xml_node algo = document.child("algo");
    if (!algo)
      fail({1, 1}, "there is no <algo>, which a schedule of MSCCL begins with",
           "XML as msccl-tools writes it");
    program_.name = algo.attribute("name").value();
    read_collective(algo);
    program_.channels = whole(algo, "nchannels", 1, kMostChannels);
    program_.chunks = whole(algo, "nchunksperloop", 1, kMostChunks);
    read_restrictions(algo);
    program_.gpus.resize(static_cast<std::size_t>(whole(algo, "ngpus", 1, kMostGpus)));
    if (blocks() > 1 && program_.chunks % static_cast<int>(program_.gpus.size()) != 0)
      fail(place_of(algo), fmt::format("nchunksperloop=\"{}\" is no multiple of ngpus=\"{}\"",
                                       program_.chunks, program_.gpus.size()));
    if (program_.gpus.size() * static_cast<std::size_t>(program_.chunks) > kMostOnAll)
      fail(place_of(algo), fmt::format("{} chunks on {} GPUs are more than can be checked",
                                       program_.chunks, program_.gpus.size()));
    std::vector<bool> seen(program_.gpus.size());
    for (const pugi::xml_node gpu : algo.children("gpu")) read_gpu(gpu, seen);
    if (const auto missing = std::find(seen.begin(), seen.end(), false); missing != seen.end())
      fail(place_of(algo),
           fmt::format("there is no <gpu id=\"{}\">", std::distance(seen.begin(), missing)));
    return std::move(program_);
  }

 private:
  int blocks() const {
    return counted_blocks(program_.collective, static_cast<int>(program_.gpus.size()));
  }

  FilePlace place_of(std::ptrdiff_t offset) const {
    const auto at = static_cast<std::size_t>(
        std::clamp<std::ptrdiff_t>(offset, 0, static_cast<std::ptrdiff_t>(text_.size())));
    const auto next = std::lower_bound(newlines_.begin(), newlines_.end(), at);
    const auto line = static_cast<int>(std::distance(newlines_.begin(), next));
    const std::size_t begin = line == 0 ? 0 : *(next - 1) + 1;
    return {line + 1, static_cast<int>(at - begin) + 1};
  }
  FilePlace place_of(const pugi::xml_node& node) const { return place_of(node.offset_debug()); }

  [[noreturn]] void fail(FilePlace at, std::string message, std::string hint = {}) const {
    throw InputError(
        Problem{program_.file, at.line, at.column, "", std::move(message), std::move(hint), ""});
  }

  int whole(const pugi::xml_node& node, const char* attribute, int least, int most) const {
    const pugi::xml_attribute a = node.attribute(attribute);
    if (!a) fail(place_of(node), fmt::format("<{}> has no {}", node.name(), attribute));
    const std::string_view word = a.value();
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size() || value < least || value > most)
      fail(place_of(node),
           fmt::format("{}=\"{}\" is no whole number from {} to {}", attribute, word, least, most));
    return value;
  }
  int whole_or(const pugi::xml_node& node, const char* attribute, int least, int most,
               int otherwise) const {
    return node.attribute(attribute) ? whole(node, attribute, least, most) : otherwise;
  }

  void read_collective(const pugi::xml_node& algo) {
    const std::string word = algo.attribute("coll").value();
    std::vector<std::string> known;
    for (const CollectiveWord& w : kCollectiveWords) {
      if (word == w.word) {
        program_.collective = w.collective;
        return;
      }
      known.emplace_back(w.word);
    }
    fail(place_of(algo), fmt::format("coll=\"{}\" is no collective that is known here", word),
         suggest(word, known));
  }

  /// Which messages MSCCL's runtime takes the schedule for, and by which of NCCL's protocols they
  /// travel. Here it is taken for what it is asked for, and its protocol suits the size.
  void read_restrictions(const pugi::xml_node& algo) {
    if (const pugi::xml_attribute proto = algo.attribute("proto")) {
      program_.protocol = proto.value();
      const std::vector<std::string> known{"Simple", "LL", "LL128"};
      if (std::find(known.begin(), known.end(), program_.protocol) == known.end())
        fail(place_of(algo), fmt::format("proto=\"{}\" is no protocol of NCCL's", proto.value()),
             suggest(program_.protocol, known));
      if (program_.protocol != "Simple")
        program_.without_effect.push_back("proto=" + program_.protocol);
    }
    constexpr std::uint64_t kAll = std::uint64_t{1} << 40;  // what msccl-tools writes for no limit
    const auto limit = [&](const char* name, std::uint64_t none) {
      const pugi::xml_attribute a = algo.attribute(name);
      if (!a) return;
      const std::string_view word = a.value();
      std::uint64_t bytes = 0;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), bytes);
      if (error != std::errc() || end != word.data() + word.size())
        fail(place_of(algo), fmt::format("{}=\"{}\" is no number of bytes", name, word));
      if (none == 0 ? bytes > 0 : bytes < none)
        program_.without_effect.push_back(fmt::format("{}={}", name, bytes));
    };
    limit("minBytes", 0);
    limit("maxBytes", kAll);
  }

  void read_gpu(const pugi::xml_node& node, std::vector<bool>& seen) {
    const int id = whole(node, "id", 0, static_cast<int>(seen.size()) - 1);
    if (seen[static_cast<std::size_t>(id)])
      fail(place_of(node), fmt::format("there is a second <gpu id=\"{}\">", id));
    seen[static_cast<std::size_t>(id)] = true;
    MscclGpu& gpu = program_.gpus[static_cast<std::size_t>(id)];
    gpu.place = place_of(node);
    gpu.input_chunks = whole(node, "i_chunks", 0, kMostChunks);
    gpu.output_chunks = whole(node, "o_chunks", 0, kMostChunks);
    gpu.scratch_chunks = whole(node, "s_chunks", 0, kMostChunks * 16);
    for (const pugi::xml_node block : node.children("tb")) read_block(block, gpu, id);
    check_dependencies(gpu);
  }

  void read_block(const pugi::xml_node& node, MscclGpu& gpu, int id) {
    const int number = static_cast<int>(gpu.blocks.size());
    if (whole(node, "id", 0, kMostSteps) != number)
      fail(place_of(node),
           fmt::format("thread blocks are numbered in order; this is number {}", number));
    MscclBlock& block = gpu.blocks.emplace_back();
    const int last = static_cast<int>(program_.gpus.size()) - 1;
    block.place = place_of(node);
    block.send_to = whole(node, "send", -1, last);
    block.recv_from = whole(node, "recv", -1, last);
    block.channel = whole(node, "chan", -1, program_.channels - 1);
    block.channel = std::max(block.channel, 0);
    if (block.send_to == id || block.recv_from == id)
      fail(block.place, fmt::format("GPU {} exchanges messages with itself", id));
    for (const pugi::xml_node step : node.children("step")) read_step(step, gpu, block);
  }

  void read_step(const pugi::xml_node& node, const MscclGpu& gpu, MscclBlock& block) {
    if (++steps_ > kMostSteps) fail(place_of(node), fmt::format("more than {} steps", kMostSteps));
    MscclStep& step = block.steps.emplace_back();
    step.place = place_of(node);
    const int number = static_cast<int>(block.steps.size()) - 1;
    if (whole(node, "s", 0, kMostSteps) != number)
      fail(step.place, fmt::format("steps are numbered in order; this is number {}", number));
    const std::string_view type = node.attribute("type").value();
    const auto known = std::find(kStepNames.begin(), kStepNames.end(), type);
    if (known == kStepNames.end())
      fail(step.place, fmt::format("there is no step of type=\"{}\"", type),
           suggest(std::string(type), {kStepNames.begin(), kStepNames.end()}));
    step.kind = static_cast<StepKind>(std::distance(kStepNames.begin(), known));
    step.after_block = whole_or(node, "depid", -1, kMostSteps, -1);
    step.after_step = step.after_block < 0 ? -1 : whole_or(node, "deps", -1, kMostSteps, -1);
    step.from = told_chunks(node, "src");
    step.to = told_chunks(node, "dst");
    if (step.kind == StepKind::nothing) return;
    step.count = whole_or(node, "cnt", 1, kMostChunks, 1);
    const bool sends = step.kind == StepKind::send || type.ends_with('s');
    const bool receives = type.starts_with('r') && step.kind != StepKind::reduce;
    if (sends && block.send_to < 0)
      fail(step.place, "this step sends, and its thread block has no send=");
    if (receives && block.recv_from < 0)
      fail(step.place, "this step receives, and its thread block has no recv=");
    if (reads_own(step.kind)) step.from = read_chunks(node, "src", gpu, step.count);
    if (writes_own(step.kind)) step.to = read_chunks(node, "dst", gpu, step.count);
  }

  /// Whether srcbuf is a buffer of this GPU; a receive's is the sender's.
  static bool reads_own(StepKind kind) {
    return kind != StepKind::recv && kind != StepKind::recv_copy_send;
  }
  static bool writes_own(StepKind kind) {
    return kind != StepKind::send && kind != StepKind::recv_reduce_send;
  }

  /// What the file says, where nothing goes by it: the other GPU's chunks, and those of a nop.
  static MscclChunks told_chunks(const pugi::xml_node& node, const std::string& side) {
    const std::string_view word = node.attribute((side + "buf").c_str()).value();
    const auto known = std::find(kPlaces.begin(), kPlaces.end(), word);
    const auto place = known == kPlaces.end() ? 0 : std::distance(kPlaces.begin(), known);
    return {static_cast<MscclBuffer>(place),
            std::max(0, node.attribute((side + "off").c_str()).as_int())};
  }

  MscclChunks read_chunks(const pugi::xml_node& node, const std::string& side, const MscclGpu& gpu,
                          int count) const {
    const std::string_view word = node.attribute((side + "buf").c_str()).value();
    const auto known = std::find(kPlaces.begin(), kPlaces.end(), word);
    if (known == kPlaces.end())
      fail(place_of(node), fmt::format("{}buf=\"{}\" is none of i, o and s", side, word));
    MscclChunks chunks{static_cast<MscclBuffer>(std::distance(kPlaces.begin(), known)),
                       whole(node, (side + "off").c_str(), 0, kMostChunks * 16)};
    const int there = chunks_of(gpu, chunks.place);
    if (chunks.first + count > there)
      fail(place_of(node), fmt::format("{}buf=\"{}\" has {} chunks, and chunk {} is used", side,
                                       word, there, chunks.first + count - 1));
    return chunks;
  }

  /// Input and output are one, so what the file says of their sizes does not matter.
  int chunks_of(const MscclGpu& gpu, MscclBuffer place) const {
    const int own = program_.chunks / blocks();
    switch (place) {
      case MscclBuffer::input:
        return program_.collective == Collective::all_gather ? own : program_.chunks;
      case MscclBuffer::output:
        return program_.collective == Collective::reduce_scatter ? own : program_.chunks;
      case MscclBuffer::scratch: break;
    }
    return gpu.scratch_chunks;
  }

  void check_dependencies(const MscclGpu& gpu) const {
    for (const MscclBlock& block : gpu.blocks)
      for (const MscclStep& step : block.steps) {
        if (step.after_block < 0) continue;
        const auto other = static_cast<std::size_t>(step.after_block);
        if (step.after_step < 0 || other >= gpu.blocks.size() ||
            static_cast<std::size_t>(step.after_step) >= gpu.blocks[other].steps.size())
          fail(step.place, fmt::format("depid=\"{}\" deps=\"{}\": there is no such step",
                                       step.after_block, step.after_step));
      }
  }

  const std::string& text_;
  std::vector<std::size_t> newlines_;
  MscclProgram program_;
  int steps_ = 0;
};

std::string escaped(const std::string& text) {
  pugi::xml_document document;
  document.append_child("a").append_attribute("b").set_value(text.c_str());
  std::ostringstream out;
  out.exceptions(std::ios::badbit);  // else it swallows that memory ended
  document.first_child().print(out, "", pugi::format_raw);
  const std::string whole = out.str();  // <a b="…"/>
  const std::size_t begin = whole.find('"') + 1;
  return whole.substr(begin, whole.rfind('"') - begin);
}

/// Whether another step of the GPU waits for this one, which its thread block must then announce.
std::vector<std::vector<bool>> awaited(const MscclGpu& gpu) {
  std::vector<std::vector<bool>> is;
  for (const MscclBlock& block : gpu.blocks) is.emplace_back(block.steps.size());
  for (const MscclBlock& block : gpu.blocks)
    for (const MscclStep& step : block.steps)
      if (step.after_block >= 0)
        is[static_cast<std::size_t>(step.after_block)][static_cast<std::size_t>(step.after_step)] =
            true;
  return is;
}

}  // namespace

std::string_view name_of(StepKind kind) { return kStepNames[static_cast<std::size_t>(kind)]; }

int chunks_of_block(const MscclProgram& program) {
  return program.chunks / counted_blocks(program.collective, static_cast<int>(program.gpus.size()));
}

MscclProgram parse_msccl_xml(const std::string& name, const std::string& text) {
  return Reader(name, text).read();
}

std::string to_msccl_xml(const MscclProgram& p) {
  const auto word = std::find_if(std::begin(kCollectiveWords), std::end(kCollectiveWords),
                                 [&](const auto& w) { return w.collective == p.collective; });
  std::string out = fmt::format(
      "<algo name=\"{}\" proto=\"{}\" nchannels=\"{}\" nchunksperloop=\"{}\" ngpus=\"{}\" "
      "coll=\"{}\" inplace=\"1\" outofplace=\"0\" minBytes=\"0\" maxBytes=\"1099511627776\">\n",
      escaped(p.name), escaped(p.protocol), p.channels, p.chunks, p.gpus.size(), word->word);
  const auto letter = [](MscclBuffer place) { return kPlaces[static_cast<std::size_t>(place)]; };
  for (std::size_t g = 0; g < p.gpus.size(); ++g) {
    const MscclGpu& gpu = p.gpus[g];
    const auto waited = awaited(gpu);
    out += fmt::format("  <gpu id=\"{}\" i_chunks=\"{}\" o_chunks=\"{}\" s_chunks=\"{}\">\n", g,
                       gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks);
    for (std::size_t b = 0; b < gpu.blocks.size(); ++b) {
      const MscclBlock& block = gpu.blocks[b];
      out += fmt::format("    <tb id=\"{}\" send=\"{}\" recv=\"{}\" chan=\"{}\">\n", b,
                         block.send_to, block.recv_from, block.channel);
      for (std::size_t s = 0; s < block.steps.size(); ++s) {
        const MscclStep& step = block.steps[s];
        out += fmt::format(
            "      <step s=\"{}\" type=\"{}\" srcbuf=\"{}\" srcoff=\"{}\" dstbuf=\"{}\" "
            "dstoff=\"{}\" cnt=\"{}\" depid=\"{}\" deps=\"{}\" hasdep=\"{}\"/>\n",
            s, name_of(step.kind), letter(step.from.place), step.from.first, letter(step.to.place),
            step.to.first, step.count, step.after_block, step.after_step, waited[b][s] ? 1 : 0);
      }
      out += "    </tb>\n";
    }
    out += "  </gpu>\n";
  }
  return out + "</algo>\n";
}

}  // namespace foreduce
