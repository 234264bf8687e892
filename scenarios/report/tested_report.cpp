#include "scenarios/report/tested_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "input/counted.hpp"
#include "input/text_stream.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

constexpr const char* kChecks[] = {"result", "traffic", "bits", "time", "symmetry"};

/// A failure of several lines as part of a sentence.
std::string in_one_line(const std::string& text) {
  TextStream words(text);
  std::string line;
  for (std::string word; words >> word;) line += (line.empty() ? "" : " ") + word;
  return line;
}

std::string tested_verdict(const Json& rows, const View& view) {
  int cases = 0;
  const Json* first = nullptr;
  std::ptrdiff_t failed = 0;
  for (const Json& r : rows) {
    cases += r.at("cases").get<int>();
    if (text_or(r, "failure").empty()) continue;
    ++failed;
    if (!first) first = &r;
  }
  if (!first) return fmt::format("All {} cases keep all rules.\n", cases);
  return wrapped(
      fmt::format("{} of {} fail{}. First: the {} of {} on {} ({}), {}: {}.", failed,
                  counted(rows.size(), "row"), failed == 1 ? "s" : "",
                  text_or(*first, "collective"), text_or(*first, "algorithm"),
                  counted(first->at("ranks").get<int>(), "rank"), text_or(*first, "cluster"),
                  text_or(*first, "failed_case"), in_one_line(text_or(*first, "failure"))),
      view, 2);
}

}  // namespace

Json tested_report(const std::vector<TestedAlgorithm>& rows) {
  Json j = report_head("test-algorithm");
  j["rows"] = Json::array();
  for (const TestedAlgorithm& r : rows) {
    Json row{{"algorithm", r.algorithm},
             {"collective", name_of(r.collective)},
             {"cluster", r.cluster},
             {"ranks", r.ranks},
             {"cases", r.cases}};
    for (const auto& [check, outcome] : r.checks) row[check] = outcome;
    row["failed_case"] = r.failed_case;
    row["failure"] = r.failure;
    j["rows"].push_back(row);
  }
  return j;
}

Document render_tested(const Json& report, const View& view) {
  const Json& rows = report.at("rows");
  Table table;
  for (const char* heading : {"collective", "cluster", "ranks"}) table.column(heading);
  table.column("cases", 1);
  for (const char* check : kChecks) table.column(check);
  if (view.format == Format::csv) table.column("failure");
  for (const Json& r : rows) {
    std::vector<std::string> cells{text_or(r, "collective"), text_or(r, "cluster"),
                                   cell_of(r.at("ranks")), cell_of(r.at("cases"))};
    for (const char* check : kChecks)
      cells.push_back(text_or(r, check).empty() ? "-" : text_or(r, check));
    if (view.format == Format::csv) cells.push_back(text_or(r, "failure"));
    table.row(cells);
  }
  if (view.format == Format::csv) return table.csv();
  Document document;
  if (!rows.empty()) document.title(fmt::format("Checks of {}", text_or(rows[0], "algorithm")));
  return document.gap()
      .table(table)
      .gap()
      .lines(Role::answer, tested_verdict(rows, view))
      .lines(Role::notes,
             wrapped("result: exact on threads. traffic: what `sends` says. bits: equal on threads "
                     "and in the simulator. time: on a flat network within the bounds of `sends` "
                     "and `steps`. symmetry: as in full. -: not checked there, or nothing claimed.",
                     view, 2));
}

}  // namespace foreduce
