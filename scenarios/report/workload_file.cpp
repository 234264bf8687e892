#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "scenarios/report/table.hpp"
#include "scenarios/report/written_files.hpp"

namespace foreduce {
namespace {

/// As a YAML scalar in quotes: what JSON writes is YAML, whatever a foreign file put into it.
std::string yaml_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

const char* yes_or_no(bool yes) { return yes ? "yes" : "no"; }

/// Of a shape that foreduce made: heads, which only grouped queries need, are left out.
std::string shape_line(const TransformerShape& t) {
  return fmt::format(
      "transformer: {{ layers: {}, hidden: {}, feed_forward: {}, vocabulary: {}, sequence: {},\n"
      "               gated: {}, bias: {}, norm: {}, positions: {}, tied: {} }}\n",
      t.layers, t.hidden, t.feed_forward, t.vocabulary, t.sequence, yes_or_no(t.gated),
      yes_or_no(t.bias), t.norm, t.positions, yes_or_no(t.tied));
}

std::string tensor_lines(const std::vector<Tensor>& tensors) {
  std::string out = "tensors: |\n  # name,elements,forward MACs per sample";
  bool timed = false;
  for (const Tensor& t : tensors) timed = timed || t.backward > 0;
  out += timed ? ",measured µs of backward; in registration order\n" : "; in registration order\n";
  for (const Tensor& t : tensors) {
    out += fmt::format("  {},{},{:.0f}", t.name, t.elements, t.macs);
    if (timed) out += fmt::format(",{:.6g}", t.backward);
    out += "\n";
  }
  return out;
}

std::string estimate_lines(const Estimate& e) {
  const auto recomputed = [](const std::optional<double>& share, const char* before) {
    return share ? fmt::format("{}recomputed: {}", before, *share) : "";
  };
  std::string out = fmt::format(
      "estimate:    # share of the data-sheet peak where nothing was measured\n"
      "  fp16: {}\n{}  fp32: {}\n  gpu: {}\n",
      e.fp16, e.recomputed ? recomputed(e.recomputed, "  ") + "\n" : "", e.fp32,
      yaml_quoted(e.gpu));
  if (!e.others.empty()) out += "  others:\n";
  for (const EstimateOn& on : e.others)
    out += fmt::format("    - {{ gpu: {}, fp16: {}{} }}\n", yaml_quoted(on.gpu), on.fp16,
                       recomputed(on.recomputed, ", "));
  if (e.fused_attention) out += "  fused_attention: yes\n";
  if (e.within)
    out +=
        fmt::format("  within: {{ faster: {}, slower: {} }}\n", e.within->faster, e.within->slower);
  return out + fmt::format("  source: {}\n", yaml_quoted(e.source));
}

}  // namespace

std::string file_comment(const std::string& text) {
  std::string one_line = text;
  for (char& c : one_line)
    if (static_cast<unsigned char>(c) < ' ') c = ' ';
  const std::string lines = wrapped(one_line, View{.width = 96}, 0);
  std::string out = "# ";
  for (const char c : lines.substr(0, lines.find_last_not_of('\n') + 1)) {
    out += c;
    if (c == '\n') out += "# ";
  }
  return out + "\n";
}

std::string workload_file(const Workload& w, const std::vector<std::string>& remarks) {
  std::string out;
  for (const std::string& remark : remarks) out += file_comment(remark);
  out += fmt::format("workload: {}\ntitle: {}\n", yaml_quoted(w.name), yaml_quoted(w.title));
  if (!w.note.empty()) out += fmt::format("note: {}\n", yaml_quoted(w.note));
  if (w.parameters)
    out += fmt::format("parameters: {:.0f}    # what the tensors add up to\n", w.parameters->value);
  if (w.transformer) out += shape_line(*w.transformer);
  out += "variants:    # first: the default; 6 x forward MACs, attention included\n";
  for (const Variant& v : w.variants)
    out += fmt::format("  - {{ sample: {}, train_gflop: {:.15g} }}\n", v.sample, v.train_gflop);
  if (w.experts)
    out += fmt::format("experts: {{ count: {}, per_token: {} }}\n", w.experts->count,
                       w.experts->per_token);
  if (w.attention_scores > 0)
    out += fmt::format("attention_scores: {:.15g}    # that backward keeps\n", w.attention_scores);
  out += estimate_lines(w.estimate);
  out += w.measured.empty() ? "measured: []" : "measured:";
  out += "    # rates of one GPU without communication; one of your own is the best\n";
  for (const Measured& m : w.measured)
    out += fmt::format(
        "  - {{ gpu: {}, precision: {}, sample: {}, batch: {}, samples_per_s: {:.6g}, "
        "accumulation: {},\n      source: {} }}\n",
        yaml_quoted(m.gpu), to_text(m.precision), m.sample, m.batch, m.samples_per_s,
        m.accumulation, yaml_quoted(m.source));
  if (!w.transformer) out += tensor_lines(w.tensors);
  return out;
}

}  // namespace foreduce
