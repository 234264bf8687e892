// The report of `predict`: a short answer, then a row a point.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "scenarios/report/axes.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

void put_interval(Json& j, const Prediction& p) {
  const Interval& i = p.interval;
  j["step_time_low_s"] = i.known ? Json(i.low.value) : Json();
  j["step_time_high_s"] = i.known ? Json(i.high.value) : Json();
  j["interval_widened"] = i.known ? Json(!i.widened.empty()) : Json();
  j["interval_widened_because"] = i.widened.empty() ? Json() : Json(i.why());
}

/// How many times as fast as what NCCL would choose for the same question.
void put_speedups(Json& points, const std::vector<Prediction>& all) {
  const auto question = [](const Prediction& p) {
    return std::tie(p.model, p.precision, p.batch_per_gpu, p.accumulation, p.instance, p.nodes,
                    p.oversubscription, p.bucket.value, p.profile);
  };
  for (std::size_t i = 0; i < all.size(); ++i)
    for (const Prediction& other : all)
      if (other.method == MethodKind::nccl && other.error.empty() && all[i].error.empty() &&
          question(all[i]) == question(other))
        points[i]["speedup_vs_nccl"] = other.step.total / all[i].step.total;
}

/// The points with an answer.
std::vector<const Json*> answered(const Json& points) {
  std::vector<const Json*> some;
  for (const Json& p : points)
    if (!p.contains("error")) some.push_back(&p);
  return some;
}

std::string algorithm_of(const Json& p) {
  const std::string inner = text_or(p, "inner");
  return text_or(p, "algorithm") + (inner.empty() || inner == "ring" ? "" : "/" + inner);
}

/// Where the fastest point runs, and what tells it from the others.
std::string place_of_point(const Json& points, const Json& p) {
  const int nodes = p.value("nodes", 0);
  std::string place = fmt::format("{} node{}", nodes, nodes == 1 ? "" : "s");
  if (varies(points, "instance")) place = fmt::format("{} x {}", nodes, text_or(p, "instance"));
  for (const char* key : {"model", "precision"})
    if (varies(points, key)) place += ", " + p.value(key, "");
  return place;
}

/// "On 32 nodes reduction-server is fastest: …", and what else a planner asks first.
std::string short_answer(const Json& report, const View& view) {
  const Json& points = report["points"];
  const auto some = answered(points);
  if (some.empty()) return "No point has an answer.\n";
  const auto rate = [](const Json* p) { return number_or(*p, "throughput_samples_per_s", 0); };
  const Json* best = *std::max_element(some.begin(), some.end(),
                                       [&](auto a, auto b) { return rate(a) < rate(b); });
  const bool choice = varies(points, "algorithm") || varies(points, "inner");
  const double low = number_or(*best, "step_time_low_s", 0),
               high = number_or(*best, "step_time_high_s", 0);
  std::string text =
      wrapped(fmt::format("On {} {} {}: {} a step{}, {} efficiency; limited by {}.",
                          place_of_point(points, *best), algorithm_of(*best),
                          choice ? "is fastest" : "takes",
                          milliseconds((*best)["step_time_s"].get<double>()),
                          high > 0 ? fmt::format(" (90 % PI {})", range_words(low, high)) : "",
                          percent((*best)["scaling_efficiency"].get<double>()),
                          best->value("gpus", 1) == 1 ? "compute" : bottleneck_words(*best)),
              view, 2);
  const auto cost = [](const Json* p) {
    return number_or(*p, "usd_per_million_samples", HUGE_VAL);
  };
  const Json* cheapest = *std::min_element(some.begin(), some.end(),
                                           [&](auto a, auto b) { return cost(a) < cost(b); });
  if (some.size() > 1 && cost(cheapest) < HUGE_VAL && cheapest != best)
    text += wrapped(
        fmt::format(
            "Cheapest per sample: {}, {}, at ${:.2f} per million samples ({:.2f} on the fastest).",
            place_of_point(points, *cheapest), algorithm_of(*cheapest), cost(cheapest), cost(best)),
        view, 2);
  if (const std::size_t failed = points.size() - some.size(); failed > 0)
    text += fmt::format("{} of {} points have no answer.\n", failed, points.size());
  return text;
}

Table table_of(const Json& report, Footnotes& notes) {
  const Json& points = report["points"];
  const std::vector<AxisColumn> axes = axis_columns(points);
  Table table;
  for (const AxisColumn& axis : axes) table.column(axis.heading, axis.rank);
  const bool nccl = varies(points, "algorithm") &&
                    std::any_of(points.begin(), points.end(),
                                [](const Json& p) { return p.contains("speedup_vs_nccl"); });
  for (const auto& [heading, rank] : {std::pair("step", 1),
                                      {"90 % PI", 2},
                                      {"compute", 9},
                                      {"straggler wait", 10},
                                      {"exposed", 8},
                                      {"samples/s", 5},
                                      {"efficiency", 3},
                                      {"vs 1 node", 11},
                                      {"$/h", 12},
                                      {"$/M samples", 6}})
    table.column(heading, rank);
  if (nccl) table.column("vs nccl", 7);
  table.column("busiest link", 13);
  for (const Json& p : points)
    if (!p.contains("error")) notes.note(p["interval_widened_because"]);
  for (const Json& p : points) {
    std::vector<std::string> row;
    for (const AxisColumn& axis : axes) row.push_back(axis.cell(p));
    if (p.contains("error")) {
      row.resize(axes.size() + (nccl ? 12 : 11), "-");
      table.failed_row(
          row, p["error"].get<std::string>().substr(0, p["error"].get<std::string>().find('\n')));
      continue;
    }
    const auto time = [&](const char* key) { return milliseconds(number_or(p, key, 0)); };
    row.push_back(time("step_time_s"));
    row.push_back(p["step_time_low_s"].is_null()
                      ? "-"
                      : range_words(p["step_time_low_s"], p["step_time_high_s"]) +
                            notes.mark(p["interval_widened_because"]));
    for (const char* key : {"compute_time_s", "straggler_wait_s", "exposed_communication_s"})
      row.push_back(time(key));
    row.push_back(fmt::format("{:.1f}", number_or(p, "throughput_samples_per_s", 0)));
    row.push_back(percent(number_or(p, "scaling_efficiency", 0), 1));
    const auto or_dash = [&](const char* key, auto text) {
      return p[key].is_null() ? std::string("-") : text(p[key].get<double>());
    };
    row.push_back(
        or_dash("scaling_efficiency_vs_one_node", [](double v) { return percent(v, 1); }));
    row.push_back(or_dash("usd_per_hour", [](double v) { return fmt::format("{:.2f}", v); }));
    row.push_back(
        or_dash("usd_per_million_samples", [](double v) { return fmt::format("{:.2f}", v); }));
    if (nccl)
      row.push_back(p.contains("speedup_vs_nccl")
                        ? fmt::format("{:.2f} x", p["speedup_vs_nccl"].get<double>())
                        : "-");
    const std::string link = text_or(p, "bottleneck_link"), kind = text_or(p, "bottleneck_kind");
    row.push_back(p.value("gpus", 1) == 1
                      ? "-"
                      : fmt::format("{}{} {}", link,
                                    link == "latency" || kind.empty() ? "" : " (" + kind + ")",
                                    percent(number_or(p, "bottleneck_utilisation", 0))));
    table.row(row);
  }
  return table;
}

/// What a reader must know to act on the table.
std::string short_notes(const Json& points, const View& view) {
  std::set<std::string> profiles, shortages, sources;
  bool halves = false, estimated = false;
  for (const Json* p : answered(points)) {
    profiles.insert(text_or(*p, "profile"));
    estimated = estimated || !p->value("compute_measured", false);
    halves = halves || p->value("gradient_type", "fp32") != "fp32";
    if (const std::string why = text_or(*p, "memory_shortage"); !why.empty())
      shortages.insert(text_or(*p, "instance") + ": " + why);
  }
  std::string text;
  for (const std::string& why : shortages) text += wrapped(why, view, 2);
  text += wrapped(
      fmt::format("Profile: {}. Compute: {}. Gradients travel in {}.", fmt::join(profiles, ", "),
                  estimated ? "partly estimated" : "measured on this kind of GPU",
                  halves ? "16 bits (PyTorch's autocast keeps fp32: workload.gradient)" : "fp32"),
      view, 2);
  return text;
}

std::string explanations(const Json& report, const View& view) {
  std::set<std::string> sources;
  double error = 0;
  for (const Json* p : answered(report["points"])) {
    sources.insert(fmt::format("Compute of {} on {}: {}.", text_or(*p, "model"),
                               text_or(*p, "instance"), text_or(*p, "compute_source")));
    error = std::max(error, number_or(*p, "extrapolation_error", 0));
  }
  std::string text;
  for (const char* line : {"Efficiency compares with as many times one GPU without communication; "
                           "vs 1 node with as many times one node that runs the "
                           "same algorithm.",
                           "Compute is one GPU's time; straggler wait is the extra compute time of "
                           "the slowest GPU; exposed is what communication adds "
                           "to the step.",
                           "The busiest link is that of the largest bucket's all-reduce.",
                           "The prediction interval joins how far the profile was off for sources "
                           "that its fit did not see with how far compute was off "
                           "elsewhere. It never beats the hardware's bandwidth bound."})
    text += wrapped(line, view, 2);
  for (const std::string& source : sources) text += wrapped(source, view, 2);
  if (error > 0)
    text += wrapped(fmt::format("Long pipelines are extrapolated from their steady state; the "
                                "largest estimated error is {}.",
                                percent(error, 2)),
                    view, 2);
  return text + wrapped(engine_line(report), view, 2);
}

}  // namespace

Json point_report(const Prediction& p, Cost cost) {
  Json j = {{"point", p.number},
            {"model", p.model},
            {"sample", p.sample},
            {"precision", p.precision},
            {"batch_per_gpu", p.batch_per_gpu},
            {"accumulation", p.accumulation},
            {"instance", p.instance},
            {"nodes", p.nodes},
            {"gpus", p.gpus},
            {"oversubscription", p.oversubscription},
            {"algorithm", p.algorithm},
            {"inner", p.inner},
            {"profile", p.profile},
            {"dedicated_servers", p.servers},
            {"bucket_bytes", static_cast<std::uint64_t>(p.bucket.value)},
            {"segments", p.segments},
            {"chosen", fmt::format("{}", fmt::join(p.chosen, ", "))}};
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["gradient_type"] = p.gradient;
  j["step_time_s"] = p.step.total.value;
  put_interval(j, p);
  j["compute_time_s"] = p.step.compute.value;
  j["communication_time_s"] = p.step.communication.value;
  j["straggler_wait_s"] = p.step.waiting.value;
  j["exposed_communication_s"] = p.step.exposed_communication.value;
  j["throughput_samples_per_s"] = p.throughput;
  j["scaling_efficiency"] = p.efficiency_gpu;
  j["scaling_efficiency_against"] = "one GPU without communication";
  j["scaling_efficiency_vs_one_node"] = p.efficiency_node > 0 ? Json(p.efficiency_node) : Json();
  j["usd_per_hour"] = p.priced ? Json(p.price.value) : Json();
  j["usd_per_million_samples"] = p.priced ? Json(p.usd_per_million_samples) : Json();
  j["bottleneck_link"] = p.bottleneck;
  j["bottleneck_kind"] = name_of(p.bottleneck_kind);
  j["bottleneck_utilisation"] = p.bottleneck_utilisation;
  j["buckets"] = p.step.buckets.size();
  j["compute_measured"] = p.compute_measured;
  j["compute_source"] = p.compute_source;
  j["state_bytes"] = p.state.value;
  j["gpu_memory_bytes"] = p.gpu_memory.value > 0 ? Json(p.gpu_memory.value) : Json();
  j["memory_shortage"] = p.fits() ? Json() : Json(memory_shortage(p));
  j["extrapolation_error"] = p.extrapolation_error > 0 ? Json(p.extrapolation_error) : Json();
  j["simulated_messages"] = p.messages;
  if (cost == Cost::left_out) return j;
  j["mode"] = name_of(p.mode);
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

Json sweep_report(const Sweep<Prediction>& sweep, const Shard& shard, Cost cost) {
  Json j = sweep_head("predict", sweep.provenance, sweep.all);
  if (shard.count > 1) j["shard"] = {{"index", shard.index}, {"count", shard.count}};
  j["points"] = Json::array();
  for (const Prediction& p : sweep.points) j["points"].push_back(point_report(p, cost));
  put_speedups(j["points"], sweep.points);
  return j;
}

std::string render_predict(const Json& report, const View& view) {
  const Json& points = report["points"];
  const std::string name = text_or(report, "name");
  const std::string title = view.format == Format::markdown ? "## " + name : name;
  if (points.empty()) return title + "\n\nno points\n";
  Footnotes notes;
  const Table table = table_of(report, notes);
  return wrapped(title, view, 2) + "\n" + short_answer(report, view) + "\n" + table.text(view) +
         "\n" + wrapped("90 % PI: 90 % of measurements are expected inside.", view) +
         notes.text(view) + short_notes(points, view) + unused_line(report) +
         hidden_line(table, view) +
         (view.explain ? "\n" + explanations(report, view)
                       : "--explain gives definitions and sources.\n");
}

}  // namespace foreduce
