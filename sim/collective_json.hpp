// A collective's result as JSON: what a child process hands back.
#pragma once

#include <nlohmann/json.hpp>

#include "sim/collective.hpp"

namespace foreduce {

nlohmann::json to_json(const CollectiveResult& result);
CollectiveResult collective_from_json(const nlohmann::json& json);

}  // namespace foreduce
