// The report of `predict`: a short answer, then a row a point.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>
#include <tuple>

#include "input/counted.hpp"
#include "scenarios/report/axes.hpp"
#include "scenarios/report/charts.hpp"
#include "scenarios/report/predict_falls.hpp"
#include "scenarios/report/predict_shortages.hpp"
#include "scenarios/report/predict_table.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"
#include "scenarios/sweep/cases.hpp"
#include "scenarios/sweep/memory_shortage.hpp"

namespace foreduce {
namespace {

void put_interval(Json& j, const Prediction& p) {
  const Interval& i = p.interval;
  j["step_time_low_s"] = i.known ? Json(i.low.value) : Json();
  j["step_time_high_s"] = i.known ? Json(i.high.value) : Json();
  j["interval_widened"] = i.known ? Json(!i.widened.empty()) : Json();
  j["interval_widened_because"] = i.widened.empty() ? Json() : Json(i.why());
}

/// "fp16, 128 tokens a sample, batch 32 per GPU, …": what all rows have in common.
std::string setting(const Json& points, const View& view) {
  const Json& p = points[0];
  const auto micro_batches = p.value("accumulation", 1);
  std::string text;
  const auto add_if_same = [&](const char* key, const std::string& words) {
    if (!varies(points, key)) text += (text.empty() ? "" : ", ") + words;
  };
  add_if_same("model", text_or(p, "model"));
  add_if_same("precision", text_or(p, "precision"));
  if (const std::string sample = text_or(p, "sample"); sample != "sample")
    add_if_same("sample", fmt::format("{} a sample", sample));
  // GPUs that share a model share its batch.
  const bool share = std::any_of(points.begin(), points.end(), [](const Json& one) {
    return one.value("tensor_parallel", 1) * one.value("pipeline", 1) *
               one.value("context_parallel", 1) >
           1;
  });
  add_if_same("batch_per_gpu", fmt::format("batch {} per {}", p.value("batch_per_gpu", 0),
                                           share ? "copy of the model" : "GPU"));
  if (micro_batches > 1)
    add_if_same("accumulation", fmt::format("{} micro-batches", micro_batches));
  if (text_or(p, "framework") == to_text(Framework::megatron))
    add_if_same("framework", "Megatron with Transformer Engine");
  if (text_or(p, "framework") == to_text(Framework::transformers))
    add_if_same("framework", "Hugging Face's transformers");
  if (const double part = number_or(p, "trainable", 1); part < 1)
    add_if_same("trainable", fmt::format("{:.3g} % of the parameters trained", 100 * part));
  add_if_same("gradient_type", fmt::format("gradients in {}", text_or(p, "gradient_type")));
  if (const std::string fabric = fabric_words(points); !fabric.empty()) text += ", " + fabric;
  if (!any_sharded(points))
    add_if_same("bucket_bytes",
                fmt::format("buckets of {}", to_text(Bytes{number_or(p, "bucket_bytes", 0)})));
  return wrapped(text, view, 2);
}

/// Where a point runs, and what tells it from the others.
std::string place_of_point(const Json& points, const Json& p) {
  const int nodes = p.value("nodes", 0);
  std::string place = counted(nodes, "node");
  if (varies(points, "instance")) place = cluster_words(p);
  if (any_sharded(points)) place += ", " + strategy_words(p);
  for (const char* key : {"model", "framework", "precision", "placement"})
    if (varies(points, key)) place += ", " + p.value(key, "");
  if (varies(points, "oversubscription"))
    place += fmt::format(", oversubscription {}:1", number_or(p, "oversubscription", 1));
  if (gradient_is_chosen(points)) place += ", gradients in " + text_or(p, "gradient_type");
  if (varies(points, "batch_per_gpu"))
    place += fmt::format(", batch {}", p.value("batch_per_gpu", 0));
  if (varies(points, "accumulation"))
    place += fmt::format(", {} micro-batch{}", p.value("accumulation", 1),
                         p.value("accumulation", 1) == 1 ? "" : "es");
  if (varies(points, "recompute")) place += ", recompute " + text_or(p, "recompute");
  if (varies(points, "bucket_bytes"))
    place += fmt::format(", buckets of {}", to_text(Bytes{number_or(p, "bucket_bytes", 0)}));
  return place;
}

/// With a comma where it has several parts.
std::string place_before_verb(const Json& points, const Json& p) {
  const std::string place = place_of_point(points, p);
  return place + (place.find(',') == std::string::npos ? "" : ",");
}

/// Those that fit into the GPUs' memory; all of them where none does.
Points runnable(const Points& points) {
  Points some;
  std::copy_if(points.begin(), points.end(), std::back_inserter(some),
               [](const Json* p) { return fits_memory(*p); });
  return some.empty() ? points : some;
}

/// Points that a planner chooses among: those of one model, and of one instance type where there
/// are few.
std::vector<Points> choices(const Json& points) {
  const auto grouped = [&](std::initializer_list<const char*> keys) {
    std::vector<std::pair<std::string, Points>> groups;
    for (const Json* p : answered(points)) {
      std::string name;
      for (const char* key : keys) name += text_or(*p, key) + "|";
      auto at = std::find_if(groups.begin(), groups.end(),
                             [&](const auto& g) { return g.first == name; });
      if (at == groups.end()) at = groups.insert(at, {name, {}});
      at->second.push_back(p);
    }
    std::vector<Points> all;
    for (auto& [name, some] : groups) all.push_back(std::move(some));
    return all;
  };
  constexpr std::size_t kMost = 6;  // more lines are no short answer
  auto groups = grouped({"model", "precision", "instance"});
  return groups.size() <= kMost ? groups : grouped({"model", "precision"});
}

const Json* best_of(const Points& all, const std::function<double(const Json&)>& worth) {
  const Points points = runnable(all);
  return *preferred(
      points, [&](const Json* p) { return worth(*p); }, [](const Json* p) { return by_nccl(*p); });
}

/// "On 32 nodes reduction-server is fastest: …": what its step is made of, and what limits it.
std::string answer_of(const Json& points, const Points& some, const View& view) {
  const auto rate = [](const Json& p) { return number_or(p, "throughput_samples_per_s", 0); };
  const Json& best = *best_of(some, rate);
  const auto tells_apart = {
      "algorithm",        "inner",    "sharding",         "hybrid",          "tensor_parallel",
      "context_parallel", "pipeline", "virtual_pipeline", "expert_parallel", "recompute",
      "framework"};
  const bool choice = std::any_of(tells_apart.begin(), tells_apart.end(),
                                  [&](const char* key) { return varies(points, key); });
  const Points those = runnable(some);
  const bool fastest = std::all_of(those.begin(), those.end(),
                                   [&](const Json* p) { return rate(*p) <= rate(best); });
  const double low = number_or(best, "step_time_low_s", 0),
               high = number_or(best, "step_time_high_s", 0),
               step = number_or(best, "step_time_s", 0),
               exposed = number_or(best, "exposed_communication_s", 0);
  const bool beaten = std::any_of(some.begin(), some.end(), [&](const Json* p) {
    return rate(*p) > rate(best) && !fits_memory(*p);
  });
  const std::string verb =
      !choice    ? "takes"
      : !fastest ? "is within 1 % of the fastest:"
      : samples_differ(those)
          ? fmt::format("has the highest throughput{}: {} samples/s,",
                        beaten ? " of what fits" : "", samples_words(rate(best)))
          : "is fastest:";
  std::string text =
      fmt::format("On {} {} {} {} a step{}, {} efficiency. Compute takes {}",
                  place_before_verb(points, best), run_words(best), verb, milliseconds(step),
                  high > 0 ? fmt::format(" (90 % PI {})", range_words(low, high)) : "",
                  percent(number_or(best, "scaling_efficiency", 0)),
                  milliseconds(number_or(best, "compute_time_s", 0)));
  for (const auto& [key, part] : {std::pair("straggler_wait_s", "the wait for the slowest GPU"),
                                  {"pipeline_bubble_s", "the pipeline's bubble"},
                                  {"step_overhead_s", "the step's overhead"},
                                  {"input_wait_s", "the wait for input"}})
    if (const double takes = number_or(best, key, 0); takes > 0)
      text += fmt::format(", {} {}", part, milliseconds(takes));
  if (best.value("gpus", 1) > 1)
    text += fmt::format(", exposed communication {}", milliseconds(exposed));
  if (exposed > 0.02 * step) text += fmt::format(", itself limited by {}", bottleneck_words(best));
  return wrapped(text + memory_doubt(best) + ".", view, 2);
}

/// Of points none of which fits: how far the nearest is from it.
std::string too_large_words(const Json& points, const Points& some, const View& view) {
  const Json& nearest = **std::min_element(some.begin(), some.end(), [](auto a, auto b) {
    return number_or(*a, "peak_memory_bytes", 0) < number_or(*b, "peak_memory_bytes", 0);
  });
  return wrapped(
      fmt::format("On {} {} does not fit into the GPUs' memory: {}{}.",
                  place_before_verb(points, nearest), run_words(nearest), memory_cell(nearest),
                  some.size() > 1 ? fmt::format(", the least of {} such rows", some.size()) : ""),
      view, 2);
}

std::string predict_answer(const Json& report, const View& view) {
  const Json& points = report.at("points");
  const Points some = answered(points);
  if (some.empty()) return "No point has an answer.\n";
  std::string text;
  const auto any_fits = [](const Points& those) {
    return std::any_of(those.begin(), those.end(), [](const Json* p) { return fits_memory(*p); });
  };
  const bool runs = any_fits(some);
  if (!runs) text += "Nothing here fits into the GPUs' memory. With enough of it:\n";
  for (const Points& group : choices(points))
    text += runs && !any_fits(group) ? too_large_words(points, group, view)
                                     : answer_of(points, group, view);
  const auto samples_per_usd = [](const Json& p) {
    const double usd = number_or(p, "usd_per_million_samples", 0);
    return usd > 0 ? 1 / usd : 0;
  };
  const Json& cheapest = *best_of(some, samples_per_usd);
  const auto price = [&](const Json& p) { return dollars(1 / samples_per_usd(p)); };
  if (runs && some.size() > 1 && samples_per_usd(cheapest) > 0 && !varies(points, "model")) {
    const Points those = runnable(some);
    const Json& least = **std::max_element(
        those.begin(), those.end(),
        [&](const Json* a, const Json* b) { return samples_per_usd(*a) < samples_per_usd(*b); });
    text += wrapped(
        fmt::format("Cheapest: {}, {}, at ${} per million samples{}{}.",
                    place_of_point(points, cheapest), run_words(cheapest), price(cheapest),
                    price(least) == price(cheapest)
                        ? ""
                        : fmt::format(", which is within 1 % of the ${} of {}, {}", price(least),
                                      place_of_point(points, least), run_words(least)),
                    memory_doubt(cheapest)),
        view, 2);
  }
  if (const std::size_t failed = points.size() - some.size(); failed > 0)
    text += fmt::format("{} of {} points {} no answer.\n", failed, points.size(),
                        failed == 1 ? "has" : "have");
  return text;
}

/// "measured on A100 at batch 256, scaled to 32": how compute is known, without the source.
std::string compute_words(const Json& p) {
  const std::string source = text_or(p, "compute_source");
  return source.substr(0, source.find(": "));
}

/// Where groups of one GPU leave nothing of a strategy that was asked for.
std::string unsharded_line(const Json& points, const View& view) {
  std::set<std::string> asked;
  for (const Json* p : answered(points))
    if (const std::string word = text_or(*p, "asked_sharding");
        !word.empty() && word != text_or(*p, "sharding"))
      asked.insert(word);
  if (asked.empty()) return "";
  return wrapped(
      fmt::format("Rows called ddp were asked for as {}: a sharding group has one GPU there, so "
                  "nothing is sharded, and gradients are DDP's (fp32 unless said otherwise).",
                  fmt::join(asked, ", ")),
      view, 2);
}

/// As what nodes that are not alike were simulated.
std::string unequal_nodes_line(const Json& points, const View& view) {
  std::set<std::string> kinds;
  for (const Json* p : answered(points))
    if (const std::string as = text_or(*p, "all_nodes_simulated_as"); !as.empty()) kinds.insert(as);
  if (kinds.empty()) return "";
  return wrapped(
      fmt::format("Collectives of a sharded step are simulated as if all nodes were {}, "
                  "for a ring is as slow as its slowest node. Other algorithms may lose less.",
                  fmt::join(kinds, ", ")),
      view, 2);
}

/// What a reader must know to act on the table.
std::string predict_notes(const Json& points, const View& view) {
  const auto told = varying(points, {"model", "precision", "instance"});
  const bool sharded = any_sharded(points);
  std::vector<std::string> profiles, computes;  // in the order of the rows
  bool halves = false;
  for (const Json* p : answered(points)) {
    add_once(profiles, text_or(*p, "profile"));
    std::string what;
    for (const char* key : told) what += (what.empty() ? "" : ", ") + text_or(*p, key);
    add_once(computes, compute_words(*p) + (what.empty() ? "" : " (" + what + ")"));
    halves = halves || p->value("gradient_type", "fp32") != "fp32";
  }
  std::string text = predict_shortage_lines(points, view);
  constexpr std::size_t kMost = 3;
  if (computes.empty()) return text;  // no point has an answer
  text += wrapped(computes.size() > kMost
                      ? fmt::format("Compute: from {} sources (--explain).", computes.size())
                      : fmt::format("Compute: {}.", fmt::join(computes, "; ")),
                  view, 2);
  text +=
      predict_falls_lines(points, view) + unpriced_line(points, "usd_per_million_samples", view);
  text += collectives_line(points, view) + unequal_nodes_line(points, view) +
          unsharded_line(points, view);
  text += best_without_nccl_line(points, view) + doubtful_rates_line(points, view) +
          estimates_line(points, view) + launches_line(points, view) + memory_line(points, view);
  std::set<std::string> counted_scores;
  for (const Json* p : answered(points)) counted_scores.insert(text_or(*p, "mfu_counts_scores"));
  if (counted_scores.size() > 1)
    text += wrapped(
        "MFU counts the causal half of attention's scores with framework megatron, and otherwise "
        "all of "
        "them: the two do not compare.",
        view, 2);
  if (halves && !sharded)
    text += wrapped(
        "Gradients are all-reduced in 16 bits, as the workload says. PyTorch's DDP under autocast "
        "sends fp32, which is the default.",
        view, 2);
  text += extrapolation_line(points, view);
  return text + wrapped(fmt::format("Profile: {}.", fmt::join(profiles, ", ")), view, 2);
}

std::string explanations(const Json& report, const View& view) {
  std::vector<std::string> sources;
  for (const Json* p : answered(report.at("points")))
    add_once(sources, fmt::format("Compute of {} on {}: {}.", text_or(*p, "model"),
                                  text_or(*p, "instance"), text_or(*p, "compute_source")));
  std::string text;
  for (const char* line : {"Efficiency is the throughput over that of as many GPUs that each train "
                           "alone, without waiting or communication. vs 1 node compares with as "
                           "many times one node that runs the same algorithm.",
                           "Compute is one GPU's time; straggler wait is the extra compute time of "
                           "the slowest GPU; exposed is the communication that computing does not "
                           "hide.",
                           "MFU counts the model's own arithmetic, with all of attention's scores, "
                           "as PaLM's report does; with framework: megatron the causal half of "
                           "them, as Megatron-LM prints it.",
                           "The busiest link is that of the largest bucket's all-reduce.",
                           "The prediction interval combines two errors: of the all-reduce on "
                           "measurements that were kept out of the profile's fit, and of compute "
                           "on other published runs. It never beats the hardware's bandwidth "
                           "bound.",
                           kPricesAre})
    text += wrapped(line, view, 2);
  for (const std::string& source : sources) text += wrapped(source, view, 2);
  return text + wrapped(engine_line(report), view, 2);
}

/// GPUs of a sharding group, where there are several groups; of a point whose GPUs cannot be
/// divided what was asked for.
Json hybrid_report(const Prediction& p) {
  if (!p.hybrid.empty()) return Json(p.hybrid);
  const bool several = p.sharding.sharding != Sharding::none && p.sharding.replicas > 1;
  return several ? Json(p.sharding.shard_ranks) : Json();
}

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

/// What the point is, without an answer.
Json asked_report(const Prediction& p) {
  return {{"point", p.number},
          {"model", p.model},
          {"sample", p.sample},
          {"precision", to_text(p.precision)},
          {"batch_per_gpu", p.batch_per_gpu},
          {"accumulation", p.accumulation},
          {"instance", p.instance},
          {"nodes", p.nodes},
          {"gpus", p.gpus},
          {"oversubscription", p.oversubscription},
          {"placement", to_text(p.placement)},
          {"gradient_type", to_text(p.gradient)},
          {"spread", p.spread},
          {"algorithm", p.algorithm},
          {"inner", p.inner},
          {"profile", p.profile},
          {"dedicated_servers", p.servers},
          {"bucket_bytes", static_cast<std::uint64_t>(p.bucket.value)},
          {"segments", p.segments},
          {"sharding", name_of(p.sharding.sharding)},
          {"hybrid", hybrid_report(p)},
          {"tensor_parallel", p.sharding.tensor},
          {"context_parallel", p.sharding.context},
          {"pipeline", p.sharding.stages},
          {"virtual_pipeline", p.sharding.parts},
          {"expert_parallel", p.sharding.expert},
          {"recompute", to_text(p.recompute)},
          {"recomputed_blocks", p.recompute == Recompute::none ? 0 : p.recomputed_blocks},
          {"framework", to_text(p.framework)},
          {"trainable", p.trainable},
          {"asked_sharding", name_of(p.asked_sharding)},
          {"fp8_all_gather", p.sharding.gathered == Gathered::fp8},
          {"chosen", schedule_words(p.chosen)}};
}

}  // namespace

Json point_report(const Prediction& p, Cost cost) {
  Json j = asked_report(p);
  if (!p.error.empty()) {
    j["error"] = p.error;
    return j;
  }
  j["step_time_s"] = p.step.total.value;
  put_interval(j, p);
  j["compute_time_s"] = p.step.compute.value;
  j["communication_time_s"] = p.step.communication.value;
  j["straggler_wait_s"] = p.step.waiting.value;
  j["step_overhead_s"] = (p.step.overhead - p.step.input_wait).value;
  j["input_wait_s"] = p.step.input_wait.value;
  j["exposed_communication_s"] = p.step.exposed_communication.value;
  j["throughput_samples_per_s"] = p.throughput;
  j["throughput_tokens_per_s"] = p.tokens_per_s > 0 ? Json(p.tokens_per_s) : Json();
  j["model_flops_utilisation"] = p.mfu > 0 ? Json(p.mfu) : Json();
  j["mfu_counts_scores"] = p.framework == Framework::megatron ? "causal half" : "all";
  j["scaling_efficiency"] = p.efficiency_gpu;
  j["scaling_efficiency_against"] = "one GPU without communication";
  j["scaling_efficiency_vs_one_node"] = p.efficiency_node > 0 ? Json(p.efficiency_node) : Json();
  j["scaling_efficiency_vs_one_node_unknown_because"] = text_or_null(p.no_efficiency_node);
  j["usd_per_hour"] = p.priced ? Json(p.price.value) : Json();
  j["usd_per_million_samples"] = p.priced ? Json(p.usd_per_million_samples) : Json();
  j["usd_per_billion_tokens"] =
      p.priced && p.tokens_per_s > 0 ? Json(p.price.value / 3600 / p.tokens_per_s * 1e9) : Json();
  j["bottleneck_link"] = p.bottleneck;
  j["bottleneck_kind"] = name_of(p.bottleneck_kind);
  j["bottleneck_utilisation"] = p.bottleneck_utilisation;
  j["buckets"] = p.step.buckets.size();
  j["all_nodes_simulated_as"] = text_or_null(p.nodes_as);
  j["pipeline_bubble_s"] = p.step.bubble.value;
  j["collectives"] = collectives_report(p);
  j["compute_measured"] = p.compute_measured;
  j["compute_source"] = p.compute_source;
  j["best_without_nccl"] = p.best_without_nccl;
  j["compute_doubtful"] = text_or_null(p.compute_doubtful);
  j["asked_global_batch"] = p.asked_global_batch > 0 ? Json(p.asked_global_batch) : Json();
  j["bounded_by_launches"] = p.launch_bound;
  j["state_bytes"] = p.memory.state().value;
  j["activation_bytes"] =
      p.memory.activations.value > 0 ? Json(p.memory.activations.value) : Json();
  // Without activations it would be a small part, read as an answer.
  j["peak_memory_bytes"] = p.memory.activations.value > 0 ? Json(p.memory.peak().value) : Json();
  j["memory_by"] = memory_report(p.memory);
  j["gpu_memory_bytes"] = p.gpu_memory.value > 0 ? Json(p.gpu_memory.value) : Json();
  j["memory_shortage"] = p.fits() ? Json() : Json(memory_shortage(p));
  j["memory_uncertain"] = p.may_not_fit();
  j["extrapolation_error"] = p.extrapolation_error > 0 ? Json(p.extrapolation_error) : Json();
  if (p.speedup_vs_nccl > 0) j["speedup_vs_nccl"] = p.speedup_vs_nccl;
  j["simulated_messages"] = p.messages;
  if (cost == Cost::left_out) return j;
  j["mode"] = name_of(p.mode);
  j["wall_seconds"] = p.wall_seconds;
  j["peak_rss_bytes"] = p.peak_rss_bytes;
  return j;
}

Json sweep_report(const Sweep<Prediction>& sweep, const Shard& shard, Cost cost) {
  return sweep_points("predict", sweep, shard, cost);
}

Document render_predict(const Json& report, const View& view) {
  const Json& points = report.at("points");
  const std::string name = text_or(report, "name");
  Document document;
  document.title(name);
  if (points.empty()) return document.gap().lines(Role::answer, "no points\n");
  Footnotes notes;
  const Table table = predict_table(report, notes);
  document.lines(Role::setting, setting(points, view)).gap();
  document.lines(Role::answer, predict_answer(report, view)).gap().table(table).gap();
  document.lines(Role::notes, cut_errors_lines(table, view) + notes.text(view, table) +
                                  predict_notes(points, view) + unused_line(report, view) +
                                  hidden_line(table, view));
  if (!view.explain)
    return document.lines(Role::notes, "--explain gives definitions and sources.\n");
  if (view.format == Format::table)
    for (const Chart& chart : predict_charts(report))
      if (!chart.bars.empty()) document.gap().lines(Role::definitions, chart_text(chart, view));
  return document.gap().lines(Role::definitions, explanations(report, view));
}

}  // namespace foreduce
