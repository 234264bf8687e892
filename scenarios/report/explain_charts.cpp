// What a page of `explain` draws: where the time on the critical path goes.
#include "scenarios/report/explain_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

std::vector<Chart> explain_charts(const Json& report) {
  constexpr std::size_t kMost = 7;  // and the others together
  Chart chart{"Where the time on the critical path goes",
              "",
              {"", AxisUnit::count, ChartScale::linear},
              {"time", AxisUnit::seconds, ChartScale::linear},
              {"critical path"}};
  double rest = 0;
  for (const Json& part : report.at("parts")) {
    const double time = number_or(part, "time_s", 0);
    if (chart.series.size() < kMost)
      chart.series.push_back({part_words(part), Drawn::line, {{0, time}}});
    else rest += time;
  }
  if (rest > 0) chart.series.push_back({"other parts", Drawn::line, {{0, rest}}});
  if (chart.series.empty()) return {};
  return {chart};
}

}  // namespace foreduce
