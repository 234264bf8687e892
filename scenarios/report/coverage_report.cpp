#include "scenarios/report/coverage_report.hpp"

#include <fmt/format.h>

#include <cmath>

#include "scenarios/report/words.hpp"

namespace foreduce {

Json coverage_report(const std::vector<IntervalCoverage>& coverage) {
  Json all = Json::array();
  for (const IntervalCoverage& c : coverage)
    all.push_back({{"from_bytes", c.from.value},
                   {"below_bytes", std::isfinite(c.below.value) ? Json(c.below.value) : Json()},
                   {"healthy",
                    {{"points", c.healthy_points},
                     {"sources", c.healthy_sources},
                     {"inside", c.healthy_inside},
                     {"median_width", c.healthy_width}}},
                   {"published",
                    {{"points", c.points},
                     {"sources", c.sources},
                     {"inside", c.published_inside},
                     {"median_width", c.published_width},
                     {"power", c.power}}}});
  return all;
}

Table coverage_table(const Json& report) {
  Table table;
  table.column("sizes");
  for (const char* of : {"healthy", "published"}) {
    table.column(fmt::format("n {}", of), 2);
    table.column(fmt::format("sources {}", of), 3);
    table.column(fmt::format("inside {}", of));
    table.column(fmt::format("width {}", of), 1);
  }
  for (const Json& c : report.at("intervals")) {
    const double from = number_or(c, "from_bytes", 0);
    const Json& below = c.at("below_bytes");
    std::vector<std::string> row{
        below.is_null() ? "from " + size_words(from) + " on"
        : from == 0     ? "below " + size_words(below.get<double>())
                    : fmt::format("{} to {}", size_words(from), size_words(below.get<double>()))};
    for (const char* of : {"healthy", "published"}) {
      const Json& part = c.at(of);
      row.push_back(part.at("points").dump());
      row.push_back(part.at("sources").dump());
      row.push_back(percent(part.at("inside"), 0));
      row.push_back(fmt::format("{:.2f}", part.at("median_width").get<double>()));
    }
    table.row(row);
  }
  return table;
}

Table generations_table(const Json& report) {
  Table table;
  table.column("GPU");
  table.column("set");
  for (const char* range : {"<1 MiB", ">=1 MiB"})
    for (const auto& [heading, rank] : {std::pair("n ", 2), {"error ", 1}, {"inside ", 3}})
      table.column(heading + std::string(range), rank);
  for (const Json& g : report.at("generations")) {
    std::vector<std::string> row{text_or(g, "generation"), text_or(g, "set")};
    for (const char* range : {"below_1MiB", "from_1MiB"}) {
      const Json& e = g[range];
      const bool any = e.at("points").get<int>() > 0;
      row.push_back(e.at("points").dump());
      row.push_back(any ? percent(e.at("geometric_mean_error"), 1) : "-");
      row.push_back(any && e.contains("in_interval") ? percent(e.at("in_interval")) : "-");
    }
    table.row(row);
  }
  return table;
}

}  // namespace foreduce
