// The one reader of JSON files: limited in size and depth, and every mistake has its place.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "input/problem.hpp"

namespace foreduce {

/// Of a JSON file; more is no report of ours.
inline constexpr std::size_t kMostJsonBytes = std::size_t{256} << 20;
/// Of lists and objects inside each other.
inline constexpr int kMostJsonDepth = 64;

/// Throws InputError at the first list or object that is nested too deeply, before a parser builds
/// it.
void check_json_depth(const std::string& name, std::string_view text);

/// Reads JSON into nlohmann's json or ordered_json. `name` stands in messages. Throws InputError
/// with line and column for what is no JSON, too deep or too large.
template <class Json>
Json parse_json(const std::string& name, const std::string& text);
/// The same from a file; throws InputError also where it cannot be read.
template <class Json>
Json load_json(const std::filesystem::path& file);

extern template nlohmann::json parse_json(const std::string&, const std::string&);
extern template nlohmann::ordered_json parse_json(const std::string&, const std::string&);
extern template nlohmann::json load_json(const std::filesystem::path&);
extern template nlohmann::ordered_json load_json(const std::filesystem::path&);

/// Runs `work`, which takes a report to pieces. A field that is missing or of another type than
/// foreduce writes becomes an InputError about `file`.
template <class Work>
auto with_typed_fields(const std::filesystem::path& file, const Work& work) {
  try {
    return work();
  } catch (const nlohmann::json::exception&) {  // what() is words of the library
    throw file_error(file, "a field is missing or of another type than foreduce writes",
                     "the JSON of a command, as it wrote it");
  }
}

}  // namespace foreduce
