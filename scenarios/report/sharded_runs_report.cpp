// The report of `validate --sharded`: published runs with sharding beside predictions.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <string>

#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {
constexpr const char* kOfFirst = "first row = 1";
}  // namespace

Json sharded_runs_report(const ShardedValidation& v) {
  Json j = report_head("sharded");
  j["rows"] = Json::array();
  std::map<std::string, const ShardedRun*> first_rows;  // by series
  for (const ShardedRun& r : v.runs) {
    // Some publish no rate but as a part of that on fewest GPUs.
    const ShardedRun& first = *first_rows.try_emplace(r.series, &r).first->second;
    const bool relative = first.measured == 1;
    const double one = relative ? first.predicted() : 1;
    Json row = {{"series", r.series},
                {"source", r.source},
                {"note", r.note},
                {"model", r.point.model},
                {"instance", r.point.instance},
                {"gpus", r.point.gpus},
                {"sharding", name_of(r.point.sharding.sharding)},
                {"hybrid", r.point.sharding.replicas > 1 && r.point.sharding.shard_ranks > 1
                               ? Json(r.point.sharding.shard_ranks)
                               : Json()},
                {"tensor_parallel", r.point.sharding.tensor},
                {"context_parallel", r.point.sharding.context},
                {"pipeline", r.point.sharding.stages},
                {"expert_parallel", r.point.sharding.expert},
                {"unit", relative   ? kOfFirst
                         : r.of_all ? "samples/s"
                                    : "tokens/s/GPU"},
                {"measured", r.measured}};
    row["predicted"] = r.predicted() > 0 && one > 0 ? Json(r.predicted() / one) : Json();
    row["measured_memory_bytes"] = r.memory ? Json(r.memory->value) : Json();
    row["predicted_memory_bytes"] =
        r.point.error.empty() ? Json(r.point.memory.peak().value) : Json();
    if (!r.point.error.empty()) row["error"] = r.point.error;
    j["rows"].push_back(row);
  }
  j["series"] = Json::array();
  for (const ShardedSeries& s : v.series)
    j["series"].push_back({{"series", s.series},
                           {"compared", s.order ? "order" : "scaling"},
                           {"measured", s.measured},
                           {"predicted", s.predicted},
                           {"good", s.good()}});
  return j;
}

Document render_sharded_runs(const Json& report, const View& view) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("series", 0),
                                      {"GPUs", 0},
                                      {"strategy", 0},
                                      {"unit", 1},
                                      {"measured", 0},
                                      {"predicted", 0},
                                      {"error", 0},
                                      {"memory, GiB", 0},
                                      {"note", 2}})
    table.column(heading, rank);
  for (const Json& r : report.at("rows")) {
    const std::vector<std::string> head = {text_or(r, "series"), cell_of(r.at("gpus")),
                                           strategy_words(r)};
    if (r.contains("error")) {
      table.failed_row(head, text_or(r, "error"));
      continue;
    }
    const double measured = number_or(r, "measured", 0), predicted = number_or(r, "predicted", 0);
    const auto gibibytes = [&](const char* key) {
      const double bytes = number_or(r, key, 0);
      return bytes > 0 ? fmt::format("{:.1f}", bytes / (1 << 30)) : std::string("-");
    };
    std::vector<std::string> row = head;
    row.push_back(text_or(r, "unit"));
    row.push_back(fmt::format("{:.4g}", measured));
    row.push_back(fmt::format("{:.4g}", predicted));
    // Reports of earlier programs have rates beside parts of one.
    const bool comparable = measured > (text_or(r, "unit") == kOfFirst ? 0 : 1);
    row.push_back(comparable ? fmt::format("{:+.1f} %", 100 * (predicted / measured - 1)) : "-");
    row.push_back(gibibytes("measured_memory_bytes") + " / " + gibibytes("predicted_memory_bytes"));
    row.push_back(text_or(r, "note").empty() ? "-" : text_or(r, "note"));
    table.row(row);
  }
  Table series;
  for (const char* heading : {"series", "compared", "measured", "predicted", "good"})
    series.column(heading);
  for (const Json& s : report.at("series")) {
    const bool order = text_or(s, "compared") == "order";
    const auto value = [&](const char* key) {
      const double ratio = number_or(s, key, 0);
      return order ? fmt::format("{:.2f} x", ratio) : percent(ratio, 1);
    };
    series.row({text_or(s, "series"), text_or(s, "compared"), value("measured"), value("predicted"),
                s.value("good", false) ? "yes" : "no"});
  }
  if (view.format == Format::csv) return table.csv();
  Document document;
  document.title("Published runs with sharding, which nothing was fitted to").gap();
  document.table(table).gap().table(series).gap();
  return document.lines(
      Role::notes,
      wrapped("Compute is an estimate in every row. Memory is measured / predicted. Scaling is a "
              "GPU's rate on most GPUs over that on fewest, good within 3 points; order is the "
              "faster strategy's rate over the slower one's.",
              view, 2) +
          hidden_line(table, view));
}

}  // namespace foreduce
