// Parts of what nccl-tests writes with -J.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/validation/nccl_log.hpp"

namespace foreduce::nccl_json {

/// A member that is a string; "" for any other.
std::string text_of(const nlohmann::json& from, const char* key);
/// A member that is a finite number from 0 to 1e18; nothing for any other.
std::optional<double> number_of(const nlohmann::json& from, const char* key);

/// A rank, and where it ran.
struct Device {
  int rank = 0;
  std::string host, gpu;
};
/// Those of `config`. Of a process with several GPUs nccl-tests writes the first alone (util.cu,
/// parseRankInfo); the others are added.
std::vector<Device> devices_of(const nlohmann::json& config);

/// What stands behind the results: checks of results that failed, and errors.
void take_end(const nlohmann::json& all, NcclTable& last);

}  // namespace foreduce::nccl_json
