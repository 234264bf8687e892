#include "scenarios/report/words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <set>
#include <tuple>

#include "input/counted.hpp"
#include "scenarios/sweep/cases.hpp"

namespace foreduce {

Json report_head(const char* kind) {
  return {{"foreduce_version", FOREDUCE_VERSION}, {"kind", kind}};
}

Json sweep_head(const char* kind, const Provenance& provenance, std::size_t points) {
  Json j = report_head(kind);
  j["name"] = provenance.name;
  j["scenario"] = provenance.file;
  j["scenario_hash"] = provenance.hash;
  if (!provenance.text.empty()) j["scenario_text"] = provenance.text;
  j["points_in_sweep"] = points;
  j["unused_keys"] = provenance.unused_keys;
  if (!provenance.left_out.empty()) j["left_out"] = provenance.left_out;
  if (provenance.repeated > 0) j["repeated_points"] = provenance.repeated;
  Json& engine = j["engine"] = {{"simulator", simulator_name()}};
  for (const EngineSetting& setting : engine_settings()) engine[setting.name] = setting.value;
  return j;
}

std::string percent(double share, int digits) {
  return fmt::format("{:.{}f} %", 100 * share, digits);
}
std::string milliseconds(double seconds) {
  const std::string text = to_text(Seconds{seconds});
  const auto space = std::min(text.find(' '), text.size());
  const double value = std::strtod(text.c_str(), nullptr);  // a report may have 5e-324 s
  const int digits = value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 2 : 3;
  return fmt::format("{:.{}f}{}", value, digits, text.substr(space));
}
std::string dollars(double usd) {
  const int digits = usd >= 1 || usd <= 0 ? 2 : static_cast<int>(std::ceil(-std::log10(usd))) + 2;
  return fmt::format("{:.{}f}", usd, std::min(digits, 9));
}

const char* name_of(SimulationMode mode) {
  return mode == SimulationMode::cached         ? "cached"
         : mode == SimulationMode::extrapolated ? "extrapolated"
         : mode == SimulationMode::symmetric    ? "symmetric"
                                                : "full";
}

std::string size_words(double bytes) {
  const auto digits = [](double value) {  // 1020 MiB, not 1.02e+03
    return value < 999.5 ? fmt::format("{:.3g}", value) : fmt::format("{:.0f}", value);
  };
  if (bytes >= 1 << 30) return digits(bytes / (1 << 30)) + " GiB";
  if (bytes >= 1 << 20) return digits(bytes / (1 << 20)) + " MiB";
  return bytes >= 1024 ? digits(bytes / 1024) + " KiB" : fmt::format("{:.0f} B", bytes);
}

std::string range_words(double low_s, double high_s) {
  const std::string middle = to_text(Seconds{std::sqrt(low_s * high_s)}),
                    high = to_text(Seconds{high_s});
  const std::string unit = middle.substr(middle.find(' ') + 1);
  const double worth = unit == "us"    ? 1e-6
                       : unit == "ms"  ? 1e-3
                       : unit == "s"   ? 1
                       : unit == "min" ? 60
                       : unit == "h"   ? 3600
                                       : 0;
  if (worth == 0 || low_s < 0.01 * high_s) return to_text(Seconds{low_s}) + " to " + high;
  const auto digits = [](double v) { return v >= 100 ? 0 : v >= 10 ? 1 : 2; };
  return fmt::format("{:.{}f} to {:.{}f} {}", low_s / worth, digits(low_s / worth), high_s / worth,
                     digits(high_s / worth), unit);
}

std::string bottleneck_words(const Json& p) {
  const std::string link = text_or(p, "bottleneck_link");
  if (link.empty() || link == "latency") return "the cost of each message";
  const double busy = number_or(p, "bottleneck_utilisation", 0);
  const std::string kind = text_or(p, "bottleneck_kind");
  return fmt::format("the {}link {} ({} busy){}", kind.empty() ? "" : kind + " ", link,
                     percent(busy), busy < 0.75 ? " and the cost of each message" : "");
}

std::string run_words(const Json& p) {
  const std::string algorithm = text_or(p, "algorithm"), inner = text_or(p, "inner");
  if (algorithm == "best") return text_or(p, "chosen") + " (chosen by best)";
  return algorithm + (inner.empty() || inner == kUsualInner ? "" : "/" + inner);
}

std::string schedule_words(const ScheduleName& schedule) {
  return std::string(schedule.algorithm) +
         (schedule.protocol ? " " + to_text(*schedule.protocol) : "");
}

std::string schedule_words(const std::vector<ScheduleName>& schedules) {
  std::vector<std::string> words;
  for (const ScheduleName& schedule : schedules) words.push_back(schedule_words(schedule));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string schedule_words(const NcclAlgoProto& chosen) {
  return to_text(chosen.algorithm) + (chosen.protocol ? " " + to_text(*chosen.protocol) : "");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string cell_of(const Json& value) {
  return value.is_null() ? "-" : value.is_string() ? value.get<std::string>() : value.dump();
}

std::string text_or(const Json& j, const char* key) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_string() ? "" : at->get<std::string>();
}

double number_or(const Json& j, const char* key, double otherwise) {
  const auto at = j.find(key);
  return at == j.end() || !at->is_number() ? otherwise : at->get<double>();
}

void Footnotes::note(const Json& reasons) {
  if (!reasons.is_string() || reasons.get<std::string>().empty()) return;
  const auto text = reasons.get<std::string>();
  if (std::find(notes_.begin(), notes_.end(), text) == notes_.end()) notes_.push_back(text);
}

std::string Footnotes::star(std::size_t note) const {
  return notes_.size() == 1 || note >= 26 ? "*" : fmt::format("*{}", static_cast<char>('a' + note));
}

std::string Footnotes::mark(const Json& reasons) {
  if (!reasons.is_string() || reasons.get<std::string>().empty()) return "";
  const auto at = std::find(notes_.begin(), notes_.end(), reasons.get<std::string>());
  return " " + star(static_cast<std::size_t>(at - notes_.begin()));
}

std::string Footnotes::text(const View& view, const Table& table) const {
  const std::vector<std::string> hidden = table.hidden(view);
  if (std::find(hidden.begin(), hidden.end(), kIntervalHeading) != hidden.end()) return "";
  std::string all = wrapped("90 % PI: 90 % of measurements are expected inside.", view);
  for (std::size_t i = 0; i < notes_.size(); ++i)
    all += wrapped(fmt::format("{} wider interval: {}.", star(i), notes_[i]), view, 3);
  return all;
}

namespace {

/// What a sample takes or costs on an instance type, within the interval of its step.
struct Around {
  std::string instance;
  double low = 0, high = 0;
  bool estimated = false;  // its computing
  std::string by;          // what: "60 % of 312 TFLOPS"
};

/// Instance types whose compute is estimated, and those where it is measured, that change places
/// within their intervals.
struct Uncertain {
  std::set<std::string> estimated, measured;
};

/// Ranges of one type and source that overlap as one: a sweep has thousands.
std::vector<Around> with_overlaps_joined(std::vector<Around> all) {
  const auto kind = [](const Around& a) { return std::tie(a.instance, a.by, a.estimated); };
  std::sort(all.begin(), all.end(), [&](const Around& a, const Around& b) {
    return std::tuple_cat(kind(a), std::tie(a.low)) < std::tuple_cat(kind(b), std::tie(b.low));
  });
  std::vector<Around> apart;
  for (Around& a : all)
    if (!apart.empty() && kind(apart.back()) == kind(a) && a.low <= apart.back().high)
      apart.back().high = std::max(apart.back().high, a.high);
    else apart.push_back(std::move(a));
  return apart;
}

Uncertain uncertain_order(const std::vector<Around>& all) {
  Uncertain found;
  const std::vector<Around> apart = with_overlaps_joined(all);
  for (const Around& one : apart) {
    if (!one.estimated) continue;
    for (const Around& other : apart)
      if (one.low <= other.high && one.high >= other.low && one.instance != other.instance &&
          !(other.estimated && one.by == other.by)) {  // types with one GPU err alike
        found.estimated.insert(one.instance);
        (other.estimated ? found.estimated : found.measured).insert(other.instance);
      }
  }
  return found;
}

}  // namespace

std::string estimates_line(const Json& points, const View& view) {
  std::vector<Around> times, costs;
  for (const Json& p : points) {
    const double step = number_or(p, "step_time_s", 0),
                 rate = number_or(p, "throughput_samples_per_s", 0),
                 cost = number_or(p, "usd_per_million_samples", 0);
    if (p.contains("error") || step <= 0 || rate <= 0) continue;
    const double low = number_or(p, "step_time_low_s", step) / step,
                 high = number_or(p, "step_time_high_s", step) / step;
    const bool estimated = !p.value("compute_measured", true);
    const std::string instance = text_or(p, "instance"), by = text_or(p, "compute_source");
    times.push_back({instance, low / rate, high / rate, estimated, by});
    if (cost > 0) costs.push_back({instance, low * cost, high * cost, estimated, by});
  }
  std::string text;
  const auto say = [&](const Uncertain& order, const char* what) {
    if (order.estimated.empty()) return;
    const std::string measured =
        order.measured.empty()
            ? ""
            : fmt::format(" and measured on {}", fmt::join(order.measured, ", "));
    text += wrapped(fmt::format("Compute is an estimate on {}{}: which of them {} depends on the "
                                "estimate{}.",
                                fmt::join(order.estimated, ", "), measured, what,
                                order.estimated.size() > 1 ? "s" : ""),
                    view, 2);
  };
  const Uncertain time = uncertain_order(times), cost = uncertain_order(costs);
  const auto priced = [&costs](std::set<std::string> instances) {
    std::erase_if(instances, [&](const std::string& name) {
      return std::none_of(costs.begin(), costs.end(),
                          [&](const Around& one) { return one.instance == name; });
    });
    return instances;
  };
  if (priced(time.estimated) == cost.estimated && priced(time.measured) == cost.measured &&
      !cost.estimated.empty()) {
    say(time, time.estimated == cost.estimated && time.measured == cost.measured
                  ? "trains more samples a second, or costs less a sample,"
                  : "trains more samples a second, or costs less a sample where it has a price,");
  } else {
    say(time, "trains more samples a second");
    say(cost, "costs less a sample");
  }
  return text;
}

std::string best_without_nccl_line(const Json& points, const View& view) {
  const bool any = std::any_of(points.begin(), points.end(),
                               [](const Json& p) { return p.value("best_without_nccl", false); });
  return any ? wrapped(
                   "best: of foreduce's own algorithms alone. NCCL is left out, because the "
                   "profile does not say what its protocols cost.",
                   view, 2)
             : "";
}

std::string doubtful_rates_line(const Json& points, const View& view) {
  std::set<std::string> rates;
  for (const Json& p : points)
    if (const std::string rate = text_or(p, "compute_doubtful"); !rate.empty()) rates.insert(rate);
  std::string text;
  for (const std::string& rate : rates)
    text += wrapped(fmt::format("Doubtful: {}; large matrix products alone reach some 80 %.", rate),
                    view, 2);
  return text;
}

std::string memory_line(const Json& points, const View& view) {
  std::set<std::string> uses;
  std::map<double, std::pair<double, double>> peaks;  // least and most, by the GPU's memory
  bool unknown = false, tight = false, uncertain = false;
  constexpr double kTight = 0.9;
  for (const Json& p : points) {
    const double memory = number_or(p, "gpu_memory_bytes", 0);
    if (p.contains("error") || memory <= 0 || !text_or(p, "memory_shortage").empty()) continue;
    const double kept = number_or(p, "activation_bytes", 0),
                 peak = number_or(p, "peak_memory_bytes", 0);
    unknown = unknown || kept <= 0;
    tight = tight || peak > kTight * memory;
    uncertain = uncertain || p.value("memory_uncertain", false);
    auto& [least, most] = peaks.try_emplace(memory, peak, peak).first->second;
    least = std::min(least, peak);
    most = std::max(most, peak);
    const Json by = p.value("memory_by", Json::object());
    const auto part = [&by](const char* key, const char* words) {
      const double bytes = number_or(by, key, 0);
      return bytes > 0 ? fmt::format(", {} {}", words, to_text(Bytes{bytes})) : std::string();
    };
    uses.insert(fmt::format(
        "weights, gradients and optimizer take {}{}, activations {}{}",
        to_text(Bytes{number_or(p, "state_bytes", 0)}), part("gathered", "gathered units"),
        kept > 0 ? "at least " + to_text(Bytes{kept}) : std::string("an unknown amount"),
        part("working", "the loss")));
  }
  if (uses.empty()) return "";
  std::string text;
  for (const auto& [memory, peak] : peaks) {
    const std::string least = to_text(Bytes{peak.first}), most = to_text(Bytes{peak.second});
    const bool first = text.empty();
    if (uses.size() == 1) text += first ? *uses.begin() + ", of a GPU's " : " or ";
    else
      text += fmt::format("{}{}{} of ", first ? "a GPU needs " : "; ", least,
                          least == most ? "" : " to " + most);
    text += to_text(Bytes{memory});
  }
  if (uses.size() > 1) text += ", of what fits";
  if (tight)
    text += fmt::format(
        "; above {} of it, CUDA, NCCL's buffers and the allocator's gaps may need the rest",
        percent(kTight));
  if (uncertain)
    text += fmt::format(
        "; what is above all of it, with some {} for CUDA and NCCL, by less than the {} that "
        "estimates are off by just fits, or just does not",
        to_text(training_constants().memory_outside),
        percent(training_constants().memory_within - 1));
  if (unknown) text += "; where activations are unknown, it is not checked whether they fit";
  return wrapped(fmt::format("Memory, estimated: {}.", text), view, 2);
}

std::string launches_line(const Json& points, const View& view) {
  std::size_t bounded = 0, all = 0;
  for (const Json& p : points) {
    if (p.contains("error")) continue;
    ++all;
    if (p.value("bounded_by_launches", false)) ++bounded;
  }
  if (bounded == 0) return "";
  return wrapped(
      fmt::format(
          "Bounded by kernel launches{}, not by arithmetic: a program of many small kernels "
          "takes up to {:.2g} times as long, and one in CUDA graphs (cuda_graphs: yes) less.",
          bounded == all ? "" : fmt::format(" in {} of {} points", bounded, all),
          training_constants().launches_slower),
      view, 2);
}

Collective collective_in(const Json& report) {
  return collective_named(text_or(report, "collective")).value_or(Collective::all_reduce);
}

std::string memory_doubt(const Json& point) {
  if (!point.value("memory_uncertain", false)) return "";
  return fmt::format("; it needs some {} of {} a GPU besides CUDA and NCCL, and may not fit",
                     to_text(Bytes{number_or(point, "peak_memory_bytes", 0)}),
                     to_text(Bytes{number_or(point, "gpu_memory_bytes", 0)}));
}

std::string fabric_words(const Json& points) {
  if (points.empty() || varies(points, "oversubscription") || varies(points, "placement"))
    return "";
  std::vector<std::string> words;
  if (const double tiers = number_or(points[0], "oversubscription", 1); tiers > 1)
    words.push_back(fmt::format("oversubscription {}:1", tiers));
  if (text_or(points[0], "placement") == "spread") words.emplace_back("placement spread");
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string cluster_words(const Json& point) {
  return cluster_words(std::to_string(point.value("nodes", 0)), text_or(point, "instance"));
}

bool by_nccl(const Json& point) {
  const std::string method = text_or(point, "algorithm");
  return method == "nccl" || method.starts_with("nccl ");
}

bool varies(const Json& points, const char* key) {
  const Json none;
  const auto field = [&](const Json& p) -> const Json& {
    const auto at = p.find(key);
    return at == p.end() ? none : *at;
  };
  return std::any_of(points.begin(), points.end(),
                     [&](const Json& p) { return field(p) != field(points[0]); });
}

std::vector<const char*> varying(const Json& points, std::initializer_list<const char*> keys) {
  std::vector<const char*> some;
  std::copy_if(keys.begin(), keys.end(), std::back_inserter(some),
               [&](const char* key) { return varies(points, key); });
  return some;
}

std::string hidden_line(const Table& table, const View& view) {
  const auto hidden = table.hidden(view);
  return hidden.empty()
             ? ""
             : wrapped(fmt::format("More columns with --wide: {}.", fmt::join(hidden, ", ")), view,
                       2);
}

std::string cut_errors_lines(const Table& table, const View& view) {
  std::string text;
  for (const std::string& why : table.cut_errors(view)) text += wrapped("error: " + why, view, 2);
  return text;
}

std::string unused_line(const Json& report, const View& view) {
  std::string text;
  const auto at = report.find("unused_keys");
  if (at != report.end() && at->is_array() && !at->empty())
    text = wrapped(fmt::format("Keys without effect here: {}.",
                               fmt::join(at->get<std::vector<std::string>>(), ", ")),
                   view, 2);
  if (const double repeated = number_or(report, "repeated_points", 0); repeated > 0)
    text += fmt::format("Left out: {} that {} the same step as another.\n",
                        counted(static_cast<std::int64_t>(repeated), "point"),
                        repeated == 1 ? "is" : "are");
  return text;
}

std::string engine_line(const Json& report) {
  const auto at = report.find("engine");
  if (at == report.end() || !at->is_object()) return "";
  return text_or(*at, "simulator") + ", model " + at->value("network/model", "") +
         ", with its own correction factors off: what messages cost beyond the links' data sheets "
         "is the profile's.";
}

std::string extrapolation_line(const Json& points, const View& view) {
  const double least = view.explain ? 0 : 0.02;
  double error = 0;
  for (const Json& p : points) error = std::max(error, number_or(p, "extrapolation_error", 0));
  if (error <= 0 || error < least) return "";
  return wrapped(fmt::format("Long pipelines are extrapolated from their steady state, and trees "
                             "over many nodes from fewer; the largest estimated error, {}, is in "
                             "the interval. --full-pipelines simulates all.",
                             percent(error, 2)),
                 view, 2);
}

void add_once(std::vector<std::string>& all, std::string one) {
  if (std::find(all.begin(), all.end(), one) == all.end()) all.push_back(std::move(one));
}

std::string unpriced_line(const Json& points, const char* key, const View& view) {
  std::set<std::string> unpriced;
  bool any = false;
  for (const Json& p : points) {
    const auto usd = p.find(key);
    if (usd == p.end()) continue;
    any = any || !usd->is_null();
    if (usd->is_null()) unpriced.insert(text_or(p, "instance"));
  }
  if (unpriced.empty() || !any) return "";
  return wrapped(
      fmt::format("{} {} no price and {} compared by time alone (cluster.prices gives one).",
                  fmt::join(unpriced, ", "), unpriced.size() == 1 ? "has" : "have",
                  unpriced.size() == 1 ? "is" : "are"),
      view, 2);
}

}  // namespace foreduce
