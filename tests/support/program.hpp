// What several tests of the program need: its scenarios, its reports, and its tables read back.
#pragma once

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "input/files.hpp"
#include "tests/support/shell.hpp"

namespace foreduce::test {

/// Where the sources are.
inline std::filesystem::path source_folder() { return FOREDUCE_SOURCE_FOLDER; }

/// The path of a scenario that ships.
inline std::string scenario_path(const std::string& name) {
  return (source_folder() / "scenarios" / (name + ".yaml")).string();
}

/// The path of nccl-tests' log of two p4d.
inline std::string p4d_log_path() {
  return (source_folder() / "tests" / "logs" / "dlami_p4d_2n.txt").string();
}

/// The names of all scenarios that ship.
inline std::vector<std::string> shipped_scenarios() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(source_folder() / "scenarios"))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The command that answers a scenario that ships: predict, compare or plan.
inline std::string command_for(const std::string& scenario) {
  const std::string text = read_text(scenario_path(scenario));
  if (text.find("\nmessages:") != std::string::npos) return "compare";
  return text.find("\ngoal:") != std::string::npos ? "plan" : "predict";
}

/// What the program answers as JSON, whatever it says on standard error.
inline nlohmann::json json_of(const std::string& arguments) {
  const Result r = foreduce_says(arguments + " --format json 2>/dev/null");
  return nlohmann::json::parse(r.out, nullptr, false);
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Letters, not bytes: "…" is one.
inline std::size_t width_of(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  }));
}

/// The parts of a line between two or more spaces.
inline std::vector<std::string> cells_of(const std::string& line) {
  static const std::regex gap(" {2,}");
  std::vector<std::string> cells;
  for (std::sregex_token_iterator i(line.begin(), line.end(), gap, -1), end; i != end; ++i)
    if (i->length() > 0) cells.push_back(*i);
  return cells;
}

/// A table as it is printed.
struct PrintedTable {
  std::vector<std::string> headings;
  std::vector<std::string> rows;  ///< whole lines
};

/// All tables of a report: blocks between empty lines whose first has at least three cells.
inline std::vector<PrintedTable> tables_in(const std::string& report) {
  std::vector<PrintedTable> tables;
  bool fresh = true, within = false;
  for (const std::string& line : lines_of(report)) {
    const auto cells = cells_of(line);
    if (line.empty()) {
      within = false;
    } else if (fresh && cells.size() >= 3) {
      tables.push_back({cells, {}});
      within = true;
    } else if (within) {
      tables.back().rows.push_back(line);
    }
    fresh = line.empty();
  }
  return tables;
}

/// Lines of a text that are wider than so many letters.
inline std::vector<std::string> lines_wider_than(std::size_t most, const std::string& text) {
  std::vector<std::string> lines = lines_of(text);
  std::erase_if(lines, [&](const std::string& line) { return width_of(line) <= most; });
  return lines;
}

/// The headings that a report says --wide would add, of all its tables.
inline std::vector<std::string> hidden_headings(const std::string& report) {
  static const std::regex note(R"(More columns with --wide: ([^.]*(\.[^\n][^.]*)*)\.\n)");
  static const std::regex comma(",\\s+"), spaces("\\s+");
  std::vector<std::string> headings;
  for (std::sregex_iterator i(report.begin(), report.end(), note), end; i != end; ++i) {
    const std::string names = (*i)[1];
    for (std::sregex_token_iterator name(names.begin(), names.end(), comma, -1), last; name != last;
         ++name)
      headings.push_back(std::regex_replace(name->str(), spaces, " "));
  }
  return headings;
}

}  // namespace foreduce::test
