#include "scenarios/validation/nccl_json.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "scenarios/validation/log_text.hpp"
#include "scenarios/validation/nccl_words.hpp"
#include "scenarios/validation/row_remarks.hpp"

namespace foreduce::nccl_json {

std::string text_of(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  return found != from.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<double> number_of(const nlohmann::json& from, const char* key) {
  const auto found = from.find(key);
  if (found == from.end() || !found->is_number()) return std::nullopt;
  const double value = found->get<double>();
  return std::isfinite(value) && value >= 0 && value < 1e18 ? std::optional(value) : std::nullopt;
}

std::vector<Device> devices_of(const nlohmann::json& config) {
  constexpr double kMostOfAProcess = 128;
  std::vector<Device> devices;
  const auto found = config.find("devices");
  if (found == config.end() || !found->is_array()) return devices;
  const double each = std::min(kMostOfAProcess, number_of(config, "nthreads").value_or(1) *
                                                    number_of(config, "ngpus").value_or(1));
  for (const nlohmann::json& d : *found) {
    const auto rank = d.is_object() ? number_of(d, "rank") : std::nullopt;
    if (!rank || *rank > nccl_words::kMaxRanks) continue;
    const bool first = each > 1 && std::fmod(*rank, each) == 0;
    for (double more = 0; more < (first ? each : 1); ++more)
      devices.push_back(
          {static_cast<int>(*rank + more), text_of(d, "hostname"), text_of(d, "device_info")});
  }
  return devices;
}

void take_end(const nlohmann::json& all, NcclTable& last) {
  if (const auto found = all.find("out_of_bounds"); found != all.end() && found->is_object())
    last.out_of_bounds = number_of(*found, "count").value_or(0);
  // NCCL's last error, which is an empty text where there was none (nccl-tests, util.cu).
  std::string error;
  if (const auto found = all.find("errors"); found != all.end() && found->is_array())
    for (const nlohmann::json& e : *found)
      if (error.empty()) error = e.is_string() ? quoted_part(e.get<std::string>(), 0) : e.dump();
  if (error.empty() || !last.failure.empty()) return;
  last.ended = !ended_early(last);
  last.failure = error;
}

}  // namespace foreduce::nccl_json
