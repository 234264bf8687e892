// A collective's result as JSON: what a child process hands back.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/collective.hpp"

namespace foreduce {

/// All of it but the peak of memory, which the parent measures, so that the result reads back
/// equal.
nlohmann::json to_json(const CollectiveResult& result);
/// Throws nlohmann::json::exception or std::runtime_error for what to_json() did not write.
CollectiveResult collective_from_json(const nlohmann::json& json);

}  // namespace foreduce
