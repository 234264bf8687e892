#include "scenarios/report/sharding_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/report/words.hpp"
#include "scenarios/sweep/step_collectives.hpp"

namespace foreduce {

const char* word_of(Stream kind, const ShardingPlan& plan) {
  switch (kind) {
    case Stream::all_gather: return "all_gather";
    case Stream::reduce_scatter: return "reduce_scatter";
    case Stream::all_reduce: return "all_reduce";
    case Stream::tensor:
      return plan.sequence == Sequence::divided ? "tensor_reduce_scatter_all_gather"
                                                : "tensor_all_reduce";
    case Stream::pipeline: return "pipeline_send";
    case Stream::exchange: return "expert_all_to_all";
    case Stream::expert_all_gather: return "expert_all_gather";
    case Stream::expert_reduce_scatter: return "expert_reduce_scatter";
    case Stream::expert_all_reduce: return "expert_all_reduce";
    case Stream::context_all_gather: return "context_all_gather";
    case Stream::context_reduce_scatter: return "context_reduce_scatter";
    case Stream::compute: break;
  }
  return "compute";
}

Json collectives_report(const std::vector<CollectiveUse>& uses, const ShardingPlan& plan,
                        Type parameters, Type gradients) {
  Json all = Json::array();
  std::array<Json, kStreams> by_kind;
  for (const CollectiveUse& use : uses) {
    Json& j = by_kind[static_cast<std::size_t>(use.kind)];
    const int ranks = group_of(use.kind, plan).ranks;
    if (j.is_null())
      j = {{"kind", word_of(use.kind, plan)},
           {"ranks", ranks},
           {"bytes", 0.0},
           {"sent_bytes_per_gpu", 0.0},
           {"count", 0},
           {"time_s", 0.0},
           {"exposed_s", 0.0}};
    const std::size_t element = size_of(carries_gradients(use.kind) ? gradients : parameters);
    const Bytes buffers{static_cast<double>(use.elements * element) * use.count};
    const auto add = [&j](const char* key, double value) { j[key] = j[key].get<double>() + value; };
    add("bytes", buffers.value);
    add("sent_bytes_per_gpu", sent_bytes(use.kind, buffers, ranks).value);
    j["count"] = j["count"].get<int>() + use.count;
    add("time_s", use.time.value);
    add("exposed_s", use.exposed.value);
  }
  for (const Json& j : by_kind)
    if (!j.is_null()) all.push_back(j);
  return all;
}

Json collectives_report(const Prediction& p) {
  if (p.step.collectives.empty()) return Json::array();
  return collectives_report(p.step.collectives, p.sharding, p.parameter_type(),
                            element_type(p.gradient));
}

Json memory_report(const MemoryBy& m) {
  return {{"parameters", m.parameters.value},
          {"gradients", m.gradients.value},
          {"optimizer", m.optimizer.value},
          {"gathered", m.gathered.value},
          {"buckets", m.buckets.value},
          {"activations", m.activations.value > 0 ? Json(m.activations.value) : Json()},
          {"working", m.working.value}};
}

std::string strategy_words(const Json& p) {
  std::string words = text_or(p, "sharding");
  if (words.empty() || words == "none") words = "ddp";
  if (const double group = number_or(p, "hybrid", 0); group > 0)
    words += fmt::format("/{:.0f}", group);
  else if (const std::string asked = text_or(p, "hybrid"); !asked.empty()) words += "/" + asked;
  for (const auto& [key, word] : {std::pair("tensor_parallel", "tp"),
                                  {"context_parallel", "cp"},
                                  {"pipeline", "pp"},
                                  {"virtual_pipeline", "vp"},
                                  {"expert_parallel", "ep"}})
    if (const double n = number_or(p, key, 1); n > 1) words += fmt::format(" {}{:.0f}", word, n);
  if (p.contains("fp8_all_gather") && p["fp8_all_gather"] == true) words += " fp8-gather";
  return words;
}

bool any_sharded(const Json& points) {
  return std::any_of(points.begin(), points.end(),
                     [](const Json& p) { return strategy_words(p) != "ddp"; });
}

std::string collectives_line(const Json& points, const View& view) {
  if (points.size() != 1 || points[0].contains("error") || !any_sharded(points)) return "";
  std::string parts;
  for (const Json& c : points[0].value("collectives", Json::array())) {
    const double count = std::max(1.0, number_or(c, "count", 1));
    parts += fmt::format("{}{:.0f} x {} of {} in all, {} each alone, {} exposed",
                         parts.empty() ? "" : "; ", count, text_or(c, "kind"),
                         size_words(number_or(c, "bytes", 0)),
                         milliseconds(number_or(c, "time_s", 0) / count),
                         milliseconds(number_or(c, "exposed_s", 0)));
  }
  return wrapped(fmt::format("Collectives of a step: {}.", parts), view, 2);
}

}  // namespace foreduce
