#include "scenarios/report/predict_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/report/axes.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

std::vector<const Json*> answered(const Json& points) {
  std::vector<const Json*> some;
  for (const Json& p : points)
    if (!p.contains("error")) some.push_back(&p);
  return some;
}

std::string samples_words(double per_second) {
  constexpr double kTenthsTell = 10;
  return per_second < kTenthsTell ? fmt::format("{:.3g}", per_second)
                                  : fmt::format("{:.1f}", per_second);
}

bool samples_differ(const Points& points) {
  const auto each = [](const Json& p) {
    return number_or(p, "throughput_samples_per_s", 0) * number_or(p, "step_time_s", 0) /
           p.value("gpus", 1);
  };
  constexpr double kRounding = 1e-6;
  return std::any_of(points.begin(), points.end(), [&](const Json* p) {
    return std::abs(each(*p) - each(*points.front())) > kRounding * each(*p);
  });
}

bool fits_memory(const Json& p) { return text_or(p, "memory_shortage").empty(); }

std::string memory_cell(const Json& p) {
  const double peak = number_or(p, "peak_memory_bytes", 0);
  if (peak <= 0) {
    const double state = number_or(p, "state_bytes", 0);
    return state > 0 ? "over " + size_words(state) : "-";
  }
  const std::string has = size_words(number_or(p, "gpu_memory_bytes", 0));
  const double gib = peak / (1 << 30);
  if (p.value("memory_uncertain", false)) return size_words(peak) + " ~ " + has;
  return fits_memory(p) ? size_words(peak)
                        : fmt::format("{:.{}f} > {}", gib, gib < 100 ? 1 : 0, has);
}

namespace {

/// Columns that only some tables have.
struct Columns {
  bool bubble = false, nccl = false;  ///< of a pipeline; how a point does beside NCCL
};

/// What a point's row says behind its axes.
void add_cells(std::vector<std::string>& row, const Json& p, const Columns& some,
               Footnotes& notes) {
  const auto time = [&](const char* key) { return milliseconds(number_or(p, key, 0)); };
  row.push_back(time("step_time_s"));
  row.push_back(p.at("step_time_low_s").is_null()
                    ? "-"
                    : range_words(p.at("step_time_low_s"), p.at("step_time_high_s")) +
                          notes.mark(p.at("interval_widened_because")));
  for (const char* key : {"compute_time_s", "straggler_wait_s"}) row.push_back(time(key));
  if (some.bubble)
    row.push_back(number_or(p, "pipeline_bubble_s", 0) > 0 ? time("pipeline_bubble_s") : "-");
  row.push_back(time("exposed_communication_s"));
  row.push_back(samples_words(number_or(p, "throughput_samples_per_s", 0)));
  const auto or_dash = [&](const char* key, auto text) {
    const double value = number_or(p, key, HUGE_VAL);
    return value == HUGE_VAL ? std::string("-") : text(value);
  };
  row.push_back(
      or_dash("throughput_tokens_per_s", [](double v) { return fmt::format("{:.0f}", v); }));
  row.push_back(or_dash("model_flops_utilisation", [](double v) { return percent(v, 1); }));
  row.push_back(percent(number_or(p, "scaling_efficiency", 0), 1));
  row.push_back(or_dash("scaling_efficiency_vs_one_node", [](double v) { return percent(v, 1); }));
  row.push_back(or_dash("usd_per_hour", dollars));
  row.push_back(or_dash("usd_per_million_samples", dollars));
  row.push_back(or_dash("usd_per_billion_tokens", dollars));
  row.push_back(memory_cell(p));
  if (some.nccl)
    row.push_back(p.contains("speedup_vs_nccl")
                      ? fmt::format("{:.2f} x", p.at("speedup_vs_nccl").get<double>())
                      : "-");
  const std::string link = text_or(p, "bottleneck_link"), kind = text_or(p, "bottleneck_kind");
  row.push_back(p.value("gpus", 1) == 1
                    ? "-"
                    : fmt::format("{}{} {}", link,
                                  link == "latency" || kind.empty() ? "" : " (" + kind + ")",
                                  percent(number_or(p, "bottleneck_utilisation", 0))));
}

}  // namespace

Table predict_table(const Json& report, Footnotes& notes) {
  const Json& points = report.at("points");
  const Points some = answered(points);
  const bool memory_matters = std::any_of(some.begin(), some.end(), [&](const Json* p) {
    return !fits_memory(*p) || memory_cell(*p) != memory_cell(*some.front());
  });
  const std::vector<AxisColumn> axes = axis_columns(points);
  const bool any_doubtful = std::any_of(some.begin(), some.end(), [](const Json* p) {
    return !fits_memory(*p) || p->value("memory_uncertain", false);
  });
  const bool priced = std::any_of(some.begin(), some.end(),
                                  [](const Json* p) { return !p->at("usd_per_hour").is_null(); });
  Table table;
  table.column("point", 18);  // as --point takes it
  for (const AxisColumn& axis : axes) table.column(axis.heading, axis.rank);
  Columns columns;
  columns.nccl = varies(points, "algorithm") &&
                 std::any_of(points.begin(), points.end(),
                             [](const Json& p) { return p.contains("speedup_vs_nccl"); });
  columns.bubble = std::any_of(some.begin(), some.end(), [](const Json* p) {
    return number_or(*p, "pipeline_bubble_s", 0) > 0;
  });
  for (const auto& [heading, rank] :
       {std::pair("step", 0),
        {kIntervalHeading, 2},
        {"compute", 9},
        {"straggler wait", 10},
        {"bubble", 8},
        {"exposed", 8},
        {"samples/s", samples_differ(some) ? 1 : 5},
        {"tokens/s", 14},
        {"MFU", 15},
        {"efficiency", 3},
        {"vs 1 node", 11},
        {"$/h", 12},
        {"$/M samples", priced ? 4 : 12},
        {"$/B tokens", 16},
        {"memory", any_doubtful     ? 0  // a step that cannot run looks like one that can
                   : memory_matters ? 4
                                    : 17}})
    if (columns.bubble || heading != std::string("bubble")) table.column(heading, rank);
  if (columns.nccl) table.column("vs nccl", 7);
  table.column("busiest link", 13);
  for (const Json& p : points)
    if (!p.contains("error")) notes.note(p.at("interval_widened_because"));
  for (const Json& p : points) {
    std::vector<std::string> row = {fmt::format("{}", p.value("point", 0))};
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(p));
    if (p.contains("error")) {
      table.failed_row(row, first_line(text_or(p, "error")));
      continue;
    }
    add_cells(row, p, columns, notes);
    table.row(row);
  }
  return table;
}

}  // namespace foreduce
