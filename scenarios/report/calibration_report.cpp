#include "scenarios/report/calibration_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/report/table.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// How the calibrated model does on points, fitted or held out.
Table calibration_errors(const Calibration& c) {
  Table table;
  for (const char* heading :
       {"experiment", "path", "points", "set", "median error", "worst", "bias"})
    table.column(heading);
  for (const CalibrationError& e : c.errors)
    table.row({std::string(name_of(e.experiment)), std::string(name_of(e.path)),
               std::to_string(e.points), e.fitted ? "fit" : "held out", percent(e.median, 1),
               percent(e.worst, 1), fmt::format("{:+.1f} %", 100 * e.bias)});
  return table;
}

/// The kind of message that is furthest off; the end where there is none.
auto worst_of(const Calibration& c) {
  return std::max_element(
      c.errors.begin(), c.errors.end(),
      [](const CalibrationError& x, const CalibrationError& y) { return x.median < y.median; });
}

std::string calibration_verdict(const Calibration& c) {
  const auto worst = worst_of(c);
  if (worst == c.errors.end()) return "";
  if (describes_its_messages(c))
    return fmt::format("Medians are within {}.\n", percent(worst->median));
  return fmt::format(
      "This profile does not describe these measurements: {} by {} is off by {} in the "
      "median.\nDo not predict with it. Is --cluster the one that was measured (threads are on one "
      "host,\nso one node), with its links' true bandwidths? Was the host idle?\n",
      name_of(worst->experiment), name_of(worst->path), percent(worst->median));
}

}  // namespace

std::string calibration_text(const Calibration& calibration) {
  return calibration_errors(calibration).text({}) + calibration_verdict(calibration);
}

bool describes_its_messages(const Calibration& calibration) {
  constexpr double kBad = 0.3;
  const auto worst = worst_of(calibration);
  return worst == calibration.errors.end() || worst->median <= kBad;
}

}  // namespace foreduce
