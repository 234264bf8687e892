// What `explain` says to a reader.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "scenarios/report/explain_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

std::string bar(double share) {
  constexpr double kLetters = 20;
  std::string text;
  for (int i = 0; i < static_cast<int>(std::lround(share * kLetters)); ++i) text += "█";
  return text;
}

/// The parts, and those of less than so much of the time in one line.
Table parts_table(const Json& report, const View& view) {
  Table table;
  table.column("on the critical path");
  table.column("time");
  table.column("share");
  table.column("", 1);
  const double least = view.wide ? 0 : 0.005;
  double rest = 0;
  for (const Json& p : report.at("parts")) {
    const double share = number_or(p, "share", 0);
    if (share < least) rest += number_or(p, "time_s", 0);
    else
      table.row(
          {part_words(p), milliseconds(number_or(p, "time_s", 0)), percent(share, 1), bar(share)});
  }
  if (rest > 0)
    table.row(
        {"other parts", milliseconds(rest), percent(rest / number_or(report, "time_s", 1), 1), ""});
  return table;
}

/// What messages over one kind of links add to the path.
struct Hops {
  int messages = 0, reduced = 0;
  double bytes = 0;
  std::map<std::string, double> times;
};

/// By the kind of the link that limits them.
std::map<std::string, Hops> hops_of(const Json& collective) {
  std::map<std::string, std::string> kinds;
  for (const Json& l : collective.at("links")) kinds[text_or(l, "link")] = text_or(l, "kind");
  std::map<std::string, Hops> hops;
  for (const Json& m : collective.at("messages")) {
    const std::string link = text_or(m, "link");
    Hops& h = hops[link.empty() ? "their connection's limit" : kinds[link]];
    ++h.messages;
    h.bytes += number_or(m, "bytes", 0);
    for (const char* key : {"overhead", "rest", "latency", "transfer", "sharing", "reduction"})
      h.times[key] += number_or(m, (std::string(key) + "_s").c_str(), 0);
    h.times["all"] += number_or(m, "end_s", 0) - number_or(m, "start_s", 0);
  }
  return hops;
}

Table hops_table(const Json& collective) {
  Table table;
  table.column("limited by");
  table.column("number");
  table.column("mean size", 3);
  for (const auto& [heading, rank] : {std::pair("handling", 1),
                                      {"latency", 0},
                                      {"transfer", 0},
                                      {"sharing", 2},
                                      {"copying, adding", 0},
                                      {"time", 0}})
    table.column(heading, rank);
  for (const auto& [kind, hops] : hops_of(collective)) {
    Hops h = hops;
    h.times["overhead"] += h.times["rest"];
    std::vector<std::string> row{kind, std::to_string(h.messages),
                                 size_words(h.bytes / h.messages)};
    for (const char* key : {"overhead", "latency", "transfer", "sharing", "reduction", "all"})
      row.push_back(h.times[key] > 0 ? milliseconds(h.times[key]) : "-");
    table.row(row);
  }
  return table;
}

/// The messages one by one.
Table messages_table(const Json& collective) {
  Table table;
  for (const char* heading : {"start", "from", "to", "size", "link", "took", "was held"})
    table.column(heading);
  for (const Json& m : collective.at("messages"))
    table.row({milliseconds(number_or(m, "start_s", 0)), cell_of(m.at("from")), cell_of(m.at("to")),
               size_words(number_or(m, "bytes", 0)), cell_of(m.at("link")),
               milliseconds(number_or(m, "end_s", 0) - number_or(m, "start_s", 0)),
               text_or(m, "held")});
  return table;
}

std::string batch_words(const Json& piece, const Json& point) {
  return point.value("accumulation", 1) > 1
             ? fmt::format(", micro-batch {}", piece.value("micro_batch", 0))
             : "";
}

/// Pieces that follow one another and are told together: a stream's collectives, one after the
/// other, or unless all are asked for the units of one kind of computing.
struct Run {
  const Json *first = nullptr, *last = nullptr;
  double start = 0, end = 0;

  std::string words(const Json& point) const {
    const std::string work = text_or(*first, "work"), unit = text_or(*first, "unit");
    std::string text =
        work != "collective" ? work + (unit.empty() ? "" : " " + unit)
        : !unit.empty()      ? text_or(*first, "stream") + " of " + unit
        : text_or(point, "sharding") != "none"
            ? text_or(*first, "stream") + " of what belongs to no block"
            : fmt::format("{} of bucket {}", text_or(*first, "stream"), first->value("index", 0));
    if (last == first) return text + batch_words(*first, point);
    const std::string until = work == "collective" && unit.empty()
                                  ? cell_of(last->value("index", Json()))
                                  : text_or(*last, "unit");
    if (!until.empty()) text += " to " + until;
    else if (!unit.empty()) text += " to the rest";  // what is of no block has no unit's name
    return text + batch_words(*first, point);
  }
};

std::vector<Run> runs_of(const Json& path, const View& view) {
  std::vector<Run> runs;
  for (const Json& p : path) {
    const double start = number_or(p, "start_s", 0), end = number_or(p, "end_s", 0);
    const bool alike = !view.wide || text_or(p, "work") == "collective";
    const bool follows = !runs.empty() && alike &&
                         text_or(*runs.back().last, "work") == text_or(p, "work") &&
                         text_or(*runs.back().last, "stream") == text_or(p, "stream") &&
                         p.value("micro_batch", 0) == runs.back().last->value("micro_batch", 0) &&
                         start <= runs.back().end + 1e-9 * end;
    if (!follows) runs.push_back({&p, &p, start, end});
    runs.back().last = &p;
    runs.back().end = end;
  }
  return runs;
}

/// A step's path in its order; of many pieces the longest, unless all columns are asked for.
Table path_table(const Json& report, const View& view) {
  constexpr std::size_t kMost = 16;
  Table table;
  for (const char* heading : {"start", "end", "on the critical path", "took"})
    table.column(heading);
  const std::vector<Run> runs = runs_of(report.at("path"), view);
  double least = 0;
  if (!view.wide && runs.size() > kMost) {
    std::vector<double> sorted;
    for (const Run& run : runs) sorted.push_back(run.end - run.start);
    std::nth_element(sorted.begin(), sorted.begin() + kMost, sorted.end(), std::greater{});
    least = sorted[kMost];
  }
  std::size_t shown = 0, left_out = 0;
  double time = 0;
  for (const Run& run : runs) {
    const double lasts = run.end - run.start;
    if (least > 0 && (lasts <= least || shown == kMost)) {
      ++left_out;
      time += lasts;
      continue;
    }
    ++shown;
    table.row({run.start > 0 ? milliseconds(run.start) : "0", milliseconds(run.end),
               run.words(report.at("point")), milliseconds(lasts)});
  }
  if (left_out > 0)
    table.row({"", "", fmt::format("{} shorter pieces (--wide)", left_out), milliseconds(time)});
  return table;
}

/// What helps by a thousandth at least.
bool helps(const Json& change) { return number_or(change, "saved_share", 0) >= 0.001; }

Table changes_table(const Json& report, const View& view) {
  Table table;
  table.column("with");
  table.column("time");
  table.column("saved");
  table.column("share");
  table.column("", 1);
  for (const Json& c : report.at("changes")) {
    const double saved = number_or(c, "saved_s", 0), share = number_or(c, "saved_share", 0);
    if (!helps(c) && !view.wide) continue;
    table.row({text_or(c, "words"), milliseconds(number_or(c, "time_s", 0)),
               saved < 0 ? "-" + milliseconds(-saved) : milliseconds(saved), percent(share, 1),
               bar(std::max(0.0, share))});
  }
  return table;
}

std::string question_words(const Json& report) {
  const Json& p = report.at("point");
  const std::string where = fmt::format("{} with {}", cluster_words(p), run_words(p));
  if (p.contains("model")) return fmt::format("A step of {} on {}", text_or(p, "model"), where);
  return fmt::format("{} of {} on {}", text_or(p, "collective"),
                     size_words(number_or(p, "bytes", 0)), where);
}

/// ", and by the network link nic0>network, which is as busy": links of other kinds than the one
/// that limits the point's collective.
std::string as_busy_words(const Json& report) {
  const Json& point = report.at("point");
  const std::string limits = text_or(point, "bottleneck_link");
  if (limits == "latency") return "";  // which is no link that could be busy
  std::string words;
  for (const Json& c : report.at("collectives")) {
    if (text_or(c, "bottleneck_link") != limits || !c.contains("links")) continue;
    double most = 0;
    for (const Json& l : c.at("links")) most = std::max(most, number_or(l, "utilisation", 0));
    std::set<std::string> kinds{text_or(point, "bottleneck_kind")};
    for (const Json& l : c.at("links"))
      if (number_or(l, "utilisation", 0) >= kAsBusy * most &&
          kinds.insert(text_or(l, "kind")).second)
        words += fmt::format(", and by the {} link {}, which is as busy", text_or(l, "kind"),
                             text_or(l, "link"));
    break;
  }
  return words;
}

std::string answer(const Json& report, const View& view) {
  const double time = number_or(report, "time_s", 0);
  std::string text = fmt::format("{} takes {}.", question_words(report), milliseconds(time));
  std::string most;
  std::size_t named = 0;
  for (const Json& p : report.at("parts"))
    if (named < 3 && number_or(p, "share", 0) >= 0.05) {
      most += fmt::format("{}{} ({})", named++ > 0 ? "; " : "", part_words(p),
                          percent(number_or(p, "share", 0)));
    }
  if (!most.empty()) text += " Most of the critical path: " + most + ".";
  const Json& point = report.at("point");
  // Where no link is busy, the parts of the path say more than that messages cost something.
  if (const std::string link = text_or(point, "bottleneck_link");
      !link.empty() && link != "latency")
    text += fmt::format(" {} is limited by {}{}.",
                        point.contains("model") ? "The largest collective" : "It",
                        bottleneck_words(point), as_busy_words(report));
  std::string out = wrapped(text, view, 2);
  const Json& changes = report.at("changes");
  if (changes.empty()) return out;
  return out + (helps(changes[0])
                    ? wrapped(fmt::format("What would help most: {}, {} less ({}).",
                                          text_or(changes[0], "words"),
                                          milliseconds(number_or(changes[0], "saved_s", 0)),
                                          percent(number_or(changes[0], "saved_share", 0), 1)),
                              view, 2)
                    : std::string("No change that was tried would help.\n"));
}

std::string no_help(const Json& report, const View& view) {
  if (view.wide) return "";
  std::string names;
  for (const Json& c : report.at("changes"))
    if (!helps(c)) names += (names.empty() ? "" : ", ") + text_or(c, "words");
  return names.empty() ? "" : wrapped("No help, or worse: " + names + ".", view, 2);
}

void add_collective(Document& document, const Json& c, const View& view) {
  const std::string head =
      fmt::format("{} of {} by {}: {}", text_or(c, "kind"), size_words(number_or(c, "bytes", 0)),
                  text_or(c, "algorithm"), milliseconds(number_or(c, "time_s", 0)));
  if (c.contains("not_recorded_because")) {
    document.gap().lines(Role::notes, wrapped(head + "; its messages cannot be shown: " +
                                                  text_or(c, "not_recorded_because") + ".",
                                              view));
    return;
  }
  document.gap().lines(Role::setting, wrapped("On the path of the " + head, view));
  document.table(hops_table(c));
  if (view.wide && view.format != Format::html && !c.at("messages").empty())
    document.gap().table(messages_table(c));
}

/// Of a step the collective that takes most of the path; all with --wide.
void add_collectives(Document& document, const Json& report, const View& view) {
  const Json& collectives = report.at("collectives");
  if (collectives.empty()) return;
  std::size_t longest = 0;
  std::vector<double> times(collectives.size(), 0);
  for (std::size_t i = 0; i < collectives.size(); ++i) {
    const Json& c = collectives[i];
    for (const Json& p : report.at("path"))
      if (p.value("elements", Json()) == c.at("elements") && p.value("stream", "") == c.at("kind"))
        times[i] += number_or(p, "end_s", 0) - number_or(p, "start_s", 0);
    if (times[i] > times[longest]) longest = i;
  }
  for (std::size_t i = 0; i < collectives.size(); ++i)
    if (view.wide || i == longest) add_collective(document, collectives[i], view);
  if (!view.wide && collectives.size() > 1)
    document.lines(Role::notes,
                   fmt::format("Collectives of {} other sizes: --wide.\n", collectives.size() - 1));
}

const char* const kDefinitions[] = {
    "The critical path goes back from the last event: each message to what it waited for, which is "
    "the data that it sends, the message before it on its connection, or a host thread or NIC that "
    "had another in hand. Its parts add up to the time.",
    "Transfer is what a message's bytes take alone on the link that limits it, and sharing what "
    "they take longer because others use the link, too. Handling is what a message costs its "
    "sender's and its receiver's host and NICs beyond its bytes. Copying and adding is what the "
    "receiver's channel does with what has come, at the lower of its own rate and the GPU's.",
    "Rest is the pause of a connection after a message, which the profile has. A connection's own "
    "limit is the rate of a channel or of a TCP flow. Latency is what the last byte takes after it "
    "has left, and a kernel launch comes once a collective.",
    "Long pipelines are simulated whole here. Where ranks are alike, some stand for all.",
    "Each change is an estimate of the whole point with that one thing changed."};

}  // namespace

Document render_explain(const Json& report, const View& view) {
  if (view.format == Format::csv)  // asked for by `show`, or by the ending of -o
    throw input_error("--format: explain has no csv", "accepted: table, json, markdown, html");
  Document document;
  document.title(text_or(report, "name"));
  document.gap().lines(Role::answer, answer(report, view)).gap();
  document.table(parts_table(report, view));
  if (!report.at("path").empty()) document.gap().table(path_table(report, view));
  const Table changes = changes_table(report, view);
  if (!changes.empty()) document.gap().table(changes);
  add_collectives(document, report, view);
  document.gap().lines(Role::notes, no_help(report, view) + unused_line(report, view));
  if (!view.explain)
    return document.lines(Role::notes, "--explain gives definitions; --wide shows all messages.\n");
  std::string text;
  for (const char* line : kDefinitions) text += wrapped(line, view, 2);
  return document.lines(Role::definitions, text + wrapped(engine_line(report), view, 2));
}

}  // namespace foreduce
