// The report of `run`: nccl-tests' own lines, or a row a replayed training step.
#include <fmt/format.h>

#include "scenarios/report/nccl_tests.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

NcclTestsTiming timing_of(const Json& t) {
  NcclTestsTiming timing{t["median_s"].get<double>() * 1e6,
                         number_or(t, "algbw_GBps", 0),
                         number_or(t, "busbw_GBps", 0),
                         {}};
  if (t["wrong"].is_number()) timing.wrong = t["wrong"].get<double>();
  return timing;
}

std::string as_nccl_tests(const Json& report) {
  std::vector<NcclTestsRow> rows;
  for (const Json& r : report["rows"])
    rows.push_back({text_or(r, "algorithm"), r["bytes"].get<std::uint64_t>(),
                    r["count"].get<std::uint64_t>(), text_or(r, "dtype"),
                    timing_of(r["out_of_place"]), timing_of(r["in_place"])});
  const int ranks = report["layout"]["ranks"];
  return nccl_tests_tables(
      fmt::format("foreduce {} run: {} ranks on {} node{}, transport {}; times are medians of {} "
                  "iterations\n"
                  "# busbw = algbw x {:.4g}; out of place includes the copy that our algorithms, "
                  "which work in place, need",
                  text_or(report, "foreduce_version"), ranks, report["layout"]["nodes"].dump(), report["layout"]["nodes"] == 1 ? "" : "s",
                  report["environment"].value("transport", ""), report["iterations"].dump(),
                  2.0 * (ranks - 1) / ranks),
      rows);
}

std::string flat_csv(const Json& report) {
  Table t;
  for (const char* heading :
       {"algorithm", "bytes", "count", "dtype", "out_of_place_median_s", "out_of_place_busbw_GBps",
        "in_place_median_s", "in_place_p95_s", "in_place_busbw_GBps", "wrong"})
    t.column(heading);
  for (const Json& r : report["rows"]) {
    const auto text = [](const Json& value) {
      return value.is_string() ? value.get<std::string>() : value.dump();
    };
    t.row({text(r["algorithm"]), text(r["bytes"]), text(r["count"]), text(r["dtype"]),
           text(r["out_of_place"]["median_s"]), text(r["out_of_place"]["busbw_GBps"]),
           text(r["in_place"]["median_s"]), text(r["in_place"]["p95_s"]),
           text(r["in_place"]["busbw_GBps"]), text(r["in_place"]["wrong"])});
  }
  return t.csv();
}

Table replay_table(const Json& report) {
  Table t;
  for (const char* heading :
       {"algorithm", "workload", "buckets", "backward s", "step s", "p95 s", "exposed s"})
    t.column(heading);
  for (const Json& r : report["rows"]) {
    const auto seconds = [&](const char* key) {
      return fmt::format("{:.4f}", r[key].get<double>());
    };
    t.row({r["algorithm"], r["workload"], r["buckets"].dump(), seconds("backward_s"),
           seconds("median_s"), seconds("p95_s"), seconds("exposed_s")});
  }
  return t;
}

Table sizes_table(const Json& report) {
  Table t;
  for (const auto& [heading, rank] : {std::pair("size", 0),
                                      {"algorithm", 0},
                                      {"time", 1},
                                      {"p95", 3},
                                      {"algbw", 2},
                                      {"busbw", 1},
                                      {"#wrong", 2}})
    t.column(heading, rank);
  for (const Json& r : report["rows"]) {
    const Json& in = r["in_place"];
    t.row({size_words(r["bytes"]), r["algorithm"], milliseconds(in["median_s"]),
           milliseconds(in["p95_s"]), fmt::format("{:.2f}", in["algbw_GBps"].get<double>()),
           fmt::format("{:.2f}", in["busbw_GBps"].get<double>()), cell_of(in["wrong"])});
  }
  return t;
}

}  // namespace

std::string render_run(const Json& report, const View& view) {
  const bool replayed = !report["rows"].empty() && report["rows"][0].contains("backward_s");
  if (replayed)
    return view.format == Format::csv ? replay_table(report).csv()
                                      : replay_table(report).text(view);
  if (view.format == Format::csv) return flat_csv(report);
  return view.format == Format::markdown ? sizes_table(report).text(view) : as_nccl_tests(report);
}

}  // namespace foreduce
