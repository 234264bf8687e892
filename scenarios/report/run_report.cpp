// The report of `run`: nccl-tests' own lines, or a row a replayed training step.
#include <fmt/format.h>

#include "scenarios/report/nccl_tests.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

NcclTestsTiming timing_of(const Json& t) {
  NcclTestsTiming timing{t.at("median_s").get<double>() * 1e6,
                         number_or(t, "algbw_GBps", 0),
                         number_or(t, "busbw_GBps", 0),
                         {}};
  if (t.at("wrong").is_number()) timing.wrong = t.at("wrong").get<double>();
  return timing;
}

std::string runs_as_nccl_tests(const Json& report) {
  const Collective collective = collective_in(report);
  std::vector<NcclTestsRow> rows;
  for (const Json& r : report.at("rows"))
    rows.push_back({text_or(r, "algorithm"), r.at("bytes").get<std::uint64_t>(),
                    r.at("count").get<std::uint64_t>(), text_or(r, "dtype"),
                    timing_of(r.at("out_of_place")), timing_of(r.at("in_place")), collective});
  const int ranks = report.at("layout").at("ranks");
  return nccl_tests_tables(
      fmt::format(
          "foreduce {} run: {} of {} ranks on {} node{}, transport {}; times are medians of {} "
          "iterations\n"
          "# busbw = algbw x {:.4g}; out of place includes the copy that our algorithms, "
          "which work in place, need",
          text_or(report, "foreduce_version"), name_of(collective), ranks,
          report.at("layout").at("nodes").dump(), report.at("layout").at("nodes") == 1 ? "" : "s",
          report.at("environment").value("transport", ""), report.at("iterations").dump(),
          bus_factor(collective, ranks)),
      rows);
}

std::string run_csv(const Json& report) {
  Table t;
  for (const char* heading :
       {"collective", "algorithm", "bytes", "count", "dtype", "out_of_place_median_s",
        "out_of_place_busbw_GBps", "in_place_median_s", "in_place_p95_s", "in_place_busbw_GBps",
        "wrong"})
    t.column(heading);
  for (const Json& r : report.at("rows")) {
    const auto text = [](const Json& value) {
      return value.is_string() ? value.get<std::string>() : value.dump();
    };
    t.row({std::string(name_of(collective_in(report))), text(r.at("algorithm")),
           text(r.at("bytes")), text(r.at("count")), text(r.at("dtype")),
           text(r.at("out_of_place").at("median_s")), text(r.at("out_of_place").at("busbw_GBps")),
           text(r.at("in_place").at("median_s")), text(r.at("in_place").at("p95_s")),
           text(r.at("in_place").at("busbw_GBps")), text(r.at("in_place").at("wrong"))});
  }
  return t.csv();
}

/// The strategy of a replayed step, as predictions name it.
std::string strategy_of(const Json& row) {
  const Json& step = row.at("step");
  Json named{{"sharding", step.at("sharding")}};
  if (step.at("replicas") > 1 && step.at("shard_ranks") > 1)
    named["hybrid"] = step.at("shard_ranks");
  return strategy_words(named);
}

Table replay_table(const Json& report) {
  Table t;
  for (const char* heading :
       {"algorithm", "workload", "strategy", "compute s", "step s", "p95 s", "exposed s"})
    t.column(heading);
  for (const Json& r : report.at("rows")) {
    const auto seconds = [&](double value) { return fmt::format("{:.4f}", value); };
    t.row({r.at("algorithm"), r.at("workload"), strategy_of(r),
           seconds(r.at("forward_s").get<double>() + r.at("backward_s").get<double>()),
           seconds(r.at("median_s")), seconds(r.at("p95_s")), seconds(r.at("exposed_s"))});
  }
  return t;
}

/// What each kind of collective moved in a step, and what of it nothing hid.
Table moved_table(const Json& report) {
  Table t;
  for (const char* heading :
       {"algorithm", "collective", "ranks", "count", "bytes", "time s", "exposed s"})
    t.column(heading);
  for (const Json& r : report.at("rows"))
    for (const Json& c : r.at("collectives"))
      t.row({r.at("algorithm"), c.at("kind"), c.at("ranks").dump(), c.at("count").dump(),
             size_words(c.at("bytes")), fmt::format("{:.4f}", c.at("time_s").get<double>()),
             fmt::format("{:.4f}", c.at("exposed_s").get<double>())});
  return t;
}

Table run_sizes_table(const Json& report) {
  Table t;
  for (const auto& [heading, rank] : {std::pair("size", 0),
                                      {"algorithm", 0},
                                      {"time", 1},
                                      {"p95", 3},
                                      {"algbw", 2},
                                      {"busbw", 1},
                                      {"#wrong", 2}})
    t.column(heading, rank);
  for (const Json& r : report.at("rows")) {
    const Json& in = r.at("in_place");
    t.row({size_words(r.at("bytes")), r.at("algorithm"), milliseconds(in.at("median_s")),
           milliseconds(in.at("p95_s")), fmt::format("{:.2f}", in.at("algbw_GBps").get<double>()),
           fmt::format("{:.2f}", in.at("busbw_GBps").get<double>()), cell_of(in.at("wrong"))});
  }
  return t;
}

/// Where the time of computing is from, if nobody measured it.
std::string compute_line(const Json& report, const View& view) {
  const Json& row = report.at("rows")[0];
  if (row.value("compute_measured", true)) return "";
  const double scale = number_or(row, "compute_scale", 1);
  return "\n" + wrapped(fmt::format("Compute: {}{}.",
                                    scale == 1 ? "" : fmt::format("{:g} times the ", scale),
                                    text_or(row, "compute_source")),
                        view, 2);
}

}  // namespace

Document render_run(const Json& report, const View& view) {
  const bool replayed = !report.at("rows").empty() && report.at("rows")[0].contains("backward_s");
  if (replayed && view.format == Format::csv) return replay_table(report).csv();
  if (replayed)
    return replay_table(report).text(view) + "\n" +
           wrapped(
               "What the collectives of a step moved, with nccl-tests' sizes, and how long they "
               "took on the first rank, one after another within a kind:",
               view) +
           "\n" + moved_table(report).text(view) + compute_line(report, view);
  if (view.format == Format::csv) return run_csv(report);
  return view.format == Format::markdown ? run_sizes_table(report).text(view)
                                         : runs_as_nccl_tests(report);
}

}  // namespace foreduce
