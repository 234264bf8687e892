#include "scenarios/report/tuning_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>

#include "input/counted.hpp"
#include "models/nccl_names.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// Neighbouring sizes that have one choice in place of another.
struct Stretch {
  std::vector<const Json*> rows;

  const Json& first() const { return *rows.front(); }
  const Json& last() const { return *rows.back(); }
  bool gains() const { return first().at("choice") != first().at("own"); }
  double gain(bool most) const {
    double found = number_or(first(), "gain", 1);
    for (const Json* row : rows) {
      const double gain = number_or(*row, "gain", 1);
      found = most ? std::max(found, gain) : std::min(found, gain);
    }
    return found;
  }
};

/// Stretches of rows that are alike in these fields.
std::vector<Stretch> stretches_of(const Json& rows, const std::vector<const char*>& alike) {
  std::vector<Stretch> all;
  for (const Json& row : rows) {
    const auto same = [&](const char* key) { return all.back().last().at(key) == row.at(key); };
    if (all.empty() || !std::all_of(alike.begin(), alike.end(), same)) all.emplace_back();
    all.back().rows.push_back(&row);
  }
  return all;
}

std::string sizes_of(const Stretch& s) {
  const std::string low = size_words(number_or(s.first(), "bytes", 0)),
                    high = size_words(number_or(s.last(), "bytes", 0));
  return low == high ? low : low + " to " + high;
}

std::string gain_words(const Stretch& s) {
  if (!s.gains()) return "-";
  const std::string least = fmt::format("{:.2f}", s.gain(false)),
                    most = fmt::format("{:.2f}", s.gain(true));
  return (least == most ? most : least + " to " + most) + " x";
}

/// Puts into a row what the environment and a tuner's file call the choice.
void put_names(Json& row, const NcclAlgoProto& choice) {
  const NcclAlgorithmNames* algorithm = nccl_names_of(to_text(choice.algorithm));
  if (!algorithm || !choice.protocol)
    throw std::logic_error("NCCL cannot be made to choose " + schedule_words(choice));
  std::string protocol = to_text(*choice.protocol);
  row["nccl_algo"] = algorithm->variable;
  row["nccl_proto"] = protocol;
  for (char& c : protocol) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  row["tuner_algorithm"] = algorithm->tuner;
  row["tuner_protocol"] = protocol;
}

std::string answer_words(const std::vector<Stretch>& all, double least_gain, const View& view) {
  std::size_t sizes = 0, better = 0;
  const Stretch* best = nullptr;
  for (const Stretch& s : all) {
    sizes += s.rows.size();
    if (!s.gains()) continue;
    better += s.rows.size();
    if (!best || s.gain(true) > best->gain(true)) best = &s;
  }
  if (!best)
    return wrapped(
        fmt::format("No other choice of NCCL's is {:.2f} times as fast as its own at any of {}.",
                    least_gain, counted(sizes, "size")),
        view, 2);
  const Json& row =
      **std::max_element(best->rows.begin(), best->rows.end(), [](const Json* a, const Json* b) {
        return number_or(*a, "gain", 1) < number_or(*b, "gain", 1);
      });
  return wrapped(
      fmt::format(
          "Another choice is faster at {} of {} sizes. The most is gained with {} on {}: {} "
          "takes {}, where NCCL's {} takes {}. Measure it before you rely on it: NCCL_ALGO={} "
          "NCCL_PROTO={}.",
          better, sizes, size_words(number_or(row, "bytes", 0)), cluster_words(row),
          text_or(row, "choice"), milliseconds(number_or(row, "choice_time_s", 0)),
          text_or(row, "own"), milliseconds(number_or(row, "own_time_s", 0)),
          text_or(row, "nccl_algo"), text_or(row, "nccl_proto")),
      view, 2);
}

}  // namespace

Json tuning_report(const Tuning& tuning, double least_gain) {
  Json j = report_head("tune");
  j["collective"] = name_of(tuning.collective);
  j["least_gain"] = least_gain;
  j["rows"] = Json::array();
  for (const TunedSize& t : tuning.sizes) {
    const bool gains = t.gain() >= least_gain;
    const NcclAlgoProto& choice = gains ? t.fastest : t.own;
    j["rows"].push_back({{"instance", t.instance},
                         {"nodes", t.nodes},
                         {"ranks", t.ranks},
                         {"bytes", t.bytes},
                         {"own", schedule_words(t.own)},
                         {"own_time_s", t.own_time.value},
                         {"choice", schedule_words(choice)},
                         {"choice_time_s", (gains ? t.fastest_time : t.own_time).value},
                         {"gain", gains ? t.gain() : 1.0},
                         {"interval_widened_because", t.widened}});
    put_names(j["rows"].back(), choice);
  }
  return j;
}

namespace {

/// One row a size, with the fields of JSON.
Document sizes_csv(const Json& rows) {
  constexpr const char* kFields[] = {"instance",   "nodes",  "ranks",         "bytes", "own",
                                     "own_time_s", "choice", "choice_time_s", "gain"};
  Table table;
  for (const char* field : kFields) table.column(field);
  for (const Json& row : rows) {
    std::vector<std::string> cells;
    for (const char* field : kFields) cells.push_back(cell_of(row.at(field)));
    table.row(std::move(cells));
  }
  return table.csv();
}

}  // namespace

Document render_tuning(const Json& report, const View& view) {
  if (view.format == Format::csv) return sizes_csv(report.at("rows"));
  const std::vector<Stretch> all =
      stretches_of(report.at("rows"), {"instance", "nodes", "own", "choice"});
  Table table;
  if (varies(report.at("rows"), "instance")) table.column("instance");
  for (const char* heading : {"nodes", "sizes", "NCCL's choice", "choose", "gain"})
    table.column(heading);
  std::set<std::string> reasons;
  for (const Stretch& s : all) {
    if (!s.gains() && !view.wide) continue;
    std::vector<std::string> cells;
    if (varies(report.at("rows"), "instance")) cells.push_back(text_or(s.first(), "instance"));
    cells.insert(cells.end(), {s.first().at("nodes").dump(), sizes_of(s), text_or(s.first(), "own"),
                               s.gains() ? text_or(s.first(), "choice") : "-", gain_words(s)});
    table.row(std::move(cells));
    for (const Json* row : s.rows)
      for (const Json& why : row->at("interval_widened_because"))
        reasons.insert(why.get<std::string>());
  }
  Document document;
  document.title(fmt::format("What NCCL chooses for {}s, and what would be faster",
                             title_of(collective_in(report))));
  document.gap().lines(Role::answer, answer_words(all, number_or(report, "least_gain", 1), view));
  if (!table.empty()) document.gap().table(table);
  std::string notes =
      fmt::format("gain: how many times as fast; from {:.2f} on it is listed (--gain).",
                  number_or(report, "least_gain", 1));
  if (!reasons.empty())
    notes += fmt::format(" Predicted with a wide interval: {}.", fmt::join(reasons, "; "));
  document.gap().lines(Role::notes, wrapped(notes, view, 2));
  if (!view.wide) document.lines(Role::plain, "Sizes without a gain with --wide.\n");
  return document;
}

std::string tuner_file(const Json& report) {
  static const std::map<std::string, std::string> collectives = {
      {"all_reduce", "allreduce"},
      {"all_gather", "allgather"},
      {"reduce_scatter", "reducescatter"},
      {"broadcast", "broadcast"}};
  const std::vector<Stretch> all = stretches_of(report.at("rows"), {"nodes", "ranks", "choice"});
  std::string out = fmt::format(
      "# Predicted by foreduce {}: measure before you rely on it.\n"
      "# NCCL_TUNER_PLUGIN=libnccl-tuner-example.so (NVIDIA/nccl, plugins/tuner/example)\n"
      "# NCCL_TUNER_CONFIG_FILE=this file. The plug-in takes the place of AWS's tuner, so "
      "sizes\n"
      "# without a gain are here too. Below the smallest size and above the largest NCCL decides.\n"
      "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks\n",
      FOREDUCE_VERSION);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Stretch& s = all[i];
    const auto elsewhere = [&](const Stretch& other) {
      return other.first().at("nodes") != s.first().at("nodes") ||
             other.first().at("ranks") != s.first().at("ranks");
    };
    const bool last = i + 1 == all.size() || elsewhere(all[i + 1]);
    if (s.gain(true) > 1)
      out += fmt::format("# {} on {} nodes: up to {:.2f} times as fast as NCCL's choice\n",
                         sizes_of(s), s.first().at("nodes").dump(), s.gain(true));
    const double from = number_or(s.first(), "bytes", 0),
                 to = last ? number_or(s.last(), "bytes", 0)
                           : number_or(all[i + 1].first(), "bytes", 0) - 1;
    out += fmt::format("{},{:.0f},{:.0f},{},{},-1,{},{}\n",
                       collectives.at(text_or(report, "collective")), from, to,
                       text_or(s.first(), "tuner_algorithm"), text_or(s.first(), "tuner_protocol"),
                       s.first().at("nodes").dump(), s.first().at("ranks").dump());
  }
  return out;
}

}  // namespace foreduce
