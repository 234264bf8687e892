#include "input/json.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "input/files.hpp"

namespace foreduce {
namespace {

InputError at(const std::string& name, std::string_view text, std::size_t byte,
              std::string message) {
  const std::size_t end = std::min(byte, text.size());
  const auto lines =
      std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  const auto begin = end == 0 ? std::string_view::npos : text.rfind('\n', end - 1);
  const std::size_t column = end - (begin == std::string_view::npos ? 0 : begin + 1);
  return InputError(Problem{name, static_cast<int>(lines) + 1, static_cast<int>(column) + 1, "",
                            std::move(message), "", ""});
}

}  // namespace

void check_json_depth(const std::string& name, std::string_view text) {
  int depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      else if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostJsonDepth)
        throw at(name, text, i, fmt::format("JSON more than {} levels deep", kMostJsonDepth));
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

template <class Json>
Json parse_json(const std::string& name, const std::string& text) {
  check_json_depth(name, text);
  try {
    return Json::parse(text);
  } catch (const typename Json::parse_error& e) {  // what() quotes the file
    throw at(name, text, e.byte == 0 ? 0 : e.byte - 1, "not JSON from here on");
  } catch (const typename Json::exception&) {
    throw file_error(name, "not JSON: a number is out of range");
  }
}

template <class Json>
Json load_json(const std::filesystem::path& file) {
  return parse_json<Json>(file.string(), read_text(file, kMostJsonBytes));
}

template nlohmann::json parse_json(const std::string&, const std::string&);
template nlohmann::ordered_json parse_json(const std::string&, const std::string&);
template nlohmann::json load_json(const std::filesystem::path&);
template nlohmann::ordered_json load_json(const std::filesystem::path&);

}  // namespace foreduce
