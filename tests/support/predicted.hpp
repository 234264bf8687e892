#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/files.hpp"
#include "tests/support/program.hpp"

namespace foreduce::test {

/// The points that `predict` gives for a scenario.
inline nlohmann::json points_of(const std::string& scenario) {
  const TemporaryFolder folder;
  const auto report = json_of("predict " + folder.write("scenario.yaml", scenario).string());
  return report.is_discarded() ? nlohmann::json() : report["points"];
}

}  // namespace foreduce::test
