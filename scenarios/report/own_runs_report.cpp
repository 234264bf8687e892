// The report of `validate PROFILE RUNS`: one's own runs beside what a profile predicts.
#include <fmt/format.h>

#include "scenarios/report/sharding_report.hpp"
#include "input/counted.hpp"
#include "scenarios/report/validation_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {

std::string crossing_words(const Crossing& c) {
  const auto where = [](const std::optional<double>& at) {
    return at ? "at " + size_words(*at) : std::string("never");
  };
  return fmt::format("{} and {} change places: measured {}, predicted {}", c.algorithms.first,
                     c.algorithms.second, where(c.measured), where(c.predicted));
}

Json own_runs_report(const UserRunsValidation& v) {
  Json j = report_head("validate");
  j["profile"] = v.profile;
  j["cluster"] = v.cluster;
  j["collective"] = name_of(v.collective);
  j["rows"] = Json::array();
  for (const UserRun& r : v.runs)
    j["rows"].push_back({{"algorithm", r.algorithm->name},
                         {"segments", r.segments},
                         {"bytes", r.bytes},
                         {"measured_s", r.measured},
                         {"predicted_s", r.predicted},
                         {"error", r.error()}});
  j["replays"] = Json::array();
  for (const UserReplay& r : v.replays)
    j["replays"].push_back({{"algorithm", r.algorithm},
                            {"workload", r.workload},
                            {"sharding", name_of(r.plan.sharding)},
                            {"hybrid", r.plan.replicas > 1 ? r.plan.shard_ranks : 0},
                            {"compute_s", (r.whole.forward + r.whole.backward).value},
                            {"measured_s", r.measured},
                            {"predicted_s", r.predicted},
                            {"error", r.error()}});
  j["points"] = v.runs.size() + v.replays.size();
  j["median_error"] = v.errors.median;
  j["geometric_mean_error"] = v.errors.mean;
  j["worst_error"] = v.errors.worst;
  j["bias"] = v.errors.bias;
  j["kendall_tau"] = v.kendall_tau ? Json(*v.kendall_tau) : Json();
  j["crossovers"] = Json::array();
  for (const Crossing& c : v.crossings)
    j["crossovers"].push_back({{"algorithms", {c.algorithms.first, c.algorithms.second}},
                               {"measured_bytes", c.measured ? Json(*c.measured) : Json()},
                               {"predicted_bytes", c.predicted ? Json(*c.predicted) : Json()},
                               {"text", crossing_words(c)}});
  return j;
}

namespace {

/// Of replayed steps alone: computing is replayed as it was measured, so only the rest is judged.
std::string verdict_on_steps(const Json& steps) {
  double measured = 0, predicted = 0, whole = 0;
  for (const Json& s : steps) {
    const double compute = number_or(s, "compute_s", 0);
    whole += number_or(s, "measured_s", 0);
    measured += number_or(s, "measured_s", 0) - compute;
    predicted += number_or(s, "predicted_s", 0) - compute;
  }
  measured = std::max(0.0, measured);
  predicted = std::max(0.0, predicted);
  return fmt::format(
      "Verdict: on step times of this workload. Of {}, computing is replayed and {} is "
      "communication that it does not hide, where {} was predicted{}. Whether algorithms are told "
      "apart, times of collectives say (run without --workload).",
      milliseconds(whole), milliseconds(measured), milliseconds(predicted),
      measured > 0 ? fmt::format(": {:+.0f} %", 100 * (predicted / measured - 1)) : "");
}

/// What predictions with such errors are good for.
std::string verdict_on(const Json& report) {
  if (report.at("rows").empty()) return verdict_on_steps(report.at("replays"));
  const double mean = number_or(report, "geometric_mean_error", 0),
               tau = number_or(report, "kendall_tau", 1);
  if (mean < 0.15 && tau >= 0.8)
    return "Verdict: good enough to choose algorithms and bucket sizes on this cluster.";
  if (mean < 0.35)
    return fmt::format(
        "Verdict: good enough for node counts and step times. Algorithms whose predictions differ "
        "by less than {} are not told apart.",
        percent(2 * mean));
  return fmt::format(
      "Verdict: not good enough for step times or node counts{}. Calibrate again on quiet hosts, "
      "with the sizes that matter.",
      number_or(report, "kendall_tau", 0) >= 0.8 ? ", though algorithms are in the right order"
                                                 : "");
}

std::string error_words(const Json& row) {
  return fmt::format("{:+.1f} %", 100 * row.at("error").get<double>());
}

Table own_sizes_table(const Json& rows) {
  Table t;
  for (const char* heading :
       {"algorithm", "segments", "size", "measured ms", "predicted ms", "error"})
    t.column(heading);
  for (const Json& r : rows)
    t.row({r.at("algorithm"), r.at("segments").dump(), size_words(r.at("bytes")),
           fmt::format("{:.3f}", 1e3 * r.at("measured_s").get<double>()),
           fmt::format("{:.3f}", 1e3 * r.at("predicted_s").get<double>()), error_words(r)});
  return t;
}

Table replays_table(const Json& rows) {
  Table t;
  for (const char* heading :
       {"workload", "strategy", "algorithm", "compute", "measured", "predicted", "error"})
    t.column(heading);
  for (const Json& r : rows)
    t.row({r.at("workload"), strategy_words(r), r.at("algorithm"), milliseconds(r.at("compute_s")),
           milliseconds(r.at("measured_s")), milliseconds(r.at("predicted_s")), error_words(r)});
  return t;
}

/// Times of collectives and of steps in one table.
std::string own_runs_csv(const Json& report) {
  Table t;
  for (const char* heading : {"algorithm", "segments", "bytes", "workload", "strategy",
                              "measured_s", "predicted_s", "error"})
    t.column(heading);
  for (const Json& r : report.at("rows"))
    t.row({r.at("algorithm"), r.at("segments").dump(), r.at("bytes").dump(), "", "",
           r.at("measured_s").dump(), r.at("predicted_s").dump(), r.at("error").dump()});
  for (const Json& r : report.at("replays"))
    t.row({r.at("algorithm"), "", "", r.at("workload"), strategy_words(r),
           r.at("measured_s").dump(), r.at("predicted_s").dump(), r.at("error").dump()});
  return t.csv();
}

/// What was measured: "3 times of all_reduce and 4 training steps".
std::string measured_words(const Json& report) {
  const std::size_t sizes = report.at("rows").size(), steps = report.at("replays").size();
  std::string words;
  if (sizes > 0)
    words = fmt::format("{} measured times of {}", sizes, report.value("collective", "all_reduce"));
  if (steps > 0) words += (sizes > 0 ? " and " : "") + counted(steps, "replayed training step");
  return words;
}

}  // namespace

Document render_own_runs(const Json& report, const View& view) {
  if (view.format == Format::csv) return own_runs_csv(report);
  std::string text = wrapped(
      fmt::format("Predictions with profile {} beside {}: error median {}, geometric "
                  "mean {}, worst {}, bias {:+.1f} %.",
                  text_or(report, "profile"), measured_words(report),
                  percent(report.at("median_error"), 1),
                  percent(report.at("geometric_mean_error"), 1),
                  percent(report.at("worst_error"), 1), 100 * report.at("bias").get<double>()),
      view, 2);
  if (!report.at("rows").empty())
    text += report.at("kendall_tau").is_null()
                ? "No two algorithms differ by more than 10 % at any size.\n"
                : wrapped(fmt::format("Order of the algorithms where measured times differ by more "
                                      "than 10 %: Kendall's tau {:.2f}.",
                                      report.at("kendall_tau").get<double>()),
                          view, 2);
  for (const Json& c : report.at("crossovers")) text += wrapped(text_or(c, "text"), view, 2);
  text += wrapped(verdict_on(report), view, 2);
  Document document;
  document.lines(Role::answer, text);
  if (!report.at("rows").empty()) document.gap().table(own_sizes_table(report.at("rows")));
  if (!report.at("replays").empty()) document.gap().table(replays_table(report.at("replays")));
  // Of small errors the two are the same.
  constexpr double kTellsApart = 0.2;
  if (report.at("worst_error").get<double>() > kTellsApart)
    document.gap().lines(
        Role::notes,
        wrapped("Median, mean and worst count factors, so that half of a time and twice a time are "
                "both 100 % off; the column of errors is predicted over measured, less 1.",
                view, 2));
  return document;
}

}  // namespace foreduce
