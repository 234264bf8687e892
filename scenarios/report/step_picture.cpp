#include "scenarios/report/step_picture.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/table.hpp"
#include "scenarios/report/trace.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {
namespace {

constexpr double kNamesWidth = 225, kHeadHeight = 64, kTimeWidth = 1000, kRowHeight = 34,
                 kBoxHeight = 24, kLetterWidth = 6.2;
/// Okabe and Ito's colours, which people tell apart who do not see all.
constexpr const char *kForward = "#56b4e9", *kBackward = "#0072b2", *kOptimizer = "#009e73",
                     *kCollective = "#e69f00", *kExposed = "#d55e00";

const char* colour_of(Work work) {
  switch (work) {
    case Work::forward: return kForward;
    case Work::backward: return kBackward;
    case Work::optimizer: return kOptimizer;
    case Work::collective: break;
  }
  return kCollective;
}

/// 1, 2 or 5 times a power of ten, of which `whole` has about ten.
double tick_of(double whole) {
  const double rough = whole / 10, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (rough <= step * power) return step * power;
  return 10 * power;
}

/// The sheet: rows under each other over one axis of time.
class Rows {
 public:
  Rows(double seconds, std::size_t rows) : seconds_(seconds), rows_(rows) {}

  double x(double seconds) const { return kNamesWidth + kTimeWidth * seconds / seconds_; }

  void name(std::size_t row, const std::string& text) {
    body_ += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text>\n",
                         kNamesWidth - 10, y(row) + 0.5 * kBoxHeight + 4, html_escaped(text));
  }
  /// A box with its name where there is room for it.
  void box(std::size_t row, double start, double end, const char* fill, const std::string& label,
           const std::string& told) {
    const double width = std::max(0.6, x(end) - x(start));
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\" stroke=\"white\" "
        "stroke-width=\"{}\"><title>{}, {} to {}</title></rect>\n",
        x(start), y(row), width, kBoxHeight, fill, width > 3 ? 0.6 : 0, html_escaped(told),
        milliseconds(start), milliseconds(end));
    if (!label.empty() && kLetterWidth * static_cast<double>(letters(label)) + 6 < width)
      body_ +=
          fmt::format("<text x=\"{:.2f}\" y=\"{}\" fill=\"{}\" pointer-events=\"none\">{}</text>\n",
                      x(start) + 4, y(row) + 0.5 * kBoxHeight + 4,
                      fill == kBackward ? "white" : "black", html_escaped(label));
  }
  std::string done(const std::string& title, const std::string& below) const {
    const double bottom = y(rows_) + 4;
    std::string svg = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0} {1}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{0}\" height=\"{1}\" "
        "fill=\"white\"/>\n<text x=\"10\" y=\"22\" font-size=\"14\">{2}</text>\n"
        "<text x=\"10\" y=\"42\">{3}</text>\n",
        kNamesWidth + kTimeWidth + 40, bottom + 30, html_escaped(title), html_escaped(below));
    const bool long_step = seconds_ >= 10;
    for (double at = 0; at <= seconds_ * (1 + 1e-9); at += tick_of(seconds_))
      svg += fmt::format(
          "<path d=\"M{0:.2f} {1} V{2}\" stroke=\"#ddd\"/><text x=\"{0:.2f}\" y=\"{3}\" "
          "text-anchor=\"middle\">{4:g} {5}</text>\n",
          x(at), kHeadHeight - 6, bottom, bottom + 16, long_step ? at : 1e3 * at,
          long_step ? "s" : "ms");
    return svg + body_ + "</svg>\n";
  }

 private:
  static double y(std::size_t row) { return kHeadHeight + kRowHeight * static_cast<double>(row); }

  double seconds_;
  std::size_t rows_;
  std::string body_;
};

std::string activity_label(const Prediction& p, const Activity& a) {
  if (!a.unit.empty()) return a.unit;
  if (a.work != Work::collective) return work_words(a.work);
  return p.sharding.is_ddp() ? fmt::format("bucket {}", a.index) : "root";
}

std::string told_of(const Prediction& p, const Activity& a) {
  std::string text =
      a.work == Work::collective
          ? fmt::format("{} of {}", word_of(a.stream, p.sharding), activity_label(p, a))
          : std::string(work_words(a.work));
  if (a.work != Work::collective && !a.unit.empty()) text += " of " + a.unit;
  if (p.accumulation > 1) text += fmt::format(", micro-batch {}", a.micro_batch);
  if (const TracedCollective* t = traced_of(p, a))
    text += fmt::format(", {} by {}", to_text(t->bytes), schedule_words(t->schedule));
  return text;
}

}  // namespace

std::string step_svg(const Prediction& p) {
  std::set<Stream> streams{Stream::compute};
  for (const Activity& a : p.step.activities) streams.insert(a.stream);
  const auto row_of = [&](Stream s) {
    return static_cast<std::size_t>(std::distance(streams.begin(), streams.find(s)));
  };
  const bool idle = p.step.bubble.value > 0, overhead = p.step.overhead.value > 0;
  const std::size_t exposed = streams.size(), bubble = exposed + 1, last = bubble + (idle ? 1 : 0);
  Rows rows(p.step.total.value, last + (overhead ? 1 : 0));
  for (const Stream s : streams) rows.name(row_of(s), word_of(s, p.sharding));
  rows.name(exposed, "exposed");
  for (const Activity& a : p.step.activities)
    if (a.end > a.start)
      rows.box(row_of(a.stream), a.start.value, a.end.value, colour_of(a.work),
               activity_label(p, a), told_of(p, a));
  for (const ExposedSpan& e : exposed_spans(p.step))
    rows.box(exposed, e.start.value, e.end.value, kExposed, "", e.why);
  if (idle) {
    rows.name(bubble, "pipeline bubble");
    rows.box(bubble, p.step.bubble_start().value, (p.step.total - p.step.overhead).value, "#bbbbbb",
             "bubble", "the other stages fill and drain");
  }
  if (overhead) {
    const char* what = p.step.input_wait.value > 0 ? "wait for input" : "step overhead";
    rows.name(last, what);
    rows.box(last, (p.step.total - p.step.overhead).value, p.step.total.value, "#bbbbbb", what,
             "no GPU computes");
  }
  return rows.done(
      fmt::format("{} on {}, {}: a step of {}", p.model,
                  cluster_words(std::to_string(p.nodes), p.instance), p.algorithm,
                  milliseconds(p.step.total.value)),
      fmt::format(
          "Computing {} (light: forward, dark: backward, green: optimizer), waiting for the "
          "slowest GPU {}, exposed communication {}. The pointer tells what a box is.",
          milliseconds(p.step.compute.value), milliseconds(p.step.waiting.value),
          milliseconds(p.step.exposed_communication.value)));
}

}  // namespace foreduce
