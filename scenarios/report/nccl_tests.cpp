#include "scenarios/report/nccl_tests.hpp"

#include <fmt/format.h>

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

}  // namespace

std::string nccl_tests_tables(const std::string& heading, const std::vector<NcclTestsRow>& rows) {
  std::string text = "# " + heading + "\n", title;
  double sum = 0, wrong = 0;
  for (const NcclTestsRow& r : rows) {
    if (r.title != title) {
      title = r.title;
      text += fmt::format("#\n# {}\n#\n", title);
      text += fmt::format(
          "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}           out-of-place                       "
          "in-place          \n",
          "", "", "", "", "");
      text += fmt::format(
          "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6} {:>6}  {:>7}  {:>6}  {:>6} "
          "{:>6}\n",
          "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "time",
          "algbw", "busbw", "#wrong");
      text += fmt::format(
          "# {:>10}  {:>12}  {:>8}  {:>6}  {:>6}  {:>7}  {:>6}  {:>6}  {:>5}  {:>7}  {:>6}  {:>6}  "
          "{:>5}\n",
          "(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(us)", "(GB/s)",
          "(GB/s)", "");
    }
    text += fmt::format("{:>12}  {:>12}  {:>8}  {:>6}  {:>6}{}{}\n", r.bytes, r.count,
                        type_name(r.type), "sum", -1, timing(r.out_of_place), timing(r.in_place));
    sum += r.out_of_place.busbw + r.in_place.busbw;
    wrong += r.out_of_place.wrong.value_or(0) + r.in_place.wrong.value_or(0);
  }
  text += fmt::format("# Out of bounds values : {:.0f} {}\n", wrong, wrong > 0 ? "FAILED" : "OK");
  return text + fmt::format("# Avg bus bandwidth    : {:g} \n#\n",
                            rows.empty() ? 0 : sum / (2 * static_cast<double>(rows.size())));
}

}  // namespace foreduce
