#include "scenarios/report/axes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "input/text_stream.hpp"
#include "scenarios/report/sharding_report.hpp"
#include "scenarios/report/words.hpp"

namespace foreduce {
namespace {

/// "nccl: ring, double-tree": the algorithms that were chosen, without their protocols (JSON has
/// those).
std::string algorithm_cell(const Json& p) {
  const std::string inner = text_or(p, "inner");
  std::string name =
      text_or(p, "algorithm") + (inner.empty() || inner == kUsualInner ? "" : "/" + inner);
  TextStream chosen(text_or(p, "chosen"));
  std::vector<std::string> algorithms;
  for (std::string one; std::getline(chosen >> std::ws, one, ',');) {
    one.resize(std::min(one.find(' '), one.size()));
    if (std::find(algorithms.begin(), algorithms.end(), one) == algorithms.end())
      algorithms.push_back(one);
  }
  constexpr std::size_t kMost = 2;  // more take the room of other columns
  const std::size_t more = algorithms.size() > kMost ? algorithms.size() - 1 : 0;
  if (more > 0) algorithms.resize(1);
  return algorithms.empty() ? name
                            : fmt::format("{}: {}{}", name, fmt::join(algorithms, ", "),
                                          more > 0 ? fmt::format(" + {}", more) : "");
}

}  // namespace

bool gradient_is_chosen(const Json& points) {
  if (!varies(points, "gradient_type")) return false;
  const bool sharded = any_sharded(points);
  std::map<std::string, std::string> gradients;
  for (const Json& p : points) {
    const std::string rest =
        fmt::format("{}|{}|{}|{}", text_or(p, "model"), text_or(p, "framework"),
                    text_or(p, "precision"), sharded ? strategy_words(p) : "");
    const std::string gradient = text_or(p, "gradient_type");
    if (gradients.emplace(rest, gradient).first->second != gradient) return true;
  }
  return false;
}

TrainingWords::TrainingWords(const Json& points)
    : sharded_(any_sharded(points)),
      precision_(varies(points, "precision")),
      gradient_(gradient_is_chosen(points)),
      batch_(varies(points, "batch_per_gpu")),
      recompute_(varies(points, "recompute")),
      framework_(varies(points, "framework")) {}

std::string TrainingWords::operator()(const Json& point) const {
  std::string words;
  if (sharded_) words += ", " + strategy_words(point);
  if (precision_) words += ", " + text_or(point, "precision");
  if (gradient_) words += ", gradients in " + text_or(point, "gradient_type");
  if (batch_) words += fmt::format(", batch {}", point.value("batch_per_gpu", 0));
  if (recompute_) words += ", recompute " + text_or(point, "recompute");
  if (framework_) words += ", " + text_or(point, "framework");
  return words;
}

std::vector<AxisColumn> axis_columns(const Json& points) {
  std::vector<AxisColumn> columns;
  const auto plain = [](const char* key) {
    return [key](const Json& p) { return cell_of(p.value(key, Json())); };
  };
  const auto if_varied = [&](const char* heading, const char* key,
                             std::function<std::string(const Json&)> cell, int rank = 0) {
    if (varies(points, key)) columns.push_back({heading, rank, std::move(cell)});
  };
  if_varied("model", "model", plain("model"));
  if_varied("framework", "framework", plain("framework"));
  if_varied("precision", "precision", plain("precision"));
  if_varied("gradient", "gradient_type", plain("gradient_type"),
            gradient_is_chosen(points) ? 0 : 14);
  if_varied("batch", "batch_per_gpu", plain("batch_per_gpu"));
  if_varied("accum", "accumulation", plain("accumulation"));
  if_varied("recompute", "recompute", plain("recompute"));
  if_varied("spread", "spread", plain("spread"));
  if_varied("instance", "instance", plain("instance"));
  columns.push_back({"nodes", 0, plain("nodes")});
  columns.push_back({"GPUs", 6, plain("gpus")});
  if_varied("oversub", "oversubscription",
            [](const Json& p) { return fmt::format("{}:1", number_or(p, "oversubscription", 1)); });
  if_varied("placement", "placement", plain("placement"));
  if (any_sharded(points)) columns.push_back({"strategy", 0, strategy_words});
  columns.push_back(
      {"algorithm", any_sharded(points) && !varies(points, "algorithm") ? 3 : 0, algorithm_cell});
  if_varied("servers", "dedicated_servers", [](const Json& p) {
    const int servers = p.value("dedicated_servers", 0);
    return servers ? fmt::format("{}", servers) : "-";
  });
  if_varied("bucket", "bucket_bytes",
            [](const Json& p) { return to_text(Bytes{number_or(p, "bucket_bytes", 0)}); });
  if_varied("segments", "segments", [](const Json& p) {
    const int segments = p.value("segments", 0);
    return segments ? fmt::format("{}", segments) : "auto";
  });
  // Where profiles differ because instance types do, the instance tells them apart already.
  if (varies(points, "profile"))
    columns.push_back({"profile", varies(points, "instance") ? 14 : 0, plain("profile")});
  return columns;
}

}  // namespace foreduce
