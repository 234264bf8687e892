// The report of `check`: a verdict and its causes, then a row a size.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "scenarios/report/check_words.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/validation/check_limits.hpp"
#include "scenarios/validation/suspects.hpp"

namespace foreduce {
namespace {

/// Why a cause stands behind one whose times are off by more, as both are shown; empty where it
/// does not.
std::string later_words(const std::vector<Cause>& causes, std::size_t at) {
  const Finding& finding = causes[at].finding;
  const auto misses = [](const Cause& c) { return std::lround(100 * c.misfit); };
  const auto before =
      std::find_if(causes.begin(), causes.begin() + static_cast<std::ptrdiff_t>(at),
                   [&](const Cause& other) { return misses(other) > misses(causes[at]); });
  if (before == causes.begin() + static_cast<std::ptrdiff_t>(at) || finding.evidence) return "";
  if (before->finding.evidence) return "named later, for the log does not speak of it";
  if (fault_of(finding.kind) == Fault::algorithm)
    return "named later, for NCCL_ALGO is seldom set without a word in the log";
  if (fault_of(finding.kind) == Fault::gpu)
    return "named later, for one GPU is seldom taken for another";
  return "named later, for TCP is the usual cause of such times";
}

template <class R>
bool has(const std::vector<Remark>& remarks) {
  return std::any_of(remarks.begin(), remarks.end(),
                     [](const Remark& r) { return std::holds_alternative<R>(r); });
}

Json table_report(const CheckedTable& t) {
  Json one = {{"collective", name_of(t.collective)},
              {"instance", t.instance},
              {"nodes", t.nodes},
              {"ranks", t.ranks},
              {"profile", t.profile},
              {"timed_by", t.timed_by},
              {"normal", t.normal},
              {"unsure", t.unsure},
              {"over_sockets", t.over_sockets},
              {"other_machine", t.other_machine},
              {"machine_named",
               !has<remark::GuessedInstance>(t.remarks) && !has<remark::FittingMachine>(t.remarks)},
              {"rows_unread", t.broken && std::holds_alternative<remark::RowsUnread>(*t.broken)},
              {"broken", t.broken ? Json(remark_words(*t.broken)) : Json()},
              {"broken_remedy", t.broken ? remedy_of_broken(*t.broken) : ""},
              {"misfit", t.misfit},
              {"none_fits_well", t.none_fits_well()},
              {"healthy_sites", t.sites},
              {"earlier_log", t.earlier.empty() ? Json() : Json(t.earlier)}};
  one["rows"] = Json::array();
  for (const CheckedRow& r : t.rows)
    one.at("rows").push_back({{"bytes", r.row.bytes},
                              {"type", r.row.type},
                              {"expected_s", r.expected.value},
                              {"low_s", r.low.value},
                              {"high_s", r.high.value},
                              {"healthy_from", name_of(r.from)},
                              {"measured_s", r.row.timing().time.value},
                              {"busbw_GBps", r.row.timing().busbw},
                              {"verdict", name_of(r.verdict)}});
  one["causes"] = Json::array();
  for (std::size_t i = 0; i < t.causes.size(); ++i) {
    const Cause& c = t.causes[i];
    one.at("causes").push_back({{"what", what_words(c.finding)},
                                {"remedy", remedy_words(c.finding)},
                                {"evidence", evidence_words(c.finding)},
                                {"misfit", c.misfit},
                                {"why_later", later_words(t.causes, i)}});
  }
  one["remarks"] = Json::array();
  for (const Remark& remark : t.remarks) one.at("remarks").push_back(remark_words(remark));
  return one;
}

/// How well a cause fits, beside how well a healthy cluster does.
std::string off_words(const Json& cause, const Json& t) {
  if (number_or(cause, "misfit", 0) == 0) return "";  // nothing was predicted
  if (number_or(cause, "misfit", 0) > number_or(t, "misfit", 0))
    return ": to be mended first, although it does not explain these times";
  const auto off = [](double misfit) {
    if (misfit < CheckLimits::factor_off) return percent(misfit);
    return fmt::format("a factor of {:.{}f}", 1 + misfit, misfit < 10 ? 1 : 0);
  };
  return fmt::format(": its times are off by {} in the mean, a healthy cluster's by {}",
                     off(number_or(cause, "misfit", 0)), off(number_or(t, "misfit", 0)));
}

std::string do_words(const std::string& remedy, const View& view) {
  return remedy.empty() ? "" : wrapped("  do: " + remedy, view, 6);
}

/// Whether it is normal, and how many sizes are not.
std::string table_verdict(const Json& t, const View& view) {
  const auto& rows = t.at("rows");
  const auto count = [&](const char* verdict) {
    return std::count_if(rows.begin(), rows.end(),
                         [&](const Json& r) { return r.at("verdict") == verdict; });
  };
  const auto slow = count("slow"), fast = count("fast");
  const std::string faster =
      fast == 0 ? "" : fmt::format(", {} {} faster", fast, fast == 1 ? "is" : "are");
  const bool mostly_fast = slow == 0 && 2 * fast > std::ssize(rows);
  std::string text =
      t.value("other_machine", false)
          ? wrapped(
                fmt::format("Cannot tell: {} of {} sizes are faster than {} x {} is expected to "
                            "be, and the log does not say what machine it is of. Give "
                            "--instance (a name, or ./file.yaml).",
                            fast, rows.size(), t.value("nodes", 0), text_or(t, "instance")),
                view, 2)
      : t.value("over_sockets", false)
          ? wrapped(
                fmt::format("Cannot tell: {} of {} sizes are within their intervals, but the log "
                            "says that NCCL ran over sockets, and the intervals are too wide "
                            "to show that.",
                            count("normal"), rows.size()),
                view, 2)
      : t.value("unsure", false)
          ? wrapped(
                fmt::format("Cannot tell: {} of {} size{} within {} interval{}, but {}, and the "
                            "largest {} {:.2f} times as long as expected.",
                            count("normal"), rows.size(), rows.size() == 1 ? " is" : "s are",
                            rows.size() == 1 ? "its" : "their", faster,
                            rows.back().at("verdict") == "slow" ? "not the largest" : "it is wide",
                            rows.size() == 1 ? "takes" : "take",
                            rows.back().at("measured_s").get<double>() /
                                rows.back().at("expected_s").get<double>()),
                view, 2)
      : t.value("normal", false) && mostly_fast
          ? fmt::format("Not slow: {} of {} sizes within their interval{}.\n", count("normal"),
                        rows.size(), faster)
      : t.value("normal", false) ? fmt::format("Normal: {} of {} sizes within their interval{}.\n",
                                               count("normal"), rows.size(), faster)
      : slow == 0 && fast > 0
          ? fmt::format("Not normal: {} of {} sizes faster than their interval.\n", fast,
                        rows.size())
      : slow == 0
          ? wrapped(fmt::format("Not normal, although {} of {} sizes are within their interval{}.",
                                count("normal"), rows.size(),
                                t.at("causes").empty()
                                    ? ""
                                    : ": the log says what is wrong, and the times agree"),
                    view, 2)
          : wrapped(fmt::format("Not normal{}: {} of {} sizes slower than their interval{}.",
                                t.value("machine_named", true)
                                    ? ""
                                    : fmt::format(" for {} x {}, which the log does not name",
                                                  t.value("nodes", 0), text_or(t, "instance")),
                                slow, rows.size(), faster),
                    view, 2);
  if (const std::string broken = text_or(t, "broken"); !broken.empty())
    text =
        wrapped((t.value("rows_unread", false) ? "Cannot tell: " : "Not normal: ") + broken + ".",
                view, 2) +
        do_words(text_or(t, "broken_remedy"), view) + (slow == 0 ? "" : text);
  const bool by_machine = text_or(t, "earlier_log").empty();  // which it is of
  if (by_machine && 2 * fast > std::ssize(rows) && !t.value("unsure", false))
    text += wrapped(fmt::format("Most sizes are faster than {} x {} is expected to be: is that the "
                                "instance type, and are these all nodes?",
                                t.value("nodes", 0), text_or(t, "instance")),
                    view, 2);
  return text;
}

/// What would explain it, and what to do.
std::string causes_words(const Json& t, const View& view) {
  const Json &rows = t.at("rows"), &causes = t.at("causes");
  const bool none_fits = t.value("none_fits_well", false);
  const bool one_size = std::all_of(rows.begin(), rows.end(), [&](const Json& r) {
    return r.at("bytes") == rows[0].at("bytes");
  });
  std::string text;
  for (std::size_t i = 0; i < causes.size(); ++i) {
    const Json& c = causes[i];
    const std::string evidence = text_or(c, "evidence"), later = text_or(c, "why_later");
    const char* const begin = i > 0       ? "or:"
                              : none_fits ? "None of the usual causes fits well; the nearest:"
                              : one_size && evidence.empty() ? "One size alone would fit:"
                                                             : "Looks like:";
    text += wrapped(fmt::format("{} {}{}{}.", begin, text_or(c, "what"),
                                (evidence.empty() ? "" : "; " + evidence) + off_words(c, t),
                                later.empty() ? "" : "; " + later),
                    view, 2);
    text += wrapped("  do: " + text_or(c, "remedy"), view, 4);
  }
  return text;
}

/// The verdict, what would explain it, and what else is worth knowing.
std::string findings(const Json& t, const View& view) {
  std::string text = table_verdict(t, view) + causes_words(t, view);
  for (const Json& remark : t.at("remarks"))
    text += wrapped("Note: " + remark.get<std::string>() + ".", view, 2);
  return text;
}

/// What the columns expected, low and high are.
std::string expected_legend(const Json& t, const View& view) {
  const Json& sites = t.at("healthy_sites");
  const std::string earlier = text_or(t, "earlier_log");
  std::string text;
  if (!earlier.empty())
    text += wrapped(fmt::format("expected, low, high: what {} has, and how far two runs of one "
                                "healthy cluster differ.",
                                earlier),
                    view, 2);
  if (!sites.empty())
    text += wrapped(fmt::format("expected, low, high: what {} published of such a cluster, and how "
                                "far healthy clusters lie from that.",
                                fmt::join(sites.get<std::vector<std::string>>(), ", ")),
                    view, 2);
  const bool modelled = std::any_of(t.at("rows").begin(), t.at("rows").end(),
                                    [](const Json& r) { return r.at("healthy_from") == "model"; });
  if (modelled)
    text += wrapped(fmt::format("{}the prediction and its 99 % interval.",
                                !earlier.empty() ? "Where it has no size near: "
                                : sites.empty()  ? "expected, low, high: "
                                                 : "Where nobody published that size: "),
                    view, 2);
  return text;
}

/// Of a table that cannot be judged but for that.
std::string broken_table_words(const Json& t) {
  const std::string collective = text_or(t, "collective");
  return fmt::format("Not normal: the table{} at {}:{}: {}.",
                     collective.empty() ? "" : " of " + collective, text_or(t, "log"),
                     cell_of(t.at("line")), text_or(t, "broken"));
}

/// Of a run that printed no row.
std::string failed_run_words(const Json& run) {
  const std::string collective = text_or(run, "collective"), failure = text_or(run, "failure"),
                    warning = text_or(run, "warning");
  return fmt::format("Not normal: the run{} that begins at {}:{} ended{} before its first row{}{}.",
                     collective.empty() ? "" : " of " + collective, text_or(run, "log"),
                     cell_of(run.at("line")), failure.empty() ? ", or hung," : " with an error",
                     failure.empty() ? "" : ": \"" + failure + "\"",
                     warning.empty() || failure.find(warning) != std::string::npos
                         ? ""
                         : "; NCCL's last warning: \"" + warning + "\"");
}

Table rows_of(const Json& t) {
  Table table;
  for (const auto& [heading, rank] : {std::pair("size", 0),
                                      {"type", 5},
                                      {"expected", 2},
                                      {"low", 3},
                                      {"high", 3},
                                      {"measured", 1},
                                      {"busbw GB/s", 2},
                                      {"verdict", 0}})
    table.column(heading, rank);
  // nccl-tests' own two digits, but for small rates of a log that has more.
  const auto busbw = [](double gbps) {
    const bool two_digits = gbps >= 0.1 || std::abs(100 * gbps - std::round(100 * gbps)) < 1e-9;
    return fmt::format("{:.{}f}", gbps, two_digits ? 2 : 4);
  };
  for (const Json& r : t.at("rows"))
    table.row({size_words(r.at("bytes")), text_or(r, "type"), milliseconds(r.at("expected_s")),
               milliseconds(r.at("low_s")), milliseconds(r.at("high_s")),
               milliseconds(r.at("measured_s")), busbw(r.at("busbw_GBps")), text_or(r, "verdict")});
  return table;
}

/// An empty line between what the document has and what comes.
Document& separate(Document& document) {
  return document.blocks().empty() ? document : document.gap();
}

/// All tables in one, for programs.
std::string csv_of(const Json& report) {
  Table table;
  const std::vector<std::string> headings = {
      "log",        "collective", "instance",   "nodes",  "ranks",
      "size_bytes", "type",       "expected_s", "low_s",  "high_s",
      "measured_s", "busbw_GBps", "verdict",    "normal", "likeliest_cause"};
  for (const std::string& heading : headings) table.column(heading);
  for (const Json& t : report.at("tables"))
    for (const Json& r : t.at("rows")) {
      const auto seconds = [&](const char* key) {
        return fmt::format("{:.6g}", r.at(key).get<double>());
      };
      table.row(
          {text_or(t, "log"), t.value("collective", "all_reduce"), text_or(t, "instance"),
           cell_of(t.at("nodes")), cell_of(t.at("ranks")),
           fmt::format("{:.0f}", r.at("bytes").get<double>()), text_or(r, "type"),
           seconds("expected_s"), seconds("low_s"), seconds("high_s"), seconds("measured_s"),
           fmt::format("{}", r.at("busbw_GBps").get<double>()), text_or(r, "verdict"),
           t.value("unsure", false)   ? "cannot tell"
           : t.value("normal", false) ? "yes"
                                      : "no",
           t.at("causes").empty() ? text_or(t, "broken") : t.at("causes")[0].value("what", "")});
    }
  const auto without_rows = [&](const Json& run, const char* verdict, const std::string& why) {
    std::vector<std::string> cells(headings.size());
    cells.front() = text_or(run, "log");
    cells[1] = text_or(run, "collective");
    cells.at(cells.size() - 3) = verdict;
    cells.at(cells.size() - 2) = "no";
    cells.back() = why;
    table.row(cells);
  };
  for (const Json& t : report.value("broken_tables", Json::array()))
    without_rows(t, "broken", text_or(t, "broken"));
  for (const Json& run : report.value("failed_runs", Json::array())) {
    const std::string failure = text_or(run, "failure");
    without_rows(run, "failed",
                 failure.empty() ? "it ended or hung before its first row" : failure);
  }
  return table.csv();
}

}  // namespace

Json check_report(const std::vector<CheckedLog>& logs) {
  Json j = report_head("check");
  j["notes"] = Json::array();
  j["tables"] = Json::array();
  j["failed_runs"] = Json::array();
  j["broken_tables"] = Json::array();
  for (const auto& [log, tables, broken] : logs) {
    for (const BrokenTable& table : broken)
      j["broken_tables"].push_back({{"log", log.file},
                                    {"line", table.line},
                                    {"collective", table.collective},
                                    {"broken", remark_words(table.why)},
                                    {"broken_remedy", remedy_of_broken(table.why)}});
    for (const FailedRun& run : log.failed_runs)
      j["failed_runs"].push_back({{"log", log.file},
                                  {"line", run.line},
                                  {"collective", run.collective},
                                  {"failure", run.failure},
                                  {"warning", run.warning}});
    for (const std::string& note : log.notes) j["notes"].push_back(log.file + ": " + note);
    for (const CheckedTable& t : tables) {
      Json one = {
          {"log", log.file}, {"nccl_version", t.nccl_version}, {"network", name_of(t.network)}};
      one.update(table_report(t));
      j["tables"].push_back(std::move(one));
    }
  }
  return j;
}

Document render_check(const Json& report, const View& view) {
  if (view.format == Format::csv) return csv_of(report);
  Document document;
  for (const Json& note : report.at("notes"))
    document.lines(Role::notes, wrapped(note.get<std::string>(), view, 2));
  const bool several = varies(report.at("tables"), "log");
  for (const Json& t : report.at("tables")) {
    const std::string version = text_or(t, "nccl_version"), network = text_or(t, "network");
    separate(document)
        .title(fmt::format("{}{} of {} ranks on {} x {} (profile {}){}{}",
                           several ? text_or(t, "log") + ": " : "",
                           t.value("collective", "all_reduce"), cell_of(t.at("ranks")),
                           cell_of(t.at("nodes")), text_or(t, "instance"), text_or(t, "profile"),
                           version.empty() ? "" : ", NCCL " + version,
                           network.empty() || network == name_of(NcclNetwork::unknown) ||
                                   text_or(t, "instance").ends_with(" over " + network)
                               ? ""
                               : " over " + network))
        .gap();
    document.lines(Role::answer, findings(t, view)).gap().table(rows_of(t)).gap();
    document.lines(Role::notes, expected_legend(t, view));
  }
  for (const Json& t : report.value("broken_tables", Json::array()))
    separate(document).lines(Role::answer, wrapped(broken_table_words(t), view, 2) +
                                               do_words(text_or(t, "broken_remedy"), view));
  if (!report.contains("failed_runs")) return document;  // of an older program
  for (const Json& run : report.at("failed_runs"))
    separate(document).lines(
        Role::answer,
        wrapped(failed_run_words(run), view, 2) +
            do_words(remedy_of_failure(text_or(run, "failure"), text_or(run, "warning")), view));
  return document;
}

}  // namespace foreduce
