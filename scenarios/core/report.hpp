// Answers as text: JSON is the product; table and CSV are renderings of the same points.
#pragma once

#include <nlohmann/json.hpp>

#include "scenarios/core/sweep.hpp"

namespace foreduce {

enum class Format { table, csv, json };

/// Rows of text with headings; numbers are right-aligned.
struct Table {
  std::vector<std::string> headings;
  std::vector<std::vector<std::string>> rows;

  /// Columns aligned for people; `colour` sets the headings apart with an escape sequence.
  std::string text(bool colour) const;
  /// RFC 4180.
  std::string csv() const;
};

/// Fields, with units in their names. An answer that failed has `error` and no results.
nlohmann::ordered_json to_json(const Prediction& point);
nlohmann::ordered_json to_json(const Comparison& point);

/// The whole report in the format asked for.
std::string report(const Scenario& scenario, const std::vector<Prediction>& points, Format format, bool colour);
std::string report(const Scenario& scenario, const std::vector<Comparison>& points, Format format, bool colour);

/// `foreduce topology`: what we believe the machine looks like.
std::string describe(const Machine& machine, Format format);

}  // namespace foreduce
