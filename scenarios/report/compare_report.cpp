// The report of `compare`: which algorithm is fastest from which size on, then a row a point.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "models/caller.hpp"
#include "scenarios/report/charts.hpp"
#include "scenarios/report/compare_falls.hpp"
#include "scenarios/report/nccl_tests.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/element_types.hpp"

namespace foreduce {
namespace {

std::string method_words(const Json& p) {
  const std::string inner = text_or(p, "inner"), chosen = text_or(p, "chosen");
  return text_or(p, "algorithm") + (inner.empty() || inner == kUsualInner ? "" : "/" + inner) +
         (chosen.empty() ? "" : ": " + chosen);
}

std::string collective_words(const Json& p) { return std::string(title_of(collective_in(p))); }

/// What ran, whoever chose it: "hierarchical", "nccl: ring LL128".
std::string winner_words(const Json& p) {
  return text_or(p, "algorithm") == "best" ? text_or(p, "chosen") : method_words(p);
}

/// The fastest point of each size on one cluster, by size.
using Fastest = std::map<double, const Json*>;

std::vector<std::pair<std::string, Fastest>> fastest_by_cluster(const Json& points) {
  using BySize = std::map<double, std::vector<const Json*>>;
  const bool tiers = varies(points, "oversubscription"), placements = varies(points, "placement");
  std::vector<std::pair<std::string, BySize>> clusters;
  for (const Json& p : points) {
    if (p.contains("error")) continue;
    std::string name = cluster_words(p);
    if (tiers) name += fmt::format(", {}:1", number_or(p, "oversubscription", 1));
    if (placements) name += ", " + text_or(p, "placement");
    auto at = std::find_if(clusters.begin(), clusters.end(),
                           [&](const auto& c) { return c.first == name; });
    if (at == clusters.end()) at = clusters.insert(clusters.end(), {name, {}});
    at->second[number_or(p, "bytes", 0)].push_back(&p);
  }
  std::vector<std::pair<std::string, Fastest>> fastest;
  for (const auto& [name, sizes] : clusters) {
    fastest.emplace_back(name, Fastest{});
    for (const auto& [bytes, candidates] : sizes)
      fastest.back().second[bytes] = *preferred(
          candidates, [](const Json* p) { return 1 / number_or(*p, "time_us", 0); },
          [](const Json* p) { return by_nccl(*p); });
  }
  return fastest;
}

/// "nccl: double-tree LL128 8 B to 32 MiB, hierarchical 1 GiB".
std::string ranges_words(const Fastest& fastest) {
  std::string text;
  for (auto first = fastest.begin(); first != fastest.end();) {
    auto last = first, next = std::next(first);
    while (next != fastest.end() && winner_words(*next->second) == winner_words(*first->second))
      last = next++;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", winner_words(*first->second),
                        size_words(first->first));
    if (last != first) text += " to " + size_words(last->first);
    first = next;
  }
  return text;
}

/// Of the sizes at which another algorithm is ahead of nccl, at how many the intervals overlap: the
/// order there is not sure.
std::string doubtful_leads(const Json& points, const Fastest& fastest, const View& view) {
  std::size_t leads = 0, within = 0;
  for (const auto& [bytes, best] : fastest) {
    if (by_nccl(*best)) continue;
    for (const Json& p : points) {
      const bool same = !p.contains("error") && by_nccl(p) && number_or(p, "bytes", 0) == bytes &&
                        text_or(p, "instance") == text_or(*best, "instance") &&
                        p.value("nodes", 0) == best->value("nodes", 0);
      if (!same) continue;
      ++leads;
      within += number_or(*best, "time_high_us", 0) >= number_or(p, "time_low_us", 0);
      break;
    }
  }
  if (within == 0) return "";
  const std::string lead = leads == 1 ? "The lead over nccl is"
                                      : fmt::format("{} of the {} leads over nccl {}", within,
                                                    leads, within == 1 ? "is" : "are");
  return wrapped(lead + " within the intervals: NCCL was measured, the others were not.", view, 2);
}

std::string compare_answer(const Json& points, const View& view) {
  std::string text;
  for (const auto& [cluster, fastest] : fastest_by_cluster(points)) {
    const Json& largest = *fastest.rbegin()->second;
    if (largest.value("ranks", 1) == 1) {
      text += wrapped(fmt::format("On {} one rank has nobody to send to: {} takes {}, the cost of "
                                  "starting it.",
                                  cluster, winner_words(largest),
                                  milliseconds(number_or(largest, "time_us", 0) * 1e-6)),
                      view, 2);
      continue;
    }
    text += wrapped(
        fmt::format("On {} at {} {} {} {}: {:.1f} GB/s bus bandwidth, {} of what any {} could "
                    "reach; limited by {}.",
                    cluster, size_words(number_or(largest, "bytes", 0)), winner_words(largest),
                    varies(points, "algorithm") ? "is fastest with" : "takes",
                    milliseconds(number_or(largest, "time_us", 0) * 1e-6),
                    number_or(largest, "busbw_GBps", 0),
                    percent(number_or(largest, "share_of_bound", 1)), collective_words(largest),
                    bottleneck_words(largest)),
        view, 2);
    if (varies(points, "algorithm") && fastest.size() > 1)
      text += wrapped("Fastest by size: " + ranges_words(fastest) + ".", view, 2);
    text += doubtful_leads(points, fastest, view);
  }
  const auto failed = std::count_if(points.begin(), points.end(),
                                    [](const Json& p) { return p.contains("error"); });
  if (failed > 0)
    text += fmt::format("{} of {} points {} no answer.\n", failed, points.size(),
                        failed == 1 ? "has" : "have");
  return text;
}

/// Algorithms that the default leaves out, in one line; the reasons with --explain.
std::string left_out_lines(const Json& report, const View& view) {
  const auto at = report.find("left_out");
  if (at == report.end()) return "";
  std::string names, reasons;
  for (const Json& entry : *at) {
    const auto text = entry.get<std::string>();
    names += (names.empty() ? "" : ", ") + text.substr(0, text.find(':'));
    reasons += wrapped("  " + text, view, 4);
  }
  return view.explain ? "Not tried here:\n" + reasons
                      : wrapped("Not tried here: " + names + " (--explain says why).", view, 2);
}

/// By which rules NCCL chose, and of which release.
std::string choosers_line(const Json& points, const View& view) {
  std::set<std::string> rules;
  for (const Json& p : points)
    if (const std::string rule = text_or(p, "chosen_because"); !rule.empty()) rules.insert(rule);
  return rules.empty() ? ""
                       : wrapped(fmt::format("NCCL's algorithm and protocol are chosen by {}; "
                                             "--nccl-version takes another release.",
                                             fmt::join(rules, ", and by ")),
                                 view, 2);
}

const char* redop_of(Collective collective) { return reduces(collective) ? "sum" : "none"; }

const char* bus_bandwidth_words(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "busbw = algbw x 2(n-1)/n, n the ranks.";
    case Collective::broadcast: return "busbw = algbw.";
    case Collective::reduce_scatter:
      return "busbw = algbw x (n-1)/n, n the ranks; the size is that of the send buffer.";
    case Collective::all_gather:
      return "busbw = algbw x (n-1)/n, n the ranks; the size is that of the receive buffer.";
    case Collective::all_to_all: break;
  }
  return "busbw = algbw x (n-1)/n, n the ranks; the size is that of either buffer.";
}

/// That the bound is the exact one, and which cut it comes from.
std::string exact_bound_line(const Json& points, const View& view) {
  bool all = true;
  std::set<std::string> cuts;
  for (const Json& p : points) {
    if (p.contains("error")) continue;
    if (text_or(p, "bound_kind") == "exact") cuts.insert(text_or(p, "bound_because"));
    else all = false;
  }
  if (cuts.empty()) return "";
  std::string text = "The bound is exact: but for latency an optimal schedule reaches it";
  if (cuts.size() == 1) text += fmt::format(" ({})", *cuts.begin());
  if (!all)
    text +=
        "; with reduction servers, or where switches sum, none is known, and rows have the "
        "bound of groups";
  return wrapped(text + ".", view, 2);
}

constexpr const char* kPublishedHeading = "published";

/// What the column of what people publish says; nothing where it is hidden or empty.
std::string published_line(const Json& points, const Table& table, const View& view) {
  const std::vector<std::string> hidden = table.hidden(view);
  const bool any = std::any_of(points.begin(), points.end(), [](const Json& p) {
    return !p.value("published_high_us", Json()).is_null();
  });
  if (!any || std::find(hidden.begin(), hidden.end(), kPublishedHeading) != hidden.end()) return "";
  return wrapped(
      "published: 90 % of what people publish is expected inside, old software, virtual machines "
      "and faults included; the 90 % PI is of healthy clusters.",
      view);
}

struct Varied {
  bool instance, nodes, oversubscription, placement, segments, profile, nccl;
};

void add_columns(Table& table, const Varied& v) {
  const auto add_if = [&](bool wanted, const char* heading, int rank) {
    if (wanted) table.column(heading, rank);
  };
  add_if(v.instance, "instance", 0);
  add_if(v.nodes, "nodes", 0);
  add_if(v.oversubscription, "oversub", 0);
  add_if(v.placement, "placement", 0);
  table.column("size", 0);
  table.column("count", 13);
  table.column("type", 14);
  table.column("algorithm", 0);
  add_if(v.segments, "segments", 12);
  add_if(v.profile, "profile", v.instance ? 11 : 0);
  table.column("time", 1);
  table.column(kIntervalHeading, 2);
  table.column("algbw", 6);
  table.column("busbw", 3);
  add_if(v.nccl, "vs nccl", 4);
  table.column(kPublishedHeading, 8);
  table.column("bound", 9);
  table.column("of bound", 5);
  table.column("busiest link", 7);
}

std::vector<std::string> identity(const Json& p, const Varied& v) {
  std::vector<std::string> row;
  const auto add_if = [&](bool wanted, std::string cell) {
    if (wanted) row.push_back(std::move(cell));
  };
  add_if(v.instance, text_or(p, "instance"));
  add_if(v.nodes, cell_of(p.value("nodes", Json())));
  add_if(v.oversubscription, fmt::format("{}:1", number_or(p, "oversubscription", 1)));
  add_if(v.placement, text_or(p, "placement"));
  row.push_back(size_words(number_or(p, "bytes", 0)));
  row.push_back(cell_of(p.value("count", Json())));
  row.push_back(text_or(p, "type"));
  row.push_back(method_words(p));
  add_if(v.segments, cell_of(p.value("segments", Json())));
  add_if(v.profile, text_or(p, "profile"));
  return row;
}

Table compare_table(const Json& points, Footnotes& notes) {
  const Varied v{varies(points, "instance"),
                 varies(points, "nodes"),
                 varies(points, "oversubscription"),
                 varies(points, "placement"),
                 varies(points, "segments"),
                 varies(points, "profile"),
                 varies(points, "algorithm") &&
                     std::any_of(points.begin(), points.end(),
                                 [](const Json& p) { return p.contains("speedup_vs_nccl"); })};
  Table table;
  add_columns(table, v);
  for (const Json& p : points)
    if (!p.contains("error")) notes.note(p.at("interval_widened_because"));
  for (const Json& p : points) {
    std::vector<std::string> row = identity(p, v);
    if (p.contains("error")) {
      table.failed_row(row, first_line(text_or(p, "error")));
      continue;
    }
    row.push_back(milliseconds(number_or(p, "time_us", 0) * 1e-6));
    row.push_back(p.at("time_low_us").is_null()
                      ? "-"
                      : range_words(number_or(p, "time_low_us", 0) * 1e-6,
                                    number_or(p, "time_high_us", 0) * 1e-6) +
                            notes.mark(p.at("interval_widened_because")));
    row.push_back(fmt::format("{:.2f}", number_or(p, "algbw_GBps", 0)));
    row.push_back(fmt::format("{:.2f}", number_or(p, "busbw_GBps", 0)));
    if (v.nccl)
      row.push_back(p.contains("speedup_vs_nccl")
                        ? fmt::format("{:.2f} x", p.at("speedup_vs_nccl").get<double>())
                        : "-");
    row.push_back(p.value("published_high_us", Json()).is_null()
                      ? "-"
                      : range_words(number_or(p, "published_low_us", 0) * 1e-6,
                                    number_or(p, "published_high_us", 0) * 1e-6));
    row.push_back(milliseconds(number_or(p, "bound_time_us", 0) * 1e-6));
    row.push_back(percent(number_or(p, "share_of_bound", 1)));
    row.push_back(text_or(p, "bottleneck_link"));
    table.row(row);
  }
  return table;
}

/// Elements of a rank. Reports of earlier programs have another count.
std::uint64_t count_in(const Json& p, Collective collective) {
  const std::size_t element = size_of(type_named(text_or(p, "type")));
  return p.at("bytes").get<std::uint64_t>() / element /
         static_cast<std::uint64_t>(counted_blocks(collective, std::max(1, p.value("ranks", 1))));
}

std::string points_as_nccl_tests(const Json& report) {
  std::vector<NcclTestsRow> rows;
  for (const Json& p : report.at("points")) {
    if (p.contains("error")) continue;
    const Collective collective = collective_in(p);
    NcclTestsRow row{fmt::format("{} on {} (predicted)", method_words(p), cluster_words(p)),
                     p.at("bytes").get<std::uint64_t>(),
                     count_in(p, collective),
                     text_or(p, "type"),
                     {},
                     {},
                     collective};
    if (const std::string chosen = text_or(p, "chosen"); !chosen.empty())
      row.title = fmt::format("{} on {} (predicted)", text_or(p, "algorithm"), cluster_words(p));
    row.out_of_place = row.in_place = {number_or(p, "time_us", 0),
                                       number_or(p, "algbw_GBps", 0),
                                       number_or(p, "busbw_GBps", 0),
                                       {}};
    rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(),
                   [](const NcclTestsRow& a, const NcclTestsRow& b) { return a.title < b.title; });
  return nccl_tests_tables("foreduce compare: " + text_or(report, "name"), rows);
}

}  // namespace

Json point_report(const Comparison& p, Cost cost) {
  Json j = {{"point", p.number},
            {"collective", name_of(p.collective)},
            {"instance", p.instance},
            {"nodes", p.nodes},
            {"ranks", p.ranks},
            {"oversubscription", p.oversubscription},
            {"placement", to_text(p.placement)},
            {"algorithm", p.algorithm},
            {"chosen", schedule_words(p.chosen)},
            {"inner", p.inner},
            {"profile", p.profile},
            {"chosen_because", p.chosen_because.empty() ? Json() : Json(p.chosen_because)},
            {"nccl_channels", p.nccl_channels > 0 ? Json(p.nccl_channels) : Json()},
            {"segments", p.segments},
            {"bytes", p.bytes},
            {"count", p.count / static_cast<std::size_t>(
                                    counted_blocks(p.collective, std::max(1, p.ranks)))},
            {"type", to_text(p.dtype)},
            {"redop", redop_of(p.collective)}};
  j["best_without_nccl"] = p.best_without_nccl;
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  const Interval& i = p.interval;
  j["time_us"] = p.time.value * 1e6;
  j["time_low_us"] = i.known ? Json(i.low.value * 1e6) : Json();
  j["time_high_us"] = i.known ? Json(i.high.value * 1e6) : Json();
  j["published_low_us"] = i.published ? Json(i.published->low.value * 1e6) : Json();
  j["published_high_us"] = i.published ? Json(i.published->high.value * 1e6) : Json();
  j["interval_widened"] = i.known ? Json(!i.widened.empty()) : Json();
  j["interval_widened_because"] = i.widened.empty() ? Json() : Json(i.why());
  j["algbw_GBps"] = p.algbw();
  j["busbw_GBps"] = p.busbw();
  j["bound_time_us"] = p.bound.time.value * 1e6;
  j["bound_because"] = p.bound.because;
  j["bound_kind"] = p.bound_is_exact ? "exact" : "groups";
  j["share_of_bound"] = p.time.value > 0 ? p.bound.time / p.time : 1;
  j["bottleneck_link"] = p.bottleneck;
  j["bottleneck_kind"] = name_of(p.bottleneck_kind);
  j["bottleneck_utilisation"] = p.bottleneck_utilisation;
  j["extrapolation_error"] = p.extrapolation_error > 0 ? Json(p.extrapolation_error) : Json();
  if (p.speedup_vs_nccl > 0) j["speedup_vs_nccl"] = p.speedup_vs_nccl;
  j["simulated_messages"] = p.messages;
  if (cost == Cost::left_out) return j;
  j["mode"] = name_of(p.mode);
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

Json sweep_report(const Sweep<Comparison>& sweep, const Shard& shard, Cost cost) {
  Json j = sweep_points("compare", sweep, shard, cost);
  mark_falls(j["points"]);
  j["sums_checked"] = sweep.provenance.sums_checked;
  j["timed_by"] = sweep.provenance.timed_by;
  return j;
}

Document render_compare(const Json& report, const View& view) {
  if (view.format == Format::nccl_tests) return points_as_nccl_tests(report);
  const Json& points = report.at("points");
  std::string title = text_or(report, "name");
  if (!points.empty() && !varies(points, "instance") && !varies(points, "nodes"))
    title += fmt::format(", {}, {} ranks", cluster_words(points[0]), points[0].value("ranks", 0));
  if (const std::string fabric = fabric_words(points); !fabric.empty()) title += ", " + fabric;
  Document document;
  document.title(title).gap();
  if (points.empty()) return document.lines(Role::answer, "no points\n");
  Footnotes notes;
  const Table table = compare_table(points, notes);
  document.lines(Role::answer, compare_answer(points, view)).gap().table(table).gap();
  std::string text = cut_errors_lines(table, view) + left_out_lines(report, view) +
                     falls_lines(points, view) + notes.text(view, table) +
                     published_line(points, table, view) + exact_bound_line(points, view) +
                     extrapolation_line(points, view) + best_without_nccl_line(points, view) +
                     wrapped("algbw and busbw in GB/s, as nccl-tests has them.", view);
  if (report.value("sums_checked", false))
    text += wrapped(
        "Every schedule first summed small buffers on these clusters, or on fewer of "
        "their nodes: all sums are exact but for rows with an error.",
        view, 2);
  if (const std::string caller = text_or(report, "timed_by");
      !caller.empty() && caller != kUsualCaller)
    text += wrapped("C" + words_on(caller).substr(1) + ".", view, 2);
  if (!varies(points, "profile") && !text_or(points[0], "profile").empty())
    text += fmt::format("Profile: {}.\n", points[0].value("profile", ""));
  text += unused_line(report, view) + hidden_line(table, view);
  if (!view.explain)
    text += "--explain gives definitions; --format nccl-tests prints nccl-tests' own columns.\n";
  document.lines(Role::notes, text);
  if (!view.explain) return document;
  if (view.format == Format::table)
    for (const Chart& chart : compare_charts(report))
      document.gap().lines(Role::definitions, chart_text(chart, view));
  std::string definitions = view.format == Format::table ? "\n" : "";
  definitions += choosers_line(points, view);
  const Collective collective = collective_in(points[0]);
  for (const std::string& line :
       {std::string(bus_bandwidth_words(collective)),
        fmt::format("The bound is the best that any {} could do on this topology, with sums in the "
                    "switches where they can.",
                    title_of(collective)),
        std::string("The busiest link carries the most bytes relative to what it could have "
                    "carried; latency means that no "
                    "link is busy half of the time.")})
    definitions += wrapped(line, view, 2);
  return document.lines(Role::definitions, definitions + wrapped(engine_line(report), view, 2));
}

}  // namespace foreduce
