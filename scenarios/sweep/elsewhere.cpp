#include "scenarios/sweep/elsewhere.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "input/fields.hpp"
#include "scenarios/sweep/scenario.hpp"

namespace foreduce {
namespace {

using Json = nlohmann::ordered_json;

/// Adds the paths of all keys of that name at or below a part of the schema.
void collect(const Json& schema, const std::string& path, const std::string& key,
             std::vector<std::string>& found) {
  if (schema.is_array())
    for (const Json& one : schema) collect(one, path, key, found);
  if (!schema.is_object()) return;
  for (const auto& [word, below] : schema.items())
    if (word != "properties") {
      collect(below, path, key, found);
    } else {
      for (const auto& [name, field] : below.items()) {
        const std::string here = path.empty() ? name : path + "." + name;
        if (name == key && std::find(found.begin(), found.end(), here) == found.end())
          found.push_back(here);
        collect(field, here, key, found);
      }
    }
}

}  // namespace

InputError with_places_of_keys(const InputError& error) {
  static const Json schema = scenario_schema();  // a file may have thousands of unknown keys
  std::vector<Problem> problems = error.problems();
  for (Problem& p : problems) {
    if (p.message != kNoSuchKey) continue;
    std::vector<std::string> found;
    collect(schema, "", p.key.substr(p.key.find_last_of('.') + 1), found);
    if (!found.empty())
      p.hint = fmt::format("did you mean {}?{}{}", fmt::join(found, " or "),
                           p.hint.empty() ? "" : "; ", p.hint);
  }
  return InputError(std::move(problems));
}

}  // namespace foreduce
