// The reports of `validate` and `calibrate --reference`: errors of predictions, by source and in
// total.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>
#include <cmath>
#include <map>

#include "scenarios/report/check_words.hpp"
#include "scenarios/report/coverage_report.hpp"
#include "scenarios/report/validation_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

Json errors_report(const Errors& e) {
  return {{"points", e.points},     {"median_error", e.median}, {"geometric_mean_error", e.mean},
          {"worst_error", e.worst}, {"bias", e.bias},           {"in_interval", e.in_interval}};
}

Json group_report(const ReferenceGroup& g) {
  return {{"name", g.name},
          {"profile", g.profile},
          {"below_1MiB", errors_report(errors_of(g.small))},
          {"from_1MiB", errors_report(errors_of(g.large))}};
}

Json point_report(const EvaluatedPoint& e) {
  const CollectiveEstimate& x = e.estimate;
  return {{"source", e.point.source},
          {"instance", e.point.instance},
          {"nodes", e.point.nodes},
          {"gpus", e.point.gpus},
          {"asked", asked_of(e.point)},
          {"size_bytes", e.point.bytes.value},
          {"published_s", e.point.time.value},
          {"predicted_s", x.time.value},
          {"low_s", x.interval.low.value},
          {"high_s", x.interval.high.value},
          {"interval_widened", !x.interval.widened.empty()},
          {"interval_widened_because", x.interval.why()},
          {"algorithm", to_text(x.run.algorithm)},
          {"protocol", x.run.protocol ? to_text(*x.run.protocol) : ""},
          {"profile", e.profile},
          {"extrapolation_error", x.extrapolation_error}};
}

Json training_group_report(const TrainingErrors& e) {
  return {{"name", e.group},
          {"points", e.n},
          {"median_error", e.median},
          {"worst_error", e.worst},
          {"bias", e.bias},
          {"inside", e.inside},
          {"median_efficiency_error", e.efficiency},
          {"from_one_node",
           {{"points", e.n_from_one_node},
            {"median_error", e.median_from_one_node},
            {"worst_error", e.worst_from_one_node}}}};
}

Json training_point_report(const TrainingPoint& p) {
  return {{"source", p.source},
          {"line", p.line},
          {"library", p.library},
          {"workload", p.workload},
          {"precision", to_text(p.precision)},
          {"nodes", p.nodes},
          {"gpus", p.gpus},
          {"batch", p.batch},
          {"published_step_s", p.measured_step},
          {"predicted_step_s", p.predicted_step},
          {"low_step_s", p.low},
          {"high_step_s", p.high},
          {"published_efficiency", p.measured_efficiency},
          {"predicted_efficiency", p.predicted_efficiency},
          {"flow_bytes_per_s", p.flow.value},
          {"gave_flow", p.gave_flow},
          {"error_from_one_node", p.error_from_one_node ? Json(*p.error_from_one_node) : Json()}};
}

/// n and the errors of one range of sizes.
void add_errors(std::vector<std::string>& row, const Json& e) {
  const bool any = e.at("points").get<int>() > 0;
  row.push_back(e.at("points").dump());
  for (const char* key : {"median_error", "geometric_mean_error", "worst_error"})
    row.push_back(any ? percent(e.at(key), 1) : "-");
  row.push_back(any ? fmt::format("{:+.1f} %", 100 * e.at("bias").get<double>()) : "-");
  if (e.contains("in_interval")) row.push_back(any ? percent(e.at("in_interval"), 0) : "-");
}

enum class Inside : std::uint8_t { shown, unknown };
/// Geometric mean, n and share inside stay longest.
void add_error_columns(Table& table, const std::string& range, Inside inside) {
  table.column("n " + range, 2);
  table.column("median " + range, 5);
  table.column("error " + range);
  table.column("worst " + range, 6);
  table.column("bias " + range, 7);
  if (inside == Inside::shown) table.column("inside " + range, 3);
}

Table points_table(const Json& report) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("source", 0),
                                      {"size", 0},
                                      {"published", 1},
                                      {"predicted", 1},
                                      {"90 % PI", 3},
                                      {"error", 1},
                                      {"algorithm", 2},
                                      {"protocol", 2}})
    table.column(heading, rank);
  for (const Json& p : report.at("points")) {
    const double published = p.at("published_s"), predicted = p.at("predicted_s");
    table.row(
        {fmt::format("{} | {} | {} x {}", text_or(p, "source"), text_or(p, "instance"),
                     p.value("nodes", 1), p.value("gpus", 1) / std::max(1, p.value("nodes", 1))),
         size_words(p.at("size_bytes")), milliseconds(published), milliseconds(predicted),
         range_words(p.at("low_s"), p.at("high_s")),
         fmt::format("{:+.0f} %", 100 * (predicted / published - 1)), text_or(p, "algorithm"),
         text_or(p, "protocol")});
  }
  return table;
}

Table training_table(const Json& report) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("training", 0),
                                      {"n", 0},
                                      {"median", 1},
                                      {"worst", 2},
                                      {"bias", 3},
                                      {"inside", 4},
                                      {"efficiency", 5},
                                      {"from one node: n", 7},
                                      {"from one node: median", 6},
                                      {"from one node: worst", 8}})
    table.column(heading, rank);
  for (const Json& e : report.at("training")) {
    const Json& one = e.at("from_one_node");
    const bool any = one.at("points").get<int>() > 0;
    table.row({text_or(e, "name"), e.at("points").dump(), percent(e.at("median_error"), 1),
               percent(e.at("worst_error"), 0),
               fmt::format("{:+.1f} %", 100 * e.at("bias").get<double>()),
               percent(e.at("inside"), 0),
               fmt::format("{:.1f} points", 100 * e.at("median_efficiency_error").get<double>()),
               one.at("points").dump(), any ? percent(one.at("median_error"), 1) : "-",
               any ? percent(one.at("worst_error"), 0) : "-"});
  }
  return table;
}

Table sources_table(const Json& report) {
  Table table;
  table.column("source");
  table.column("profile", 4);
  add_error_columns(table, "<1 MiB", Inside::shown);
  add_error_columns(table, ">=1 MiB", Inside::shown);
  for (const Json& r : report.at("sources")) {
    std::vector<std::string> row{text_or(r, "name"), text_or(r, "profile")};
    add_errors(row, r.at("below_1MiB"));
    add_errors(row, r.at("from_1MiB"));
    table.row(row);
  }
  return table;
}

/// The totals, in sentences.
std::string reference_answer(const Json& report, const View& view) {
  std::string text;
  for (const Json& r : report.at("sources")) {
    const std::string name = text_or(r, "name");
    if (name.find(" | ") != std::string::npos || name == "all") continue;
    const Json &small = r.at("below_1MiB"), &large = r.at("from_1MiB");
    std::vector<std::string> errors, inside;
    for (const auto& [range, e] : {std::pair("below 1 MiB", &small), {"from 1 MiB on", &large}}) {
      if (e->at("points") == 0) continue;
      errors.push_back(fmt::format("{} {} (n = {})", percent(e->at("geometric_mean_error"), 1),
                                   range, e->at("points").dump()));
      inside.push_back(percent(e->at("in_interval")));
    }
    text += wrapped(fmt::format("{}{}: off by {}, geometric mean; {} inside the 90 % PI.",
                                view.format == Format::markdown ? "- " : "", name,
                                fmt::join(errors, " and "), fmt::join(inside, " and ")),
                    view, 2);
  }
  return text;
}

}  // namespace

Json reference_report(const ReferenceValidation& v) {
  Json j = report_head("validate");
  j["points_without_machine"] = v.without_machine;
  for (const ReferenceGroup& g : v.groups) j["sources"].push_back(group_report(g));
  for (const ReferenceGroup* g :
       {&v.fitted, &v.test_set, &v.test_parts[0], &v.test_parts[1], &v.all})
    j["sources"].push_back(group_report(*g));
  for (const ReferenceGroup& g : v.of_collectives) j["sources"].push_back(group_report(g));
  j["generations"] = Json::array();
  for (const GenerationErrors& e : errors_by_generation(v))
    j["generations"].push_back({{"generation", e.generation},
                                {"set", e.set},
                                {"below_1MiB", errors_report(e.small)},
                                {"from_1MiB", errors_report(e.large)}});
  j["intervals"] = coverage_report(interval_coverage(v.points));
  j["order"] = Json::array();
  for (const ReferenceRanking& r : v.rankings) {
    Json& one = j["order"].emplace_back(
        Json{{"name", r.name}, {"kendall_tau", r.kendall_tau}, {"crossovers", Json::array()}});
    for (const Crossing& c : r.crossings) one.at("crossovers").push_back(crossing_words(c));
  }
  j["points"] = Json::array();
  for (const auto* points : {&v.points, &v.collectives})
    for (const EvaluatedPoint& e : *points) j["points"].push_back(point_report(e));
  j["training"] = Json::array();
  for (const TrainingErrors& e : training_errors(v.training))
    j["training"].push_back(training_group_report(e));
  j["training_points"] = Json::array();
  for (const TrainingPoint& p : v.training)
    j["training_points"].push_back(training_point_report(p));
  return j;
}

Document render_reference(const Json& report, const View& view) {
  const Table table =
      report.value("show_points", false) ? points_table(report) : sources_table(report);
  if (view.format == Format::csv) return table.csv();
  const Table training = training_table(report);
  Document document;
  document.title("Predictions beside published measurements").gap();
  document.lines(Role::answer, reference_answer(report, view)).gap();
  document.table(generations_table(report)).gap();
  const Table coverage = report.contains("intervals") ? coverage_table(report) : Table();
  if (report.contains("intervals"))
    document.lines(Role::notes, wrapped(kCoverageWords, view)).gap().table(coverage).gap();
  document.table(table).gap();
  std::string text =
      wrapped(fmt::format("{} published points are on hardware that the catalogue has nothing "
                          "like, or are not NCCL's; they are left out.",
                          report.at("points_without_machine").dump()),
              view, 2);
  text += "\nOrder of algorithms whose times differ by more than 10 %, Kendall's tau:\n\n";
  for (const Json& r : report.at("order")) {
    text += fmt::format("- {}: {:.2f}\n", text_or(r, "name"), r.at("kendall_tau").get<double>());
    for (const Json& c : r.at("crossovers"))
      text += wrapped("  - " + c.get<std::string>(), view, 4);
  }
  document.lines(Role::notes, text).gap().table(training).gap();
  document.lines(Role::notes, hidden_line(table, view) + hidden_line(coverage, view) +
                                  hidden_line(training, view));
  if (!view.explain)
    return document.lines(Role::notes,
                          "--explain gives definitions; --points shows every point.\n");
  std::string definitions;
  for (const char* line :
       {"Error is the geometric mean of |predicted / published - 1| in factors, beside its median "
        "and worst; bias is predicted over "
        "published; inside is the share of points within the 90 % prediction interval.",
        "Training: error of the throughput (positive is optimistic), compute from the measured "
        "rate of one GPU; efficiency is the "
        "median error of scaling against that GPU.",
        "From one node compares with what as many GPUs of one node were measured to take, so with "
        "what more nodes add."})
    definitions += wrapped(line, view, 2);
  std::map<std::pair<std::string, int>, double> flows;
  for (const Json& p : report.at("training_points"))
    if (p.value("gave_flow", false))
      flows[{text_or(p, "source"), p.value("nodes", 0)}] = p.at("flow_bytes_per_s");
  for (const auto& [of, rate] : flows)
    definitions +=
        wrapped(fmt::format("{} on {} hosts: a TCP flow of {:.1f} Gb/s is fitted to its runs "
                            "of one GPU a node, which are out of the total.",
                            of.first, of.second, rate * 8e-9),
                view, 2);
  return document.lines(Role::definitions, definitions);
}

namespace {

/// What each point of a source was off by, so that a fit can be judged without doing it again.
Json fit_points(const FitResiduals& r) {
  Json points = Json::array();
  for (std::size_t k = 0; k < r.bytes.size(); ++k)
    points.push_back({{"size_bytes", r.bytes[k]},
                      {"predicted_over_published", std::exp(r.residuals[k])},
                      {"nodes_in_fit", static_cast<bool>(r.known[k])}});
  return points;
}

/// "source | machine | nodes x GPUs", or a total's name.
std::array<std::string, 3> parts_of_group(const std::string& group) {
  const auto first = group.find(" | "), last = group.rfind(" | ");
  if (first == last) return {group, "", ""};
  return {group.substr(0, first), group.substr(first + 3, last - first - 3),
          group.substr(last + 3)};
}

}  // namespace

Json cross_validation_report(const CrossValidation& v) {
  Json j = report_head("calibrate");
  if (!v.fitted_to.empty()) {
    j["fitted_to"] = v.fitted_to;
    j["shipped_profile"] = v.shipped;
  }
  j["errors"] = Json::array();
  for (const auto* part : {&v.groups, &v.totals})
    for (const FitResiduals& r : *part) {
      Json small = errors_report(errors_of(r.below_1mib())),
           large = errors_report(errors_of(r.from_1mib()));
      small.erase("in_interval");
      large.erase("in_interval");
      j["errors"].push_back({{"source", r.group},
                             {"profile", r.profile},
                             {"set", name_of(r.set)},
                             {"below_1MiB", small},
                             {"from_1MiB", large},
                             {"points", r.nodes > 0 ? fit_points(r) : Json::array()}});
    }
  j["numbers"] = Json::array();
  for (const FittedParameter& n : v.numbers)
    j["numbers"].push_back({{"profile", n.profile},
                            {"number", n.name},
                            {"value", n.value},
                            {"low", n.interval ? Json((*n.interval)[0]) : Json()},
                            {"high", n.interval ? Json((*n.interval)[1]) : Json()}});
  j["notes"] = v.notes;
  j["remarks"] = Json::array();
  for (const Remark& remark : v.remarks)
    if (Json words = remark_words(remark);
        std::find(j["remarks"].begin(), j["remarks"].end(), words) == j["remarks"].end())
      j["remarks"].push_back(std::move(words));
  return j;
}

namespace {

/// What predictions of logs of one's own are off by, in the geometric mean of a set's points:
/// "3.1 % below 1 MiB and 2.0 % from 1 MiB on"; empty where the report has no such set.
std::string off_by(const Json& report, const std::string& set) {
  std::string words;
  for (const Json& r : report.at("errors"))
    if (text_or(r, "set") == set && text_or(r, "source") == "all")
      for (const auto& [key, range] :
           {std::pair("below_1MiB", "below 1 MiB"), std::pair("from_1MiB", "from 1 MiB on")})
        if (number_or(r.at(key), "points", 0) > 0)
          words += fmt::format("{}{:.1f} % {}", words.empty() ? "" : " and ",
                               100 * number_or(r.at(key), "geometric_mean_error", 0), range);
  return words;
}

}  // namespace

bool describes_its_logs(const Json& report) {
  constexpr double kBad = 0.3;
  for (const Json& r : report.at("errors"))
    if (text_or(r, "set") == "every other size" && text_or(r, "source") == "all")
      for (const char* range : {"below_1MiB", "from_1MiB"})
        if (number_or(r.at(range), "points", 0) > 0 &&
            number_or(r.at(range), "geometric_mean_error", 0) > kBad)
          return false;
  return true;
}

namespace {

/// Whether the profile that ships is so far off that the cluster may be faulty.
bool may_be_faulty(const Json& report) {
  constexpr double kFar = 0.4;  // most healthy clusters that no fit had seen are nearer
  for (const Json& r : report.at("errors"))
    if (text_or(r, "set") == "as shipped" && text_or(r, "source") == "all")
      return number_or(r.at("from_1MiB"), "geometric_mean_error", 0) > kFar;
  return false;
}

/// How good the profile is, by points that its fit had not seen.
std::string log_calibration_words(const Json& report, const View& view) {
  const std::string others = off_by(report, "other node counts"),
                    unfitted = off_by(report, "other collectives");
  std::string warning;
  if (!describes_its_logs(report))
    warning =
        "This profile does not describe these logs: do not predict with it. Was the cluster "
        "healthy (foreduce check), and is it the one that --instance says, run by that "
        "release of NCCL?";
  else if (may_be_faulty(report))
    warning =
        "The shipped profile is far off: foreduce check says whether the cluster is healthy. "
        "A profile of a faulty one predicts its fault.";
  return (warning.empty() ? "" : wrapped(warning, view, 0)) +
         wrapped(
             fmt::format(
                 "Sizes that a fit to those beside them had not seen are off by {}{}{}. As "
                 "shipped, "
                 "{} is off by {}.",
                 off_by(report, "every other size"),
                 others.empty() ? "" : "; node counts that it had not seen, by " + others,
                 unfitted.empty() ? "" : "; other collectives than it is fitted to, by " + unfitted,
                 text_or(report, "shipped_profile"), off_by(report, "as shipped")),
             view, 0);
}

/// How far each group of points is off, a row a group.
Table fit_errors_table(const Json& report) {
  Table table;
  table.column("source");
  table.column("machine", 8);
  table.column("nodes x GPUs");
  const bool one_set = !varies(report.at("errors"), "set");
  table.column("profile", one_set ? 4 : 3);
  table.column("set", one_set ? 9 : 0);
  add_error_columns(table, "<1 MiB", Inside::unknown);
  add_error_columns(table, ">=1 MiB", Inside::unknown);
  const std::string fitted_to = report.value("fitted_to", std::string());
  // Of a single log and number of nodes the totals say the same again.
  std::set<std::string> groups;
  for (const Json& r : report.at("errors")) groups.insert(text_or(r, "source"));
  const bool one_log = !fitted_to.empty() && groups.size() == 2;
  for (const Json& r : report.at("errors")) {
    if (one_log && text_or(r, "source") == "all") continue;  // the same again
    const auto [source, machine, nodes] = parts_of_group(text_or(r, "source"));
    std::vector<std::string> row{source, machine, nodes, text_or(r, "profile"), text_or(r, "set")};
    add_errors(row, r.at("below_1MiB"));
    add_errors(row, r.at("from_1MiB"));
    table.row(row);
  }
  return table;
}

/// The fitted numbers with their intervals.
Table fitted_numbers_table(const Json& report) {
  Table numbers;
  for (const char* heading : {"profile", "number", "value", "low", "high"}) numbers.column(heading);
  for (const Json& n : report.at("numbers")) {
    const auto text = [&](const char* key) {
      return n.at(key).is_null() ? std::string("-")
                                 : fmt::format("{:.5g}", n.at(key).get<double>());
    };
    numbers.row(
        {text_or(n, "profile"), text_or(n, "number"), text("value"), text("low"), text("high")});
  }
  return numbers;
}

}  // namespace

Document render_cross_validation(const Json& report, const View& view) {
  const Table table = fit_errors_table(report);
  if (view.format == Format::csv) return table.csv();
  Document document;
  const bool own = !report.value("fitted_to", std::string()).empty();
  if (own) document.lines(Role::answer, log_calibration_words(report, view)).gap();
  document.title(own ? "Times of " + text_or(report, "fitted_to") + " (error: geometric mean)"
                     : "Published all-reduce times, by profiles that saw them and by profiles that "
                       "did not (error: geometric mean)");
  document.gap().table(table).gap();
  std::string notes;
  if (report.at("numbers").empty()) {
    notes = wrapped(
        "leave-one-fabric-out and leave-one-GPU-out: predicted by profiles that were fitted "
        "without all that was measured over that fabric or on that GPU. The profile is what stood "
        "in.",
        view, 2);
  } else {
    document.table(fitted_numbers_table(report)).gap();
    notes = wrapped(
        fmt::format("{} low and high: 90 % confidence interval; - where the points do not "
                    "determine the number.",
                    own ? "every other size, other node counts: predicted by a fit without those."
                        : "leave-one-source-out: predicted by a fit without that whole source."),
        view, 2);
  }
  for (const Json& remark : report.value("remarks", Json::array()))
    notes += wrapped(fmt::format("Note: {}.", remark.get<std::string>()), view, 2);
  for (const Json& note : report.value("notes", Json::array()))
    notes += wrapped(fmt::format("Not predicted: {}.", note.get<std::string>()), view, 2);
  return document.lines(Role::notes, notes + hidden_line(table, view));
}

}  // namespace foreduce
