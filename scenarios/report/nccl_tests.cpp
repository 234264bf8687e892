#include "scenarios/report/nccl_tests.hpp"

#include <fmt/format.h>

#include <utility>

namespace foreduce {
namespace {

std::string type_name(const std::string& type) {
  return type == "f32"    ? "float"
         : type == "f64"  ? "double"
         : type == "f16"  ? "half"
         : type == "bf16" ? "bfloat16"
         : type == "i32"  ? "int32"
                          : type;
}

std::string timing(const NcclTestsTiming& t) {
  const std::string time = t.time_us >= 10000 ? fmt::format("{:.0f}", t.time_us)
                           : t.time_us >= 100 ? fmt::format("{:.1f}", t.time_us)
                                              : fmt::format("{:.2f}", t.time_us);
  return fmt::format("  {:>7}  {:>6.2f}  {:>6.2f}  {:>5}", time, t.algbw, t.busbw,
                     t.wrong ? fmt::format("{:g}", *t.wrong) : "N/A");
}

std::string headings(const NcclTestsRow& first) {
  std::string text = fmt::format("#\n# {}\n# Collective test starting: {}_perf\n#\n", first.title,
                                 name_of(first.collective));
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       "
      "in-place          \n",
      "", "", "", "", "");
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} "
      "{:>6}\n",
      "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time", "algbw",
      "busbw", "#wrong");
  text += fmt::format(
      "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>5}  {:>7}  {:>6}  {:>6}  "
      "{:>5}\n",
      "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)", "(GB/s)",
      "");
  return text;
}

std::string line(const NcclTestsRow& r) {
  return fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", r.bytes, r.count,
                     type_name(r.type), reduces(r.collective) ? "sum" : "none",
                     r.collective == Collective::broadcast ? 0 : -1, timing(r.out_of_place),
                     timing(r.in_place));
}

/// What nccl-tests says below the rows of a table.
class Totals {
 public:
  void add(const NcclTestsRow& r) {
    ++rows_;
    busbw_ += r.out_of_place.busbw + r.in_place.busbw;
    wrong_ += r.out_of_place.wrong.value_or(0) + r.in_place.wrong.value_or(0);
  }
  std::string text() const {
    return fmt::format("# Out of bounds values : {:.0f} {}\n# Avg bus bandwidth    : {:g} \n#\n",
                       wrong_, wrong_ > 0 ? "FAILED" : "OK", rows_ == 0 ? 0 : busbw_ / (2 * rows_));
  }

 private:
  double rows_ = 0, busbw_ = 0, wrong_ = 0;
};

}  // namespace

std::string nccl_tests_tables(const std::string& heading, const std::vector<NcclTestsRow>& rows) {
  std::string text = "# " + heading + "\n";
  Totals totals;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (i == 0 || rows[i].title != rows[i - 1].title) {
      if (i > 0) text += std::exchange(totals, {}).text();
      text += headings(rows[i]);
    }
    text += line(rows[i]);
    totals.add(rows[i]);
  }
  return text + totals.text();
}

}  // namespace foreduce
